//! The shape of a launch, held against the limits of the device and of the kernel as CUDA does.

use crate::{
    device,
    program::Kernel,
    settings::device,
    status::{Error, Result, Status},
};

/// The shape of a launch, as it is asked for.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    /// In bytes.
    pub(crate) dynamic_shared: u32,
    /// All its blocks must be resident at the same time.
    pub(crate) cooperative: bool,
    /// Blocks of a cluster, if the launch states it.
    pub(crate) cluster: Option<[u32; 3]>,
}

fn fits(sizes: [u32; 3], limits: [u32; 3]) -> bool {
    sizes
        .iter()
        .zip(limits)
        .all(|(&size, limit)| (1..=limit).contains(&size))
}

/// Threads of a block of this shape, or an error if it exceeds the limits of the device or of the
/// kernel's `__launch_bounds__`.
pub(crate) fn check_block(kernel: &Kernel, block: [u32; 3]) -> Result<u64> {
    let threads = block.iter().map(|&size| u64::from(size)).product::<u64>();
    if !fits(block, device::MAX_BLOCK) || threads > u64::from(kernel.bound()) {
        return Err(Error::value(format!(
            "launch of `{}`: blocks of {block:?} threads; each must be at least 1 and at most {:?}, \
             and all together at most {}",
            kernel.name,
            device::MAX_BLOCK,
            kernel.bound()
        )));
    }
    Ok(threads)
}

/// Limits that the program can raise for a kernel.
#[derive(Clone, Copy)]
pub(crate) struct Limits {
    /// Dynamic shared memory of a launch, in bytes.
    pub(crate) dynamic_shared: u32,
    /// Blocks of a cluster.
    pub(crate) cluster: u32,
}

impl Shape {
    /// An error if it exceeds the limits of the device or of the kernel.
    pub(crate) fn check(&self, kernel: &Kernel, limits: Limits) -> Result {
        let name = &kernel.name;
        let Shape {
            grid,
            block,
            dynamic_shared,
            cooperative,
            cluster: _,
        } = *self;
        if !fits(grid, device::MAX_GRID) {
            return Err(Error::value(format!(
                "launch of `{name}`: a grid of {grid:?} blocks; each must be at least 1 and at most {:?}",
                device::MAX_GRID
            )));
        }
        let threads = check_block(kernel, block)?;
        let most = kernel.threads_that_fit();
        if threads > u64::from(most) {
            let text = format!(
                "launch of `{name}`: blocks of {threads} threads with {} registers each; with so many, {} runs blocks \
                 of at most {most} threads ({} registers a multiprocessor): smaller blocks, or \
                 __launch_bounds__({threads}) so that the compiler uses fewer",
                kernel.registers(),
                device().full_name(),
                device::REGISTERS,
            );
            return Err(Status::LaunchOutOfResources.error(text));
        }
        let most = limits.dynamic_shared;
        if dynamic_shared > most {
            return Err(Error::value(format!(
                "launch of `{name}`: {dynamic_shared} bytes of dynamic shared memory; at most {most} unless \
                 CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES is set to more"
            )));
        }
        self.cluster(kernel, limits)?;
        let (blocks, resident) = (self.blocks(), self.resident_blocks(kernel));
        if cooperative && blocks > resident {
            return Err(Status::CooperativeLaunchTooLarge.error(format!(
                "cooperative launch of `{name}`: {blocks} blocks; {} runs at most {resident} of {threads} threads, {} \
                 registers each and {} bytes of shared memory at the same time",
                device().full_name(),
                kernel.registers(),
                kernel.shared_bytes + dynamic_shared,
            )));
        }
        Ok(())
    }

    /// Blocks of a cluster: what the launch or the kernel states.
    pub(crate) fn cluster(&self, kernel: &Kernel, limits: Limits) -> Result<[u32; 3]> {
        let name = &kernel.name;
        let own = kernel.cluster;
        let cluster = self.cluster.or(own).unwrap_or([1; 3]);
        let size = cluster
            .iter()
            .fold(1, |size: u64, &n| size.saturating_mul(n.into()));
        let most = limits.cluster;
        let divides = |(&blocks, &of): (&u32, &u32)| of > 0 && blocks.is_multiple_of(of);
        if own.is_some_and(|own| own != cluster)
            || !(1..=u64::from(most)).contains(&size)
            || !self.grid.iter().zip(&cluster).all(divides)
        {
            let own = own.map_or(String::new(), |own| {
                format!(", and is compiled for {own:?}")
            });
            return Err(Status::InvalidClusterSize.error(format!(
                "launch of `{name}`: clusters of {cluster:?} blocks in a grid of {:?}; a cluster has at most {most} \
                 blocks, and divides the grid{own}",
                self.grid
            )));
        }
        if size > 1 && device().capability.number < 90 {
            return Err(Error::unsupported(
                "clusters of blocks below compute capability 9.0",
            ));
        }
        Ok(cluster)
    }

    fn blocks(&self) -> u64 {
        self.grid.iter().map(|&blocks| u64::from(blocks)).product()
    }

    /// Blocks that the device runs at the same time.
    pub(crate) fn resident_blocks(&self, kernel: &Kernel) -> u64 {
        let threads: u32 = self.block.iter().product();
        let shared = u64::from(kernel.shared_bytes) + u64::from(self.dynamic_shared);
        let fit = device().resident_blocks(threads, kernel.registers(), shared);
        u64::from(fit) * u64::from(device().multiprocessors)
    }

    /// An error if local memory of the threads that the device runs at the same time exceeds the
    /// `free` bytes of device memory, where a GPU has it.
    pub(crate) fn check_local_memory(&self, kernel: &Kernel, free: u64) -> Result {
        let threads: u32 = self.block.iter().product();
        let fit = self.resident_blocks(kernel).min(self.blocks());
        let resident = fit * u64::from(threads.next_multiple_of(32));
        let needed = resident * u64::from(kernel.local_bytes);
        if needed <= free {
            return Ok(());
        }
        let text = format!(
            "launch of `{}`: {needed} bytes of local memory ({} for each of {resident} threads that run at the same \
             time), {free} bytes of simulated device memory are free",
            kernel.name, kernel.local_bytes
        );
        Err(Status::OutOfMemory.error(text))
    }
}
