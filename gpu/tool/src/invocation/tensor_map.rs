//! Tensor maps as arguments: `tensormap{0,64x64,box=64x64,swizzle=128}`.

use std::ffi::c_void;
use std::fmt;
use std::str::FromStr;

use cudarc::driver::DriverError;
use cudarc::driver::sys::{
    self, CUtensorMap, CUtensorMapDataType, CUtensorMapFloatOOBfill, CUtensorMapInterleave,
    CUtensorMapL2promotion, CUtensorMapSwizzle,
};

use super::fields::{self, Position};
use super::values::Type;

/// The size of a `CUtensorMap`, bytes.
pub(super) const BYTES: usize = 128;

/// The alignment of a `CUtensorMap`, bytes.
pub(super) const ALIGN: usize = 64;

/// Most dimensions of a tensor.
const MOST_DIMENSIONS: usize = 5;

/// A description of a tensor for the tensor memory accelerator. Each list has an element for each
/// dimension, the contiguous one first.
#[derive(Debug, Clone, PartialEq)]
pub struct TensorMap {
    /// The buffer that holds the tensor.
    pub memory: Position,
    /// Elements of the tensor.
    pub sizes: Vec<u64>,
    /// Elements of the box that a copy moves.
    pub box_sizes: Vec<u32>,
    /// Bytes from one element to the next, of each dimension but the contiguous one; `None`: the
    /// tensor is packed.
    pub strides: Option<Vec<u64>>,
    /// A copy takes one of so many elements; `None`: all.
    pub every: Option<Vec<u32>>,
    /// The type of the elements, if it is not that of the buffer.
    pub ty: Option<CUtensorMapDataType>,
    /// The order of 16-byte pieces in shared memory.
    pub swizzle: CUtensorMapSwizzle,
    /// What a copy writes for elements outside of the tensor.
    pub fill: CUtensorMapFloatOOBfill,
    /// The layout of the channels.
    pub interleave: CUtensorMapInterleave,
    /// The part of a line that a copy brings into the L2 cache.
    pub l2: CUtensorMapL2promotion,
}

