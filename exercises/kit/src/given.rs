//! What is given to a decoder: attention of prompts as in stage 4, attention on the cache as in
//! stage 5, and who hears of its tokens.
//!
//! A grading of stage 6 gives the course's libraries. The story gives a learner's own kernels.
//! They take less than the libraries do, so they get copies of their tensors: packed, and padded to
//! a head dimension that they have.

use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream, CudaView, CudaViewMut, DriverError};
use gpu::arguments::{ArgumentError, Checks, Strides};
use stage4_flash_cuda::{self as stage4, Fused, Sizes};
use stage5_decode::{self as stage5, CacheViewMut, Decoding, NewTokens, PerSequence};
use stage6_pipeline::Error;

/// The largest head dimension of an exercise.
const MAX_HEAD_DIM: usize = 256;

/// A learner's implementation of stage 4.
pub type OwnFused = Box<dyn Fused<f32, Error = stage4::Error>>;

/// A learner's implementation of stage 5.
pub type OwnDecoding = Box<dyn Decoding<Error = stage5::Error>>;

/// Makes a learner's implementations on a stream.
#[derive(Debug, Clone, Copy)]
pub struct Makers {
    /// Of stage 4.
    pub fused: fn(&Arc<CudaStream>) -> OwnFused,
    /// Of stage 5.
    pub decoding: fn(&Arc<CudaStream>) -> OwnDecoding,
}

/// Is called with tokens.
pub type Listener = Rc<dyn Fn(&[u32])>;

/// What is given to a decoder. By default, the course's libraries, and nobody hears.
#[derive(Clone, Default)]
pub struct Given {
    /// A learner's own stages 4 and 5.
    pub own: Option<Makers>,
    /// Hears the tokens that a decoder passes on.
    pub listener: Option<Listener>,
}

impl Given {
    /// Attention of prompts, and attention on the cache.
    ///
    /// # Errors
    ///
    /// Kernels that cannot be loaded.
    pub fn attention(&self, stream: &Arc<CudaStream>) -> Result<(Attention, Decode), Error> {
        Ok(match self.own {
            Some(Makers { fused, decoding }) => {
                (Attention::Own(fused(stream)), Decode::Own(decoding(stream)))
            }
            None => (
                Attention::Course(stage4::Attention::new(stream.context())?),
                Decode::Course(stage5::Decode::new(stream.context())?),
            ),
        })
    }

    /// Tells of tokens that a decoder passes on.
    pub fn hear(&self, tokens: &[u32]) {
        if let Some(listener) = &self.listener {
            listener(tokens);
        }
    }
}

impl fmt::Debug for Given {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Given")
            .field("own", &self.own)
            .finish_non_exhaustive()
    }
}

/// Attention of prompts, whose tokens attend to each other.
pub enum Attention {
    /// Stage 4's library.
    Course(stage4::Attention),
    /// A learner's kernel.
    Own(OwnFused),
}

impl Attention {
    /// Computes as [`stage4::Attention::forward`] does.
    ///
    /// # Errors
    ///
    /// Those of [`stage4::Attention::forward`].
    pub fn forward(
        &self,
        stream: &Arc<CudaStream>,
        inputs: stage4::Inputs<'_>,
        mut outputs: stage4::Outputs<'_>,
        shape: &stage4::Shape,
    ) -> Result<(), stage4::Error> {
        let own = match self {
            Self::Course(course) => return course.forward(stream, inputs, outputs, shape),
            Self::Own(own) => own,
        };
        let sizes = shape.sizes;
        let head_dims = sizes.head_dim..=MAX_HEAD_DIM;
        let mut head_dims = head_dims.filter(|&head_dim| own.has_head_dim(head_dim));
        // Columns of zeros change no score. Without a larger head dimension it refuses this one.
        let head_dim = head_dims.next().unwrap_or(sizes.head_dim);
        let wide = stage4::Shape {
            scale: Some(shape.scale()),
            causal: shape.causal,
            window: shape.window,
            dropout: shape.dropout,
            ..stage4::Shape::packed(Sizes { head_dim, ..sizes })
        };
        let rows = Rows {
            checks: Checks::new("flash", stream.context()),
            stream,
            columns: head_dim,
        };
        let of_q = [sizes.batch, sizes.heads, sizes.nq, sizes.head_dim];
        let of_k = [sizes.batch, sizes.kv_heads, sizes.nk, sizes.head_dim];
        let q = rows.packed::<stage4::Error>("q", &inputs.q, shape.q, of_q)?;
        let k = rows.packed::<stage4::Error>("k", &inputs.k, shape.k, of_k)?;
        let v = rows.packed::<stage4::Error>("v", &inputs.v, shape.v, of_k)?;
        let mut o = stream.alloc_zeros(q.len())?;
        let inputs = stage4::Inputs {
            q: q.as_view(),
            k: k.as_view(),
            v: v.as_view(),
            ..inputs
        };
        let own_outputs = stage4::Outputs {
            o: o.as_view_mut(),
            lse: outputs.lse,
        };
        own.forward(inputs, own_outputs, &wide)?;
        rows.unpack("o", &o, &mut outputs.o, shape.o, of_q)
    }
}

impl fmt::Debug for Attention {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Attention")
    }
}

/// Attention of new tokens on the cache.
pub enum Decode {
    /// Stage 5's library.
    Course(stage5::Decode),
    /// A learner's kernels.
    Own(OwnDecoding),
}

