//! The devices that can be simulated. Every constant has its source here; `MODEL.md` shows them as
//! a table.
//!
//! - Compute capability: CUDA C++ Programming Guide 12.8, "Compute Capabilities", tables "Technical
//!   Specifications per Compute Capability" (threads, blocks, shared memory) and "Throughput of
//!   Native Arithmetic Instructions" (lanes).
//! - Product: multiprocessors, L2 size, memory bus and bandwidth from NVIDIA's white papers and
//!   data sheets, named at each device. Clocks are the highest that the product reports
//!   (`deviceQuery` of the CUDA samples): a product under load may run slower.
//! - Granularity of shared memory, bytes reserved for the system: `cuda_occupancy.h` of the CUDA
//!   toolkit.
//! - L2 bandwidth is measured, because NVIDIA states it for few devices, or estimated from what was
//!   measured on a relative; each device says which. It is bandwidth over the highest clock, though
//!   nobody logged the clock. [gpu-benches]: `gpu-l2-cache` of
//!   <https://github.com/te42kyfo/gpu-benches>, commit 1c36d50, median of data sets of 8 to 25 MiB,
//!   f64 loads. [Luo]: W. Luo et al., "Benchmarking and Dissecting the Nvidia Hopper GPU
//!   Architecture via Microbenchmarking", arXiv 2402.13499, 2024, table V, f32 loads. [Jia]: Z. Jia
//!   et al., "Dissecting the NVIDIA Turing T4 GPU via Microbenchmarking", arXiv 1903.07486, 2019.
//! - Shared memory: 32 banks of 4 bytes; Turing moves half of that per clock (NVIDIA Ampere GA102
//!   GPU Architecture white paper, "128 bytes/clock per SM versus 64 bytes/clock in Turing").
//! - Load/store units: NVIDIA's white papers, figures of a multiprocessor (GA100, GH100: 8 in each
//!   of the four parts; TU102, GA102, AD102: 4).
//! - Host link: PCIe x16 of the generation in the data sheet, per direction: half of the 128, 64 or
//!   32 GB/s stated there, the peak, which no copy reaches.
//! - Memory: the size in the data sheet, whose GB are 2³⁰ bytes. The system of a GPU reserves about
//!   1% of it.
//! - Memory clock, copy engines: `deviceQuery`.

use super::{Capability, Device};

static HOPPER: Capability = Capability {
    number: 90,
    max_threads_per_multiprocessor: 2048,
    max_blocks_per_multiprocessor: 32,
    l1_bytes: 256 << 10,
    shared_per_multiprocessor: 228 << 10,
    shared_per_block_optin: 227 << 10,
    shared_reserved_per_block: 1 << 10,
    shared_grain: 128,
    fp32_lanes: 128,
    fp64_lanes: 64,
    special_lanes: 16,
    // 512 per tensor core and clock, 4 cores: NVIDIA H100 Tensor Core GPU Architecture white paper,
    // 989.4 dense f16 TFLOPS for 132 multiprocessors at 1.83 GHz.
    tensor_fmas: 2048,
    tensor_tf32_fmas: 1024,
    tensor_f64_fmas: 128,
    tensor_int8_fmas: 4096,
    // Nsight Compute on an H200: the pipe is busy for 6.00 clocks for each mma.m16n8k16 of f16, in
    // two kernels (MODEL.md), which take 4 at the white paper's rate. [Luo] has 63%, the average
    // of all types. Only wgmma is faster, and knows no f64.
    mma_sync_share: 2.0 / 3.0,
    load_store_lanes: 32,
    shared_bytes_per_clock: 128,
};

static AMPERE: Capability = Capability {
    number: 80,
    max_threads_per_multiprocessor: 2048,
    max_blocks_per_multiprocessor: 32,
    l1_bytes: 192 << 10,
    shared_per_multiprocessor: 164 << 10,
    shared_per_block_optin: 163 << 10,
    shared_reserved_per_block: 1 << 10,
    shared_grain: 128,
    fp32_lanes: 64,
    fp64_lanes: 32,
    special_lanes: 16,
    tensor_fmas: 1024, // 256 per tensor core and clock, 4 cores
    tensor_tf32_fmas: 512,
    tensor_f64_fmas: 64,
    tensor_int8_fmas: 2048,
    mma_sync_share: 1.0,
    load_store_lanes: 32,
    shared_bytes_per_clock: 128,
};

/// GA102 in professional products.
static AMPERE_GA102: Capability = Capability {
    number: 86,
    max_threads_per_multiprocessor: 1536,
    max_blocks_per_multiprocessor: 16,
    l1_bytes: 128 << 10,
    shared_per_multiprocessor: 100 << 10,
    shared_per_block_optin: 99 << 10,
    shared_reserved_per_block: 1 << 10,
    shared_grain: 128,
    fp32_lanes: 128,
    fp64_lanes: 2,
    special_lanes: 16,
    tensor_fmas: 512, // 128 per tensor core and clock, 4 cores
    tensor_tf32_fmas: 256,
    tensor_f64_fmas: 2, // not in these tensor cores: the rate of f64
    tensor_int8_fmas: 1024,
    mma_sync_share: 1.0,
    load_store_lanes: 16,
    shared_bytes_per_clock: 128,
};

