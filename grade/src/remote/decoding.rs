//! Stage 5's interface.

use cudarc::driver::{CudaView, DevicePtr};
use exercise_kit::frame::Tensor;
use exercise_kit::stage5::{CacheTensors, Call, Lengths};
use stage5_decode::{
    CacheShape, CacheViewMut, Decoding, Dtype, Inputs, NewTokens, Outputs, PerSequence, Shape,
};

use super::{Error, Remote, done};

/// The learner's implementation of stage 5's tasks, or of the bonus task.
#[derive(Debug)]
pub struct Decoder<'a> {
    /// The program.
    pub remote: &'a Remote,
    /// True if `decode` is that of the bonus task.
    pub splitting: bool,
}

impl Decoder<'_> {
    /// A cache in this process's device memory. The learner's copy lies as the caller's does.
    fn cache(
        &self,
        [k, v]: [CudaView<'_, u8>; 2],
        shape: CacheShape,
        lengths: &PerSequence<'_>,
    ) -> Result<CacheTensors, Error> {
        let offsets = [self.offset(&k), self.offset(&v)];
        Ok(CacheTensors {
            shape,
            k: self.behind(offsets[0], &k)?,
            v: self.behind(offsets[1], &v)?,
            offsets,
            skipped: 0,
            lengths: self.lengths(lengths)?,
        })
    }

    /// Bytes before the first element: the address modulo 16.
    fn offset(&self, bytes: &CudaView<'_, u8>) -> usize {
        match &self.remote.stream {
            Some(stream) => (bytes.device_ptr(stream).0 % 16) as usize,
            None => 0,
        }
    }

    /// These bytes behind `offset` others.
    fn behind(&self, offset: usize, bytes: &CudaView<'_, u8>) -> Result<Tensor, Error> {
        let mut all = vec![0u8; offset];
        all.extend(self.remote.read(bytes)?.values::<u8>()?);
        Ok(Tensor::vector(&all))
    }

    fn lengths(&self, lengths: &PerSequence<'_>) -> Result<Lengths, Error> {
        Ok(Lengths {
            host: lengths.host.to_vec(),
            device: self.remote.read(&lengths.device)?,
        })
    }
}

impl Decoding for Decoder<'_> {
    type Error = Error;

    fn update_cache(
        &self,
        mut cache: CacheViewMut<'_>,
        counts: PerSequence<'_>,
        new: NewTokens<'_>,
    ) -> Result<(), Error> {
        let views = [cache.k.as_view(), cache.v.as_view()];
        let tensors = self.cache(views, cache.shape, &cache.lengths)?;
        let offsets = tensors.offsets;
        let (outcome, mut outputs) = self.remote.call(Call::UpdateCache {
            cache: tensors,
            counts: self.lengths(&counts)?,
            k: self.remote.read(&new.k)?,
            v: self.remote.read(&new.v)?,
            n: new.n,
            k_strides: new.k_strides,
            v_strides: new.v_strides,
        })?;
        for (view, offset) in [&mut cache.k, &mut cache.v].into_iter().zip(offsets) {
            match outputs.values::<u8>() {
                Ok(bytes) if bytes.len() == offset + view.len() => {
                    self.remote.store(&bytes[offset..], view)?;
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
        let call = Call::Decode {
            splitting: self.splitting,
            q: remote.read(&q)?,
            cache: self.cache([cache.k, cache.v], cache.shape, &cache.lengths)?,
            o: remote.read(&o.as_view())?,
            lse: remote.read_some(&lse)?,
            shape: *shape,
        };
        remote.into_views(call, &mut o, lse.as_mut())
    }

    /// True if the task asks for it: f32, contiguous.
    fn has_cache(&self, shape: &CacheShape, paged: bool) -> bool {
        shape.dtype == Dtype::F32 && !paged
    }

    fn argument_of(error: &Error) -> Option<&str> {
        error.argument()
    }
}