impl Decode {
    /// Appends as [`stage5::Decode::update_cache`] does.
    ///
    /// # Errors
    ///
    /// Those of [`stage5::Decode::update_cache`].
    pub fn update_cache(
        &self,
        stream: &Arc<CudaStream>,
        cache: CacheViewMut<'_>,
        counts: PerSequence<'_>,
        new: NewTokens<'_>,
    ) -> Result<(), stage5::Error> {
        let own = match self {
            Self::Course(course) => return course.update_cache(stream, cache, counts, new),
            Self::Own(own) => own,
        };
        let head_dim = cache.shape.head_dim;
        let rows = Rows {
            checks: Checks::new("update_cache", stream.context()),
            stream,
            columns: head_dim,
        };
        let sizes = [cache.shape.batch, cache.shape.kv_heads, new.n, head_dim];
        let k = rows.packed::<stage5::Error>("k", &new.k, new.k_strides, sizes)?;
        let v = rows.packed::<stage5::Error>("v", &new.v, new.v_strides, sizes)?;
        let packed = Strides::packed(sizes[1], sizes[2], head_dim);
        let new = NewTokens {
            k: k.as_view(),
            v: v.as_view(),
            n: new.n,
            k_strides: packed,
            v_strides: packed,
        };
        own.update_cache(cache, counts, new)
    }

    /// Computes as [`stage5::Decode::forward`] does.
    ///
    /// # Errors
    ///
    /// Those of [`stage5::Decode::forward`].
    pub fn forward(
        &self,
        stream: &Arc<CudaStream>,
        inputs: stage5::Inputs<'_>,
        mut outputs: stage5::Outputs<'_>,
        shape: &stage5::Shape,
    ) -> Result<(), stage5::Error> {
        let own = match self {
            Self::Course(course) => return course.forward(stream, inputs, outputs, shape),
            Self::Own(own) => own,
        };
        let head_dim = inputs.cache.shape.head_dim;
        let rows = Rows {
            checks: Checks::new("decode", stream.context()),
            stream,
            columns: head_dim,
        };
        let sizes = [inputs.cache.shape.batch, shape.heads, shape.nq, head_dim];
        let q = rows.packed::<stage5::Error>("q", &inputs.q, shape.q, sizes)?;
        let mut o = stream.alloc_zeros(q.len())?;
        let packed = stage5::Shape {
            scale: shape.scale,
            window: shape.window,
            ..stage5::Shape::packed(shape.heads, shape.nq, head_dim)
        };
        let own_inputs = stage5::Inputs {
            q: q.as_view(),
            ..inputs
        };
        let own_outputs = stage5::Outputs {
            o: o.as_view_mut(),
            lse: outputs.lse,
        };
        own.decode(own_inputs, own_outputs, &packed)?;
        rows.unpack("o", &o, &mut outputs.o, shape.o, sizes)
    }
}

impl fmt::Debug for Decode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Decode")
    }
}

/// Copies of `[B, H, N, D]` tensors, row by row, to and from packed ones of `columns` ≥ D.
struct Rows<'a> {
    checks: Checks,
    stream: &'a Arc<CudaStream>,
    columns: usize,
}

impl Rows<'_> {
    /// A packed copy. The columns beyond D are 0.
    fn packed<E: From<ArgumentError> + From<DriverError>>(
        &self,
        argument: &'static str,
        tensor: &CudaView<'_, f32>,
        strides: Strides,
        sizes: [usize; 4],
    ) -> Result<CudaSlice<f32>, E> {
        let [batch, heads, rows, head_dim] = sizes;
        let length = batch * heads * rows * self.columns;
        let mut copy = self.stream.alloc_zeros(length.max(1))?;
        for (row, from) in starts(strides, sizes).enumerate() {
            let source = tensor.try_slice(from..from + head_dim);
            let source = source.ok_or_else(|| self.too_short(argument, tensor.len()))?;
            let to = row * self.columns;
            let mut target = copy.slice_mut(to..to + head_dim);
            self.stream.memcpy_dtod(&source, &mut target)?;
        }
        Ok(copy)
    }

    /// Copies the first D columns of a packed tensor back.
    fn unpack<E: From<ArgumentError> + From<DriverError>>(
        &self,
        argument: &'static str,
        copy: &CudaSlice<f32>,
        tensor: &mut CudaViewMut<'_, f32>,
        strides: Strides,
        sizes: [usize; 4],
    ) -> Result<(), E> {
        let (head_dim, length) = (sizes[3], tensor.len());
        for (row, to) in starts(strides, sizes).enumerate() {
            let from = row * self.columns;
            let target = tensor.try_slice_mut(to..to + head_dim);
            let mut target = target.ok_or_else(|| self.too_short(argument, length))?;
            let source = copy.slice(from..from + head_dim);
            self.stream.memcpy_dtod(&source, &mut target)?;
        }
        Ok(())
    }

    fn too_short(&self, argument: &'static str, length: usize) -> ArgumentError {
        let actual = format!("{length} elements");
        self.checks.error(argument, "all of its rows", actual)
    }
}

/// The first element of each row, in the order of a packed tensor.
fn starts(strides: Strides, [batch, heads, rows, _]: [usize; 4]) -> impl Iterator<Item = usize> {
    let row = move |b: usize, h: usize| {
        (0..rows).map(move |i| b * strides.batch + h * strides.head + i * strides.row)
    };
    (0..batch).flat_map(move |b| (0..heads).flat_map(move |h| row(b, h)))
}
