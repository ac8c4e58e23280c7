//! Strided tensors, with guard values in the gaps between their rows.

use std::mem::replace;

use crate::problems::UNWRITTEN;
use ndarray::{Array4, ArrayView4, ShapeBuilder};

/// The layout of a `[B, H, N, D]` tensor in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// `[B, H, N, D]`.
    Packed,
    /// `[B, N, H, D]`.
    SequenceFirst,
    /// Rows of D + 3 floats, of which D are the tensor's, from the fourth float of the
    /// buffer on: never aligned.
    Sparse,
    /// As packed, from the second float of the buffer on: no vector of two floats begins at a row.
    Odd,
    /// As packed, from the third float of the buffer on: where rows have a multiple of four floats,
    /// a vector of two begins at each, and none of four.
    Even,
    /// As packed, in a buffer that goes on behind the tensor.
    Longer,
    /// The first N rows of a cache `[B, H, N + 28, D]`.
    Cache,
}

impl Layout {
    /// Those that a random problem has.
    pub const RANDOM: [Self; 3] = [Self::Packed, Self::SequenceFirst, Self::Sparse];

    /// The strides of batch, head and row, and the offset of the first element.
    fn strides_and_offset(self, (_, heads, rows, columns): Shape) -> ([usize; 3], usize) {
        let nested = |rows: usize, width| [heads * rows * width, rows * width, width];
        match self {
            Self::Packed | Self::Longer => (nested(rows, columns), 0),
            Self::Odd => (nested(rows, columns), 1),
            Self::Even => (nested(rows, columns), 2),
            Self::SequenceFirst => ([rows * heads * columns, columns, heads * columns], 0),
            Self::Sparse => (nested(rows, columns + 3), 3),
            Self::Cache => (nested(rows + 28, columns), 0),
        }
    }

    /// Elements behind the tensor.
    fn behind(self) -> usize {
        if self == Self::Longer { 37 } else { 0 }
    }

    /// The layout of the numbers of its rows, such as their log-sum-exp, which are packed.
    pub fn of_rows(self) -> Self {
        match self {
            Self::Longer => Self::Longer,
            _ => Self::Packed,
        }
    }
}

type Shape = (usize, usize, usize, usize);

/// The value of the gaps of an output, exact in every type.
const GUARD: f32 = -7424.0;

/// A `[B, H, N, D]` tensor in a buffer that may have gaps.
#[derive(Debug, Clone)]
pub struct Strided {
    /// The buffer.
    pub buffer: Vec<f32>,
    /// From one batch, head and row to the next, in elements.
    pub strides: [usize; 3],
    /// Where the first element is.
    pub offset: usize,
    shape: Shape,
}

impl Strided {
    /// An input, with NaN around it.
    pub fn input(array: &Array4<f32>, layout: Layout) -> Self {
        Self::around(array, layout, f32::NAN)
    }

    /// An output that is full of [`UNWRITTEN`], with guards around it.
    pub fn output(shape: Shape, layout: Layout) -> Self {
        let mut tensor = Self::filled(shape, layout, GUARD);
        for (_, place) in tensor.places() {
            tensor.buffer[place] = UNWRITTEN;
        }
        tensor
    }

    /// An input that becomes the output, with guards around it.
    pub fn in_place(array: &Array4<f32>, layout: Layout) -> Self {
        Self::around(array, layout, GUARD)
    }

    fn around(array: &Array4<f32>, layout: Layout, value: f32) -> Self {
        let mut tensor = Self::filled(array.dim(), layout, value);
        for (index, place) in tensor.places() {
            tensor.buffer[place] = array[index];
        }
        tensor
    }

    fn filled(shape: Shape, layout: Layout, value: f32) -> Self {
        let (strides, offset) = layout.strides_and_offset(shape);
        let end = shape.0 * strides[0] + offset + layout.behind();
        Self {
            buffer: vec![value; end],
            strides,
            offset,
            shape,
        }
    }

    /// The tensor.
    pub fn view(&self) -> ArrayView4<'_, f32> {
        let [batch, head, row] = self.strides;
        let view = if self.places().next().is_none() {
            ArrayView4::from_shape(self.shape, &[])
        } else {
            let shape = self.shape.strides((batch, head, row, 1));
            ArrayView4::from_shape(shape, &self.buffer[self.offset..])
        };
        view.expect("the buffer was made for these strides")
    }

    /// The tensor in a buffer that an implementation has written.
    ///
    /// # Errors
    ///
    /// A sentence, if a value around the tensor was changed.
    pub fn read(&self, mut buffer: Vec<f32>) -> Result<Array4<f32>, String> {
        let mut array = Array4::zeros(self.shape);
        for (index, place) in self.places() {
            array[index] = replace(&mut buffer[place], GUARD);
        }
        match buffer.iter().position(|&x| x != GUARD) {
            Some(place) if !self.buffer.is_empty() => Err(format!(
                "element {place} of the buffer, beside the output, was changed"
            )),
            _ => Ok(array),
        }
    }

    /// The indices of all elements, and where they lie in the buffer.
    fn places(&self) -> impl Iterator<Item = ([usize; 4], usize)> + use<> {
        let ([batch, head, row], offset) = (self.strides, self.offset);
        let indices = ndarray::indices(self.shape).into_iter();
        indices.map(move |(b, h, i, j)| ([b, h, i, j], offset + b * batch + h * head + i * row + j))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inputs::{normal, tensor};

    #[test]
    fn a_view_is_the_tensor_and_its_gaps_are_guarded() {
        let array = tensor((2, 3, 4, 5), 1, normal);
        for layout in [
            Layout::Packed,
            Layout::SequenceFirst,
            Layout::Sparse,
            Layout::Odd,
            Layout::Even,
            Layout::Longer,
            Layout::Cache,
        ] {
            let input = Strided::input(&array, layout);
            assert_eq!(input.view(), array);
            let gaps = input.buffer.iter().filter(|x| x.is_nan()).count();
            assert_eq!(gaps, input.buffer.len() - array.len());
            let in_place = Strided::in_place(&array, layout);
            assert_eq!(in_place.read(in_place.buffer.clone()).unwrap(), array);

            let output = Strided::output(array.dim(), layout);
            let mut buffer = output.buffer.clone();
            assert!(
                output
                    .read(buffer.clone())
                    .unwrap()
                    .iter()
                    .all(|x| x.is_nan())
            );
            if let Some(gap) = buffer.iter().position(|x| !x.is_nan()) {
                buffer[gap] = 0.0;
                assert!(
                    output
                        .read(buffer)
                        .unwrap_err()
                        .contains(&format!("element {gap} "))
                );
            }
        }
    }
}
