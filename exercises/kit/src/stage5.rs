//! The calls of stage 5: updates of a KV cache, and attention on it.

use std::sync::Arc;

use cudarc::driver::CudaStream;
use serde::{Deserialize, Serialize};
use stage5_decode::{
    Cache, CacheShape, Decoding, Dtype, Error, Inputs, NewTokens, Outputs, PerSequence, Shape,
};

use crate::cuda::{self, Device, Reading, array_of, of_array};
use crate::frame::{Broken, Tensors};
use crate::message::Run;
use crate::serving::Answer;

/// A call of [`Decoding`]. The cache is contiguous. Tensors are the whole memory behind a view, packed or not.
#[derive(Serialize, Deserialize, Debug, Clone)]
pub enum Call {
    /// [`Decoding::update_cache`]. Takes the keys and values of the cache, its lengths, the counts, and the new keys and values;
    /// gives the keys and values of the cache.
    UpdateCache {
        /// The cache.
        cache: CacheFields,
        /// How many rows of each sequence are tokens.
        counts: Vec<usize>,
        /// Rows of each sequence.
        n: usize,
        /// Of the new keys.
        k_strides: [usize; 3],
        /// Of the new values.
        v_strides: [usize; 3],
    },
    /// [`Decoding::decode`]. Takes q, the keys and values of the cache, its lengths, o, and lse if there is one; gives o and
    /// lse.
    Decode {
        /// Whether by the kernels of the bonus task.
        splitting: bool,
        /// The cache.
        cache: CacheFields,
        /// Sizes, strides and options.
        shape: Fields,
        /// Whether there is an lse.
        lse: bool,
    },
}

/// [`Cache`], without its tensors.
#[derive(Serialize, Deserialize, Debug, Clone)]
pub struct CacheFields {
    /// batch, kv_heads, max_seq, head_dim.
    sizes: [usize; 4],
    dtype: String,
    lengths: Vec<usize>,
    /// Bytes before the first key and the first value: their addresses modulo 16.
    offsets: [usize; 2],
}

impl CacheFields {
    /// A cache of this shape and with these lengths, whose keys and values lie so many bytes behind a multiple of 16.
    pub fn new(shape: &CacheShape, lengths: &[usize], offsets: [usize; 2]) -> Self {
        Self {
            sizes: [shape.batch, shape.kv_heads, shape.max_seq, shape.head_dim],
            dtype: shape.dtype.name().to_owned(),
            lengths: lengths.to_vec(),
            offsets,
        }
    }

    fn shape(&self) -> CacheShape {
        let [batch, kv_heads, max_seq, head_dim] = self.sizes;
        let all = [Dtype::F32, Dtype::F16, Dtype::Bf16].into_iter();
        let mut named = all.filter(|dtype| dtype.name() == self.dtype);
        CacheShape {
            batch,
            kv_heads,
            max_seq,
            head_dim,
            dtype: named.next().unwrap_or(Dtype::F32),
        }
    }
}

/// [`Shape`], as a message has it.
#[derive(Serialize, Deserialize, Debug, Clone)]
pub struct Fields {
    heads: usize,
    nq: usize,
    /// The bits: JSON has no NaN.
    scale: Option<u32>,
    window: Option<usize>,
    q: [usize; 3],
    o: [usize; 3],
}

impl Fields {
    /// The fields of a shape.
    pub fn of(shape: &Shape) -> Self {
        Self {
            heads: shape.heads,
            nq: shape.nq,
            scale: shape.scale.map(f32::to_bits),
            window: shape.window,
            q: array_of(shape.q),
            o: array_of(shape.o),
        }
    }

    fn shape(&self) -> Shape {
        Shape {
            heads: self.heads,
            nq: self.nq,
            scale: self.scale.map(f32::from_bits),
            window: self.window,
            q: of_array(self.q),
            o: of_array(self.o),
        }
    }
}

