use std::error;
use std::sync::Arc;

use cudarc::driver::CudaStream;

use crate::{
    CacheShape, CacheViewMut, Decode, Error, Inputs, Mode, NewTokens, Outputs, PerSequence, Shape,
};

/// An implementation of decoding in device memory. The suite of `conformance` judges anything that
/// has it: this crate's [`Stage5`], and an exercise's.
pub trait Decoding {
    /// Why arguments were refused, or a launch failed.
    type Error: error::Error + 'static;

    /// Does as [`Decode::update_cache`]. Launches, and does not wait. Checks its arguments first,
    /// and launches nothing if one does not fit.
    ///
    /// # Errors
    ///
    /// Those of [`Decode::update_cache`].
    fn update_cache(
        &self,
        cache: CacheViewMut<'_>,
        counts: PerSequence<'_>,
        new: NewTokens<'_>,
    ) -> Result<(), Self::Error>;

    /// Computes as [`Decode::forward`]. Launches, and does not wait. Checks its arguments first,
    /// and launches nothing if one does not fit.
    ///
    /// # Errors
    ///
    /// Those of [`Decode::forward`].
    fn decode(
        &self,
        inputs: Inputs<'_>,
        outputs: Outputs<'_>,
        shape: &Shape,
    ) -> Result<(), Self::Error>;

    /// True if it can have a cache of this shape, contiguous or in pages.
    fn has_cache(&self, shape: &CacheShape, paged: bool) -> bool;

    /// The argument that an error names, such as `k`; `heads` if those of two
    /// arguments do not divide.
    fn argument_of(error: &Self::Error) -> Option<&str>
    where
        Self: Sized;
}

/// This stage's own implementation, on one stream.
#[derive(Debug)]
pub struct Stage5 {
    /// The stream.
    pub stream: Arc<CudaStream>,
    /// The kernels.
    pub decode: Decode,
}

impl Decoding for Stage5 {
    type Error = Error;

    fn update_cache(
        &self,
        cache: CacheViewMut<'_>,
        counts: PerSequence<'_>,
        new: NewTokens<'_>,
    ) -> Result<(), Error> {
        self.decode.update_cache(&self.stream, cache, counts, new)
    }

    fn decode(&self, inputs: Inputs<'_>, outputs: Outputs<'_>, shape: &Shape) -> Result<(), Error> {
        self.decode.forward(&self.stream, inputs, outputs, shape)
    }

    fn has_cache(&self, shape: &CacheShape, paged: bool) -> bool {
        match self.decode.mode() {
            Mode::Library => true,
            Mode::Rung(rung) => rung.has_cache(shape, paged),
        }
    }

    fn argument_of(error: &Error) -> Option<&str> {
        error.argument()
    }
}
