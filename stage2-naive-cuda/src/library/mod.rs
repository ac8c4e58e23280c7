//! The library: one kernel for each step, with every option. Tensors are strided, heads may share
//! keys and values, masks may be added, weights dropped, and softmax runs over any dimension.

mod attention;
mod dropout;
mod gemm;
pub mod host;
mod scale_and_mask;
mod softmax;
mod tensors;

use std::sync::Arc;

use cudarc::driver::{CudaFunction, CudaStream};
use gpu::arguments::Checks;

use crate::{Error, KERNELS, Product};

pub use attention::{AttentionShape, LACKS, LADDER_LACKS, Variant};
pub use dropout::{DropoutArgument, DropoutShape};
pub use gemm::GemmShape;
pub use scale_and_mask::{Additive, ScaleAndMaskShape};
pub use softmax::{Axis, SoftmaxShape};
pub use tensors::{AttentionInputs, AttentionOutputs};

/// The kernels of the library, loaded on one device, and the stream they are launched on.
#[derive(Debug)]
pub struct Kernels {
    stream: Arc<CudaStream>,
    gemm_nn: CudaFunction,
    gemm_nt: CudaFunction,
    scale_and_mask: CudaFunction,
    softmax: CudaFunction,
    dropout: CudaFunction,
}

impl Kernels {
    /// Loads the kernels on the device of `stream`, which all launches will go to.
    ///
    /// # Errors
    ///
    /// [`Error::Load`] if a kernel cannot be compiled or loaded.
    pub fn new(stream: &Arc<CudaStream>) -> Result<Self, Error> {
        let load = |name: &str, constants: &[(&str, &str)]| -> Result<CudaFunction, Error> {
            let file = format!("library/{name}.cu");
            let module = KERNELS.load(stream.context(), &file, constants)?;
            Ok(module.load_function(name)?)
        };
        let gemm = |product: Product| load("gemm", &[("TRANSPOSED", product.transposed())]);
        Ok(Self {
            stream: stream.clone(),
            gemm_nn: gemm(Product::Nn)?,
            gemm_nt: gemm(Product::Nt)?,
            scale_and_mask: load("scale_and_mask", &[])?,
            softmax: load("softmax", &[])?,
            dropout: load("dropout", &[])?,
        })
    }

    /// The stream that the kernels are launched on.
    pub fn stream(&self) -> &Arc<CudaStream> {
        &self.stream
    }

    /// The checks of an operation on the device of these kernels.
    fn checks(&self, operation: &'static str) -> Checks {
        Checks::new(operation, self.stream.context())
    }
}
