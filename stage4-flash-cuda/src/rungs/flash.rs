//! Rung 1, `kernels/1_flash.cu`: FlashAttention and nothing else.

use cudarc::driver::{DriverError, PushKernelArg};
use gpu::arguments::OptionalArg;
use stage1_reference::Feature;

use super::{Launch, Rung, Shared, WARP};
use crate::tiles::Tile;

/// Compiled for exactly `D` columns. A lane owns one key of a tile.
pub(super) struct Flash;

impl Rung for Flash {
    fn file(&self) -> &'static str {
        "1_flash.cu"
    }

    fn kernel(&self) -> &'static str {
        "flash"
    }

    fn lacks(&self) -> &'static [Feature] {
        &[
            Feature::Window,
            Feature::KeyLengths,
            Feature::AdditiveMask,
            Feature::BlockSparse,
            Feature::GroupedHeads,
            Feature::Strides,
        ]
    }

    fn constants(&self, head_dim: usize) -> Vec<(&'static str, usize)> {
        vec![("HEAD_DIM", head_dim)]
    }

    fn shared(&self, head_dim: usize, tile: Tile) -> Shared {
        let (q, k) = (tile.block_q * head_dim, tile.block_kv * (head_dim | 1));
        let (v, p) = (tile.block_kv * head_dim, tile.block_q * tile.block_kv);
        Shared::Static((q + k + v + p) * size_of::<f32>())
    }

    fn suits(&self, tile: Tile) -> bool {
        tile.threads.is_multiple_of(WARP)
            && tile.block_q.is_multiple_of(tile.threads / WARP)
            && tile.block_kv == WARP
    }

    fn candidates(&self) -> Vec<Tile> {
        [(32, 256), (16, 128)]
            .map(|(block_q, threads)| Tile::new(block_q, WARP, threads))
            .into()
    }

    // ANCHOR: launch
    fn launch(&self, launch: Launch<'_>) -> Result<(), DriverError> {
        let Launch {
            inputs,
            outputs,
            shape,
            ..
        } = launch;
        let (mut o, mut lse) = (outputs.o, outputs.lse);
        let (nq, nk) = (shape.sizes.nq as i32, shape.sizes.nk as i32);
        let (scale, causal) = (shape.scale(), i32::from(shape.causal));
        let mut builder = launch.stream.launch_builder(&launch.function);
        builder.arg(&inputs.q).arg(&inputs.k).arg(&inputs.v);
        builder.arg(&mut o).optional(lse.as_mut());
        builder.arg(&nq).arg(&nk).arg(&scale).arg(&causal);
        // SAFETY: these are the parameters of `flash`, in order. The tensors are packed and lie inside the views; `lse` is
        // not touched if it is null; every block writes rows of its own.
        unsafe { builder.launch(launch.config) }?;
        Ok(())
    }
    // ANCHOR_END: launch
}
