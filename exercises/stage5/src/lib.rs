//! Exercise 5: decoding with a KV cache.
//!
//! A generator computes the key and the value of each token once, and keeps them in a cache
//! `[B, H_kv, max_seq, D]`. For each new token it appends a row, and then one query of each head
//! attends to all rows of its sequence.
//!
//! | task | points | you write |
//! |---|---|---|
//! | `update_cache` | 1 | `kernels/update_cache.cu`, `src/update_cache.rs` |
//! | `decode` | 3 in 3 steps | `kernels/decode.cu`, `src/decode.rs` |
//! | `split` | 1, a bonus | `kernels/split.cu`, `kernels/combine.cu`, `src/split.rs` |
//!
//! The steps of `decode` are graded one by one, a point each:
//!
//! | step | queries of a head | heads of q for each of the cache | lengths |
//! |---|---|---|---|
//! | `decode/query` | 1 | 1 | full caches; `D` is 64, 128 or 256 |
//! | `decode/lengths` | 1 | 1 | any, 0 among them; any `D` |
//! | `decode/groups` | any | any | any; any `D` |
//!
//! This file is done: it checks the arguments and calls your launches. All tensors are packed f32.
//! `cargo grade 5` judges, `cargo grade hint decode` helps.

mod decode;
mod split;
mod update_cache;

use std::sync::Arc;

use cudarc::driver::CudaStream;
use gpu::arguments::Checks;
use stage5_decode::{
    CacheShape, CacheViewMut, Decoding, Error, Inputs, NewTokens, Outputs, PerSequence, Shape,
    ladder,
};

static KERNELS: gpu::Bundle = gpu::bundle!();

/// Your implementation.
#[derive(Debug)]
pub struct Own {
    stream: Arc<CudaStream>,
    /// True if keys are split over blocks.
    splits: bool,
}

impl Own {
    /// Launches on `stream`.
    pub fn new(stream: &Arc<CudaStream>) -> Self {
        let stream = stream.clone();
        let splits = false;
        Self { stream, splits }
    }

    /// The same, by the kernels of the bonus task.
    pub fn splitting(stream: &Arc<CudaStream>) -> Self {
        let splits = true;
        Self {
            splits,
            ..Self::new(stream)
        }
    }
}

impl Decoding for Own {
    type Error = Error;

    fn update_cache(
        &self,
        cache: CacheViewMut<'_>,
        counts: PerSequence<'_>,
        new: NewTokens<'_>,
    ) -> Result<(), Error> {
        let checks = Checks::new("update_cache", self.stream.context());
        if !ladder::check_update(&checks, &self.stream, &cache, &counts, &new)? {
            return Ok(()); // no rows
        }
        let module = KERNELS.load(self.stream.context(), "update_cache.cu", &[])?;
        let kernel = module.load_function("update_cache")?;
        update_cache::launch(&self.stream, &kernel, cache, counts, new)
    }

    fn decode(&self, inputs: Inputs<'_>, outputs: Outputs<'_>, shape: &Shape) -> Result<(), Error> {
        let checks = Checks::new("decode", self.stream.context());
        if !ladder::check_decode(&checks, &self.stream, &inputs, &outputs, shape)? {
            return Ok(()); // no queries
        }
        let load = |file: &str, kernel: &str| {
            let module = KERNELS.load(self.stream.context(), file, &[])?;
            Ok::<_, Error>(module.load_function(kernel)?)
        };
        if self.splits {
            let (split, combine) = (load("split.cu", "split")?, load("combine.cu", "combine")?);
            split::launch(&self.stream, &split, &combine, inputs, outputs, shape)
        } else {
            let kernel = load("decode.cu", "decode")?;
            decode::launch(&self.stream, &kernel, inputs, outputs, shape)
        }
    }

    fn has_cache(&self, shape: &CacheShape, paged: bool) -> bool {
        ladder::has_cache(shape, paged)
    }

    fn argument_of(error: &Error) -> Option<&str> {
        error.argument()
    }
}
