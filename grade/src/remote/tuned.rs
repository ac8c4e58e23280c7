//! Task `tune`: the learner's code chooses a tile, and the course's kernel runs with it in this process.

use conformance::device::Device;
use exercise_kit::cuda::{Reading, refused};
use exercise_kit::frame::Broken;
use exercise_kit::message::Outcome;
use exercise_kit::stage4::Call;
use gpu::arguments::Checks;
use stage4_flash_cuda::library::Tile;
use stage4_flash_cuda::{Attention, Fused, Inputs, Outputs, Rung, Shape, Sizes};

use super::{Error, Remote, done};
use crate::tuning::{HEAD_DIMS, Measured, SIZES, candidates};

/// The library's kernel with the learner's tiles.
#[derive(Debug)]
pub struct Tuned<'a> {
    /// The program that chooses.
    pub remote: &'a Remote,
    /// The device that computes.
    pub device: &'a Device,
}

impl Tuned<'_> {
    /// The tile for a problem, one of [`candidates`].
    ///
    /// # Errors
    ///
    /// [`Error::Ended`] if it is none of them, and those of a call.
    pub fn tile(&self, sizes: &Sizes) -> Result<Tile, Error> {
        let (outcome, mut outputs) = self.remote.call(Call::Tile(*sizes))?;
        done(outcome)?;
        let numbers: Vec<u32> = outputs.values()?;
        let [block_q, block_kv, threads] = *numbers.as_slice() else {
            return Err(Error::Broken(Broken::Tensor {
                expected: "3 numbers".to_owned(),
                actual: numbers.len().to_string(),
            }));
        };
        let [block_q, block_kv, threads] =
            [block_q, block_kv, threads].map(|number| number as usize);
        let tile = Tile::new(block_q, block_kv, threads);
        let candidates = candidates(self.device, sizes.head_dim);
        if candidates.contains(&tile) {
            return Ok(tile);
        }
        Err(Error::Ended(Outcome::Refused {
            argument: Some("tile".to_owned()),
            text: format!("`tile` gives {tile}: {}", unsuited(tile, &candidates)),
        }))
    }

    /// What a tile costs at a problem.
    ///
    /// # Errors
    ///
    /// [`Error::Ended`] if there is no compiler.
    pub fn measure(&self, sizes: &Sizes, tile: Tile) -> Result<Measured, Error> {
        Measured::new(self.device, sizes, tile).map_err(|error| self.ended(&error))
    }

    /// An error of the stage, as a call of the learner's program would end by it.
    fn ended(&self, error: &stage4_flash_cuda::Error) -> Error {
        let outcome = refused(
            error,
            &Reading {
                argument: stage4_flash_cuda::Error::argument,
                loading: |error| match error {
                    stage4_flash_cuda::Error::Load(error) => Some(error),
                    _ => None,
                },
            },
        );
        self.remote.note(&outcome);
        Error::Ended(outcome)
    }

    fn computed(
        &self,
        inputs: Inputs<'_>,
        outputs: Outputs<'_>,
        shape: &Shape,
        tile: Tile,
    ) -> Result<(), stage4_flash_cuda::Error> {
        let attention = Attention::new(self.device.stream.context())?.with_tile(tile);
        attention.forward(&self.device.stream, inputs, outputs, shape)
    }

    fn checked(
        &self,
        inputs: &Inputs<'_>,
        outputs: &Outputs<'_>,
        shape: &Shape,
    ) -> Result<(), stage4_flash_cuda::Error> {
        let checks = Checks::new("attention", self.device.stream.context());
        shape.check(&checks, inputs, outputs)?;
        shape.refuse("attention", inputs, &Rung::LACKS)?;
        if !self.has_head_dim(shape.sizes.head_dim) {
            let expected = format!("one of {HEAD_DIMS:?}");
            return Err(checks
                .error("head_dim", expected, shape.sizes.head_dim)
                .into());
        }
        Ok(())
    }
}

/// Why a tile is none of some others.
fn unsuited(tile: Tile, others: &[Tile]) -> String {
    for (name, size) in [("BLOCK_Q", tile.block_q), ("BLOCK_KV", tile.block_kv)] {
        if !SIZES.contains(&size) {
            return format!("{name} = {size} is none of {SIZES:?}.");
        }
    }
    let with = |threads| Tile { threads, ..tile };
    let threads = others.iter().map(|other| other.threads);
    let mut threads: Vec<usize> = threads
        .filter(|&threads| others.contains(&with(threads)))
        .collect();
    threads.sort_unstable();
    threads.dedup();
    format!(
        "THREADS = {} is none of {threads:?}, which suit such a tile.",
        tile.threads
    )
}

impl Fused for Tuned<'_> {
    type Error = Error;

    fn forward(
        &self,
        inputs: Inputs<'_>,
        outputs: Outputs<'_>,
        shape: &Shape,
    ) -> Result<(), Error> {
        self.checked(&inputs, &outputs, shape)
            .map_err(|error| self.ended(&error))?;
        let sizes = &shape.sizes;
        let tile = self.tile(sizes)?;
        if [sizes.batch, sizes.heads, sizes.nq].contains(&0) {
            return Ok(());
        }
        self.computed(inputs, outputs, shape, tile)
            .map_err(|error| self.ended(&error))
    }

    fn has_head_dim(&self, head_dim: usize) -> bool {
        HEAD_DIMS.contains(&head_dim)
    }

    fn argument_of(error: &Error) -> Option<&str> {
        error.argument()
    }
}
