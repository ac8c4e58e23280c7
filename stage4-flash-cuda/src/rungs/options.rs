//! Rung 2, `kernels/2_options.cu`: every option, and any head dimension.

use cudarc::driver::{DriverError, PushKernelArg};
use gpu::arguments::OptionalArg;

use super::{Launch, Rung, Shared, WARP};
use crate::problem::Problem;
use crate::tiles::Tile;

/// Columns of `k` and `v` that a large row has in shared memory at a time, about.
const SLICE: usize = 64;

/// How the kernel deals with a head dimension.
#[derive(Clone, Copy)]
pub(super) enum Options {
    /// Rows are padded with zeros to a power of two; `D` is an argument.
    Padded,
    /// All columns at once.
    Exact,
    /// A slice of columns at a time.
    Split,
}

impl Options {
    /// Columns of a row, padding included, and of a slice of `k` or `v`.
    fn columns(self, head_dim: usize) -> (usize, usize) {
        match self {
            Self::Padded => {
                let columns = head_dim.next_power_of_two().max(16);
                (columns, if columns > 128 { SLICE } else { columns })
            }
            Self::Exact => (head_dim, head_dim),
            Self::Split => {
                let least = head_dim.div_ceil(SLICE);
                let even = (least..=2 * least).find(|slices| head_dim.is_multiple_of(*slices));
                (head_dim, head_dim.div_ceil(even.unwrap_or(least)))
            }
        }
    }
}

impl Rung for Options {
    fn file(&self) -> &'static str {
        "2_options.cu"
    }

    fn kernel(&self) -> &'static str {
        "options"
    }

    fn constants(&self, head_dim: usize) -> Vec<(&'static str, usize)> {
        let (columns, slice) = self.columns(head_dim);
        let compiled_for = match self {
            Self::Padded => 0,
            Self::Exact | Self::Split => head_dim,
        };
        vec![
            ("HEAD_DIM", compiled_for),
            ("COLUMNS", columns),
            ("SLICE", slice),
        ]
    }

    fn shared(&self, head_dim: usize, tile: Tile) -> Shared {
        let (columns, slice) = self.columns(head_dim);
        let q = tile.block_q * columns.div_ceil(slice) * slice;
        let (kv, p) = (tile.block_kv * (slice | 1), tile.block_q * tile.block_kv);
        Shared::Static((q + kv + p) * size_of::<f32>())
    }

    fn suits(&self, tile: Tile) -> bool {
        let warps = (tile.threads / WARP).max(1);
        tile.threads.is_multiple_of(WARP)
            && tile.block_q.is_multiple_of(warps)
            && tile.block_q / warps <= WARP
            && tile.block_kv == WARP
    }

    fn candidates(&self) -> Vec<Tile> {
        vec![Tile::new(32, 32, 256)]
    }

    fn launch(&self, launch: Launch<'_>) -> Result<(), DriverError> {
        with_options(launch)
    }
}

// ANCHOR: launch
/// Launches a kernel that takes all options.
pub(super) fn with_options(launch: Launch<'_>) -> Result<(), DriverError> {
    let Launch {
        inputs,
        outputs,
        shape,
        ..
    } = launch;
    let problem = Problem::new(shape, &inputs);
    let (mut o, mut lse) = (outputs.o, outputs.lse);
    let mut builder = launch.stream.launch_builder(&launch.function);
    builder.arg(&inputs.q).arg(&inputs.k).arg(&inputs.v);
    builder.optional(inputs.mask.as_ref().map(|mask| &mask.values));
    builder.optional(inputs.key_lengths.as_ref());
    builder.optional(inputs.blocks.as_ref().map(|blocks| &blocks.values));
    builder.arg(&mut o).optional(lse.as_mut()).arg(&problem);
    // SAFETY: these are the parameters of rungs 2 and 3, in order. Every element that the problem names lies inside the
    // views; an argument that is null is not touched; every block writes rows of its own.
    unsafe { builder.launch(launch.config) }?;
    Ok(())
}
// ANCHOR_END: launch
