//! Tensor maps as arguments: `tensormap{0,64x64,box=64x64,swizzle=128}`.

use std::fmt;
use std::str::FromStr;

use crate::fields::{self, Position};
use crate::values::Type;

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
    pub ty: Option<Element>,
    /// The order in shared memory.
    pub swizzle: Swizzle,
    /// What a copy writes for elements outside of the tensor.
    pub fill: Fill,
    /// The layout of the channels.
    pub interleave: Interleave,
    /// The part of a line that a copy brings into the L2 cache.
    pub l2: Promotion,
}

/// A tensor map and its buffer on a device: what `cuTensorMapEncodeTiled` takes.
#[derive(Debug, Clone, PartialEq)]
pub struct Tensor<'a> {
    /// Sizes, the box and the settings.
    pub map: &'a TensorMap,
    /// The type of the elements.
    pub element: Element,
    /// The address of the first element.
    pub address: u64,
    /// Bytes from one element to the next, of each dimension but the contiguous one.
    pub strides: Vec<u64>,
    /// A copy takes one of so many elements of each dimension.
    pub every: Vec<u32>,
}

/// The type of a tensor's elements, numbered as `CUtensorMapDataType`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Element {
    /// `u8`
    U8,
    /// `u16`
    U16,
    /// `u32`
    U32,
    /// `i32`
    I32,
    /// `u64`
    U64,
    /// `i64`
    I64,
    /// `f16`
    F16,
    /// `f32`
    F32,
    /// `f64`
    F64,
    /// `bf16`
    Bf16,
    /// `f32`, whose subnormal numbers become zero.
    F32Ftz,
    /// `f32`, rounded to 10 bits of fraction.
    Tf32,
    /// `tf32`, whose subnormal numbers become zero.
    Tf32Ftz,
}

/// The order of 16-byte pieces in shared memory, numbered as `CUtensorMapSwizzle`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Swizzle {
    /// As in the tensor.
    None,
    /// Exchanged within 32 bytes.
    Bytes32,
    /// Exchanged within 64 bytes.
    Bytes64,
    /// Exchanged within 128 bytes.
    Bytes128,
}

/// What a copy writes for elements outside of the tensor, numbered as `CUtensorMapFloatOOBfill`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fill {
    /// Zeros.
    Zeros,
    /// NaN.
    Nan,
}

/// The layout of the channels, numbered as `CUtensorMapInterleave`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interleave {
    /// Side by side.
    None,
    /// In pieces of 16 bytes.
    Bytes16,
    /// In pieces of 32 bytes.
    Bytes32,
}

/// The part of a line that a copy brings into the L2 cache, numbered as `CUtensorMapL2promotion`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Promotion {
    /// What is copied.
    None,
    /// 64 bytes.
    Bytes64,
    /// 128 bytes.
    Bytes128,
    /// 256 bytes.
    Bytes256,
}

/// Words and their meaning. The first is what is meant if none is written.
type Words<T, const N: usize> = [(&'static str, T); N];

/// Types that no buffer has. Their elements have 4 bytes.
const TYPES: Words<Element, 3> = [
    ("tf32", Element::Tf32),
    ("tf32_ftz", Element::Tf32Ftz),
    ("f32_ftz", Element::F32Ftz),
];

const SWIZZLES: Words<Swizzle, 4> = [
    ("none", Swizzle::None),
    ("32", Swizzle::Bytes32),
    ("64", Swizzle::Bytes64),
    ("128", Swizzle::Bytes128),
];

const FILLS: Words<Fill, 2> = [("zeros", Fill::Zeros), ("nan", Fill::Nan)];

const INTERLEAVES: Words<Interleave, 3> = [
    ("none", Interleave::None),
    ("16", Interleave::Bytes16),
    ("32", Interleave::Bytes32),
];

const PROMOTIONS: Words<Promotion, 4> = [
    ("none", Promotion::None),
    ("64", Promotion::Bytes64),
    ("128", Promotion::Bytes128),
    ("256", Promotion::Bytes256),
];

impl TensorMap {
    /// The size of a `CUtensorMap`, bytes.
    pub const BYTES: usize = 128;

    /// The alignment of a `CUtensorMap`, bytes.
    pub const ALIGN: usize = 64;

    /// Reads what stands between the braces.
    ///
    /// # Errors
    ///
    /// The reason.
    pub(crate) fn parse(text: &str) -> Result<TensorMap, String> {
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

    /// The tensor in a buffer of `ty` at `address`.
    ///
    /// # Errors
    ///
    /// The reason.
    pub(crate) fn tensor(&self, ty: Type, address: u64) -> Result<Tensor<'_>, String> {
        let element = match self.ty {
            Some(stated) if ty.bytes() == size_of::<f32>() => stated,
            Some(stated) => {
                return Err(format!(
                    "elements of {} have 4 bytes, those of argument {} ({ty}) {}",
                    word(&TYPES, stated),
                    self.memory,
                    ty.bytes()
                ));
            }
            None => element(ty),
        };
        let packed = || {
            let rows = self.sizes.iter().scan(ty.bytes() as u64, |bytes, size| {
                *bytes = bytes.saturating_mul(*size); // too large, which the device refuses
                Some(*bytes)
            });
            rows.take(self.sizes.len() - 1).collect()
        };
        let every = self.every.clone();
        Ok(Tensor {
            map: self,
            element,
            address,
            strides: self.strides.clone().unwrap_or_else(packed),
            every: every.unwrap_or_else(|| vec![1; self.sizes.len()]),
        })
    }
}

/// The type of a buffer's elements. Copies move bytes, so a signed type may stand in for an
/// unsigned one.
fn element(ty: Type) -> Element {
    match ty {
        Type::U8 | Type::I8 => Element::U8,
        Type::U16 | Type::I16 => Element::U16,
        Type::F16 => Element::F16,
        Type::Bf16 => Element::Bf16,
        Type::U32 => Element::U32,
        Type::I32 => Element::I32,
        Type::F32 => Element::F32,
        Type::U64 => Element::U64,
        Type::I64 => Element::I64,
        Type::F64 => Element::F64,
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
