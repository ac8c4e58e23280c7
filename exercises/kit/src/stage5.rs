//! The calls of stage 5: updates of a KV cache, and attention on it.

use std::sync::Arc;

use cudarc::driver::CudaStream;
use gpu::arguments::Strides;
use serde::{Deserialize, Serialize};
use stage5_decode::{
    Cache, CacheShape, Decoding, Error, Inputs, NewTokens, Outputs, PerSequence, Shape,
};

use crate::cuda::{self, Buffer, Called, Device, Reading};
use crate::frame::{Broken, Tensor};
use crate::message::Run;
use crate::serving::Answer;

/// A call of [`Decoding`]. The cache is contiguous. Tensors are the whole memory behind a view,
/// packed or not. A call gives the tensors that it writes.
#[derive(Serialize, Deserialize, Debug, Clone)]
#[expect(missing_docs, reason = "the fields are the arguments of the methods")]
pub enum Call {
    /// [`Decoding::update_cache`].
    UpdateCache {
        cache: CacheTensors,
        counts: Lengths,
        k: Tensor,
        v: Tensor,
        n: usize,
        k_strides: Strides,
        v_strides: Strides,
    },
    /// [`Decoding::decode`].
    Decode {
        /// True for the kernels of the bonus task.
        splitting: bool,
        q: Tensor,
        cache: CacheTensors,
        o: Tensor,
        lse: Option<Tensor>,
        shape: Shape,
    },
}

/// [`Cache`] in a message.
#[derive(Serialize, Deserialize, Debug, Clone)]
pub struct CacheTensors {
    /// Sizes and type.
    pub shape: CacheShape,
    /// Bytes of the keys.
    pub k: Tensor,
    /// Bytes of the values.
    pub v: Tensor,
    /// Bytes of the cache before these, of sequences without tokens: no memory holds them.
    pub skipped: usize,
    /// Tokens of each sequence.
    pub lengths: Lengths,
}

/// [`PerSequence`] in a message.
#[derive(Serialize, Deserialize, Debug, Clone)]
pub struct Lengths {
    /// In host memory.
    pub host: Vec<usize>,
    /// In device memory.
    pub device: Tensor,
}

/// [`CacheTensors`] in device memory.
struct CacheBuffers {
    k: Buffer<u8>,
    v: Buffer<u8>,
    lengths: Buffer<i32>,
}

impl CacheBuffers {
    fn new(device: &Device, cache: &CacheTensors) -> Result<Self, Broken> {
        Ok(Self {
            k: device.upload(&cache.k)?,
            v: device.upload(&cache.v)?,
            lengths: device.upload(&cache.lengths.device)?,
        })
    }

    /// The call, as one that failed if it has changed the lengths.
    fn unchanged_lengths(
        &self,
        device: &Device,
        called: Called,
        cache: &CacheTensors,
    ) -> Result<Called, Broken> {
        device.unchanged(called, "lengths", &self.lengths, &cache.lengths.device)
    }
}

/// Answers calls of the stage's interface. `plain` and `splitting` get the stream, and make the
/// implementation of the tasks and that of the bonus task.
pub fn serve<D: Decoding<Error = Error> + 'static>(
    plain: fn(&Arc<CudaStream>) -> D,
    splitting: fn(&Arc<CudaStream>) -> D,
) -> ! {
    serve_any(
        &|stream| [Box::new(plain(stream)), Box::new(splitting(stream))],
        D::argument_of,
    )
}

/// The implementations of the tasks and of the bonus task.
type Own = [Box<dyn Decoding<Error = Error>>; 2];

fn serve_any(make: &dyn Fn(&Arc<CudaStream>) -> Own, argument: fn(&Error) -> Option<&str>) -> ! {
    let reading = Reading {
        argument,
        loading: |error| match error {
            Error::Load(error) => Some(error),
            _ => None,
        },
    };
    cuda::serve(
        |device| Ok(make(device.stream())),
        |device, own: &Own, call, run| answer(device, own, &reading, call, run),
    )
}

fn answer(
    device: &Device,
    [plain, with_splits]: &Own,
    reading: &Reading<Error>,
    call: Call,
    run: Run,
) -> Result<Answer, Broken> {
    match &call {
        Call::UpdateCache {
            cache,
            counts,
            k,
            v,
            n,
            k_strides,
            v_strides,
        } => {
            let mut buffers = CacheBuffers::new(device, cache)?;
            let device_counts = device.upload(&counts.device)?;
            let (k_rows, v_rows) = (device.upload(k)?, device.upload(v)?);
            let called = device.call(run, reading, || {
                let mut k_cache = buffers.k.behind(cache.skipped);
                let mut v_cache = buffers.v.behind(cache.skipped);
                let view = Cache {
                    shape: cache.shape,
                    k: k_cache.view_mut(),
                    v: v_cache.view_mut(),
                    pages: None,
                    lengths: PerSequence {
                        host: &cache.lengths.host,
                        device: buffers.lengths.view(),
                    },
                };
                let counts = PerSequence {
                    host: &counts.host,
                    device: device_counts.view(),
                };
                let new = NewTokens {
                    k: k_rows.view(),
                    v: v_rows.view(),
                    n: *n,
                    k_strides: *k_strides,
                    v_strides: *v_strides,
                };
                plain.update_cache(view, counts, new)
            });
            let called = buffers.unchanged_lengths(device, called, cache)?;
            let called = device.unchanged(called, "counts", &device_counts, &counts.device)?;
            let called = device.unchanged(called, "k", &k_rows, k)?;
            let called = device.unchanged(called, "v", &v_rows, v)?;
            device.answer(called, &[Some(&buffers.k), Some(&buffers.v)])
        }
        Call::Decode {
            splitting,
            q,
            cache,
            o,
            lse,
            shape,
        } => {
            let own = if *splitting { with_splits } else { plain };
            let queries = device.upload(q)?;
            let mut buffers = CacheBuffers::new(device, cache)?;
            let (mut o, mut lse) = (device.upload(o)?, device.upload_some(lse)?);
            let called = device.call(run, reading, || {
                let k_cache = buffers.k.behind(cache.skipped);
                let v_cache = buffers.v.behind(cache.skipped);
                let view = Cache {
                    shape: cache.shape,
                    k: k_cache.view(),
                    v: v_cache.view(),
                    pages: None,
                    lengths: PerSequence {
                        host: &cache.lengths.host,
                        device: buffers.lengths.view(),
                    },
                };
                let inputs = Inputs {
                    q: queries.view(),
                    cache: view,
                };
                let outputs = Outputs {
                    o: o.view_mut(),
                    lse: lse.as_mut().map(Buffer::view_mut),
                };
                own.decode(inputs, outputs, shape)
            });
            let called = buffers.unchanged_lengths(device, called, cache)?;
            let called = device.unchanged(called, "q", &queries, q)?;
            let called = device.unchanged(called, "k_cache", &buffers.k, &cache.k)?;
            let called = device.unchanged(called, "v_cache", &buffers.v, &cache.v)?;
            device.answer::<f32>(called, &[Some(&o), lse.as_ref()])
        }
    }
}
