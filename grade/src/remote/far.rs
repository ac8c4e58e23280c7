//! Stage 5's calls on the last sequence of a batch, in caches of more than 2³² elements.
//!
//! The sequences before it have no tokens, so that no memory has to hold their part of the cache.

use conformance::problems::decode;
use exercise_kit::frame::{Tensor, Tensors};
use exercise_kit::message::Outcome;
use exercise_kit::stage5::{CacheTensors, Call, Lengths};
use gpu::arguments::Strides;
use ndarray::{Array, Array3, Array4, Dimension};
use stage1_reference::Output;
use stage5_decode::{CacheShape, Dtype, Shape};

use super::{Error, Remote};
use crate::cause::{Cached, Update};

/// Sequences before the last. With [`decode::far`], and with updates of as large a cache, the last begins behind 2³² elements.
pub const OTHERS: usize = 4096;

impl Remote {
    /// Attention of the problem's one sequence.
    ///
    /// # Errors
    ///
    /// [`Error::Far`] and those of [`Remote::call`].
    pub fn decode_far(&self, splitting: bool, problem: &decode::Problem) -> Result<Output, Error> {
        let (_, heads, nq, head_dim) = problem.q.dim();
        let call = Call::Decode {
            splitting,
            q: last(&problem.q),
            cache: cache([&problem.k, &problem.v], &problem.lengths),
            o: last(&problem.q.mapv(|_| f32::NAN)),
            lse: Some(last(&Array3::from_elem((1, heads, nq), f32::NAN))),
            shape: Shape {
                scale: problem.scale,
                ..Shape::packed(heads, nq, head_dim)
            },
        };
        let mut outputs = self.far(call)?;
        let mut output = Output {
            o: Array4::zeros(problem.q.dim()),
            lse: Array3::zeros((1, heads, nq)),
        };
        take_last(&mut outputs, &mut output.o)?;
        take_last(&mut outputs, &mut output.lse)?;
        Ok(output)
    }

    /// The cache of the update's one sequence, afterwards.
    ///
    /// # Errors
    ///
    /// Those of [`Remote::decode_far`].
    pub fn update_far(&self, update: &Update) -> Result<Cached<f32>, Error> {
        let [k, v] = &update.rows;
        let (_, kv_heads, n, head_dim) = k.dim();
        let [before_k, before_v] = &update.before;
        let strides = Strides::packed(kv_heads, n, head_dim);
        let mut outputs = self.far(Call::UpdateCache {
            cache: cache([before_k, before_v], &update.lengths),
            counts: lengths(&update.counts),
            k: last(k),
            v: last(v),
            n,
            k_strides: strides,
            v_strides: strides,
        })?;
        let mut after = update.before.clone();
        for tensor in &mut after {
            let bytes: Vec<u8> = outputs.values()?;
            let (words, _) = bytes.as_chunks::<4>();
            for (x, &word) in tensor.iter_mut().zip(words) {
                *x = f32::from_ne_bytes(word);
            }
        }
        Ok(after)
    }

    fn far(&self, call: Call) -> Result<Tensors, Error> {
        match self.call(call)? {
            (Outcome::Done, outputs) => Ok(outputs),
            (outcome, _) => Err(Error::Far(outcome)),
        }
    }
}

/// A cache `[1, H_kv, max_seq, D]` behind those of the other sequences.
fn cache([k, v]: [&Array4<f32>; 2], of_tokens: &[usize]) -> CacheTensors {
    let (batch, kv_heads, max_seq, head_dim) = k.dim();
    let bytes = |x: &Array4<f32>| {
        let bytes = x.iter().flat_map(|x| x.to_ne_bytes());
        Tensor::vector(&bytes.collect::<Vec<u8>>())
    };
    CacheTensors {
        shape: CacheShape {
            batch: OTHERS + batch,
            kv_heads,
            max_seq,
            head_dim,
            dtype: Dtype::F32,
        },
        k: bytes(k),
        v: bytes(v),
        skipped: OTHERS * k.len() * size_of::<f32>(),
        lengths: lengths(of_tokens),
    }
}

/// Numbers of tokens, of which the other sequences have none.
fn lengths(of_tokens: &[usize]) -> Lengths {
    let host = [&[0; OTHERS], of_tokens].concat();
    let device: Vec<i32> = host.iter().map(|&length| length as i32).collect();
    Lengths {
        device: Tensor::vector(&device),
        host,
    }
}

/// The tensor of the last sequence, `[1, …]`, behind zeros for the others.
fn last<D: Dimension>(x: &Array<f32, D>) -> Tensor {
    let mut all = vec![0.0; OTHERS * x.len()];
    all.extend(x);
    Tensor::vector(&all)
}

/// The last elements of the next output.
fn take_last<D: Dimension>(outputs: &mut Tensors, into: &mut Array<f32, D>) -> Result<(), Error> {
    let values: Vec<f32> = outputs.values()?;
    let others = values.len().saturating_sub(into.len());
    for (x, &value) in into.iter_mut().zip(&values[others..]) {
        *x = value;
    }
    Ok(())
}
