//! The library: attention on any cache, with every option. Three kernels share the problems: one
//! row of q to a head of keys; several on tensor cores; several in f32.

mod cache;
pub mod committed;
mod grouped;
mod grouped_mma;
pub mod paged;
mod problem;
mod split;
mod splits;
mod storage;
mod workspace;

use std::sync::Arc;

use cudarc::driver::{CudaFunction, CudaStream, CudaViewMut, LaunchConfig, PushKernelArg};
use gpu::arguments::{Checks, OptionalArg, Strides};

pub use cache::KvCache;
pub(crate) use problem::{Cache as CacheArgument, Problem, Update};
pub use splits::{MAX_SPLITS, PerSm, splits};
pub use storage::CountsMut;
pub use workspace::Workspace;

use crate::{CacheShape, Dtype, Error, Inputs, Outputs, Shape};

/// Tiles of keys up to which a sequence is not split: a block reads as many in the time of the
/// launch that merges parts. On the modelled H100 a tile takes 0.7 µs and the launch 3.4 µs.
const SHORT: usize = 4;

/// Threads of a block, where a kernel does not choose.
const THREADS: usize = 128;

/// Head dimensions that kernels are compiled for: a row is filled up with zeros to one of them.
pub(crate) const HEAD_MAX: [usize; 4] = [32, 64, 128, 256];

/// A kernel file and its `-D` constants.
pub(crate) type Variant = (&'static str, Vec<(&'static str, String)>);

/// A kernel that attends.
trait Kernel: Sync {
    /// The kernel file.
    fn file(&self) -> &'static str;

    /// The kernel's name.
    fn name(&self) -> &'static str;

    /// Columns that it is compiled for, which is its constant `HEAD_MAX`.
    fn columns(&self, rows: Rows) -> usize;

    /// Keys that a block takes at a time.
    fn tile(&self, rows: Rows) -> usize;

    /// The launch of one part of every sequence.
    fn grid(&self, sizes: &Sizes) -> Grid;

    /// How many of its blocks an SM takes.
    fn per_sm(&self, sizes: &Sizes) -> PerSm;
}

/// The rows of a cache, as far as a kernel is compiled for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Rows {
    dtype: Dtype,
    head_dim: usize,
    /// True if each row begins at a multiple of 16 bytes.
    aligned: bool,
    /// True if the device has tensor cores that take f16 and bf16: from compute 8.0 on.
    tensor_cores: bool,
}

/// The least of [`HEAD_MAX`] that is not less than D.
fn head_max(head_dim: usize) -> usize {
    let [.., largest] = HEAD_MAX;
    let mut fitting = HEAD_MAX.into_iter().filter(|&max| max >= head_dim);
    fitting.next().unwrap_or(largest)
}

/// The kernel for `queries` rows of q that see the same keys. With one, `split` is up to 30%
/// faster than `grouped` (modelled, H100: 4,096 tokens, 8 heads, D = 64, f16) where memory does
/// not bound both, which it does at D > 128. With more, by the model memory bounds `grouped_mma`,
/// and `grouped` takes longer: for 8 rows twice as long (modelled, H100: 65,536 tokens, 8 heads of
/// keys, D = 128, f16: 88 against 162 µs), for 32 rows six times (16 sequences of 32,768 tokens,
/// one head of keys: 88 against 506 µs).
fn kernel(rows: Rows, queries: usize) -> &'static dyn Kernel {
    let of_vectors = |most| rows.aligned && rows.head_dim <= most;
    let of_halves = rows.tensor_cores && matches!(rows.dtype, Dtype::F16 | Dtype::Bf16);
    match queries {
        0..=1 if of_vectors(split::MAX_COLUMNS) => &split::Split,
        2.. if of_halves && of_vectors(grouped_mma::MAX_COLUMNS) => &grouped_mma::GroupedMma,
        _ => &grouped::Grouped,
    }
}

/// The kernel file and constants for such rows.
fn variant(kernel: &dyn Kernel, rows: Rows) -> Variant {
    let head_max = kernel.columns(rows).to_string();
    let element = ("ELEMENT", rows.dtype.name().to_owned());
    (kernel.file(), vec![element, ("HEAD_MAX", head_max)])
}

/// The sizes of a problem.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    batch: usize,
    heads: usize,
    kv_heads: usize,
    nq: usize,
    pub(crate) head_dim: usize,
    /// The element type of the cache.
    dtype: Dtype,
}