/// Words and their meaning. The first is what is meant if none is written.
type Words<T, const N: usize> = [(&'static str, T); N];

/// Types that no buffer has. Their elements have 4 bytes.
const TYPES: Words<CUtensorMapDataType, 3> = [
    (
        "tf32",
        CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_TFLOAT32,
    ),
    (
        "tf32_ftz",
        CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ,
    ),
    (
        "f32_ftz",
        CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_FLOAT32_FTZ,
    ),
];

const SWIZZLES: Words<CUtensorMapSwizzle, 4> = [
    ("none", CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_NONE),
    ("32", CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_32B),
    ("64", CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_64B),
    ("128", CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_128B),
];

const FILLS: Words<CUtensorMapFloatOOBfill, 2> = [
    (
        "zeros",
        CUtensorMapFloatOOBfill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
    ),
    (
        "nan",
        CUtensorMapFloatOOBfill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA,
    ),
];

const INTERLEAVES: Words<CUtensorMapInterleave, 3> = [
    ("none", CUtensorMapInterleave::CU_TENSOR_MAP_INTERLEAVE_NONE),
    ("16", CUtensorMapInterleave::CU_TENSOR_MAP_INTERLEAVE_16B),
    ("32", CUtensorMapInterleave::CU_TENSOR_MAP_INTERLEAVE_32B),
];

const PROMOTIONS: Words<CUtensorMapL2promotion, 4> = [
    (
        "none",
        CUtensorMapL2promotion::CU_TENSOR_MAP_L2_PROMOTION_NONE,
    ),
    (
        "64",
        CUtensorMapL2promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_64B,
    ),
    (
        "128",
        CUtensorMapL2promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
    ),
    (
        "256",
        CUtensorMapL2promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
    ),
];

impl TensorMap {
    /// Reads what stands between the braces.
    ///
    /// # Errors
    ///
    /// The reason.
    pub(super) fn parse(text: &str) -> Result<TensorMap, String> {
        let mut words = fields::split(text, |c| c == ',');
        let memory = words.next().unwrap_or_default().parse()?;
        let sizes = words.next().unwrap_or_default();
        let sizes: Vec<u64> = list(sizes).map_err(|reason| format!("sizes: {reason}"))?;
        let rank = sizes.len();
        if rank > MOST_DIMENSIONS {
            return Err(format!(
                "a tensor has 1 to {MOST_DIMENSIONS} dimensions, not {rank}"
            ));
        }
        let mut map = TensorMap {
            memory,
            sizes,
            box_sizes: Vec::new(),
            strides: None,
            every: None,
            ty: None,
            swizzle: SWIZZLES[0].1,
            fill: FILLS[0].1,
            interleave: INTERLEAVES[0].1,
            l2: PROMOTIONS[0].1,
        };
        let mut seen = Vec::new();
        for word in words {
            let (key, value) = word
                .split_once('=')
                .ok_or_else(|| format!("{word:?} is not KEY=VALUE"))?;
            if seen.contains(&key) {
                return Err(format!("{key} is stated twice"));
            }
            seen.push(key);
            let read = match key {
                "box" => numbers(value, rank).map(|sizes| map.box_sizes = sizes),
                "strides" => strides(value, rank).map(|bytes| map.strides = Some(bytes)),
                "every" => numbers(value, rank).map(|steps| map.every = Some(steps)),
                "type" => meaning(&TYPES, value).map(|ty| map.ty = Some(ty)),
                "swizzle" => meaning(&SWIZZLES, value).map(|swizzle| map.swizzle = swizzle),
                "fill" => meaning(&FILLS, value).map(|fill| map.fill = fill),
                "interleave" => meaning(&INTERLEAVES, value).map(|layout| map.interleave = layout),
                "l2" => meaning(&PROMOTIONS, value).map(|l2| map.l2 = l2),
                _ => Err(
                    "a key is box, swizzle, strides, every, type, fill, interleave or l2"
                        .to_owned(),
                ),
            };
            read.map_err(|reason| format!("{key}: {reason}"))?;
        }
        match map.box_sizes.is_empty() {
            true => Err("it lacks its box, box=SIZES".to_owned()),
            false => Ok(map),
        }
    }

    /// The type of the elements in a buffer of `ty`.
    ///
    /// # Errors
    ///
    /// The reason.
    pub(super) fn element(&self, ty: Type) -> Result<CUtensorMapDataType, String> {
        match self.ty {
            Some(stated) if ty.bytes() == size_of::<f32>() => Ok(stated),
            Some(stated) => Err(format!(
                "elements of {} have 4 bytes, those of argument {} ({ty}) {}",
                word(&TYPES, stated),
                self.memory,
                ty.bytes()
            )),
            None => Ok(element(ty)),
        }
    }

    /// The `CUtensorMap` of a tensor at `address`.
    ///
    /// # Errors
    ///
    /// The driver's.
    pub(super) fn encode(
        &self,
        element: CUtensorMapDataType,
        element_bytes: usize,
        address: u64,
    ) -> Result<[u8; BYTES], DriverError> {
        let packed = || {
            let rows = self.sizes.iter().scan(element_bytes as u64, |bytes, size| {
                *bytes = bytes.saturating_mul(*size); // too large, which the driver refuses
                Some(*bytes)
            });
            rows.take(self.sizes.len() - 1).collect()
        };
        let strides: Vec<u64> = self.strides.clone().unwrap_or_else(packed);
        let every = self.every.clone();
        let every = every.unwrap_or_else(|| vec![1; self.sizes.len()]);
        let mut map = Aligned([0; BYTES]);
        // SAFETY: the map is as large and as aligned as a `CUtensorMap`; each list has as many
        // elements as the tensor has dimensions, the strides one fewer. The driver does not read
        // the tensor.
        let result = unsafe {
            sys::cuTensorMapEncodeTiled(
                (&raw mut map).cast::<CUtensorMap>(),
                element,
                self.sizes.len() as u32,
                address as *mut c_void,
                self.sizes.as_ptr(),
                strides.as_ptr(),
                self.box_sizes.as_ptr(),
                every.as_ptr(),
                self.interleave,
                self.swizzle,
                self.l2,
                self.fill,
            )
        };
        result.result().map(|()| map.0)
    }
}

/// Memory that cuTensorMapEncodeTiled writes to.
#[repr(C, align(64))]
struct Aligned([u8; BYTES]);

const _: () = assert!(size_of::<CUtensorMap>() == BYTES && align_of::<Aligned>() == ALIGN);

/// The type of a buffer's elements. Copies move bytes, so a signed type may stand in for an
/// unsigned one.
fn element(ty: Type) -> CUtensorMapDataType {
    match ty {
        Type::U8 | Type::I8 => CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_UINT8,
        Type::U16 | Type::I16 => CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_UINT16,
        Type::F16 => CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
        Type::Bf16 => CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
        Type::U32 => CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_UINT32,
        Type::I32 => CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_INT32,
        Type::F32 => CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
        Type::U64 => CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_UINT64,
        Type::I64 => CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_INT64,
        Type::F64 => CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_FLOAT64,
    }
}

/// Reads numbers from 1, joined by `x`.
fn list<T: FromStr + From<u8> + PartialOrd>(text: &str) -> Result<Vec<T>, String> {
    let number = |word: &str| word.trim().parse().ok().filter(|n| *n >= T::from(1));
    let numbers: Option<Vec<T>> = text.split('x').map(number).collect();
    numbers.ok_or_else(|| format!("{text:?} is not numbers from 1, like 64 or 64x8"))
}

/// Reads a number for each dimension.
fn numbers(text: &str, rank: usize) -> Result<Vec<u32>, String> {
    let numbers = list(text)?;
    match numbers.len() == rank {
        true => Ok(numbers),
        false => Err(format!(
            "{text} has {} dimensions, the tensor {rank}",
            numbers.len()
        )),
    }
}

/// Reads a stride for each dimension but the contiguous one. A stride may be 0.
fn strides(text: &str, rank: usize) -> Result<Vec<u64>, String> {
    let words = text.split('x').map(|word| word.trim().parse().ok());
    let strides: Option<Vec<u64>> = words.collect();
    let strides = strides.ok_or_else(|| format!("{text:?} is not bytes, like 128 or 128x1024"))?;
    match strides.len() == rank - 1 {
        true => Ok(strides),
        false => Err(format!(
            "{text} has {} strides, a tensor of {rank} dimensions {}",
            strides.len(),
            rank - 1
        )),
    }
}

fn meaning<T: Copy, const N: usize>(words: &Words<T, N>, word: &str) -> Result<T, String> {
    let found = words.iter().find(|(known, _)| *known == word);
    found.map(|(_, meaning)| *meaning).ok_or_else(|| {
        let known = words.each_ref().map(|(known, _)| *known).join(", ");
        format!("{word:?} is none of {known}")
    })
}

fn word<T: PartialEq, const N: usize>(words: &Words<T, N>, meaning: T) -> &'static str {
    let found = words.iter().find(|(_, known)| *known == meaning);
    found.map_or("", |(word, _)| *word)
}

impl fmt::Display for TensorMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sizes = joined(&self.sizes);
        write!(f, "{},{sizes},box={}", self.memory, joined(&self.box_sizes))?;
        if let Some(strides) = &self.strides {
            write!(f, ",strides={}", joined(strides))?;
        }
        if let Some(every) = &self.every {
            write!(f, ",every={}", joined(every))?;
        }
        if let Some(ty) = self.ty {
            write!(f, ",type={}", word(&TYPES, ty))?;
        }
        let settings = [
            ("swizzle", word(&SWIZZLES, self.swizzle), SWIZZLES[0].0),
            ("fill", word(&FILLS, self.fill), FILLS[0].0),
            (
                "interleave",
                word(&INTERLEAVES, self.interleave),
                INTERLEAVES[0].0,
            ),
            ("l2", word(&PROMOTIONS, self.l2), PROMOTIONS[0].0),
        ];
        for (key, value, unstated) in settings {
            if value != unstated {
                write!(f, ",{key}={value}")?;
            }
        }
        Ok(())
    }
}

fn joined<T: ToString>(numbers: &[T]) -> String {
    let numbers: Vec<String> = numbers.iter().map(T::to_string).collect();
    numbers.join("x")
}
