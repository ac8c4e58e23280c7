//! The clinic: kernels that are wrong, to be diagnosed and mended.
//!
//! The launches and the expected results are here, not in the learner's files: comments there may say anything. A kernel runs
//! on the simulator in this process, which bounds what it can do.

use std::path::Path;

use gpu_launch::Invocation;
use gpu_tool::CudaDevice;
use gpu_tool::kernel_file::KernelFile;

/// Orders of blocks and warps that a kernel is launched in.
const SEEDS: u64 = 20;

/// A kernel of the clinic, and its launches: the comments of a kernel file, with an empty line between two launches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patient {
    /// The kernel, and its file without `.cu`.
    pub name: &'static str,
    launches: &'static str,
}

macro_rules! patients {
    ($($name:literal),* $(,)?) => {
        &[$(Patient {
            name: $name,
            launches: include_str!(concat!($name, ".txt")),
        }),*]
    };
}

/// All kernels of the clinic.
pub static PATIENTS: &[Patient] = patients![
    "causal_mean",
    "copy_rows",
    "histogram",
    "neighbours",
    "online_sum",
    "prefix_sum",
    "reverse",
    "ring",
    "row_sum",
    "warp_total",
];

/// The diagnosis of a kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Diagnosis {
    /// No fault under any order, and the expected results.
    Mended,
    /// It cannot be read or compiled.
    NotCompiled(String),
    /// A launch faulted: the report.
    Fault(String),
    /// A buffer holds other values than it should.
    Wrong(String),
}

impl Patient {
    /// Judges the kernel in a folder: each launch under 20 orders of blocks and warps, with all checks of the
    /// simulator.
    pub fn diagnose(&self, folder: &Path) -> Diagnosis {
        let ptx = match self.compiled(folder) {
            Ok(ptx) => ptx,
            Err(error) => return Diagnosis::NotCompiled(error.to_string()),
        };
        gpu::set_checks(true);
        for launch in self.launches.split("\n\n") {
            for seed in 0..SEEDS {
                let outcome = gpu::with_seed(seed, || self.launch(launch, &ptx));
                if outcome != Diagnosis::Mended {
                    return outcome;
                }
            }
        }
        Diagnosis::Mended
    }

    /// The PTX of the kernel in a folder.
    ///
    /// # Errors
    ///
    /// The file cannot be read or compiled; [`gpu::Error::NvrtcMissing`] if it was edited and there is no compiler.
    pub fn compiled(&self, folder: &Path) -> Result<String, gpu_tool::Error> {
        let path = folder.join(format!("{}.cu", self.name));
        Ok(KernelFile::read(&path)?.compile(&[])?.ptx)
    }

    fn launch(&self, launch: &str, ptx: &str) -> Diagnosis {
        let fault = |error: &dyn std::error::Error| Diagnosis::Fault(error.to_string());
        let invocation = match Invocation::parse(launch, Path::new("")) {
            Ok(invocation) => invocation,
            Err(error) => return fault(&error),
        };
        // A context of its own: cudarc remembers errors in it.
        let device = match gpu::context(0) {
            Ok(context) => CudaDevice::new(&context),
            Err(error) => return fault(&error),
        };
        let launched = invocation.prepare(&device, ptx).and_then(|prepared| {
            prepared.launch()?;
            prepared.read_all()
        });
        let buffers = match launched {
            Ok(buffers) => buffers,
            Err(error) => return fault(&error),
        };
        let expected = invocation.expectations.iter();
        match expected
            .map(|kernel| kernel.compare(&buffers))
            .find_map(Result::err)
        {
            Some(mismatch) => Diagnosis::Wrong(mismatch.to_string()),
            None => Diagnosis::Mended,
        }
    }
}
