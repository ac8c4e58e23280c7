//! What calls of stage 4's library share, on whichever device they run.

mod element;
mod masks;

pub use element::DeviceElement;
pub use masks::{Masks, packed};

/// The element types, for errors.
pub const TYPES: &str = "float32, float16 or bfloat16";
