//! The element types of the library's kernels.

use std::sync::Arc;

use cudarc::driver::{CudaStream, DeviceRepr};
use half::{bf16, f16};
use stage4_flash_cuda as stage4;
use stage4_flash_cuda::{Attention, Backward, BackwardInputs, Gradients, Inputs, Outputs, Shape};

use crate::dlpack::Element;

/// An element type that the library's kernels have.
pub trait DeviceElement: Element + DeviceRepr + Default {
    fn forward(
        attention: &Attention,
        stream: &Arc<CudaStream>,
        inputs: Inputs<'_, Self>,
        outputs: Outputs<'_, Self>,
        shape: &Shape,
    ) -> Result<(), stage4::Error>;

    fn backward(
        backward: &Backward,
        stream: &Arc<CudaStream>,
        inputs: BackwardInputs<'_, Self>,
        gradients: Gradients<'_, Self>,
        shape: &Shape,
    ) -> Result<(), stage4::Error>;
}

/// The type's functions are these methods.
macro_rules! device_element {
    ($type:ty, $forward:ident, $backward:ident) => {
        impl DeviceElement for $type {
            fn forward(
                attention: &Attention,
                stream: &Arc<CudaStream>,
                inputs: Inputs<'_, Self>,
                outputs: Outputs<'_, Self>,
                shape: &Shape,
            ) -> Result<(), stage4::Error> {
                attention.$forward(stream, inputs, outputs, shape)
            }

            fn backward(
                backward: &Backward,
                stream: &Arc<CudaStream>,
                inputs: BackwardInputs<'_, Self>,
                gradients: Gradients<'_, Self>,
                shape: &Shape,
            ) -> Result<(), stage4::Error> {
                backward.$backward(stream, inputs, gradients, shape)
            }
        }
    };
}

device_element!(f32, forward, backward);
device_element!(f16, forward_half, backward_half);
device_element!(bf16, forward_half, backward_half);