/// In GeForce products tensor cores sum in f32 at half the rate (NVIDIA Ampere GA102 GPU
/// Architecture white paper, RTX 3090: 71 TFLOPS), and multiply tf32 and 8-bit integers at that of
/// the white paper's table.
static AMPERE_GEFORCE: Capability = Capability {
    tensor_fmas: 256,
    tensor_tf32_fmas: 128,
    ..AMPERE_GA102
};

/// Of the RTX 4090: NVIDIA Ada GPU Architecture white paper, 165.2 TFLOPS of f16 with f32 sums.
static ADA: Capability = Capability {
    number: 89,
    max_blocks_per_multiprocessor: 24,
    ..AMPERE_GEFORCE
};

/// CUDA C++ Programming Guide 12.8, compute capability 12.0; NVIDIA RTX Blackwell GPU Architecture
/// white paper, RTX 5090: 209.5 TFLOPS of f16 with f32 sums, 838 TOPS of 8-bit integers.
static BLACKWELL_GEFORCE: Capability = Capability {
    number: 120,
    max_blocks_per_multiprocessor: 24,
    ..AMPERE_GEFORCE
};

static TURING: Capability = Capability {
    number: 75,
    max_threads_per_multiprocessor: 1024,
    max_blocks_per_multiprocessor: 16,
    l1_bytes: 96 << 10,
    shared_per_multiprocessor: 64 << 10,
    shared_per_block_optin: 64 << 10,
    shared_reserved_per_block: 0,
    shared_grain: 256,
    fp32_lanes: 64,
    fp64_lanes: 2,
    special_lanes: 16,
    tensor_fmas: 512,     // 64 per tensor core and clock, 8 cores
    tensor_tf32_fmas: 64, // not in these tensor cores: the rate of f32
    tensor_f64_fmas: 2,   // nor these: the rate of f64
    tensor_int8_fmas: 1024,
    mma_sync_share: 1.0,
    load_store_lanes: 16,
    shared_bytes_per_clock: 64,
};

/// GeForce products sum in f32 at half the rate: NVIDIA Turing GPU Architecture white paper, RTX
/// 2080 Ti.
static TURING_GEFORCE: Capability = Capability {
    tensor_fmas: 256,
    ..TURING
};

/// NVIDIA H100 Tensor Core GPU data sheet, SXM: 3.35 TB/s; 67 f32 TFLOPS, which is 1.98 GHz.
const H100: Device = Device {
    name: "h100",
    product: "H100 SXM5 80 GB",
    capability: &HOPPER,
    multiprocessors: 132,
    clock_khz: 1_980_000,
    l2_bytes: 50 << 20,
    // Estimated: [Luo] measured it on a PCIe board of the same chip with 114 multiprocessors.
    // [gpu-benches] has 3960 for such a board and 4980 for the H200, which has as many
    // multiprocessors as this.
    l2_bytes_per_clock: 4472.3,
    memory_bytes: 80 << 30,
    memory_clock_khz: 2_619_000,
    memory_bus_bits: 5120,
    dram_bytes_per_second: 3.35e12,
    host_bytes_per_second: 64e9, // PCIe 5.0
    copy_engines: 3,
};

/// NVIDIA H200 Tensor Core GPU data sheet, SXM: the H100's chip and peaks, with 4.8 TB/s.
const H200: Device = Device {
    name: "h200",
    product: "H200 SXM5 141 GB",
    // Estimated: all of the chip's (H100 white paper, "full GH100": 60 MB with 12 memory
    // controllers), since all are in use. In [gpu-benches] bandwidth falls off at a size 1.2 times
    // that of the H100.
    l2_bytes: 60 << 20,
    l2_bytes_per_clock: 4980.2, // [gpu-benches]: 9861 GB/s at 1.98 GHz
    memory_bytes: 141 << 30,
    memory_clock_khz: 3_201_000,
    memory_bus_bits: 6144,
    dram_bytes_per_second: 4.8e12,
    ..H100
};

/// NVIDIA A100 Tensor Core GPU Architecture white paper, and the A100 data sheet, 80 GB SXM: 2039
/// GB/s.
const A100: Device = Device {
    name: "a100",
    product: "A100 SXM4 80 GB",
    capability: &AMPERE,
    multiprocessors: 108,
    clock_khz: 1_410_000,
    l2_bytes: 40 << 20,
    // [gpu-benches]: 5404 GB/s at 1.41 GHz. The white paper's peak is 5120; [Luo] got 1854, hardly
    // more than DRAM gives.
    l2_bytes_per_clock: 3832.6,
    memory_bytes: 80 << 30,
    memory_clock_khz: 1_593_000,
    memory_bus_bits: 5120,
    dram_bytes_per_second: 2.039e12,
    host_bytes_per_second: 32e9, // PCIe 4.0
    copy_engines: 3,
};

