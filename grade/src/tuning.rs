//! Tiles of a kernel of the course's: which there are, at which problems they are compared, and what one costs there. Task `4/tune`
//! is judged by it, and `cargo grade tune` shows it.

use conformance::device::Device;
use gpu::profile::{LaunchProfile, ModelledTime, Resources};
use stage4_flash_cuda::library::Tile;
use stage4_flash_cuda::{
    Attention, Error, Inputs, KERNELS, Outputs, Shape, Sizes, Variant, committed,
};

/// A problem at which tiles are compared. The best of them fill the device, each with another number of queries.
#[derive(Debug)]
pub struct Problem {
    /// Its name, by its sizes.
    pub name: &'static str,
    /// Its sizes. Each head has its own keys, so that one tells the work of all.
    pub sizes: Sizes,
    /// The tile with the shortest time, of those without spills.
    pub best: Tile,
}

/// The problems of task `4/tune`: a part of a prompt behind a long cache, a batch of short prompts, and wide heads.
pub static PROBLEMS: [Problem; 3] = [
    problem("b1_h32_nq128_nk2048_d64", [1, 32, 128, 2048], 0),
    problem("b4_h32_n512_d64", [4, 32, 512, 512], 1),
    problem("b1_h32_nq256_nk1024_d128", [1, 32, 256, 1024], 2),
];

const fn problem(name: &'static str, [batch, heads, nq, nk]: [usize; 4], place: usize) -> Problem {
    let Variant { head_dim, tile, .. } = committed::TUNED[place];
    let sizes = Sizes {
        batch,
        heads,
        kv_heads: heads,
        nq,
        nk,
        head_dim,
    };
    Problem {
        name,
        sizes,
        best: tile,
    }
}

/// The head dimensions of the problems.
pub const HEAD_DIMS: [usize; 2] = [64, 128];

/// The most of the time of the best tile, at every problem, that a solution of the task takes. No single tile is that good at all of
/// them.
pub const MOST: f64 = 1.2;

/// Queries and keys of a tile.
pub const SIZES: [usize; 4] = [16, 32, 64, 128];

/// The tiles that are compared, with 8, 16 or 32 threads for a row.
pub fn candidates(device: &Device, head_dim: usize) -> Vec<Tile> {
    let mut tiles = Vec::new();
    for block_q in SIZES {
        for block_kv in SIZES {
            for threads in [1, 2, 4].map(|each| each * block_q) {
                tiles.push(Tile::new(block_q, block_kv, threads));
            }
        }
    }
    let shared = shared_memory(device);
    tiles.retain(|&tile| {
        Variant::library(head_dim, tile)
            .check("tune", shared)
            .is_ok()
    });
    tiles
}

/// Bytes of shared memory that a block can have.
fn shared_memory(device: &Device) -> usize {
    use cudarc::driver::sys::CUdevice_attribute as Attribute;
    let most = Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN;
    let most = device.stream.context().attribute(most);
    most.map_or(0, |bytes| usize::try_from(bytes).unwrap_or(0))
}

/// What a tile costs at a problem.
#[derive(Debug)]
pub struct Measured {
    /// The tile.
    pub tile: Tile,
    /// The launch for one head.
    pub head: LaunchProfile,
    /// The time for all.
    pub time: ModelledTime,
    /// Heads of all sequences.
    pub heads: usize,
}

impl Measured {
    /// Compiles the kernel with a tile, computes one head of a problem, and takes the others to be like it.
    ///
    /// # Errors
    ///
    /// The tile is none that the kernel takes; it is to be compiled, and there is no NVRTC.
    pub fn new(device: &Device, sizes: &Sizes, tile: Tile) -> Result<Self, Error> {
        let attention = Attention::new(device.stream.context())?.with_tile(tile);
        let one = Sizes {
            batch: 1,
            heads: 1,
            kv_heads: 1,
            ..*sizes
        };
        let zeros = |rows| device.stream.alloc_zeros::<f32>(rows * sizes.head_dim);
        let (q, k, v) = (zeros(one.nq)?, zeros(one.nk)?, zeros(one.nk)?);
        let mut o = zeros(one.nq)?;
        let (launched, launches) = gpu::profile::profile(|| {
            let inputs = Inputs::new(q.as_view(), k.as_view(), v.as_view());
            let o = o.as_view_mut();
            let outputs = Outputs { o, lse: None };
            attention.forward(&device.stream, inputs, outputs, &Shape::packed(one))?;
            Ok::<_, Error>(device.stream.synchronize()?)
        })?;
        launched?;
        let mut head = launches.into_iter().next().expect("it was launched");
        // A kernel that was compiled now is loaded without a report.
        if head.resources.is_none() {
            head.resources = report(device, sizes.head_dim, tile)?;
        }
        let heads = sizes.batch * sizes.heads;
        Ok(Self {
            tile,
            time: head.repeated(heads as u64),
            head,
            heads,
        })
    }

    /// Registers of a thread.
    pub fn registers(&self) -> u32 {
        self.head.resources.map_or(0, |report| report.registers)
    }

    /// Bytes of registers that a thread keeps in memory.
    pub fn spills(&self) -> u32 {
        self.head.resources.map_or(0, |report| report.spill_stores)
    }

    /// Modelled time, in µs.
    pub fn micros(&self) -> f64 {
        1e6 * self.time.seconds
    }

    /// Floating-point operations of the launch for all heads.
    pub fn flops(&self) -> f64 {
        self.heads as f64 * self.head.total.flops() as f64
    }

    /// Bytes that it must read from and write to DRAM at least once.
    pub fn dram_bytes(&self) -> f64 {
        let bytes = self.head.compulsory_read_bytes + self.head.compulsory_write_bytes;
        self.heads as f64 * bytes as f64
    }

    /// Blocks of the launch for all heads.
    pub fn blocks(&self) -> usize {
        self.head.grid[0] as usize * self.heads
    }
}

/// The compiler's report for the newest architecture that is not above the device's.
fn report(device: &Device, head_dim: usize, tile: Tile) -> Result<Option<Resources>, Error> {
    let variant = Variant::library(head_dim, tile);
    let reports =
        variant.with_constants(|constants| KERNELS.resources(variant.file(), constants))?;
    let (major, minor) = device.stream.context().compute_capability()?;
    let reports = reports.iter().filter_map(|report| {
        let architecture = report.architecture.strip_prefix("sm_")?.parse().ok()?;
        Some(Resources {
            architecture,
            registers: report.registers,
            frame: report.frame,
            spill_stores: report.spill_stores,
            spill_loads: report.spill_loads,
            ignores_setmaxnreg: report.ignores_setmaxnreg,
        })
    });
    let capability = u32::try_from(10 * major + minor).unwrap_or(0);
    let fitting = reports.filter(|report| report.architecture <= capability);
    Ok(fitting.max_by_key(|report| report.architecture))
}
