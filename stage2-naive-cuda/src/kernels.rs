use std::sync::Arc;

use cudarc::driver::{CudaFunction, CudaStream};
use gpu::arguments::Checks;

use crate::Error;

/// The kernel files of this stage. Kernels of packages above may include its headers: `gpu::bundle!` takes it.
pub static KERNELS: gpu::Bundle = gpu::bundle!();

/// The kernels of this stage, loaded on one device, and the stream they are launched on.
#[derive(Debug)]
pub struct Kernels {
    pub(crate) stream: Arc<CudaStream>,
    pub(crate) gemm_nt_naive: CudaFunction,
    pub(crate) gemm_nt_tiled: CudaFunction,
    pub(crate) gemm_nn_naive: CudaFunction,
    pub(crate) gemm_nn_tiled: CudaFunction,
    pub(crate) scale_and_mask: CudaFunction,
    pub(crate) softmax: CudaFunction,
}

impl Kernels {
    /// Loads the kernels on the device of `stream`, which all launches will go to.
    ///
    /// # Errors
    ///
    /// [`Error::Load`] if a kernel cannot be compiled or loaded.
    pub fn new(stream: &Arc<CudaStream>) -> Result<Self, Error> {
        let load = |name: &str| -> Result<CudaFunction, Error> {
            let module = KERNELS.load(stream.context(), &format!("{name}.cu"), &[])?;
            Ok(module.load_function(name)?)
        };
        Ok(Self {
            stream: stream.clone(),
            gemm_nt_naive: load("gemm_nt_naive")?,
            gemm_nt_tiled: load("gemm_nt_tiled")?,
            gemm_nn_naive: load("gemm_nn_naive")?,
            gemm_nn_tiled: load("gemm_nn_tiled")?,
            scale_and_mask: load("scale_and_mask")?,
            softmax: load("softmax")?,
        })
    }

    /// The stream that the kernels are launched on.
    pub fn stream(&self) -> &Arc<CudaStream> {
        &self.stream
    }

    /// The checks of an operation on the device of these kernels.
    pub(crate) fn checks(&self, operation: &'static str) -> Checks {
        Checks::new(operation, self.stream.context())
    }
}
