//! The ladder: a file for each kernel file, with what the host has to know of it.

mod flash;
mod options;
mod register_tiled;

use std::sync::Arc;

use cudarc::driver::{CudaFunction, CudaStream, DriverError, LaunchConfig};
use stage1_reference::Feature;

use crate::tiles::Tile;
use crate::{Inputs, Outputs, Shape, Strategy};

/// Lanes of a warp.
const WARP: usize = 32;

/// A kernel file, and one way to compile it for a head dimension.
pub(crate) trait Rung: Sync {
    /// The kernel file.
    fn file(&self) -> &'static str;

    /// The kernel's name.
    fn kernel(&self) -> &'static str;

    /// The options that the kernel lacks.
    fn lacks(&self) -> &'static [Feature] {
        &[]
    }

    /// The `-D` constants besides those of the tile.
    fn constants(&self, head_dim: usize) -> Vec<(&'static str, usize)>;

    /// Shared memory of a block.
    fn shared(&self, head_dim: usize, tile: Tile) -> Shared;

    /// Whether the kernel can be compiled with this tile, none of whose sizes is 0.
    fn suits(&self, tile: Tile) -> bool;

    /// The tiles that `tune` tries.
    fn candidates(&self) -> Vec<Tile>;

    /// Launches the kernel, and does not wait.
    fn launch(&self, launch: Launch<'_>) -> Result<(), DriverError>;
}

/// Shared memory of a block, in bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Shared {
    /// In the kernel's own arrays: at most 48 KiB, the compiler's limit.
    Static(usize),
    /// Asked for by the launch.
    Dynamic(usize),
}

/// One launch. Every element that the shape names lies inside its view, and the rung can compute the problem.
pub(crate) struct Launch<'a> {
    pub stream: &'a Arc<CudaStream>,
    pub function: CudaFunction,
    pub config: LaunchConfig,
    pub inputs: Inputs<'a>,
    pub outputs: Outputs<'a>,
    pub shape: &'a Shape,
}

impl Strategy {
    pub(crate) fn rung(self) -> &'static dyn Rung {
        match self {
            Self::Flash => &flash::Flash,
            Self::Padded => &options::Options::Padded,
            Self::Exact => &options::Options::Exact,
            Self::Split => &options::Options::Split,
            Self::RegisterTiled => &register_tiled::RegisterTiled,
        }
    }

    /// The options that the kernel lacks.
    pub fn lacks(self) -> &'static [Feature] {
        self.rung().lacks()
    }

    /// The tiles that `tune` tries.
    pub fn candidates(self) -> Vec<Tile> {
        self.rung().candidates()
    }
}
