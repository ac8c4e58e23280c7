//! The simulated device: one of a table, chosen by `CUDA_SIM_DEVICE`.

mod table;

pub(crate) use table::DEVICES;

/// CUDA version that `cuDriverGetVersion` returns: 12.8.
pub(crate) const DRIVER_VERSION: i32 = 12080;

/// Maximum threads per block.
pub(crate) const MAX_THREADS_PER_BLOCK: u32 = 1024;
/// Maximum threads per block along x, y and z.
pub(crate) const MAX_BLOCK: [u32; 3] = [1024, 1024, 64];
/// Maximum blocks per grid along x, y and z.
pub(crate) const MAX_GRID: [u32; 3] = [i32::MAX as u32, 65535, 65535];
/// Blocks of a cluster, at most, on every device that has clusters; and with the attribute
/// `CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED`.
pub(crate) const PORTABLE_CLUSTER: u32 = 8;
/// See [`PORTABLE_CLUSTER`].
pub(crate) const MAX_CLUSTER: u32 = 16;
/// Threads of a warp.
pub(crate) const WARP_SIZE: u32 = 32;
/// Shared memory per block in bytes without opt-in, static and dynamic together.
pub(crate) const SHARED_PER_BLOCK: u32 = 48 << 10;
/// 32-bit registers per multiprocessor, which is also the maximum per block.
pub(crate) const REGISTERS: u32 = 65536;
/// Allocation unit of registers, per warp.
const REGISTER_GRAIN: u32 = 256;
/// Parts of a multiprocessor, each with a scheduler that issues one instruction per clock, and its
/// share of registers.
pub(crate) const SCHEDULERS: u32 = 4;
/// Stream priorities, lowest and highest.
pub(crate) const LEAST_PRIORITY: i32 = 0;
/// See [`LEAST_PRIORITY`].
pub(crate) const GREATEST_PRIORITY: i32 = -5;

/// `CU_DEVICE_ATTRIBUTE_MAX` of CUDA 12.8: attributes are 1 to one less than this.
const ATTRIBUTES: u32 = 144;

/// Figures of a GPU that the driver or the model use.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Device {
    /// Its name in `CUDA_SIM_DEVICE` and in reports.
    pub name: &'static str,
    /// The product whose figures these are.
    pub product: &'static str,
    pub capability: &'static Capability,
    pub multiprocessors: u32,
    pub clock_khz: u32,
    /// Size of the second-level cache.
    pub l2_bytes: u32,
    /// Bytes from the second-level cache per clock, for the whole device.
    pub l2_bytes_per_clock: f64,
    /// Size of the product's memory; the simulator's own is that of `CUDA_SIM_MEMORY`.
    pub memory_bytes: u64,
    pub memory_clock_khz: u32,
    pub memory_bus_bits: u32,
    pub dram_bytes_per_second: f64,
    /// To the host, each way.
    pub host_bytes_per_second: f64,
    pub copy_engines: u32,
}

/// Limits and rates of a multiprocessor, by compute capability.
#[derive(Debug, PartialEq)]
pub(crate) struct Capability {
    /// `10 × major + minor`.
    pub number: u32,
    pub max_threads_per_multiprocessor: u32,
    pub max_blocks_per_multiprocessor: u32,
    /// Bytes of the first-level cache and shared memory together.
    pub l1_bytes: u32,
    /// Bytes of shared memory.
    pub shared_per_multiprocessor: u32,
    /// Bytes of a block that has asked for more than [`SHARED_PER_BLOCK`].
    pub shared_per_block_optin: u32,
    /// Bytes of shared memory that the system reserves per block.
    pub shared_reserved_per_block: u32,
    /// Allocation unit of shared memory, in bytes.
    pub shared_grain: u32,
    /// Results of f32 arithmetic per multiprocessor and clock.
    pub fp32_lanes: u32,
    /// Results of f64 arithmetic per multiprocessor and clock.
    pub fp64_lanes: u32,
    /// Results of special functions per multiprocessor and clock.
    pub special_lanes: u32,
    /// Multiply-adds of the tensor cores of a multiprocessor, per clock: on f16 with f32 sums, on
    /// tf32, on f64, on 8-bit integers.
    pub tensor_fmas: u32,
    pub tensor_tf32_fmas: u32,
    pub tensor_f64_fmas: u32,
    pub tensor_int8_fmas: u32,
    /// Share of these rates, but that of f64, that instructions of one warp reach (`mma.sync`,
    /// `wmma`).
    pub mma_sync_share: f64,
    /// Lanes of load and store instructions per multiprocessor and clock.
    pub load_store_lanes: u32,
    /// Bytes of shared memory, and of the first-level cache, per multiprocessor and clock.
    pub shared_bytes_per_clock: u32,
}

