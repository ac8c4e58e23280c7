//! The ladder: kernels to be read, on packed f32 tensors and a contiguous cache. A file for each
//! launch; those that an exercise asks for are its solution.

mod decode;
mod grouped;
mod split;
mod update_cache;

use std::sync::Arc;

use cudarc::driver::{CudaFunction, CudaStream};
use gpu::arguments::{ArgumentError, Checks, Strides};

use crate::view::Cache;
use crate::{
    CacheShape, CacheViewMut, Dtype, Error, Inputs, MAX_SPLITS, NewTokens, Outputs, PerSequence,
    Shape,
};

pub(crate) use split::Grid;
pub(crate) use update_cache::launch as update_cache;

/// A kernel of the ladder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rung {
    /// `1_decode.cu`: a block for each query walks the cache.
    Decode,
    /// `2_split.cu`: a block for each query and part of the keys.
    Split,
    /// `3_grouped.cu`: a block for the heads that share a head of keys, and part of the keys.
    Grouped,
}

impl Rung {
    /// Its name, which is the kernel's.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Decode => "decode",
            Self::Split => "split",
            Self::Grouped => "grouped",
        }
    }

    /// The kernel file.
    pub(crate) const fn file(self) -> &'static str {
        match self {
            Self::Decode => "1_decode.cu",
            Self::Split => "2_split.cu",
            Self::Grouped => "3_grouped.cu",
        }
    }

    /// Blocks of one part of every sequence.
    pub(crate) fn blocks(self, cache: &CacheShape, shape: &Shape) -> usize {
        let heads = match self {
            Self::Decode | Self::Split => shape.heads,
            Self::Grouped => grouped::sets(shape.heads, cache.kv_heads),
        };
        let queries = cache.batch.saturating_mul(shape.nq);
        queries.saturating_mul(heads)
    }

    /// Number of splits of sequences of which the longest has `longest` tokens,
    /// on a device of `sms` SMs.
    pub(crate) fn splits(
        self,
        cache: &CacheShape,
        shape: &Shape,
        longest: usize,
        sms: usize,
    ) -> usize {
        match self {
            Self::Decode => 1,
            Self::Split | Self::Grouped => split::splits(self.blocks(cache, shape), longest, sms),
        }
    }

    /// Launches the rung; without a grid by [`split::launch`], which computes that of
    /// rung 2. All arguments have been checked, and there is at least one query. `kernel`
    /// gives a kernel of a file.
    pub(crate) fn launch(
        self,
        stream: &Arc<CudaStream>,
        kernel: impl Fn(&'static str, &'static str) -> Result<CudaFunction, Error>,
        inputs: Inputs<'_>,
        outputs: Outputs<'_>,
        shape: &Shape,
        grid: Option<Grid>,
    ) -> Result<(), Error> {
        let own = kernel(self.file(), self.name())?;
        if self == Self::Decode {
            return decode::launch(stream, &own, inputs, outputs, shape);
        }
        let combine = kernel("combine.cu", "combine")?;
        match grid {
            None => split::launch(stream, &own, &combine, inputs, outputs, shape),
            Some(grid) => split::launch_in(stream, [&own, &combine], grid, inputs, outputs, shape),
        }
    }
}

/// True if rungs can have a cache of this shape, contiguous or in pages.
pub fn has_cache(shape: &CacheShape, paged: bool) -> bool {
    shape.dtype == Dtype::F32 && !paged
}

/// Checks the arguments of an update of the cache. There is nothing to
/// launch if the result is false.
///
/// # Errors
///
/// Those of [`Decode::update_cache`](crate::Decode::update_cache); a cache in pages or of another
/// type than f32; rows with gaps.
pub fn check_update(
    checks: &Checks,
    stream: &Arc<CudaStream>,
    cache: &CacheViewMut<'_>,
    counts: &PerSequence<'_>,
    new: &NewTokens<'_>,
) -> Result<bool, ArgumentError> {
    checks.device("stream", stream.context())?;
    cache.check(checks)?;
    new.check(checks, &cache.shape, &cache.lengths, counts)?;
    cache.is_aligned(checks, stream)?;
    check_cache(checks, cache)?;
    let shape = cache.shape;
    let rows = [shape.batch, shape.kv_heads, new.n, shape.head_dim];
    check_packed(checks, "k", new.k_strides, rows)?;
    check_packed(checks, "v", new.v_strides, rows)?;
    checks.grid(product(&rows[..3]))?;
    Ok(!rows.contains(&0))
}

/// Checks the arguments of attention on the cache. There is nothing to
/// launch if the result is false.
///
/// # Errors
///
/// Those of [`Decode::forward`](crate::Decode::forward); a cache in pages or of another type than
/// f32; a window; q or o with gaps.
pub fn check_decode(
    checks: &Checks,
    stream: &Arc<CudaStream>,
    inputs: &Inputs<'_>,
    outputs: &Outputs<'_>,
    shape: &Shape,
) -> Result<bool, ArgumentError> {
    checks.device("stream", stream.context())?;
    shape.check(checks, inputs, outputs)?;
    inputs.cache.is_aligned(checks, stream)?;
    check_cache(checks, &inputs.cache)?;
    if shape.window.is_some() {
        return Err(checks.error("window", "none", "a window"));
    }
    let cache = inputs.cache.shape;
    let queries = [cache.batch, shape.heads, shape.nq, cache.head_dim];
    check_packed(checks, "q", shape.q, queries)?;
    check_packed(checks, "o", shape.o, queries)?;
    checks.grid(product(&queries[..3]).saturating_mul(MAX_SPLITS))?;
    Ok(!queries.contains(&0))
}

fn product(sizes: &[usize]) -> usize {
    sizes.iter().copied().fold(1, usize::saturating_mul)
}

fn check_cache<V>(checks: &Checks, cache: &Cache<'_, V>) -> Result<(), ArgumentError> {
    if cache.shape.dtype != Dtype::F32 {
        return Err(checks.error("dtype", Dtype::F32.name(), cache.shape.dtype.name()));
    }
    match cache.pages {
        None => Ok(()),
        Some(_) => Err(checks.error("pages", "none", "a page table")),
    }
}

/// Checks that a `[B, H, N, D]` tensor has no gaps.
fn check_packed(
    checks: &Checks,
    argument: &'static str,
    strides: Strides,
    shape: [usize; 4],
) -> Result<(), ArgumentError> {
    let [_, heads, n, head_dim] = shape;
    match strides.agrees_with(Strides::packed(heads, n, head_dim), shape) {
        true => Ok(()),
        false => Err(checks.error(argument, "a packed tensor", "other strides")),
    }
}
