//! The choice of stage 4's kernel.

use std::sync::Arc;

use cudarc::driver::CudaStream;
use stage4_flash_cuda::{Attention, Mode, Strategy};

use crate::Error;

/// Stage 4's attention for prompts: by the fastest strategy that has committed PTX for the head dimension. Padded has it for
/// all.
///
/// # Errors
///
/// [`Error::Argument`] if no kernel has this head dimension on the device; [`Error::Driver`].
pub fn attention_of_prompts(stream: &Arc<CudaStream>, head_dim: usize) -> Result<Attention, Error> {
    let by = |strategy| {
        Ok::<_, Error>(Attention::new(stream.context())?.with_mode(Mode::FusedBy(strategy)))
    };
    let fastest = by(Strategy::RegisterTiled)?;
    match fastest.is_committed(head_dim)? {
        true => Ok(fastest),
        false => by(Strategy::Padded),
    }
}
