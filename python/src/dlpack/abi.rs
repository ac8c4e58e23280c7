//! The structs of `dlpack.h`, version 1.0.

use std::ffi::{CStr, c_void};
use std::fmt;

/// Names of the capsules that hold a managed tensor, before and after it has an owner.
pub const UNVERSIONED: [&CStr; 2] = [c"dltensor", c"used_dltensor"];
pub const VERSIONED: [&CStr; 2] = [c"dltensor_versioned", c"used_dltensor_versioned"];

/// The major version that this code knows. A tensor of another one may only be deleted.
pub const MAJOR: u32 = 1;

/// `DLDevice`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Device {
    pub kind: i32,
    pub ordinal: i32,
}

impl Device {
    /// Memory that the CPU reads.
    pub const CPU: i32 = 1;
    /// Memory of a CUDA device.
    pub const CUDA: i32 = 2;
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            Self::CPU => f.write_str("the CPU"),
            Self::CUDA => write!(f, "CUDA device {}", self.ordinal),
            kind => write!(f, "device {} of DLPack's type {kind}", self.ordinal),
        }
    }
}

/// Any device of a kind that functions take.
pub fn kind_name(kind: i32) -> &'static str {
    match kind {
        Device::CPU => "the CPU",
        _ => "a CUDA device",
    }
}

/// `DLDataType`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct DataType {
    code: u8,
    bits: u8,
    lanes: u16,
}

impl DataType {
    pub const FLOAT32: Self = Self::scalar(2, 32);
    pub const FLOAT16: Self = Self::scalar(2, 16);
    pub const BFLOAT16: Self = Self::scalar(4, 16);
    pub const BOOL: Self = Self::scalar(6, 8);

    const fn scalar(code: u8, bits: u8) -> Self {
        let lanes = 1;
        Self { code, bits, lanes }
    }
}

impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match (self.code, self.lanes) {
            (6, 1) => return f.write_str("bool"),
            (0, 1) => "int",
            (1, 1) => "uint",
            (2, 1) => "float",
            (4, 1) => "bfloat",
            (5, 1) => "complex",
            (code, _) => return write!(f, "a type of DLPack's code {code}"),
        };
        write!(f, "{name}{}", self.bits)
    }
}

/// `DLTensor`.
#[repr(C)]
pub struct RawTensor {
    pub data: *mut c_void,
    pub device: Device,
    pub ndim: i32,
    pub dtype: DataType,
    pub shape: *mut i64,
    /// In elements. Null: row-major without gaps.
    pub strides: *mut i64,
    pub byte_offset: u64,
}

/// `DLManagedTensor`.
#[repr(C)]
pub struct Unversioned {
    pub tensor: RawTensor,
    pub context: *mut c_void,
    pub deleter: Option<unsafe extern "C" fn(*mut Unversioned)>,
}

/// `DLPACK_FLAG_BITMASK_READ_ONLY`: the library forbids writing the elements.
pub const READ_ONLY: u64 = 1;

/// `DLManagedTensorVersioned`.
#[repr(C)]
pub struct Versioned {
    pub major: u32,
    pub minor: u32,
    pub context: *mut c_void,
    pub deleter: Option<unsafe extern "C" fn(*mut Versioned)>,
    pub flags: u64,
    pub tensor: RawTensor,
}
