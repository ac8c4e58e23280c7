//! The ladder: kernels to be read, on packed tensors and a contiguous cache. A file for each launch
//! that an exercise asks for, which is its solution; rungs 3 and 4 have the launch of rung 2.

mod decode;
mod split;
mod update_cache;

use std::sync::Arc;

use cudarc::driver::{CudaFunction, CudaStream};
use gpu::arguments::{ArgumentError, Checks, Strides};

use crate::library::Variant;
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
    /// `4_mma.cu`: the same on tensor cores, with keys and values in f16.
    Mma,
}

impl Rung {
    /// Its name, which is the kernel's.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Decode => "decode",
            Self::Split => "split",
            Self::Grouped => "grouped",
            Self::Mma => "mma",
        }
    }

    /// The kernel file.
    pub(crate) const fn file(self) -> &'static str {
        match self {
            Self::Decode => "1_decode.cu",
            Self::Split => "2_split.cu",
            Self::Grouped => "3_grouped.cu",
            Self::Mma => "4_mma.cu",
        }
    }

    /// The `-D` constants of its kernel for a head dimension.
    pub(crate) fn constants(self, head_dim: usize) -> Vec<(&'static str, String)> {
        match self {
            Self::Decode | Self::Split | Self::Grouped => vec![],
            Self::Mma if head_dim <= 64 => vec![("HEAD_MAX", "64".to_owned())],
            Self::Mma => vec![("HEAD_MAX", "128".to_owned())],
        }
    }

    /// The element type of its cache.
    pub const fn dtype(self) -> Dtype {
        match self {
            Self::Decode | Self::Split | Self::Grouped => Dtype::F32,
            Self::Mma => Dtype::F16,
        }
    }

    /// The least compute capability of a device that runs it.
    pub const fn capability(self) -> (i32, i32) {
        match self {
            Self::Decode | Self::Split | Self::Grouped => (7, 5),
            Self::Mma => (8, 0),
        }
    }

    /// True if it has a kernel for this head dimension.
    fn has_head_dim(self, head_dim: usize) -> bool {
        match self {
            Self::Decode | Self::Split | Self::Grouped => true,
            Self::Mma => head_dim.is_multiple_of(8) && head_dim <= 128,
        }
    }

    /// True if it can have a cache of this shape, contiguous or in pages.
    pub fn has_cache(self, shape: &CacheShape, paged: bool) -> bool {
        shape.dtype == self.dtype() && self.has_head_dim(shape.head_dim) && !paged
    }

    /// Heads of q that a block serves, at most.
    const fn heads_of_a_block(self) -> usize {
        match self {
            Self::Decode | Self::Split => 1,
            Self::Grouped => 4,
            Self::Mma => 16,
        }
    }

    /// Blocks of one part of every sequence.
    pub(crate) fn blocks(self, cache: &CacheShape, shape: &Shape) -> usize {
        let group = shape.heads.checked_div(cache.kv_heads).unwrap_or(0);
        let sets = group.div_ceil(self.heads_of_a_block());
        let queries = cache.batch.saturating_mul(shape.nq);
        queries.saturating_mul(cache.kv_heads.saturating_mul(sets))
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
            Self::Split | Self::Grouped | Self::Mma => {
                split::splits(self.blocks(cache, shape), longest, sms)
            }
        }
    }

    /// Checks the arguments of attention on the cache. There is nothing to launch if the result is
    /// false.
    ///
    /// # Errors
    ///
    /// Those of [`Decode::forward`](crate::Decode::forward); a cache that the rung cannot have; a
    /// window; q or o with gaps.
    pub(crate) fn check(
        self,
        checks: &Checks,
        stream: &Arc<CudaStream>,
        inputs: &Inputs<'_>,
        outputs: &Outputs<'_>,
        shape: &Shape,
    ) -> Result<bool, ArgumentError> {
        checks.device("stream", stream.context())?;
        shape.check(checks, inputs, outputs)?;
        let aligned = inputs.cache.is_aligned(checks, stream)?;
        check_cache(checks, &inputs.cache, self.dtype())?;
        let cache = inputs.cache.shape;
        if !self.has_head_dim(cache.head_dim) {
            return Err(checks.error("head_dim", "a multiple of 8, up to 128", cache.head_dim));
        }
        if self == Self::Mma && !aligned {
            let expected = "at a multiple of 16 bytes, as v_cache";
            return Err(checks.error("k_cache", expected, "another address"));
        }
        if shape.window.is_some() {
            return Err(checks.error("window", "none", "a window"));
        }
        let queries = [cache.batch, shape.heads, shape.nq, cache.head_dim];
        check_packed(checks, "q", shape.q, queries)?;
        check_packed(checks, "o", shape.o, queries)?;
        checks.grid(product(&queries[..3]).saturating_mul(MAX_SPLITS))?;
        Ok(!queries.contains(&0))
    }

    /// Launches the rung; without a grid by [`split::launch`], which computes that of
    /// rung 2. All arguments have been checked, and there is at least one query. `kernel` gives a
    /// kernel of a file, compiled with these constants.
    pub(crate) fn launch(
        self,
        stream: &Arc<CudaStream>,
        kernel: impl Fn(Variant, &'static str) -> Result<CudaFunction, Error>,
        inputs: Inputs<'_>,
        outputs: Outputs<'_>,
        shape: &Shape,
        grid: Option<Grid>,
    ) -> Result<(), Error> {
        let constants = self.constants(inputs.cache.shape.head_dim);
        let own = kernel((self.file(), constants), self.name())?;
        if self == Self::Decode {
            return decode::launch(stream, &own, inputs, outputs, shape);
        }
        let combine = kernel(("combine.cu", vec![]), "combine")?;
        match grid {
            None => split::launch(stream, &own, &combine, inputs, outputs, shape),
            Some(grid) => split::launch_in(stream, [&own, &combine], grid, inputs, outputs, shape),
        }
    }
}

/// True if rungs 1 to 3 can have a cache of this shape, contiguous or in pages.
pub fn has_cache(shape: &CacheShape, paged: bool) -> bool {
    Rung::Decode.has_cache(shape, paged)
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
    check_cache(checks, cache, Dtype::F32)?;
    let shape = cache.shape;
    let rows = [shape.batch, shape.kv_heads, new.n, shape.head_dim];
    check_packed(checks, "k", new.k_strides, rows)?;
    check_packed(checks, "v", new.v_strides, rows)?;
    checks.grid(product(&rows[..3]))?;
    Ok(!rows.contains(&0))
}

/// Checks the arguments of attention on the cache by rungs 1 to 3. There is nothing to
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
    Rung::Decode.check(checks, stream, inputs, outputs, shape)
}

fn product(sizes: &[usize]) -> usize {
    sizes.iter().copied().fold(1, usize::saturating_mul)
}

fn check_cache<V>(
    checks: &Checks,
    cache: &Cache<'_, V>,
    dtype: Dtype,
) -> Result<(), ArgumentError> {
    if cache.shape.dtype != dtype {
        return Err(checks.error("dtype", dtype.name(), cache.shape.dtype.name()));
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