/// NVIDIA Ada GPU Architecture white paper, GeForce RTX 4090.
const RTX4090: Device = Device {
    name: "rtx4090",
    product: "GeForce RTX 4090",
    capability: &ADA,
    multiprocessors: 128,
    clock_khz: 2_520_000,
    l2_bytes: 72 << 20,
    // [Luo]. [gpu-benches] has 2086 for an L40, the same chip with 96 MB: 1565 for its share of 72
    // MB.
    l2_bytes_per_clock: 1622.2,
    memory_bytes: 24 << 30,
    memory_clock_khz: 10_501_000,
    memory_bus_bits: 384,
    dram_bytes_per_second: 1.008e12,
    host_bytes_per_second: 32e9, // PCIe 4.0
    copy_engines: 2,
};

/// NVIDIA Turing GPU Architecture white paper, and the T4 data sheet.
const T4: Device = Device {
    name: "t4",
    product: "T4 16 GB",
    capability: &TURING,
    multiprocessors: 40,
    clock_khz: 1_590_000,
    l2_bytes: 4 << 20,
    // [Jia]: 1270 GB/s at 1.59 GHz, which a T4 holds for a short time only. Nothing to compare it
    // with was found.
    l2_bytes_per_clock: 798.7,
    memory_bytes: 16 << 30,
    memory_clock_khz: 5_001_000,
    memory_bus_bits: 256,
    dram_bytes_per_second: 320e9,
    host_bytes_per_second: 16e9, // PCIe 3.0
    copy_engines: 3,
};

/// NVIDIA RTX A6000 data sheet: 768 GB/s, 38.7 TFLOPS, which is 1.8 GHz.
const A6000: Device = Device {
    name: "a6000",
    product: "RTX A6000 48 GB",
    capability: &AMPERE_GA102,
    multiprocessors: 84,
    clock_khz: 1_800_000,
    l2_bytes: 6 << 20,
    // [gpu-benches], `gpu-cache` on an A40, the same chip: 2410 GB/s at 1.725 GHz for data sets of
    // 0.5 to 3 MiB.
    l2_bytes_per_clock: 1397.1,
    memory_bytes: 48 << 30,
    memory_clock_khz: 8_001_000,
    memory_bus_bits: 384,
    dram_bytes_per_second: 768e9,
    host_bytes_per_second: 32e9, // PCIe 4.0
    copy_engines: 2,
};

/// NVIDIA Ampere GA102 GPU Architecture white paper, GeForce RTX 3090.
const RTX3090: Device = Device {
    name: "rtx3090",
    product: "GeForce RTX 3090",
    capability: &AMPERE_GEFORCE,
    multiprocessors: 82,
    clock_khz: 1_695_000,
    memory_bytes: 24 << 30,
    memory_clock_khz: 9_751_000,
    dram_bytes_per_second: 936.2e9,
    ..A6000
};

/// NVIDIA RTX Blackwell GPU Architecture white paper, GeForce RTX 5090.
const RTX5090: Device = Device {
    name: "rtx5090",
    product: "GeForce RTX 5090",
    capability: &BLACKWELL_GEFORCE,
    multiprocessors: 170,
    clock_khz: 2_407_000,
    l2_bytes: 96 << 20,
    // Estimated: as much for each multiprocessor as the RTX 4090's.
    l2_bytes_per_clock: 2154.5,
    memory_bytes: 32 << 30,
    memory_clock_khz: 14_001_000,
    memory_bus_bits: 512,
    dram_bytes_per_second: 1.792e12,
    host_bytes_per_second: 64e9, // PCIe 5.0
    copy_engines: 2,
};

/// NVIDIA's page of the GeForce RTX 2080 Super: 3072 f32 lanes, 1.815 GHz, 496 GB/s; NVIDIA Turing
/// GPU Architecture white paper: the TU104 chip.
const RTX2080S: Device = Device {
    name: "rtx2080s",
    product: "GeForce RTX 2080 Super",
    capability: &TURING_GEFORCE,
    multiprocessors: 48,
    clock_khz: 1_815_000,
    // Estimated: as much for each multiprocessor as the T4's.
    l2_bytes_per_clock: 958.4,
    memory_bytes: 8 << 30,
    memory_clock_khz: 7_751_000,
    dram_bytes_per_second: 496e9,
    ..T4
};

/// All of them; the first is the default.
pub(crate) static DEVICES: [Device; 9] = [
    H100, H200, A100, RTX4090, T4, A6000, RTX3090, RTX5090, RTX2080S,
];
