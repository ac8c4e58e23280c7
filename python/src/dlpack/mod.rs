//! Arrays of other Python libraries, by the DLPack protocol.
//!
//! Source: <https://dmlc.github.io/dlpack/latest/>.

mod abi;
mod export;
mod import;

pub use abi::{DataType, Device};
pub use export::Exported;
pub use import::{Managed, Tensor};

/// An element type that tensors may have here.
pub trait Element: Copy + Send + Sync + 'static {
    /// Its DLPack type.
    const TYPE: DataType;
}

impl Element for f32 {
    const TYPE: DataType = DataType::FLOAT32;
}

impl Element for half::f16 {
    const TYPE: DataType = DataType::FLOAT16;
}

impl Element for half::bf16 {
    const TYPE: DataType = DataType::BFLOAT16;
}

impl Element for u8 {
    /// A byte is read as a boolean: 0 is false.
    const TYPE: DataType = DataType::BOOL;
}
