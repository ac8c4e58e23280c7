//! Frames: a message with its tensors, as bytes in a pipe.
//!
//! A frame is the length of the message (4 bytes, little-endian) and the message in the format of
//! the crate `postcard`, in which every f32 keeps its bits. Elements of a tensor are little-endian.
//!
//! What a message holds beside the bytes of its tensors is limited apart, and far lower: a byte of
//! it may become many bytes in memory, such as an empty string.

use std::cmp::Reverse;
use std::io::{self, BufWriter, Read, Write};
use std::{ptr, slice};

use ndarray::{Array, ArrayBase, Data, Dimension};
use postcard::de_flavors::Flavor;
use postcard::ser_flavors::Size;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};

/// The most bytes of a message without those of its tensors.
const MAX_MESSAGE: usize = 16 << 20;

/// The most bytes of all tensors of a message.
const MAX_TENSORS: usize = 1 << 30;

/// The type of a tensor's elements.
#[derive(Serialize, Deserialize, Debug, Clone, Copy, PartialEq, Eq)]
pub enum Element {
    /// Bytes, of whatever they are the representation.
    U8,
    /// Whole numbers.
    I32,
    /// Words of bits.
    U32,
    /// Single precision.
    F32,
    /// Half precision.
    F16,
}

/// A type of elements: a number without padding, of which all bits are values.
///
/// # Safety
///
/// It must be one, of the size of its [`Plain::ELEMENT`].
pub unsafe trait Plain: Copy + Default {
    /// Its name in a header.
    const ELEMENT: Element;
}

// SAFETY: a byte.
unsafe impl Plain for u8 {
    const ELEMENT: Element = Element::U8;
}

// SAFETY: 4 bytes, all of whose bits are values.
unsafe impl Plain for i32 {
    const ELEMENT: Element = Element::I32;
}

// SAFETY: 4 bytes, all of whose bits are values.
unsafe impl Plain for u32 {
    const ELEMENT: Element = Element::U32;
}

// SAFETY: 4 bytes, all of whose bits are values.
unsafe impl Plain for f32 {
    const ELEMENT: Element = Element::F32;
}

#[cfg(feature = "cuda")]
// SAFETY: 2 bytes, all of whose bits are values.
unsafe impl Plain for half::f16 {
    const ELEMENT: Element = Element::F16;
}

const _: () = assert!(
    cfg!(target_endian = "little"),
    "elements are sent as they lie in memory"
);

/// The alignment that a tensor keeps: that of the largest vector of a load.
const ALIGNMENT: u64 = 16;

/// A tensor, with the order of its axes in memory and the alignment of its first element: what is
/// right for one order or alignment alone must be wrong on the other side of the pipe, too.
#[derive(Serialize, Deserialize, Debug, Clone, PartialEq)]
pub struct Tensor {
    element: Element,
    shape: Vec<usize>,
    /// The axes as they lie in memory: that with the largest stride first.
    order: Vec<usize>,
    /// The address of the first element, modulo [`ALIGNMENT`].
    offset: u8,
    #[serde(serialize_with = "serde_bytes::serialize")]
    #[serde(deserialize_with = "borrowed")]
    bytes: Vec<u8>,
}

/// A copy of bytes that lie in the frame: [`Limited`] knows a tensor's by that.
fn borrowed<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    <&[u8]>::deserialize(deserializer).map(<[u8]>::to_vec)
}

/// A frame or a tensor that is not what it should be.
#[derive(Debug, thiserror::Error)]
pub enum Broken {
    /// The pipe.
    #[error("the pipe: {0}")]
    Pipe(#[from] io::Error),
    /// Bytes that are no message.
    #[error("the bytes of a message: {0}")]
    Message(#[from] postcard::Error),
    /// A frame that is larger than any, or a message that is, without its tensors.
    #[error("a message of {0} bytes or more")]
    TooLarge(usize),
    /// More of something than a reply has.
    #[error("{count} {what}: at most {most} are read")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// So many.
        count: usize,
        /// The limit.
        most: usize,
    },
    /// A time that is none.
    #[error("a launch of {0} seconds")]
    Seconds(f64),
    /// A tensor of another type or shape, or one too few.
    #[error("a tensor: expected {expected}, got {actual}")]
    Tensor {
        /// The tensor that is needed.
        expected: String,
        /// The tensor that is there.
        actual: String,
    },
}

impl Tensor {
    /// A tensor of one axis.
    pub fn vector<T: Plain>(values: &[T]) -> Self {
        Self::new(vec![values.len()], vec![0], values)
    }

