//! Stage 5's interface.

use cudarc::driver::CudaView;
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
    /// A cache in this process's device memory.
    fn cache(
        &self,
        [k, v]: [CudaView<'_, u8>; 2],
        shape: CacheShape,
        lengths: &PerSequence<'_>,
    ) -> Result<CacheTensors, Error> {
        Ok(CacheTensors {
            shape,
            k: self.remote.read(&k)?,
            v: self.remote.read(&v)?,
            skipped: 0,
            lengths: self.lengths(lengths)?,
        })
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
        let (outcome, mut outputs) = self.remote.call(Call::UpdateCache {
            cache: self.cache(views, cache.shape, &cache.lengths)?,
            counts: self.lengths(&counts)?,
            k: self.remote.read(&new.k)?,
            v: self.remote.read(&new.v)?,
            n: new.n,
            k_strides: new.k_strides,
            v_strides: new.v_strides,
        })?;
        for view in [&mut cache.k, &mut cache.v] {
            match outputs.values::<u8>() {
                Ok(bytes) if bytes.len() == view.len() => self.remote.store(&bytes, view)?,
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
