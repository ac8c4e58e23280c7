//! `tune`: sweeps tiles, and writes the best into `tiles.json`.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, ensure};
use clap::Args;
use cudarc::driver::CudaStream;
use gpu::kernel_file::KernelFile;
use gpu::ptx_file;
use stage4_flash_cuda::tiles::{self, Class, Entry, Tile};
use stage4_flash_cuda::{Attention, Mode, Strategy, Variant, committed};

use super::estimate::{Case, estimate};

/// Sweep tiles for the class of this device, and write the best into tiles.json and kernels/variants.txt.
#[derive(Args)]
#[command(after_help = "\
On a GPU the measured time decides. Without one the modelled time does, among the tiles that the compiler reports no spills
for; CUDA_SIM_DEVICE chooses the device. Needs NVRTC. Afterwards: cargo run -p gpu -- refresh")]
pub struct Arguments {
    /// The head dimensions to tune rung 2 for. Each entry of the table is for those up to its own.
    #[arg(long, value_delimiter = ',', default_value = "64,96,128,160,256")]
    dims: Vec<usize>,

    /// Queries and keys of the problem; 4 sequences of 32 heads.
    #[arg(long, default_value_t = 4096)]
    seq: usize,

    /// Timed runs on a GPU, of which the median counts.
    #[arg(long, default_value_t = 10)]
    runs: usize,

    /// Print what would be chosen, and write nothing.
    #[arg(long)]
    dry_run: bool,
}

const FOLDER: &str = env!("CARGO_MANIFEST_DIR");

/// Sweeps and writes.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let context = gpu::context(0)?;
    let stream = context.default_stream();
    let device = gpu::device_label(&context)?;
    let class = tiles::class(context.compute_capability()?)
        .context("the table has no class for this device")?;
    let mut dims = arguments.dims.clone();
    dims.sort_unstable();
    let mut entries: Vec<Entry> = Vec::new();
    for head_dim in dims {
        let mut best: Option<((bool, f64), Tile)> = None;
        for tile in candidates() {
            let Some(seconds) = try_tile(&stream, class, head_dim, tile, arguments)? else {
                continue;
            };
            let Tile {
                block_q,
                block_kv,
                threads,
            } = tile;
            println!(
                "D = {head_dim}: {block_q} × {block_kv} on {threads} threads: {:.3} ms",
                1e3 * seconds
            );
            let rank = (little_work(tile, head_dim)?, seconds);
            if best.is_none_or(|(least, _)| rank < least) {
                best = Some((rank, tile));
            }
        }
        // Without an entry, rung 1 is used.
        entries.extend(best.map(|(_, tile)| Entry {
            kernel: Strategy::RegisterTiled.file().to_owned(),
            up_to: head_dim,
            tile,
        }));
    }
    ensure!(!entries.is_empty(), "no tile fits");
    for entry in &entries {
        println!("up to D = {}: {:?}", entry.up_to, entry.tile);
    }
    if arguments.dry_run {
        return Ok(());
    }
    let how = match gpu::backend()? {
        gpu::Backend::Cuda => "measured time",
        gpu::Backend::Simulator => "modelled time, not measured on hardware",
    };
    // From the disk: the table in this program is older, if another device has been tuned since it was built.
    let path = Path::new(FOLDER).join("tiles.json");
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let mut table: Vec<Class> = serde_json::from_str(&text)?;
    for known in table
        .iter_mut()
        .filter(|known| known.capability == class.capability)
    {
        known.chosen = format!("rung 2 by {how}, {device}, N = {}", arguments.seq);
        known
            .tiles
            .retain(|entry| entry.kernel != Strategy::RegisterTiled.file());
        known.tiles.append(&mut entries);
    }
    write("tiles.json", serde_json::to_string_pretty(&table)? + "\n")?;
    write("kernels/variants.txt", committed::variants(&table))
}

/// The tiles to try, large ones first. None has more queries than a block of the block mask: it could be skipped only where
/// two blocks are hidden.
fn candidates() -> Vec<Tile> {
    let mut tiles = Vec::new();
    for block_q in [64, 32] {
        for block_kv in [64, 32, 16] {
            for threads_per_row in [8, 16, 32] {
                tiles.push(Tile {
                    block_q,
                    block_kv,
                    threads: block_q / 8 * threads_per_row,
                });
            }
        }
    }
    tiles
}

/// Whether the model is not to be believed on a tile, unless there is no other: it hides latency by warps alone, and so
/// favours many threads with little work each. A thread with few scores and outputs loads much for what it computes.
fn little_work(tile: Tile, head_dim: usize) -> anyhow::Result<bool> {
    let work = tile.block_q * (tile.block_kv + head_dim) / tile.threads;
    Ok(gpu::backend()? == gpu::Backend::Simulator && work < 48)
}

/// Seconds with this tile; `None` if it does not fit, or if the model has to decide and the compiler spilled registers.
fn try_tile(
    stream: &Arc<CudaStream>,
    class: &Class,
    head_dim: usize,
    tile: Tile,
    arguments: &Arguments,
) -> anyhow::Result<Option<f64>> {
    let strategy = Strategy::RegisterTiled;
    let variant = Variant {
        strategy,
        head_dim,
        tile,
    };
    if variant.check("tune", class.shared).is_err() {
        return Ok(None);
    }
    let attention = Attention::new(stream.context())?;
    let attention = attention.with_mode(Mode::FusedBy(strategy)).with_tile(tile);
    if gpu::backend()? == gpu::Backend::Simulator {
        let constants = variant.constants();
        let constants: Vec<(&str, &str)> = constants
            .iter()
            .map(|(name, value)| (*name, &**value))
            .collect();
        let file = Path::new(FOLDER).join("kernels").join(variant.file());
        let compiled = KernelFile::read(&file)?.compile(&constants)?;
        let report = ptx_file::resources(&compiled.ptx);
        if report.iter().any(|line| line.spill_stores > 0) {
            return Ok(None);
        }
        attention.preload(&variant, &compiled.ptx)?;
    }
    let case = Case {
        batch: 4,
        heads: 32,
        n: arguments.seq,
        head_dim,
        causal: false,
    };
    Ok(Some(
        estimate(stream, &attention, case, arguments.runs)?.seconds,
    ))
}

fn write(name: &str, text: String) -> anyhow::Result<()> {
    let path = Path::new(FOLDER).join(name);
    fs::write(&path, text).with_context(|| path.display().to_string())?;
    println!("wrote {}", path.display());
    Ok(())
}