    /// The elements of an array, which keeps the order of its axes in memory. Gaps are left out.
    pub fn from_array<S: Data<Elem: Plain>, D: Dimension>(array: &ArrayBase<S, D>) -> Self {
        let shape = array.shape().to_vec();
        let mut order = Vec::from_iter(0..array.ndim());
        order.sort_by_key(|&axis| Reverse(array.strides()[axis].unsigned_abs()));
        let mut axes = array.raw_dim();
        axes.slice_mut().copy_from_slice(&order);
        let in_memory = array.view().permuted_axes(axes);
        match in_memory.as_slice() {
            Some(values) => Self::new(shape, order, values),
            None => Self::new(shape, order, &Vec::from_iter(in_memory.iter().copied())),
        }
    }

    /// The tensor, aligned as memory at this address is.
    pub fn at(self, address: u64) -> Self {
        let offset = (address % ALIGNMENT) as u8;
        Self { offset, ..self }
    }

    /// The address of the first element, modulo 16.
    pub fn offset(&self) -> usize {
        self.offset.into()
    }

    /// The number of bytes of its elements.
    pub fn bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// True if the elements of both have the same bytes.
    pub fn has_bytes_of(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }

    /// The number of axes.
    pub fn axes(&self) -> usize {
        self.shape.len()
    }

    fn new<T: Plain>(shape: Vec<usize>, order: Vec<usize>, values: &[T]) -> Self {
        // SAFETY: the elements are plain, so that their bytes are initialised.
        let bytes = unsafe { slice::from_raw_parts(values.as_ptr().cast(), size_of_val(values)) };
        Self {
            element: T::ELEMENT,
            shape,
            order,
            offset: 0,
            bytes: bytes.to_vec(),
        }
    }

    /// The elements, as they lie in memory.
    ///
    /// # Errors
    ///
    /// [`Broken::Tensor`] if they are of another type.
    pub fn values<T: Plain>(&self) -> Result<Vec<T>, Broken> {
        if self.element != T::ELEMENT || !self.bytes.len().is_multiple_of(size_of::<T>()) {
            return Err(Broken::Tensor {
                expected: format!("{:?}", T::ELEMENT),
                actual: format!("{} bytes of {:?}", self.bytes.len(), self.element),
            });
        }
        let mut values = vec![T::default(); self.bytes.len() / size_of::<T>()];
        let length = size_of_val(&*values);
        // SAFETY: the vector has room for as many bytes, and any bytes are plain elements.
        unsafe {
            ptr::copy_nonoverlapping(self.bytes.as_ptr(), values.as_mut_ptr().cast(), length);
        }
        Ok(values)
    }

    /// The array.
    ///
    /// # Errors
    ///
    /// [`Broken::Tensor`] if it has another type or number of axes, or as many elements
    /// as its shape does not say.
    pub fn array<T: Plain, D: Dimension>(&self) -> Result<Array<T, D>, Broken> {
        let values = self.values()?;
        let array = self.places().and_then(|places| {
            let in_memory = Vec::from_iter(self.order.iter().map(|&axis| self.shape[axis]));
            let array = Array::from_shape_vec(in_memory, values).ok()?;
            array.permuted_axes(places).into_dimensionality().ok()
        });
        array.ok_or_else(|| Broken::Tensor {
            expected: format!("{} axes", D::NDIM.unwrap_or(0)),
            actual: format!("{} axes of {} bytes", self.axes(), self.bytes.len()),
        })
    }

    /// The place of each axis in the order; `None` if that has not each axis once.
    fn places(&self) -> Option<Vec<usize>> {
        if self.order.len() != self.axes() {
            return None;
        }
        let place = |axis| self.order.iter().position(|&other| other == axis);
        (0..self.axes()).map(place).collect()
    }
}

/// The outputs of a call, taken one after the other.
#[derive(Debug)]
pub struct Tensors(std::vec::IntoIter<Tensor>);

impl Tensors {
    /// These tensors.
    pub fn new(tensors: Vec<Tensor>) -> Self {
        Self(tensors.into_iter())
    }

    /// The next tensor.
    ///
    /// # Errors
    ///
    /// [`Broken::Tensor`] if there is none.
    #[expect(clippy::should_implement_trait, reason = "it fails at the end")]
    pub fn next(&mut self) -> Result<Tensor, Broken> {
        self.0.next().ok_or_else(|| Broken::Tensor {
            expected: "one more".to_owned(),
            actual: "none".to_owned(),
        })
    }

    /// The next tensor's elements.
    ///
    /// # Errors
    ///
    /// [`Broken::Tensor`].
    pub fn values<T: Plain>(&mut self) -> Result<Vec<T>, Broken> {
        self.next()?.values()
    }

