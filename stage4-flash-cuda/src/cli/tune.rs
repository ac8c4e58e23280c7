//! `tune`: sweeps the tiles of the library's kernel, and writes the best into `tiles.json`.

use std::fs;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, ensure};
use clap::Args;
use cudarc::driver::CudaStream;
use cudarc::driver::sys::CUdevice_attribute as Attribute;
use stage1_reference::Sizes;
use stage4_flash_cuda::library::candidates;
use stage4_flash_cuda::library::tiles::{self, Class, Entry, Tile};
use stage4_flash_cuda::{Attention, KERNELS, Variant, committed};

use super::case::Case;
use super::estimate::Estimator;
use super::problem::{Passes, verify};

/// Sweep tiles for the class of this device, and write the best into tiles.json
/// and kernels/variants.txt.
#[derive(Args)]
#[command(after_help = "\
On a GPU the measured time decides, without one the modelled time; CUDA_SIM_DEVICE chooses the device. A tile for which the
compiler reports spills is not taken. Needs NVRTC. Afterwards: cargo gpu refresh")]
pub struct Arguments {
    /// The head dimensions to tune for. Each entry of the table is for those up to its own; it
    /// keeps no others. The last is 256.
    #[arg(long, value_delimiter = ',', default_value = "64,80,96,128,160,256")]
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
    let shared = Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN;
    let shared = usize::try_from(context.attribute(shared)?)?;
    let class = tiles::class(context.compute_capability()?, shared)
        .context("the table has no class for this device")?;
    // From the disk: the table in this program is older, if another device has been
    // tuned since it was built.
    let path = Path::new(FOLDER).join("tiles.json");
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let mut table: Vec<Class> = serde_json::from_str(&text)?;
    let mut dims = arguments.dims.clone();
    dims.sort_unstable();
    let mut entries: Vec<Entry> = Vec::new();
    let mut covered = 0;
    for &head_dim in &dims {
        let sweep = Sweep {
            stream: &stream,
            class,
            head_dims: covered + 1..=head_dim,
            arguments,
        };
        entries.extend(sweep.best()?);
        covered = head_dim;
    }
    let largest = entries.last().map(|entry| entry.up_to);
    ensure!(
        largest == Some(Sizes::MAX_HEAD_DIM),
        "no tile fits D = {}",
        Sizes::MAX_HEAD_DIM
    );
    for entry in &entries {
        println!("up to D = {}: {}, {} ms", entry.up_to, entry.tile, entry.ms);
    }
    if arguments.dry_run {
        return Ok(());
    }
    let measure = match gpu::backend()? {
        gpu::Backend::Cuda => "measured time",
        gpu::Backend::Simulator => "modelled time, not measured on hardware",
    };
    let known = (table.iter_mut()).find(|known| known.capability == class.capability);
    let known = known.context("tiles.json has no class for this device")?;
    known.chosen = format!(
        "by {measure}, {device}, 4 × 32 heads, N = {}",
        arguments.seq
    );
    known.tiles = entries;
    // A line for each tile.
    let json = serde_json::to_string(&table)?.replace("{\"up_to\"", "\n  {\"up_to\"");
    let json = json.replace("]}", "\n]}").replace("]},", "]},\n");
    write("tiles.json", json + "\n")?;
    write("kernels/variants.txt", committed::variants(&table))
}

/// The search of one tile, for some head dimensions of a class.
struct Sweep<'a> {
    stream: &'a Arc<CudaStream>,
    class: &'a Class,
    /// Timed at the last.
    head_dims: RangeInclusive<usize>,
    arguments: &'a Arguments,
}

impl Sweep<'_> {
    /// The best tile, if one fits.
    fn best(&self) -> anyhow::Result<Option<Entry>> {
        let modelled = gpu::backend()? == gpu::Backend::Simulator;
        let up_to = *self.head_dims.end();
        let mut tried: Vec<(bool, f64, Tile)> = Vec::new();
        for tile in candidates() {
            let Some(seconds) = self.seconds(tile)? else {
                continue;
            };
            println!("D = {up_to}: {tile}: {:.3} ms", 1e3 * seconds);
            tried.push((modelled && little_work(tile, up_to), seconds, tile));
        }
        tried.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
        for (_, seconds, tile) in tried {
            if !self.spills(tile)? {
                return Ok(Some(Entry {
                    up_to,
                    tile,
                    ms: (1e6 * seconds).round() / 1e3,
                }));
            }
        }
        Ok(None)
    }

    /// Seconds with this tile; `None` if it does not fit.
    fn seconds(&self, tile: Tile) -> anyhow::Result<Option<f64>> {
        let variant = Variant::library(*self.head_dims.end(), tile);
        if variant.check("tune", self.class.shared).is_err() {
            return Ok(None);
        }
        let attention = Attention::new(self.stream.context())?.with_tile(tile);
        let passes = Passes::forward(attention);
        let case = Case::full(4, 32, self.arguments.seq, variant.head_dim);
        verify(self.stream, &passes, case).with_context(|| format!("{variant:?}"))?;
        let mut estimator = Estimator::new(self.stream);
        let estimate = estimator.estimate(&passes, case, self.arguments.runs)?;
        Ok(Some(estimate.seconds))
    }

    /// True if the compiler keeps registers in memory at the last head dimension, or at
    /// one that has committed PTX.
    fn spills(&self, tile: Tile) -> anyhow::Result<bool> {
        let last = *self.head_dims.end();
        let committed = committed::HEAD_DIMS.into_iter();
        let inside =
            committed.filter(|head_dim| self.head_dims.contains(head_dim) && *head_dim != last);
        for head_dim in inside.chain([last]) {
            let variant = Variant::library(head_dim, tile);
            let report =
                variant.with_constants(|constants| KERNELS.resources(variant.file(), constants))?;
            if report.iter().any(|line| line.spill_stores > 0) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// True for tiles whose modelled time is too short; they are taken only if there is no other. The
/// model hides latency by warps alone, and favours many threads with little work each. A thread
/// with few scores and outputs loads much for each FLOP.
fn little_work(tile: Tile, head_dim: usize) -> bool {
    tile.block_q * (tile.block_kv + head_dim) / tile.threads < 48
}

fn write(name: &str, text: String) -> anyhow::Result<()> {
    let path = Path::new(FOLDER).join(name);
    fs::write(&path, text).with_context(|| path.display().to_string())?;
    println!("wrote {}", path.display());
    Ok(())
}
