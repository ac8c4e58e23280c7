//! Blocks of a prefill in half precision, whose products and attention run on tensor cores.
//!
//! Whatever is multiplied is rounded to the weights' type by the kernel that computes it. Sums,
//! norms, softmax and the residual stream stay f32.

use half::{bf16, f16};
use stage4_flash_cuda::{Format, Half, Outputs};
use stage5_decode::Dtype;

use super::pass::{Parts, Pass, Phase, activation};
use crate::kernels::{Activation, Kernels};
use crate::linear::GEMV_ROWS;
use crate::weights::{Block, Device};
use crate::{Architecture, Epilogue, Error, Weights};

/// The type of the activations of a long prompt: that of the weights, if tensor cores take the
/// products of all blocks.
pub(super) fn format(
    architecture: &Architecture,
    weights: &Weights<Device>,
    kernels: &Kernels,
) -> Option<Format> {
    let dtype = weights.blocks.first()?.qkv.weight.dtype;
    let format = match dtype {
        Dtype::F32 => return None,
        Dtype::F16 => Format::F16,
        Dtype::Bf16 => Format::Bf16,
    };
    let on_tensor_cores = |block: &Block<Device>| {
        [
            (&block.qkv, Epilogue::Store),
            (&block.out, Epilogue::Add),
            (&block.up, activation(architecture.mlp)),
            (&block.down, Epilogue::Add),
        ]
        .into_iter()
        .all(|(layer, epilogue)| {
            layer.weight.dtype == dtype && kernels.on_tensor_cores(&layer.weight, epilogue)
        })
    };
    let mut blocks = weights.blocks.iter();
    blocks.all(on_tensor_cores).then_some(format)
}

impl Pass<'_> {
    /// The type of the activations of this pass, if it is not f32.
    pub(super) fn half(&self, phase: &Phase<'_>) -> Option<Format> {
        match phase {
            Phase::Prefill if self.rows() > GEMV_ROWS => self.model.half,
            _ => None,
        }
    }

    /// One block: `x += attention(norm(x))`, then `x += linear(activation(linear(norm(x))))`. Keys
    /// and values go into the cache.
    pub(super) fn block_in_half(
        &mut self,
        format: Format,
        layer: usize,
        block: &Block<Device>,
    ) -> Result<(), Error> {
        match format {
            Format::F16 => self.block::<f16>(layer, block),
            Format::Bf16 => self.block::<bf16>(layer, block),
        }
    }

    // ANCHOR: block_in_half
    fn block<T: Half + Activation>(
        &mut self,
        layer: usize,
        block: &Block<Device>,
    ) -> Result<(), Error> {
        let (model, rows) = (self.model, self.rows());
        let (a, kernels) = (&model.architecture, &model.kernels);
        let (normed, hidden) = (rows * a.hidden, rows * a.inner);
        let (qkv, attended) = (rows * a.qkv_rows(), rows * a.heads * a.head_dim);

        let b = &mut *self.buffers;
        let (x, y) = (b.x.first(rows), b.normed.elements_mut::<T>(normed));
        model.norm(&block.attention_norm, x, y)?;
        let (x, y) = (b.normed.elements::<T>(normed), b.qkv.elements_mut::<T>(qkv));
        block.qkv.apply(kernels, x, y, Epilogue::Store)?;
        self.rotate::<T>()?;
        self.append::<T>(layer)?;

        let (shape, parts) = (self.among_each_other(layer), Parts::of(a, self.n));
        let b = &mut *self.buffers;
        let inputs = parts.inputs(b.qkv.elements::<T>(qkv));
        let o = b.attended.elements_mut(attended);
        let outputs = Outputs { o, lse: None };
        model
            .prefill
            .forward_half(&model.stream, inputs, outputs, &shape)?;
        let (x, y) = (b.attended.elements::<T>(attended), b.x.first_mut(rows));
        block.out.apply(kernels, x, y, Epilogue::Add)?;

        let (x, y) = (b.x.first(rows), b.normed.elements_mut::<T>(normed));
        model.norm(&block.mlp_norm, x, y)?;
        let (x, y) = (
            b.normed.elements::<T>(normed),
            b.hidden.elements_mut::<T>(hidden),
        );
        block.up.apply(kernels, x, y, activation(a.mlp))?;
        let (x, y) = (b.hidden.elements::<T>(hidden), b.x.first_mut(rows));
        block.down.apply(kernels, x, y, Epilogue::Add)
    }
    // ANCHOR_END: block_in_half
}