    /// The next tensor, as an array.
    ///
    /// # Errors
    ///
    /// [`Broken::Tensor`].
    pub fn array<T: Plain, D: Dimension>(&mut self) -> Result<Array<T, D>, Broken> {
        self.next()?.array()
    }
}

/// Writes a frame.
///
/// # Errors
///
/// The pipe's; [`Broken::TooLarge`].
pub fn write<M: Serialize>(pipe: &mut impl Write, message: &M) -> Result<(), Broken> {
    let length = postcard::serialize_with_flavor(message, Size::default())?;
    if length > MAX_MESSAGE + MAX_TENSORS {
        return Err(Broken::TooLarge(length));
    }
    pipe.write_all(&(length as u32).to_le_bytes())?;
    // Tensors go from where they lie to the pipe: a copy would count as time of the learner's code.
    let mut buffered = BufWriter::new(pipe);
    postcard::to_io(message, &mut buffered)?;
    Ok(buffered.flush()?)
}

/// Reads a frame; `None` at the end of the pipe. It trusts no length beyond 16 MiB: memory grows
/// with the bytes that arrive.
///
/// # Errors
///
/// The pipe's, also if it ends within a frame; bytes that are no message; [`Broken::TooLarge`].
pub fn read<M: DeserializeOwned>(pipe: &mut impl Read) -> Result<Option<M>, Broken> {
    let mut length = [0; 4];
    match pipe.read(&mut length)? {
        0 => return Ok(None),
        read => pipe.read_exact(&mut length[read..])?,
    }
    let length = u32::from_le_bytes(length) as usize;
    if length > MAX_MESSAGE + MAX_TENSORS {
        return Err(Broken::TooLarge(length));
    }
    let mut bytes = Vec::with_capacity(length.min(MAX_MESSAGE));
    pipe.take(length as u64).read_to_end(&mut bytes)?;
    if bytes.len() < length {
        return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
    }
    let mut decoder = postcard::Deserializer::from_flavor(Limited {
        rest: &bytes,
        read: 0,
    });
    let message = M::deserialize(&mut decoder);
    match decoder.finalize()? {
        read if read > MAX_MESSAGE => Err(Broken::TooLarge(read)),
        _ => Ok(Some(message?)),
    }
}

/// The bytes of a frame. It ends early where more than [`MAX_MESSAGE`] are read, without those that
/// are borrowed: a tensor's.
struct Limited<'de> {
    rest: &'de [u8],
    /// Bytes that were read and not borrowed.
    read: usize,
}

