use ndarray::ArrayView4;
use stage1_reference::Attend;

use crate::{
    Error, Gradients, Options, Output, Tiles, attention, attention_backward_with_tiles,
    attention_with_tiles,
};

/// An implementation of the backward pass of attention; the forward pass is stage 1's
/// [`Attend`]. The suite of `conformance` judges anything that has it: this crate's
/// [`Stage3`], and an exercise's.
pub trait AttendBackward: Attend {
    /// Computes what [`attention_backward()`](crate::attention_backward()) does, with its errors.
    fn attend_backward(
        &self,
        q: ArrayView4<'_, f32>,
        k: ArrayView4<'_, f32>,
        v: ArrayView4<'_, f32>,
        options: &Options,
        output: &Output,
        d_o: ArrayView4<'_, f32>,
    ) -> Result<Gradients, Self::Error>;
}

/// This stage's own implementation.
#[derive(Debug, Clone, Copy, Default)]
pub struct Stage3 {
    /// The tiles of both passes; if `None`, each has its own choice.
    pub tiles: Option<Tiles>,
}

impl Attend for Stage3 {
    type Error = Error;

    fn attend(
        &self,
        q: ArrayView4<'_, f32>,
        k: ArrayView4<'_, f32>,
        v: ArrayView4<'_, f32>,
        options: &Options,
    ) -> Result<Output, Error> {
        match self.tiles {
            Some(tiles) => attention_with_tiles(q, k, v, options, tiles),
            None => attention(q, k, v, options),
        }
    }

    fn argument_of(error: &Error) -> Option<&str> {
        match error {
            Error::Problem(error) => Some(error.argument()),
            Error::EmptyTile { argument, .. } => Some(argument),
        }
    }
}

impl AttendBackward for Stage3 {
    fn attend_backward(
        &self,
        q: ArrayView4<'_, f32>,
        k: ArrayView4<'_, f32>,
        v: ArrayView4<'_, f32>,
        options: &Options,
        output: &Output,
        d_o: ArrayView4<'_, f32>,
    ) -> Result<Gradients, Error> {
        let tiles = self.tiles.unwrap_or(Tiles::BACKWARD);
        attention_backward_with_tiles(q, k, v, options, output, d_o, tiles)
    }
}
