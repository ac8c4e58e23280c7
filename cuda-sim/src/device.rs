//! The one simulated device: the figures of an NVIDIA H100 SXM, as far as something here depends on them.

/// What `cuDeviceGetName` answers.
pub(crate) const NAME: &str = "cuda-sim (h100)";
/// What `cuDriverGetVersion` answers: CUDA 12.8.
pub(crate) const DRIVER_VERSION: i32 = 12080;
/// The device's UUID: text, so that nobody takes it for a real one.
pub(crate) const UUID: [u8; 16] = *b"cuda-sim-h100-00";

/// Threads in a block, at most.
pub(crate) const MAX_THREADS_PER_BLOCK: u32 = 1024;
/// Threads in a block along x, y and z, at most.
pub(crate) const MAX_BLOCK: [u32; 3] = [1024, 1024, 64];
/// Blocks in a grid along x, y and z, at most.
pub(crate) const MAX_GRID: [u32; 3] = [i32::MAX as u32, 65535, 65535];
/// Threads of a warp.
pub(crate) const WARP_SIZE: u32 = 32;
/// Shared memory of a block in bytes unless it asks for more, static and dynamic together.
pub(crate) const SHARED_PER_BLOCK: u32 = 48 << 10;
/// Shared memory of a block in bytes when it has asked for more: 227 KiB.
pub(crate) const SHARED_PER_BLOCK_OPTIN: u32 = 227 << 10;
/// Shared memory that the system takes of each block, in bytes.
pub(crate) const SHARED_RESERVED_PER_BLOCK: u32 = 1 << 10;
/// Shared memory of a multiprocessor in bytes: 228 KiB.
pub(crate) const SHARED_PER_MULTIPROCESSOR: u32 = 228 << 10;
/// Shared memory is given to blocks in multiples of this many bytes.
pub(crate) const SHARED_GRAIN: u32 = 128;
/// Multiprocessors.
pub(crate) const MULTIPROCESSORS: u32 = 132;
/// Threads resident on a multiprocessor, at most.
pub(crate) const MAX_THREADS_PER_MULTIPROCESSOR: u32 = 2048;
/// Blocks resident on a multiprocessor, at most.
pub(crate) const MAX_BLOCKS_PER_MULTIPROCESSOR: u32 = 32;
/// Compute capability 9.0, as the attribute `BINARY_VERSION` gives it.
pub(crate) const BINARY_VERSION: i32 = 90;
/// Stream priorities, lowest and highest.
pub(crate) const LEAST_PRIORITY: i32 = 0;
/// See [`LEAST_PRIORITY`].
pub(crate) const GREATEST_PRIORITY: i32 = -5;

/// `CU_DEVICE_ATTRIBUTE_MAX` of CUDA 12.8: attributes are 1 to one less than this.
const ATTRIBUTES: u32 = 144;

/// The value of a `CUdevice_attribute`, or `None` if CUDA 12.8 has no such attribute.
///
/// An attribute that is not in the table is 0: something the simulator does not offer (textures, clusters, virtual
/// memory management, peers), or a figure that nothing here has.
pub(crate) fn attribute(attribute: u32) -> Option<i32> {
    if !(1..ATTRIBUTES).contains(&attribute) {
        return None;
    }
    Some(match attribute {
        1 => MAX_THREADS_PER_BLOCK as i32,
        2..=4 => MAX_BLOCK[attribute as usize - 2] as i32,
        5..=7 => MAX_GRID[attribute as usize - 5] as i32,
        8 => SHARED_PER_BLOCK as i32,
        9 => 64 << 10, // TOTAL_CONSTANT_MEMORY
        10 => WARP_SIZE as i32,
        11 => i32::MAX,  // MAX_PITCH
        12 => 65536,     // MAX_REGISTERS_PER_BLOCK
        13 => 1_980_000, // CLOCK_RATE, kHz
        14 => 512,       // TEXTURE_ALIGNMENT
        15 => 1,         // GPU_OVERLAP
        16 => MULTIPROCESSORS as i32,
        19 => 1,         // CAN_MAP_HOST_MEMORY
        31 => 1,         // CONCURRENT_KERNELS
        36 => 2_619_000, // MEMORY_CLOCK_RATE, kHz
        37 => 5120,      // GLOBAL_MEMORY_BUS_WIDTH, bits
        38 => 50 << 20,  // L2_CACHE_SIZE
        39 => MAX_THREADS_PER_MULTIPROCESSOR as i32,
        40 => 3,      // ASYNC_ENGINE_COUNT
        41 => 1,      // UNIFIED_ADDRESSING
        75 => 9,      // COMPUTE_CAPABILITY_MAJOR
        76 => 0,      // COMPUTE_CAPABILITY_MINOR
        78 => 1,      // STREAM_PRIORITIES_SUPPORTED
        79 | 80 => 1, // GLOBAL_L1_CACHE_SUPPORTED, LOCAL_L1_CACHE_SUPPORTED
        81 => SHARED_PER_MULTIPROCESSOR as i32,
        82 => 65536, // MAX_REGISTERS_PER_MULTIPROCESSOR
        83 => 1,     // MANAGED_MEMORY
        87 => 2,     // SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO
        89 => 1,     // CONCURRENT_MANAGED_ACCESS
        95 => 1,     // COOPERATIVE_LAUNCH
        97 => SHARED_PER_BLOCK_OPTIN as i32,
        106 => MAX_BLOCKS_PER_MULTIPROCESSOR as i32,
        111 => SHARED_RESERVED_PER_BLOCK as i32,
        115 => 1,        // MEMORY_POOLS_SUPPORTED
        131 | 134 => -1, // NUMA_ID, HOST_NUMA_ID: none
        _ => 0,
    })
}