impl Device {
    /// Name that `cuDeviceGetName` returns.
    pub(crate) fn full_name(&self) -> String {
        format!("cuda-sim ({})", self.name)
    }

    /// The device's UUID: readable text, so that it cannot be mistaken for a real one.
    pub(crate) fn uuid(&self) -> [u8; 16] {
        let mut uuid = *b"cuda-sim-0000000";
        let text = format!("cuda-sim-{}-", self.name);
        let length = text.len().min(uuid.len());
        uuid[..length].copy_from_slice(&text.as_bytes()[..length]);
        uuid
    }

    pub(crate) fn clock_hz(&self) -> f64 {
        f64::from(self.clock_khz) * 1e3
    }

    /// Maximum threads per block with so many registers per thread, in whole warps.
    ///
    /// The hardware's check takes a block's warps as spread evenly over the parts of the
    /// multiprocessor.
    pub(crate) fn max_threads(&self, registers: u32) -> u32 {
        MAX_THREADS_PER_BLOCK.min(resident_warps(registers).saturating_mul(WARP_SIZE))
    }

    /// Resident blocks per multiprocessor, for blocks of `threads` threads and `shared` bytes of
    /// shared memory; 0 if none fits. Follows NVIDIA's occupancy calculator. Registers per thread
    /// are 0 if they are not known.
    pub(crate) fn resident_blocks(&self, threads: u32, registers: u32, shared: u64) -> u32 {
        let fits = (1..=self.max_threads(registers)).contains(&threads)
            && shared <= u64::from(self.capability.shared_per_block_optin);
        if !fits {
            return 0;
        }
        let warps = threads.div_ceil(WARP_SIZE);
        let by_warps = self.capability.max_threads_per_multiprocessor / WARP_SIZE / warps;
        let by_registers = resident_warps(registers) / warps;
        let shared = (shared as u32 + self.capability.shared_reserved_per_block)
            .next_multiple_of(self.capability.shared_grain);
        let by_shared = self
            .capability
            .shared_per_multiprocessor
            .checked_div(shared)
            .unwrap_or(u32::MAX);
        self.capability
            .max_blocks_per_multiprocessor
            .min(by_warps)
            .min(by_registers)
            .min(by_shared)
    }

    /// The value of a `CUdevice_attribute`, or `None` if CUDA 12.8 has no such attribute.
    ///
    /// An attribute that is not in the table is 0: a feature that the simulator lacks (textures,
    /// clusters, virtual memory management, peers), or a figure that it does not have.
    pub(crate) fn attribute(&self, attribute: u32) -> Option<i32> {
        if !(1..ATTRIBUTES).contains(&attribute) {
            return None;
        }
        let value = match attribute {
            1 => MAX_THREADS_PER_BLOCK,
            2..=4 => MAX_BLOCK[attribute as usize - 2],
            5..=7 => MAX_GRID[attribute as usize - 5],
            8 => SHARED_PER_BLOCK,
            9 => 64 << 10, // TOTAL_CONSTANT_MEMORY
            10 => WARP_SIZE,
            11 => i32::MAX as u32, // MAX_PITCH
            12 => REGISTERS,       // MAX_REGISTERS_PER_BLOCK
            13 => self.clock_khz,
            14 => 512, // TEXTURE_ALIGNMENT
            15 => 1,   // GPU_OVERLAP
            16 => self.multiprocessors,
            19 => 1, // CAN_MAP_HOST_MEMORY
            31 => 1, // CONCURRENT_KERNELS
            36 => self.memory_clock_khz,
            37 => self.memory_bus_bits,
            38 => self.l2_bytes,
            39 => self.capability.max_threads_per_multiprocessor,
            40 => self.copy_engines,
            41 => 1, // UNIFIED_ADDRESSING
            75 => self.capability.number / 10,
            76 => self.capability.number % 10,
            78 => 1,      // STREAM_PRIORITIES_SUPPORTED
            79 | 80 => 1, // GLOBAL_L1_CACHE_SUPPORTED, LOCAL_L1_CACHE_SUPPORTED
            81 => self.capability.shared_per_multiprocessor,
            82 => REGISTERS, // MAX_REGISTERS_PER_MULTIPROCESSOR
            83 => 1,         // MANAGED_MEMORY
            87 => self.capability.fp32_lanes / self.capability.fp64_lanes, // SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO
            89 => 1, // CONCURRENT_MANAGED_ACCESS
            95 => 1, // COOPERATIVE_LAUNCH
            97 => self.capability.shared_per_block_optin,
            106 => self.capability.max_blocks_per_multiprocessor,
            111 => self.capability.shared_reserved_per_block,
            115 => 1,                                       // MEMORY_POOLS_SUPPORTED
            120 => u32::from(self.capability.number >= 90), // CLUSTER_LAUNCH
            131 | 134 => return Some(-1),                   // NUMA_ID, HOST_NUMA_ID: none
            _ => 0,
        };
        Some(value as i32)
    }
}

