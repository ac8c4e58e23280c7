//! What calls of stage 4's library share, on whichever device they run.

mod element;
mod masks;

pub use element::DeviceElement;
pub use masks::{Masks, packed};

use stage4_flash_cuda as stage4;
use stage4_flash_cuda::Sizes;

use crate::error::Error;

/// The element types, for errors.
pub const TYPES: &str = "float32, float16 or bfloat16";

/// The four sizes of a tensor.
type Dim = (usize, usize, usize, usize);

/// The sizes of the problem that `q` `[B, H, nq, D]`, `k` and `v` `[B, H_kv, nk, D]` make.
pub fn sizes_of(q: Dim, k: Dim, v: Dim) -> Result<Sizes, Error> {
    let sizes = Sizes::of("attention", q, k, v);
    Ok(sizes.map_err(stage4::Error::from)?)
}
