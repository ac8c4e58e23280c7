//! Launches that are profiled, and what is compared of a profile.

use std::sync::Arc;

use cuda_sim::{Counters, LaunchProfile, Sectors, Wavefronts};
use cudarc::driver::{
    CudaSlice, CudaStream, DevicePtr, DeviceRepr, LaunchConfig, PushKernelArg, ValidAsZeroBits,
};
use cudarc::nvrtc::Ptx;

use crate::common;

/// The device, and launches on it.
pub struct Rig(Arc<CudaStream>);

/// A kernel's argument.
pub enum Arg {
    Buffer(u64),
    Int(i32),
    Float(f32),
    Double(f64),
}

/// A file of kernels.
pub struct File {
    pub source: &'static str,
    pub ptx: &'static str,
}

impl Rig {
    pub fn open() -> Rig {
        Rig(common::context().unwrap().default_stream())
    }

    /// `count` zeros.
    pub fn zeros<T: DeviceRepr + ValidAsZeroBits>(&self, count: usize) -> CudaSlice<T> {
        self.0.alloc_zeros(count).unwrap()
    }

    pub fn upload<T: DeviceRepr>(&self, values: &[T]) -> CudaSlice<T> {
        self.0.clone_htod(values).unwrap()
    }

    pub fn download(&self, slice: &CudaSlice<f32>) -> Vec<f32> {
        self.0.clone_dtoh(slice).unwrap()
    }

    /// The address of a buffer, as an argument. The buffer must live as long as the launch.
    pub fn buffer<T>(&self, slice: &CudaSlice<T>) -> Arg {
        Arg::Buffer(slice.device_ptr(&self.0).0)
    }

    /// Launches a kernel once.
    pub fn launch(
        &self,
        file: &File,
        kernel: &str,
        [grid, block]: [(u32, u32); 2],
        args: &[Arg],
    ) -> LaunchProfile {
        let module = self.0.context().load_module(Ptx::from_src(file.ptx));
        let function = module.unwrap().load_function(kernel).unwrap();
        let mut launch = self.0.launch_builder(&function);
        for arg in args {
            match arg {
                Arg::Buffer(address) => launch.arg(address),
                Arg::Int(value) => launch.arg(value),
                Arg::Float(value) => launch.arg(value),
                Arg::Double(value) => launch.arg(value),
            };
        }
        let shape = LaunchConfig {
            grid_dim: (grid.0, grid.1, 1),
            block_dim: (block.0, block.1, 1),
            shared_mem_bytes: 0,
        };
        // SAFETY: the arguments are the kernel's, and the simulator lets no access leave its
        // buffer.
        let (result, profiles) = cuda_sim::profile(|| unsafe { launch.launch(shape) });
        result.unwrap();
        let [profile] = <[LaunchProfile; 1]>::try_from(profiles).unwrap();
        assert_eq!(profile.kernel, kernel);
        profile
    }
}

/// All of a profile that does not depend on how the compiler words the kernel.
#[derive(Debug, Default, PartialEq)]
pub struct Counts {
    pub loads: Sectors,
    pub stores: Sectors,
    pub atomics: Sectors,
    pub local: Sectors,
    pub shared_loads: Wavefronts,
    pub shared_stores: Wavefronts,
    pub shared_atomics: Wavefronts,
    pub flops_f32: u64,
    pub flops_f64: u64,
    pub branches: u64,
    pub divergent_branches: u64,
    pub barriers: u64,
    /// Compulsory bytes.
    pub read: u64,
    pub written: u64,
}

impl Counts {
    pub fn new(profile: &LaunchProfile) -> Counts {
        let total = &profile.total;
        Counts {
            loads: total.global_loads,
            stores: total.global_stores,
            atomics: total.global_atomics,
            local: total.local,
            shared_loads: total.shared_loads,
            shared_stores: total.shared_stores,
            shared_atomics: total.shared_atomics,
            flops_f32: total.flops_f32,
            flops_f64: total.flops_f64,
            branches: total.branches,
            divergent_branches: total.divergent_branches,
            barriers: total.barriers,
            read: profile.compulsory_read_bytes,
            written: profile.compulsory_write_bytes,
        }
    }
}

/// Traffic of global or local memory.
pub fn sectors(requests: u64, sectors: u64, bytes: u64) -> Sectors {
    Sectors {
        requests,
        sectors,
        bytes,
    }
}

/// Traffic of shared memory: requests, wavefronts, ideal wavefronts, bytes.
pub fn wavefronts([requests, wavefronts, ideal]: [u64; 3], bytes: u64) -> Wavefronts {
    Wavefronts {
        requests,
        wavefronts,
        ideal,
        bytes,
    }
}

/// Traffic of shared memory without conflicts, of words of 4 bytes.
pub fn smooth(requests: u64, bytes: u64) -> Wavefronts {
    wavefronts([requests; 3], bytes)
}

/// Number of the line that has `text` in it, which no other line of the file has.
pub fn line_number(file: &File, text: &str) -> u32 {
    let mut found = (1..)
        .zip(file.source.lines())
        .filter(|(_, line)| line.contains(text));
    let (Some((number, _)), None) = (found.next(), found.next()) else {
        panic!("`{text}` stands in one line");
    };
    number
}

/// The counters of the line that has `text` in it.
pub fn line(profile: &LaunchProfile, file: &File, text: &str) -> Counters {
    let number = line_number(file, text);
    let of_line = profile.lines.iter().find(|line| line.line == number);
    of_line.expect("the line was run").counters
}