impl Sizes {
    pub(crate) fn new(cache: &CacheShape, shape: &Shape) -> Self {
        Self {
            batch: cache.batch,
            heads: shape.heads,
            kv_heads: cache.kv_heads,
            nq: shape.nq,
            head_dim: cache.head_dim,
            dtype: cache.dtype,
        }
    }

    /// Rows of `q` that see the same keys: the queries of the heads that share a head of keys.
    fn rows(&self) -> usize {
        (self.heads / self.kv_heads.max(1)).saturating_mul(self.nq)
    }

    /// Rows of `q`. Saturates at `usize::MAX`.
    pub(crate) fn queries(&self) -> usize {
        self.batch
            .saturating_mul(self.heads)
            .saturating_mul(self.nq)
    }
}

/// A launch: blocks of one part, and what a block needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Grid {
    blocks: usize,
    threads: usize,
    /// Bytes of dynamic shared memory.
    shared: usize,
}

/// The device, as far as the choice of a kernel and of splits depends on it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Device {
    pub(crate) sms: usize,
    /// True if it has tensor cores that take f16 and bf16: from compute 8.0 on.
    pub(crate) tensor_cores: bool,
}

/// Number of splits of sequences of which the longest has `longest` tokens. 1 if it has 4 tiles of
/// keys or fewer.
pub(crate) fn splits_of(
    cache: &CacheShape,
    shape: &Shape,
    longest: usize,
    device: Device,
) -> usize {
    let sizes = Sizes::new(cache, shape);
    let rows = Rows {
        dtype: cache.dtype,
        head_dim: cache.head_dim,
        aligned: (cache.head_dim * cache.dtype.bytes()).is_multiple_of(16),
        tensor_cores: device.tensor_cores,
    };
    let kernel = kernel(rows, sizes.rows());
    let keys = longest.min(shape.window().saturating_add(shape.nq));
    match keys <= SHORT * kernel.tile(rows) {
        true => 1,
        false => {
            let blocks = kernel.grid(&sizes).blocks;
            splits(blocks, kernel.per_sm(&sizes), keys, device.sms)
        }
    }
}

// ANCHOR: launch
/// A launch of a kernel that attends.
pub(crate) struct Launch {
    function: CudaFunction,
    grid: Grid,
    problem: Problem,
    pub(crate) sizes: Sizes,
    splits: usize,
}

