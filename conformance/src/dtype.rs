//! The floating-point types in which tensors are stored.

use std::fmt;

use cudarc::driver::DeviceRepr;
use half::{bf16, f16};

/// The type of a tensor's elements in memory. Sums are f32 in all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Dtype {
    /// IEEE binary32.
    #[default]
    F32,
    /// IEEE binary16.
    F16,
    /// The upper half of an f32.
    Bf16,
}

impl Dtype {
    /// Bytes of an element.
    pub fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::Bf16 => 2,
        }
    }

    /// The distance from 1 to the next larger value.
    pub fn epsilon(self) -> f64 {
        match self {
            Self::F32 => f32::EPSILON.into(),
            Self::F16 => f16::EPSILON.to_f64(),
            Self::Bf16 => bf16::EPSILON.to_f64(),
        }
    }

    /// The nearest value of this type, widened to f32.
    pub fn round(self, x: f32) -> f32 {
        match self {
            Self::F32 => x,
            Self::F16 => f16::from_f32(x).to_f32(),
            Self::Bf16 => bf16::from_f32(x).to_f32(),
        }
    }
}

/// An element type of tensors in device memory.
pub trait Element: DeviceRepr + Copy + Default {
    /// Its name.
    const DTYPE: Dtype;

    /// The nearest value.
    fn from_f32(x: f32) -> Self;

    /// The value.
    fn to_f32(self) -> f32;
}

impl Element for f32 {
    const DTYPE: Dtype = Dtype::F32;

    fn from_f32(x: f32) -> Self {
        x
    }

    fn to_f32(self) -> f32 {
        self
    }
}

impl Element for f16 {
    const DTYPE: Dtype = Dtype::F16;

    fn from_f32(x: f32) -> Self {
        Self::from_f32(x)
    }

    fn to_f32(self) -> f32 {
        self.to_f32()
    }
}

impl Element for bf16 {
    const DTYPE: Dtype = Dtype::Bf16;

    fn from_f32(x: f32) -> Self {
        Self::from_f32(x)
    }

    fn to_f32(self) -> f32 {
        self.to_f32()
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epsilon_is_the_step_above_1_and_half_of_it_is_rounded_away() {
        for dtype in [Dtype::F32, Dtype::F16, Dtype::Bf16] {
            let epsilon = dtype.epsilon() as f32;
            assert_eq!(dtype.round(1.0 + epsilon), 1.0 + epsilon, "{dtype}");
            if dtype != Dtype::F32 {
                assert_eq!(dtype.round(1.0 + epsilon / 2.0), 1.0, "{dtype}");
            }
            assert!(dtype.round(f32::NAN).is_nan());
            assert_eq!(dtype.round(f32::NEG_INFINITY), f32::NEG_INFINITY);
        }
    }
}