impl<'de> Flavor<'de> for Limited<'de> {
    type Remainder = usize;
    type Source = &'de [u8];

    fn pop(&mut self) -> postcard::Result<u8> {
        Ok(self.try_take_n_temp(1)?[0])
    }

    fn try_take_n(&mut self, count: usize) -> postcard::Result<&'de [u8]> {
        let (taken, rest) =
            (self.rest.split_at_checked(count)).ok_or(postcard::Error::DeserializeUnexpectedEnd)?;
        self.rest = rest;
        Ok(taken)
    }

    fn try_take_n_temp<'a>(&'a mut self, count: usize) -> postcard::Result<&'a [u8]>
    where
        'de: 'a,
    {
        let taken = self.try_take_n(count)?;
        self.read += count;
        if self.read > MAX_MESSAGE {
            return Err(postcard::Error::DeserializeUnexpectedEnd);
        }
        Ok(taken)
    }

    fn finalize(self) -> postcard::Result<usize> {
        Ok(self.read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::{Array2, Array3, arr2, s};

    #[test]
    fn a_frame_comes_back_as_it_was() {
        let array = arr2(&[[1.0f32, f32::NAN], [-0.0, 1e-40], [2.5, f32::INFINITY]]);
        let odd_nan = f32::from_bits(0xffc0_dead);
        let tensors = vec![
            Tensor::from_array(&array.t()),
            Tensor::vector(&[-1i32, 7]),
            Tensor::vector::<u8>(&[]),
        ];
        let mut pipe = Vec::new();
        write(&mut pipe, &("message", Some(odd_nan), &tensors)).unwrap();
        write(&mut pipe, &"next").unwrap();
        let mut pipe = &pipe[..];
        let (message, scale, read_back): (String, Option<f32>, Vec<Tensor>) =
            read(&mut pipe).unwrap().unwrap();
        assert_eq!(message, "message");
        assert_eq!(scale.map(f32::to_bits), Some(odd_nan.to_bits()));
        assert_eq!(read_back, tensors);
        let back: Array2<f32> = read_back[0].array().unwrap();
        let bits = |x: Array2<f32>| x.mapv(f32::to_bits);
        assert_eq!(back.strides(), array.t().strides());
        assert_eq!(bits(back), bits(array.t().to_owned()));
        assert!(read_back[1].values::<f32>().is_err(), "another type");
        assert!(read_back[0].array::<f32, ndarray::Ix3>().is_err());
        assert_eq!(read::<String>(&mut pipe).unwrap().unwrap(), "next");
        assert!(read::<String>(&mut pipe).unwrap().is_none());
    }

    #[test]
    fn no_length_is_trusted() {
        let read = |bytes: &[u8]| read::<Tensor>(&mut &*bytes).unwrap_err();
        assert!(matches!(read(&[1, 0]), Broken::Pipe(_)));
        assert!(matches!(read(&[0xff; 8]), Broken::TooLarge(_)));
        assert!(matches!(read(&[4, 0, 0, 0, 3]), Broken::Pipe(_)));
        // A tensor of f32 with one axis of 2^63 elements, and as many bytes.
        let huge = [&[3, 1][..], &[0x80; 9], &[1, 1, 0, 0], &[0x80; 9], &[1]].concat();
        let message = [&[huge.len() as u8, 0, 0, 0], &huge[..]].concat();
        assert!(matches!(read(&message), Broken::Message(_)));
    }

    #[test]
    fn tensors_are_large_and_messages_are_not() {
        let framed = |message: &[u8]| [&(message.len() as u32).to_le_bytes(), message].concat();
        let count = MAX_MESSAGE + 1;
        // As a learner's program may write them: empty strings, empty
        // tensors, a shape, one long text.
        let mut empty = postcard::to_stdvec(&count).unwrap();
        empty.resize(empty.len() + count, 0);
        assert!(matches!(
            read::<Vec<String>>(&mut &*framed(&empty)),
            Err(Broken::TooLarge(_))
        ));
        assert!(matches!(
            read::<Vec<Tensor>>(&mut &*framed(&[&empty[..], &vec![0; 4 * count]].concat())),
            Err(Broken::TooLarge(_))
        ));
        assert!(matches!(
            read::<String>(&mut &*framed(&empty)),
            Err(Broken::TooLarge(_))
        ));
        assert!(matches!(
            read::<Tensor>(&mut &*framed(&[&[0], &empty[..]].concat())),
            Err(Broken::TooLarge(_))
        ));
        let tensor = Tensor::vector(&vec![7u8; count]);
        let mut pipe = Vec::new();
        write(&mut pipe, &tensor).unwrap();
        assert_eq!(read::<Tensor>(&mut &*pipe).unwrap().unwrap(), tensor);
    }

    #[test]
    fn a_wrong_shape_is_not_printed() {
        let mut tensor = Tensor::vector(&[1u8]);
        tensor.shape = vec![1; 1000];
        let error = tensor.array::<u8, ndarray::Ix1>().unwrap_err();
        assert!(error.to_string().len() < 100, "{error}");
    }

    #[test]
    fn gaps_are_left_out_and_the_order_of_axes_is_not() {
        let rows = Array3::from_shape_fn((4, 2, 5), |(i, j, k)| (100 * i + 10 * j + k) as f32);
        for axes in [[0, 1, 2], [1, 0, 2], [2, 0, 1], [1, 2, 0]] {
            let view = rows.slice(s![..;2, .., ..3]).permuted_axes(axes);
            let back: Array3<f32> = Tensor::from_array(&view).array().unwrap();
            assert_eq!(back, view);
            let order = |strides: &[isize]| {
                (0..3)
                    .map(|i| strides.iter().filter(|&&x| x > strides[i]).count())
                    .collect::<Vec<_>>()
            };
            assert_eq!(order(back.strides()), order(view.strides()));
            assert!(back.as_slice_memory_order().is_some());
        }
    }

    #[test]
    fn an_order_has_each_axis_once() {
        let mut tensor = Tensor::from_array(&Array2::<f32>::zeros((1, 1)));
        for order in [vec![], vec![0], vec![0, 0], vec![0, 2], vec![0, 1, 1]] {
            tensor.order = order;
            assert!(tensor.array::<f32, ndarray::Ix2>().is_err(), "{tensor:?}");
        }
    }

    #[test]
    fn a_tensor_of_too_few_bytes_is_refused() {
        let message = [8, 0, 0, 0, 3, 1, 1, 1, 0, 0, 1, 0];
        let tensor: Tensor = read(&mut &message[..]).unwrap().unwrap();
        assert!(tensor.values::<f32>().is_err(), "one byte is no f32");
        assert!(tensor.array::<f32, ndarray::Ix1>().is_err());
    }
}