impl Launch {
    /// Checks what depends on the kernel, and loads it by `function`.
    pub(crate) fn plan(
        checks: &Checks,
        stream: &Arc<CudaStream>,
        inputs: &Inputs<'_>,
        shape: &Shape,
        splits: usize,
        device: Device,
        function: impl FnOnce(Variant, &'static str) -> Result<CudaFunction, Error>,
    ) -> Result<Self, Error> {
        let cache = inputs.cache.shape;
        let sizes = Sizes::new(&cache, shape);
        let rows = Rows {
            dtype: cache.dtype,
            head_dim: cache.head_dim,
            aligned: inputs.cache.is_aligned(checks, stream)?,
            tensor_cores: device.tensor_cores,
        };
        let kernel = kernel(rows, sizes.rows());
        let mut grid = kernel.grid(&sizes);
        grid.blocks = grid.blocks.saturating_mul(splits);
        checks.grid(grid.blocks.max(sizes.queries()))?;
        Ok(Self {
            function: function(variant(kernel, rows), kernel.name())?,
            grid,
            problem: Problem::new(shape, inputs, splits),
            sizes,
            splits,
        })
    }

    /// Launches what was planned, and `combine` if there are parts. There is a workspace then.
    pub(crate) fn run(
        mut self,
        stream: &Arc<CudaStream>,
        inputs: &Inputs<'_>,
        mut outputs: Outputs<'_>,
        workspace: Option<&mut Workspace>,
        combine: impl FnOnce() -> Result<CudaFunction, Error>,
    ) -> Result<(), Error> {
        let (sizes, splits) = (self.sizes, self.splits);
        let queries = sizes.queries();
        if queries == 0 {
            return Ok(());
        }
        let Some(workspace) = workspace.filter(|_| splits > 1) else {
            let Outputs { o, lse } = &mut outputs;
            return self.attend(stream, inputs, o, lse.as_mut());
        };

        let combine = combine()?;
        let Workspace { parts, lse, .. } = workspace;
        let whole = self.problem;
        self.problem.o = Strides::packed(sizes.heads, sizes.nq, splits * sizes.head_dim);
        let (mut o, mut part_lse) = (parts.as_view_mut(), lse.as_view_mut());
        self.attend(stream, inputs, &mut o, Some(&mut part_lse))?;
        let mut builder = stream.launch_builder(&combine);
        builder.arg(&*parts).arg(&*lse);
        builder.arg(&mut outputs.o).optional(outputs.lse.as_mut());
        builder.arg(&whole);
        let config = LaunchConfig {
            grid_dim: (queries as u32, 1, 1),
            block_dim: (MAX_SPLITS as u32, 1, 1), // a thread for the weight of each part
            shared_mem_bytes: 0,
        };
        // SAFETY: these are the parameters of `combine`, in order. The workspace has room for the
        // problem's sizes; `o` and `lse` hold every row, each of which has a block of its own;
        // `lse` is not touched if it is null.
        unsafe { builder.launch(config) }?;
        Ok(())
    }

    fn attend(
        &self,
        stream: &Arc<CudaStream>,
        inputs: &Inputs<'_>,
        o: &mut CudaViewMut<'_, f32>,
        lse: Option<&mut CudaViewMut<'_, f32>>,
    ) -> Result<(), Error> {
        let cache = &inputs.cache;
        let mut builder = stream.launch_builder(&self.function);
        builder.arg(&inputs.q).arg(&cache.k).arg(&cache.v);
        builder.arg(&cache.lengths.device);
        builder.optional(cache.pages.as_ref().map(|pages| &pages.entries));
        builder.arg(o).optional(lse).arg(&self.problem);
        let config = LaunchConfig {
            grid_dim: (self.grid.blocks as u32, 1, 1),
            block_dim: (self.grid.threads as u32, 1, 1),
            shared_mem_bytes: self.grid.shared as u32,
        };
        // SAFETY: these are the parameters of all three kernels, in order. The lengths are those on
        // the host: rows below them lie inside the cache, and their entries of the page table
        // were checked there. The table and `lse` are not touched if they are null; every
        // block writes rows of its own.
        unsafe { builder.launch(config) }?;
        Ok(())
    }
}
// ANCHOR_END: launch

#[cfg(test)]
mod tests {
    use super::*;

    /// A block of `grouped` with more rows has more warps, so an SM takes fewer.
    #[test]
    fn an_sm_takes_fewer_blocks_of_more_registers_or_warps() {
        let per_sm = |kernel: &dyn Kernel, heads, dtype| {
            let per_sm = kernel.per_sm(&Sizes {
                batch: 1,
                heads,
                kv_heads: 1,
                nq: 1,
                head_dim: 128,
                dtype,
            });
            (per_sm.places, per_sm.busy)
        };
        let types = [Dtype::F32, Dtype::F16, Dtype::Bf16];
        let splits = types.map(|dtype| per_sm(&split::Split, 1, dtype));
        assert_eq!(splits, [(8, 4), (6, 6), (4, 4)]);
        let groups = [4, 16, 17, 33, 64].map(|heads| per_sm(&grouped::Grouped, heads, Dtype::F32));
        assert_eq!(groups, [(4, 1), (4, 1), (2, 1), (1, 1), (1, 1)]);
    }

    #[test]
    fn tensor_cores_multiply_several_rows_of_halves() {
        let halves = Rows {
            dtype: Dtype::F16,
            head_dim: 128,
            aligned: true,
            tensor_cores: true,
        };
        let name = |rows, queries| kernel(rows, queries).name();
        assert_eq!([1, 2, 17].map(|queries| name(halves, queries)), {
            ["split", "grouped_mma", "grouped_mma"]
        });
        let bf16 = Rows {
            dtype: Dtype::Bf16,
            ..halves
        };
        assert_eq!(name(bf16, 8), "grouped_mma");
        let others: [fn(&mut Rows); 4] = [
            |rows| rows.dtype = Dtype::F32,
            |rows| rows.head_dim = 136,
            |rows| rows.aligned = false,
            |rows| rows.tensor_cores = false,
        ];
        for other in others {
            let mut rows = halves;
            other(&mut rows);
            assert_eq!(name(rows, 8), "grouped", "{rows:?}");
        }
    }
}
