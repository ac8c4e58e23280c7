//! Frames: a message and its tensors, as bytes in a pipe.
//!
//! A frame is the length of a header (4 bytes, little-endian), the header (JSON: the message, and type and shape of each
//! tensor), then the tensors' elements, one tensor after the other, little-endian.

use std::io::{self, Read, Write};
use std::{ptr, slice};

use ndarray::{Array, ArrayBase, Data, Dimension};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The most bytes of a header.
const MAX_HEADER: u32 = 16 << 20;

/// The most bytes of all tensors of a frame.
const MAX_TENSORS: u64 = 1 << 30;

/// The type of a tensor's elements.
#[derive(Serialize, Deserialize, Debug, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Element {
    /// Bytes, of whatever they are the representation.
    U8,
    /// Whole numbers.
    I32,
    /// Words of bits.
    U32,
    /// Single precision.
    F32,
}

impl Element {
    const fn bytes(self) -> usize {
        match self {
            Self::U8 => 1,
            Self::I32 | Self::U32 | Self::F32 => 4,
        }
    }
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

const _: () = assert!(
    cfg!(target_endian = "little"),
    "elements are sent as they lie in memory"
);

/// A tensor, row-major.
#[derive(Debug, Clone, PartialEq)]
pub struct Tensor {
    element: Element,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

/// A frame or a tensor that is not what it should be.
#[derive(Debug, thiserror::Error)]
pub enum Broken {
    /// The pipe.
    #[error("the pipe: {0}")]
    Pipe(#[from] io::Error),
    /// The header.
    #[error("the header of a message: {0}")]
    Header(#[from] serde_json::Error),
    /// A frame that is larger than any.
    #[error("a message of {0} bytes")]
    TooLarge(u64),
    /// A tensor of another type or shape, or one too few.
    #[error("a tensor: expected {expected}, got {actual}")]
    Tensor {
        /// What it should be.
        expected: String,
        /// What it is.
        actual: String,
    },
}

impl Tensor {
    /// A tensor of one axis.
    pub fn of<T: Plain>(values: &[T]) -> Self {
        Self::new(vec![values.len()], values)
    }

    /// An array, in row-major order whatever its layout.
    pub fn of_array<S: Data<Elem: Plain>, D: Dimension>(array: &ArrayBase<S, D>) -> Self {
        let shape = array.shape().to_vec();
        match array.as_slice() {
            Some(values) => Self::new(shape, values),
            None => Self::new(shape, &array.iter().copied().collect::<Vec<_>>()),
        }
    }

    fn new<T: Plain>(shape: Vec<usize>, values: &[T]) -> Self {
        // SAFETY: the elements are plain, so that their bytes are initialised.
        let bytes = unsafe { slice::from_raw_parts(values.as_ptr().cast(), size_of_val(values)) };
        Self {
            element: T::ELEMENT,
            shape,
            bytes: bytes.to_vec(),
        }
    }

    /// The elements, in row-major order.
    ///
    /// # Errors
    ///
    /// [`Broken::Tensor`] if they are of another type.
    pub fn values<T: Plain>(&self) -> Result<Vec<T>, Broken> {
        if self.element != T::ELEMENT {
            return Err(Broken::Tensor {
                expected: format!("{:?}", T::ELEMENT),
                actual: format!("{:?}", self.element),
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
    /// [`Broken::Tensor`] if it has another type or number of axes.
    pub fn array<T: Plain, D: Dimension>(&self) -> Result<Array<T, D>, Broken> {
        let array = Array::from_shape_vec(self.shape.clone(), self.values()?);
        let array = array.map_err(|_| ()).and_then(|array| {
            let array = array.into_dimensionality();
            array.map_err(|_| ())
        });
        array.map_err(|()| Broken::Tensor {
            expected: format!("{} axes", D::NDIM.unwrap_or(0)),
            actual: format!("the shape {:?}", self.shape),
        })
    }
}

/// The tensors of a call, taken one after the other.
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

#[derive(Serialize)]
struct HeaderOut<'a, M> {
    message: &'a M,
    tensors: Vec<(Element, &'a [usize])>,
}

#[derive(Deserialize)]
struct HeaderIn<M> {
    message: M,
    tensors: Vec<(Element, Vec<usize>)>,
}

/// Writes a frame.
///
/// # Errors
///
/// The pipe's; [`Broken::TooLarge`].
pub fn write<M: Serialize>(
    pipe: &mut impl Write,
    message: &M,
    tensors: &[Tensor],
) -> Result<(), Broken> {
    let header = serde_json::to_vec(&HeaderOut {
        message,
        tensors: tensors.iter().map(|x| (x.element, &*x.shape)).collect(),
    })?;
    let total: usize = tensors.iter().map(|tensor| tensor.bytes.len()).sum();
    let length = u32::try_from(header.len()).unwrap_or(u32::MAX);
    if length > MAX_HEADER || total as u64 > MAX_TENSORS {
        return Err(Broken::TooLarge((header.len() + total) as u64));
    }
    pipe.write_all(&length.to_le_bytes())?;
    pipe.write_all(&header)?;
    for tensor in tensors {
        pipe.write_all(&tensor.bytes)?;
    }
    Ok(pipe.flush()?)
}

/// Reads a frame; `None` at the end of the pipe. It trusts no length: memory grows with what arrives.
///
/// # Errors
///
/// The pipe's, also if it ends within a frame; a header that is none; [`Broken::TooLarge`].
pub fn read<M: DeserializeOwned>(pipe: &mut impl Read) -> Result<Option<(M, Vec<Tensor>)>, Broken> {
    let mut length = [0; 4];
    match pipe.read(&mut length)? {
        0 => return Ok(None),
        read => pipe.read_exact(&mut length[read..])?,
    }
    let length = u32::from_le_bytes(length);
    if length > MAX_HEADER {
        return Err(Broken::TooLarge(length.into()));
    }
    let header = exactly(pipe, length as usize)?;
    let header: HeaderIn<M> = serde_json::from_slice(&header)?;
    let mut left = MAX_TENSORS;
    let mut tensors = Vec::new();
    for (element, shape) in header.tensors {
        let bytes = shape.iter().fold(element.bytes() as u64, |product, &size| {
            product.saturating_mul(size as u64)
        });
        left = left.checked_sub(bytes).ok_or(Broken::TooLarge(bytes))?;
        let bytes = exactly(pipe, bytes as usize)?;
        tensors.push(Tensor {
            element,
            shape,
            bytes,
        });
    }
    Ok(Some((header.message, tensors)))
}

fn exactly(pipe: &mut impl Read, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    pipe.take(length as u64).read_to_end(&mut bytes)?;
    if bytes.len() < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(bytes)
}

/// For serde: an f32 as its bits, because JSON has neither NaN nor infinity.
pub mod bits {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    /// Writes the bits.
    ///
    /// # Errors
    ///
    /// The serializer's.
    pub fn serialize<S: Serializer>(value: &f32, serializer: S) -> Result<S::Ok, S::Error> {
        value.to_bits().serialize(serializer)
    }

    /// Reads the bits.
    ///
    /// # Errors
    ///
    /// The deserializer's.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f32, D::Error> {
        Ok(f32::from_bits(u32::deserialize(deserializer)?))
    }
}

/// For serde: as [`bits`], of an f32 that may be absent.
pub mod optional_bits {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    /// Writes the bits.
    ///
    /// # Errors
    ///
    /// The serializer's.
    pub fn serialize<S: Serializer>(value: &Option<f32>, serializer: S) -> Result<S::Ok, S::Error> {
        value.map(f32::to_bits).serialize(serializer)
    }

    /// Reads the bits.
    ///
    /// # Errors
    ///
    /// The deserializer's.
    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<f32>, D::Error> {
        Ok(Option::<u32>::deserialize(deserializer)?.map(f32::from_bits))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::{Array2, arr2};

    #[test]
    fn a_frame_comes_back_as_it_was() {
        let array = arr2(&[[1.0f32, f32::NAN], [-0.0, 1e-40], [2.5, f32::INFINITY]]);
        let tensors = [
            Tensor::of_array(&array.t()),
            Tensor::of(&[-1i32, 7]),
            Tensor::of::<u8>(&[]),
        ];
        let mut pipe = Vec::new();
        write(&mut pipe, &"message", &tensors).unwrap();
        write(&mut pipe, &"next", &[]).unwrap();
        let mut pipe = &pipe[..];
        let (message, read_back) = read::<String>(&mut pipe).unwrap().unwrap();
        assert_eq!(message, "message");
        assert_eq!(read_back, tensors);
        let back: Array2<f32> = read_back[0].array().unwrap();
        let bits = |x: Array2<f32>| x.mapv(f32::to_bits);
        assert_eq!(bits(back), bits(array.t().to_owned()));
        assert!(read_back[1].values::<f32>().is_err(), "another type");
        assert!(read_back[0].array::<f32, ndarray::Ix3>().is_err());
        let (message, none) = read::<String>(&mut pipe).unwrap().unwrap();
        assert_eq!((&*message, none.len()), ("next", 0));
        assert!(read::<String>(&mut pipe).unwrap().is_none());
    }

    #[test]
    fn no_length_is_trusted() {
        let read = |bytes: &[u8]| read::<String>(&mut &*bytes).unwrap_err();
        assert!(matches!(read(&[1, 0]), Broken::Pipe(_)));
        assert!(matches!(read(&[0xff; 8]), Broken::TooLarge(_)));
        let of = |tensors: &str| {
            let header = format!(r#"{{"message":"m","tensors":{tensors}}}"#);
            let length = (header.len() as u32).to_le_bytes();
            read(&[&length, header.as_bytes()].concat())
        };
        assert!(matches!(of(r#"[["f32",[4]]]"#), Broken::Pipe(_)));
        let huge = of(&format!(r#"[["f32",[{0},{0}]]]"#, u64::MAX));
        assert!(matches!(huge, Broken::TooLarge(_)), "{huge}");
        assert!(matches!(of("[7]"), Broken::Header(_)));
    }
}
