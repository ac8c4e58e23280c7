//! The Python module `attention_kernels._native`: attention on arrays that Python hands over.
//!
//! The package around it, in `package/`, has the functions that a user calls. It decides whether a
//! call is NumPy's or PyTorch's, and makes the options. This module computes:
//!
//! - `dlpack/`: tensors of other libraries without a copy, and results for them.
//! - `options`: the options of a call, with their masks.
//! - `cpu`: stage 3, forward and backward.
//! - `stage4`: what calls of stage 4's library share.
//! - `sim`: the libraries of stages 4 and 5, and any kernel, on the simulated device.
//! - `cuda`: stage 4's library on CUDA tensors, where they lie.
//! - `job`: runs a computation without the interpreter's lock, and lets Ctrl-C through.
//! - `error`: errors of the stages as Python's exceptions.

mod cpu;
mod cuda;
mod dlpack;
mod error;
mod job;
mod options;
mod sim;
mod stage4;

/// Attention on arrays that Python hands over.
#[pyo3::pymodule]
mod _native {
    #[pymodule_export]
    const MAX_QUERIES: usize = stage5_decode::MAX_QUERIES;
    #[pymodule_export]
    const MAX_SPLITS: usize = stage5_decode::MAX_SPLITS;
    #[pymodule_export]
    const MIN_PAGE: usize = *stage5_decode::PAGE_SIZES.start();
    #[pymodule_export]
    const MAX_PAGE: usize = *stage5_decode::PAGE_SIZES.end();
    #[pymodule_export]
    use crate::cpu::{cpu_backward, cpu_forward};
    #[pymodule_export]
    use crate::cuda::{cuda_backward, cuda_forward};
    #[pymodule_export]
    use crate::dlpack::Exported;
    #[pymodule_export]
    use crate::error::DeviceError;
    #[pymodule_export]
    use crate::options::Options;
    #[pymodule_export]
    use crate::sim::{sim_backward, sim_decode, sim_forward, sim_launch};
}
