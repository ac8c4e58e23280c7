use cudarc::driver::DeviceRepr;
use half::{bf16, f16};

/// An element type of 16 bits: [`half::f16`] or [`half::bf16`].
pub trait Half: DeviceRepr + sealed::Sealed {
    /// Its number format.
    const FORMAT: Format;
}

/// A number format of 16 bits. Products and sums are f32 in both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// IEEE binary16: 11 binary digits, up to 65,504.
    F16,
    /// The upper half of an f32: 8 binary digits, and its range.
    Bf16,
}

impl Format {
    /// Both.
    pub const ALL: [Self; 2] = [Self::F16, Self::Bf16];

    /// Its name, in Rust and in the kernels.
    pub const fn name(self) -> &'static str {
        match self {
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
        }
    }
}

impl Half for f16 {
    const FORMAT: Format = Format::F16;
}

impl Half for bf16 {
    const FORMAT: Format = Format::Bf16;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for half::f16 {}
    impl Sealed for half::bf16 {}
}
