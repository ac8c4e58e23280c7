//! Stage 5's interface.

use cudarc::driver::DevicePtr;
use exercise_kit::cuda::array_of;
use exercise_kit::frame::Tensor;
use exercise_kit::stage5::{CacheFields, Call, Fields};
use stage5_decode::{
    CacheShape, CacheViewMut, Decoding, Dtype, Inputs, NewTokens, Outputs, PerSequence, Shape,
};

use super::{Error, Remote, done};

/// The learner's implementation of stage 5's tasks, or of the bonus task.
#[derive(Debug)]
pub struct Decoder<'a> {
    /// The program.
    pub remote: &'a Remote,
    /// Whether `decode` is that of the bonus task.
    pub splitting: bool,
}

/// Bytes before the first element: the address modulo 16. The learner's copy lies as the caller's does.
fn offset(remote: &Remote, bytes: &impl DevicePtr<u8>) -> usize {
    match &remote.stream {
        Some(stream) => (bytes.device_ptr(stream).0 % 16) as usize,
        None => 0,
    }
}

/// These bytes behind `offset` others.
fn behind(offset: usize, bytes: &Tensor) -> Result<Tensor, Error> {
    let mut all = vec![0u8; offset];
    all.extend(bytes.values::<u8>()?);
    Ok(Tensor::of(&all))
}

impl Decoding for Decoder<'_> {
    type Error = Error;

    fn update_cache(
        &self,
        mut cache: CacheViewMut<'_>,
        counts: PerSequence<'_>,
        new: NewTokens<'_>,
    ) -> Result<(), Error> {
        let remote = self.remote;
        let offsets = [offset(remote, &cache.k), offset(remote, &cache.v)];
        let tensors = [
            behind(offsets[0], &remote.read(&cache.k.as_view())?)?,
            behind(offsets[1], &remote.read(&cache.v.as_view())?)?,
            remote.read(&cache.lengths.device)?,
            remote.read(&counts.device)?,
            remote.read(&new.k)?,
            remote.read(&new.v)?,
        ];
        let call = Call::UpdateCache {
            cache: CacheFields::new(&cache.shape, cache.lengths.host, offsets),
            counts: counts.host.to_vec(),
            n: new.n,
            k_strides: array_of(new.k_strides),
            v_strides: array_of(new.v_strides),
        };
        let (outcome, mut outputs) = remote.call(call, &tensors)?;
        for (view, offset) in [&mut cache.k, &mut cache.v].into_iter().zip(offsets) {
            match outputs.values::<u8>() {
                Ok(bytes) if bytes.len() == offset + view.len() => {
                    remote.store(&bytes[offset..], view)?;
                }
                // Without outputs the outcome says more.
                _ => break,
            }
        }
        done(outcome)
    }

    fn decode(&self, inputs: Inputs<'_>, outputs: Outputs<'_>, shape: &Shape) -> Result<(), Error> {
        let remote = self.remote;
        let Inputs { q, cache } = inputs;
        let Outputs { mut o, mut lse } = outputs;
        let offsets = [offset(remote, &cache.k), offset(remote, &cache.v)];
        let mut tensors = vec![
            remote.read(&q)?,
            behind(offsets[0], &remote.read(&cache.k)?)?,
            behind(offsets[1], &remote.read(&cache.v)?)?,
            remote.read(&cache.lengths.device)?,
            remote.read(&o.as_view())?,
        ];
        if let Some(lse) = &lse {
            tensors.push(remote.read(&lse.as_view())?);
        }
        let call = Call::Decode {
            splitting: self.splitting,
            cache: CacheFields::new(&cache.shape, cache.lengths.host, offsets),
            shape: Fields::of(shape),
            lse: lse.is_some(),
        };
        remote.into_views(call, &tensors, &mut o, lse.as_mut())
    }

    /// Whether the task asks for it: f32, contiguous.
    fn has_cache(&self, shape: &CacheShape, paged: bool) -> bool {
        shape.dtype == Dtype::F32 && !paged
    }

    fn argument_of(error: &Error) -> Option<&str> {
        error.argument()
    }
}
