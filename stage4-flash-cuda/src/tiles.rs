//! The tile of each kernel, by class of device and head dimension: `tiles.json`, which `tune` writes.

use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use crate::Strategy;

static TABLE: LazyLock<Vec<Class>> = LazyLock::new(|| {
    serde_json::from_str(include_str!("../tiles.json")).expect("a test reads the committed table")
});

/// The part of the scores that a block computes at a time, and with how many threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Tile {
    /// Queries.
    pub block_q: usize,
    /// Keys.
    pub block_kv: usize,
    /// Threads.
    pub threads: usize,
}

/// A class of devices, and its tiles.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Class {
    /// The least compute capability, times 10: 75, 80, 89, 90.
    pub capability: u32,
    /// How the tiles were chosen.
    pub chosen: String,
    /// The tiles, by head dimension, ascending within each kernel.
    pub tiles: Vec<Entry>,
}

/// The tile of a kernel for the head dimensions up to one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// The kernel file.
    pub kernel: String,
    /// The largest head dimension that this entry is for.
    pub up_to: usize,
    /// The tile.
    #[serde(flatten)]
    pub tile: Tile,
}

/// The committed table, by ascending capability.
pub fn table() -> &'static [Class] {
    &TABLE
}

/// The tile for a device of compute capability `major.minor`, if the table has one.
pub fn choose(capability: (i32, i32), strategy: Strategy, head_dim: usize) -> Option<Tile> {
    let capability = u32::try_from(10 * capability.0 + capability.1).ok()?;
    let class = TABLE
        .iter()
        .rev()
        .find(|class| class.capability <= capability)?;
    let file = match strategy {
        Strategy::RegisterTiled => "2_register_tiled.cu",
        _ => "1_fused.cu",
    };
    let mut entries = class.tiles.iter().filter(|entry| entry.kernel == file);
    entries
        .find(|entry| head_dim <= entry.up_to)
        .map(|entry| entry.tile)
}
