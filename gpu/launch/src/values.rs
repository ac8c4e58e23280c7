//! Element types, and the contents of a buffer.

use std::fmt;

use half::{bf16, f16};

/// The type of an argument or of a buffer's elements. Integers are in two's complement; all are
/// little-endian.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Type {
    /// `u8`
    U8,
    /// `i8` or `s8`
    I8,
    /// `u16`
    U16,
    /// `i16`
    I16,
    /// `u32`
    U32,
    /// `i32`
    I32,
    /// `u64`
    U64,
    /// `i64`
    I64,
    /// `f16`, IEEE binary16
    F16,
    /// `bf16`, the upper half of an `f32`
    Bf16,
    /// `f32`
    F32,
    /// `f64`
    F64,
}

const NAMES: [(&str, Type); 13] = [
    ("u8", Type::U8),
    ("i8", Type::I8),
    ("s8", Type::I8),
    ("u16", Type::U16),
    ("i16", Type::I16),
    ("u32", Type::U32),
    ("i32", Type::I32),
    ("u64", Type::U64),
    ("i64", Type::I64),
    ("f16", Type::F16),
    ("bf16", Type::Bf16),
    ("f32", Type::F32),
    ("f64", Type::F64),
];

impl Type {
    /// Reads a type's name.
    ///
    /// # Errors
    ///
    /// The reason.
    pub fn parse(name: &str) -> Result<Type, String> {
        let found = NAMES.iter().find(|(known, _)| *known == name);
        found.map(|(_, ty)| *ty).ok_or_else(|| {
            format!(
                "{name:?} is no type; there are {}",
                NAMES.map(|(known, _)| known).join(" ")
            )
        })
    }

    /// Its size in bytes.
    pub fn bytes(self) -> usize {
        match self {
            Type::U8 | Type::I8 => 1,
            Type::U16 | Type::I16 | Type::F16 | Type::Bf16 => 2,
            Type::U32 | Type::I32 | Type::F32 => 4,
            Type::U64 | Type::I64 | Type::F64 => 8,
        }
    }

    /// True for a floating-point type.
    pub fn is_float(self) -> bool {
        matches!(self, Type::F16 | Type::Bf16 | Type::F32 | Type::F64)
    }

    /// The bits, in the low bytes, of a value that is written decimally or as `0x…`.
    ///
    /// # Errors
    ///
    /// The reason: it is no number, or not one of this type.
    pub fn parse_value(self, text: &str) -> Result<u64, String> {
        if let Some(digits) = text.strip_prefix("0x") {
            return u64::from_str_radix(digits, 16)
                .ok()
                .filter(|bits| bits & !self.mask() == 0)
                .ok_or_else(|| format!("{text:?} is not the bits of a {self}"));
        }
        let no_number = || format!("{text:?} is no {self}");
        if !self.is_float() {
            let value: i128 = text.parse().map_err(|_| no_number())?;
            let bits = value as u64 & self.mask();
            // The type must restore the bits that were cut off.
            return if self.integer(bits) == value {
                Ok(bits)
            } else {
                Err(format!("{text} is beyond the range of {self}"))
            };
        }
        let exact: f64 = text.parse().map_err(|_| no_number())?;
        let bits = match self {
            Type::F32 => text
                .parse::<f32>()
                .map_err(|_| no_number())?
                .to_bits()
                .into(),
            _ => self.round(exact),
        };
        if exact.is_finite() && !self.float(bits).is_finite() {
            return Err(format!("{text} is beyond the range of {self}"));
        }
        Ok(bits)
    }

    /// Notation of the value with these bits: decimal, so that it reads back as the same value.
    pub fn show(self, bits: u64) -> String {
        match self {
            Type::F32 => f32::from_bits(bits as u32).to_string(),
            _ if self.is_float() => self.float(bits).to_string(),
            _ => self.integer(bits).to_string(),
        }
    }

    /// The value with these bits, rounded if it is a large 64-bit integer.
    pub fn to_f64(self, bits: u64) -> f64 {
        if self.is_float() {
            self.float(bits)
        } else {
            self.integer(bits) as f64
        }
    }

    /// The bits of a whole number: wrapped to an integer type, rounded to a floating-point type.
    pub(crate) fn bits_of_index(self, index: u64) -> u64 {
        if self.is_float() {
            self.round(index as f64)
        } else {
            index & self.mask()
        }
    }

    /// The bits of a random value: any integer, or a multiple of the type's precision in [-1, 1).
    pub(crate) fn bits_of_random(self, random: u64) -> u64 {
        let digits = match self {
            Type::F16 => 11,
            Type::Bf16 => 8,
            Type::F32 => 24,
            Type::F64 => 53,
            _ => return random & self.mask(),
        };
        let steps = (random >> (64 - digits)) as f64;
        self.round(steps / (1u64 << (digits - 1)) as f64 - 1.0)
    }

    /// The bits of the nearest value of a floating-point type.
    fn round(self, value: f64) -> u64 {
        match self {
            Type::F16 => f16::from_f64(value).to_bits().into(),
            Type::Bf16 => bf16::from_f64(value).to_bits().into(),
            Type::F32 => (value as f32).to_bits().into(),
            _ => value.to_bits(),
        }
    }

    fn float(self, bits: u64) -> f64 {
        match self {
            Type::F16 => f16::from_bits(bits as u16).to_f64(),
            Type::Bf16 => bf16::from_bits(bits as u16).to_f64(),
            Type::F32 => f32::from_bits(bits as u32).into(),
            _ => f64::from_bits(bits),
        }
    }

    fn integer(self, bits: u64) -> i128 {
        match self {
            Type::I8 => (bits as i8).into(),
            Type::I16 => (bits as i16).into(),
            Type::I32 => (bits as i32).into(),
            Type::I64 => (bits as i64).into(),
            _ => bits.into(),
        }
    }

    fn mask(self) -> u64 {
        u64::MAX >> (64 - 8 * self.bytes())
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = NAMES.iter().find(|(_, ty)| ty == self);
        f.write_str(name.map_or("", |(name, _)| name))
    }
}

/// The contents of a buffer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Values {
    ty: Type,
    bytes: Vec<u8>,
}

impl Values {
    /// Elements of type `ty` that lie in `bytes`, little-endian; bytes beyond the last whole
    /// element are dropped.
    pub fn new(ty: Type, mut bytes: Vec<u8>) -> Values {
        bytes.truncate(bytes.len() / ty.bytes() * ty.bytes());
        Values { ty, bytes }
    }

    /// Elements given by their bits, in the low bytes of each.
    pub fn from_bits(ty: Type, bits: impl IntoIterator<Item = u64>) -> Values {
        let mut bytes = Vec::new();
        for element in bits {
            bytes.extend(&element.to_le_bytes()[..ty.bytes()]);
        }
        Values { ty, bytes }
    }

    /// The type of the elements.
    pub fn ty(&self) -> Type {
        self.ty
    }

    /// The elements as they lie in memory.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.bytes.len() / self.ty.bytes()
    }

    /// True if it has no element.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The bits of each element, in the low bytes.
    pub fn bits(&self) -> impl ExactSizeIterator<Item = u64> + '_ {
        self.bytes.chunks_exact(self.ty.bytes()).map(|element| {
            let mut bits = [0; 8];
            bits[..element.len()].copy_from_slice(element);
            u64::from_le_bytes(bits)
        })
    }

    /// The elements as `f64`; large 64-bit integers are rounded.
    pub fn to_f64(&self) -> Vec<f64> {
        self.bits().map(|bits| self.ty.to_f64(bits)).collect()
    }
}
