//! One launch of a kernel.

use std::sync::Arc;

use crate::memory::map::MemoryMap;
use crate::memory::shadow::Shadow;
use crate::program::Kernel;
use crate::settings::MmaMode;
use crate::trace::Tracing;

/// One launch of a kernel.
pub struct Launch {
    /// The kernel.
    pub kernel: Arc<Kernel>,
    /// Blocks (x, y, z); none is zero.
    pub grid: [u32; 3],
    /// Blocks of a cluster (x, y, z), which divide those of the grid.
    pub cluster: [u32; 3],
    /// Threads per block (x, y, z); at most 1024 in all, none is zero.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub dynamic_shared: u32,
    /// The parameter block, laid out as [`Kernel::params`] says.
    pub params: Vec<u8>,
    /// Device memory that the kernel may touch.
    pub memory: Arc<MemoryMap>,
    /// Records of that memory.
    pub shadow: Arc<Shadow>,
    /// True if reads of uninitialised memory and races are looked for.
    pub checks: bool,
    /// Mode of adding floats in matrix products.
    pub mma: MmaMode,
    /// Permutes the order of blocks and warps.
    pub seed: Option<u64>,
    /// Instructions that one warp may run, and that blocks may spend waiting for each other without
    /// progress.
    pub budget: u64,
    /// Instructions that all warps together may run. Counted when a block ends or waits for others.
    pub launch_budget: u64,
    /// Address of the workspace of `grid.sync()`; 0 in a launch that is not cooperative.
    pub grid_workspace: u64,
    /// Bytes of text that `printf` may leave behind.
    pub printf_bytes: usize,
    /// Selection of what is recorded. Such a launch runs its blocks one after the other.
    pub(crate) tracing: Option<Tracing>,
}

impl Launch {
    /// Shared memory of a block, static and dynamic.
    pub(crate) fn shared_bytes(&self) -> u32 {
        if self.dynamic_shared == 0 {
            self.kernel.shared_bytes
        } else {
            self.kernel.dynamic_shared_offset + self.dynamic_shared
        }
    }

    /// Number of a block in launch order.
    pub(crate) fn number(&self, index: [u32; 3]) -> u64 {
        let [x, y, _] = self.grid.map(u64::from);
        let [i, j, k] = index.map(u64::from);
        (k * y + j) * x + i
    }

    pub(crate) fn blocks(&self) -> u64 {
        self.grid.iter().map(|&n| u64::from(n)).product()
    }

    pub(crate) fn index(&self, number: u64) -> [u32; 3] {
        let [x, y, _] = self.grid.map(u64::from);
        [
            (number % x) as u32,
            (number / x % y) as u32,
            (number / x / y) as u32,
        ]
    }
}