/// Answers calls of the stage's interface. `plain` and `splitting` get the stream, and make the implementation of the tasks and
/// that of the bonus task.
pub fn serve<D: Decoding<Error = Error> + 'static>(
    plain: fn(&Arc<CudaStream>) -> D,
    splitting: fn(&Arc<CudaStream>) -> D,
) -> ! {
    serve_any(
        &|stream| [Box::new(plain(stream)), Box::new(splitting(stream))],
        D::argument_of,
    )
}

/// That of the tasks, and that of the bonus task.
type Own = [Box<dyn Decoding<Error = Error>>; 2];

fn serve_any(make: &dyn Fn(&Arc<CudaStream>) -> Own, argument_of: fn(&Error) -> Option<&str>) -> ! {
    let reading = Reading {
        argument_of,
        of_loading: |error| match error {
            Error::Load(error) => Some(error),
            _ => None,
        },
    };
    cuda::serve(
        |device| Ok(make(device.stream())),
        |device, own: &Own, call, tensors, run| answer(device, own, &reading, call, tensors, run),
    )
}

fn answer(
    device: &Device,
    [plain, with_splits]: &Own,
    reading: &Reading<Error>,
    call: Call,
    tensors: &mut Tensors,
    run: Run,
) -> Result<Answer, Broken> {
    match call {
        Call::UpdateCache {
            cache,
            counts,
            n,
            k_strides,
            v_strides,
        } => {
            let mut of_cache = [device.take::<u8>(tensors)?, device.take::<u8>(tensors)?];
            let (lengths, of_counts) = (device.take(tensors)?, device.take(tensors)?);
            let [k, v] = [device.take(tensors)?, device.take(tensors)?];
            let (outcome, launches) = device.call(run, reading, || {
                let [k_cache, v_cache] = &mut of_cache;
                let view = Cache {
                    shape: cache.shape(),
                    k: k_cache.view_mut_from(cache.offsets[0]),
                    v: v_cache.view_mut_from(cache.offsets[1]),
                    pages: None,
                    lengths: PerSequence {
                        host: &cache.lengths,
                        device: lengths.view(),
                    },
                };
                let counts = PerSequence {
                    host: &counts,
                    device: of_counts.view(),
                };
                let new = NewTokens {
                    k: k.view(),
                    v: v.view(),
                    n,
                    k_strides: of_array(k_strides),
                    v_strides: of_array(v_strides),
                };
                plain.update_cache(view, counts, new)
            });
            let tensors = of_cache.iter().map(|bytes| device.give::<u8>(bytes));
            Ok(Answer {
                outcome,
                tensors: tensors.collect::<Result<_, _>>()?,
                launches,
                device_bytes: 0,
            })
        }
        Call::Decode {
            splitting,
            cache,
            shape,
            lse,
        } => {
            let own = if splitting { with_splits } else { plain };
            let q = device.take(tensors)?;
            let [k, v] = [device.take::<u8>(tensors)?, device.take::<u8>(tensors)?];
            let lengths = device.take(tensors)?;
            let mut o = device.take(tensors)?;
            let mut lse = lse.then(|| device.take(tensors)).transpose()?;
            let (outcome, launches) = device.call(run, reading, || {
                let view = Cache {
                    shape: cache.shape(),
                    k: k.view_from(cache.offsets[0]),
                    v: v.view_from(cache.offsets[1]),
                    pages: None,
                    lengths: PerSequence {
                        host: &cache.lengths,
                        device: lengths.view(),
                    },
                };
                let inputs = Inputs {
                    q: q.view(),
                    cache: view,
                };
                let outputs = Outputs {
                    o: o.view_mut(),
                    lse: lse.as_mut().map(|lse| lse.view_mut()),
                };
                own.decode(inputs, outputs, &shape.shape())
            });
            let tensors = [Some(&o), lse.as_ref()].into_iter().flatten();
            let tensors = tensors.map(|output| device.give::<f32>(output));
            Ok(Answer {
                outcome,
                tensors: tensors.collect::<Result<_, _>>()?,
                launches,
                device_bytes: 0,
            })
        }
    }
}