/// Warps whose registers fit on a multiprocessor at once. Each part of it has its own registers.
fn resident_warps(registers: u32) -> u32 {
    let of_warp = (registers * WARP_SIZE).next_multiple_of(REGISTER_GRAIN);
    (REGISTERS / SCHEDULERS)
        .checked_div(of_warp)
        .map_or(u32::MAX, |warps| warps * SCHEDULERS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> &'static Device {
        let device = DEVICES.iter().find(|device| device.name == name);
        device.expect("a device")
    }

    #[test]
    fn each_device_has_its_own_uuid() {
        assert_eq!(&named("h100").uuid(), b"cuda-sim-h100-00");
        assert_eq!(&named("rtx4090").uuid(), b"cuda-sim-rtx4090");
    }

    #[test]
    fn memory_clock_and_bus_give_the_bandwidth_of_the_data_sheet() {
        for device in &DEVICES {
            // Two transfers per clock.
            let bytes =
                2e3 * f64::from(device.memory_clock_khz) * f64::from(device.memory_bus_bits) / 8.0;
            let ratio = bytes / device.dram_bytes_per_second;
            assert!((0.97..1.03).contains(&ratio), "{}: {ratio}", device.name);
        }
    }

    #[test]
    fn the_second_level_cache_is_faster_than_memory_and_no_faster_than_its_ports() {
        for device in &DEVICES {
            let rate = device.l2_bytes_per_clock;
            let name = device.name;
            assert!(
                rate * device.clock_hz() > 2.0 * device.dram_bytes_per_second,
                "{name}"
            );
            assert!(rate < 64.0 * f64::from(device.multiprocessors), "{name}");
        }
    }

    /// Dense rates of the tensor cores in the data sheets, in TFLOPS and TOPS: f16 with f32 sums,
    /// tf32, 8-bit integers.
    #[test]
    fn tensor_cores_have_the_peaks_of_the_data_sheets() {
        for (name, f16, tf32, int8) in [
            ("h100", 989.4, Some(494.7), 1978.9),
            ("h200", 989.4, Some(494.7), 1978.9),
            ("a100", 312.0, Some(156.0), 624.0),
            ("rtx4090", 165.2, Some(82.6), 660.6),
            ("t4", 65.0, None, 130.0),
            ("a6000", 154.8, Some(77.4), 309.7),
            ("rtx3090", 71.0, Some(35.6), 284.0),
            ("rtx5090", 209.5, Some(104.8), 838.0),
            ("rtx2080s", 44.6, None, 178.4),
        ] {
            let device = named(name);
            // NVIDIA's peaks of the H100 are at 1.83 GHz.
            let clock = match name {
                "h100" | "h200" => 1.83e9,
                _ => device.clock_hz(),
            };
            let peak = |fmas: u32| 2e-12 * clock * f64::from(device.multiprocessors * fmas);
            let close = |fmas: u32, sheet: f64| (peak(fmas) / sheet - 1.0).abs() < 0.01;
            let rates = device.capability;
            assert!(close(rates.tensor_fmas, f16), "{name}");
            assert!(
                tf32.is_none_or(|tf32| close(rates.tensor_tf32_fmas, tf32)),
                "{name}"
            );
            assert!(close(rates.tensor_int8_fmas, int8), "{name}");
        }
    }

    /// Peak f32 and f64 rates of the data sheets, and that of f64 in tensor cores, in TFLOPS.
    #[test]
    fn lanes_and_clocks_give_the_peaks_of_the_data_sheets() {
        for (name, fp32, fp64, tensor) in [
            ("h100", 67.0, 33.5, 67.0),
            ("h200", 67.0, 33.5, 67.0),
            ("a100", 19.5, 9.7, 19.5),
            ("rtx4090", 82.6, 1.29, 1.29),
            ("t4", 8.1, 0.254, 0.254),
            ("a6000", 38.7, 0.605, 0.605),
            ("rtx3090", 35.6, 0.556, 0.556),
            ("rtx5090", 104.8, 1.637, 1.637),
            ("rtx2080s", 11.15, 0.348, 0.348),
        ] {
            let device = named(name);
            let peak =
                |lanes: u32| 2e-12 * device.clock_hz() * f64::from(device.multiprocessors * lanes);
            let rates = device.capability;
            for (lanes, sheet) in [
                (rates.fp32_lanes, fp32),
                (rates.fp64_lanes, fp64),
                (rates.tensor_f64_fmas, tensor),
            ] {
                assert!((peak(lanes) / sheet - 1.0).abs() < 0.01, "{name}");
            }
        }
    }

    #[test]
    fn occupancy_follows_the_rules_of_nvidias_calculator() {
        // Each value by hand: the least of warps, blocks, registers and shared memory.
        for (name, threads, registers, shared, blocks) in [
            // 2048 / 256.
            ("h100", 256, 32, 0, 8),
            // 64 registers: 2048 a warp, 8 warps a part, 32 in all, 4 blocks of 8.
            ("h100", 256, 64, 0, 4),
            // 65 count as 72: 2304 a warp, 7 warps a part, 28 in all, 3 blocks of 8.
            ("h100", 256, 65, 0, 3),
            // 1024 threads: 32 warps, which 64 registers just allow and 65 do not.
            ("h100", 1024, 64, 0, 1),
            ("h100", 1024, 65, 0, 0),
            // 255: 8192 a warp, 2 warps a part, 8 in all.
            ("h100", 256, 255, 0, 1),
            ("h100", 257, 255, 0, 0),
            // 1 warp: blocks run out first.
            ("h100", 32, 0, 0, 32),
            ("t4", 32, 0, 0, 16),
            ("rtx3090", 32, 0, 0, 16),
            ("rtx5090", 32, 0, 0, 24),
            ("rtx4090", 32, 0, 0, 24),
            // 33 threads are two warps.
            ("a100", 33, 0, 0, 32),
            ("rtx4090", 33, 0, 0, 24),
            ("t4", 65, 0, 0, 10),
            // 1536 threads: three blocks of 512, one of 1024.
            ("rtx4090", 512, 40, 0, 3),
            ("rtx4090", 1024, 40, 0, 1),
            // 48 KiB and 1 KiB of the system: 228/49, 164/49, 100/49; the T4 takes none: 64/48.
            ("h100", 128, 32, 48 << 10, 4),
            ("a100", 128, 32, 48 << 10, 3),
            ("rtx4090", 128, 32, 48 << 10, 2),
            ("t4", 128, 32, 48 << 10, 1),
            // The most that a block may have, and one byte more.
            ("a100", 128, 32, 163 << 10, 1),
            ("a100", 128, 32, (163 << 10) + 1, 0),
            ("t4", 128, 32, 64 << 10, 1),
            // 16 KiB + 1 byte: a grain more, so three and not four on a T4.
            ("t4", 128, 32, (16 << 10) + 1, 3),
            ("t4", 128, 32, 16 << 10, 4),
            ("h100", 0, 32, 0, 0),
            ("h100", 1025, 0, 0, 0),
        ] {
            assert_eq!(
                named(name).resident_blocks(threads, registers, shared),
                blocks,
                "{name}: {threads} threads, {registers} registers, {shared} bytes"
            );
        }
    }

    #[test]
    fn registers_bound_the_threads_of_a_block() {
        for (registers, threads) in [
            (0, 1024),
            (64, 1024),
            (65, 896),
            (128, 512),
            (168, 384),
            (255, 256),
        ] {
            assert_eq!(DEVICES[0].max_threads(registers), threads, "{registers}");
        }
    }
}
