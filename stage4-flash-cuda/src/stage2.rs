//! The modes that keep their scores: stage 2's kernels, with the masks that stage 2 lacks.

use std::ops::Range;
use std::sync::Arc;

use cudarc::driver::{
    CudaFunction, CudaStream, CudaView, CudaViewMut, LaunchConfig, PushKernelArg,
};
use stage1_reference::Sizes;
use stage2_naive_cuda::{
    AttentionInputs, AttentionShape, Axis, Gemm, Kernels, Softmax, Strides, Variant,
};

use crate::attention::KERNELS;
use crate::launch::{NULL, Problem};
use crate::{Attention, Error, Inputs, Outputs, Shape};

/// Threads of a block: `THREADS` in `mask_scores.cu`.
const THREADS: u32 = 128;

/// Sequences that have as many keys, and how many.
struct Part {
    batch: Range<usize>,
    keys: usize,
}

impl Attention {
    /// Attention by stage 2's products, on arguments that have been checked.
    pub(crate) fn stage2(
        &self,
        products: Variant,
        stream: &Arc<CudaStream>,
        inputs: Inputs<'_>,
        outputs: Outputs<'_>,
        shape: &Shape,
    ) -> Result<(), Error> {
        // The modules stay loaded, so this costs a few look-ups.
        let kernels = Kernels::new(stream)?;
        if shape.window.is_some() || inputs.key_lengths.is_some() || inputs.blocks.is_some() {
            return self.masked(&kernels, products, inputs, outputs, shape);
        }
        let shape = AttentionShape {
            sizes: shape.sizes,
            scale: shape.scale,
            causal: shape.causal,
            q: shape.q,
            k: shape.k,
            v: shape.v,
            o: shape.o,
        };
        let Inputs { q, k, v, mask, .. } = inputs;
        let inputs = AttentionInputs { q, k, v, mask };
        Ok(kernels.attention(products, inputs, outputs, &shape)?)
    }

    /// The same steps, with `mask_scores.cu` for the second. Sequences of different lengths are computed one after the other,
    /// so that their padding is not read.
    fn masked(
        &self,
        kernels: &Kernels,
        products: Variant,
        inputs: Inputs<'_>,
        mut outputs: Outputs<'_>,
        shape: &Shape,
    ) -> Result<(), Error> {
        let Sizes {
            batch,
            heads,
            nq,
            nk,
            head_dim,
            ..
        } = shape.sizes;
        let matrices = batch.saturating_mul(heads);
        // At least as many blocks as any of the steps has, so that none is refused after another was launched.
        for blocks in [
            nq,
            nq.div_ceil(8).saturating_mul(nk.max(head_dim).div_ceil(16)),
        ] {
            self.checks().grid(matrices.saturating_mul(blocks))?;
        }
        if matrices * nq == 0 {
            return Ok(());
        }
        let module = KERNELS.load(kernels.stream().context(), "mask_scores.cu", &[])?;
        let mask_scores = module.load_function("mask_scores")?;
        for part in parts(kernels.stream(), &inputs, shape.sizes)? {
            part.attention(
                kernels,
                products,
                &mask_scores,
                &inputs,
                &mut outputs,
                shape,
            )?;
        }
        Ok(())
    }
}

/// The sequences by their number of keys. Waits for the lengths, if there are any: they lie on the device.
fn parts(
    stream: &Arc<CudaStream>,
    inputs: &Inputs<'_>,
    Sizes { batch, nk, .. }: Sizes,
) -> Result<Vec<Part>, Error> {
    let Some(lengths) = &inputs.key_lengths else {
        let batch = 0..batch;
        return Ok(vec![Part { batch, keys: nk }]);
    };
    let lengths = stream.clone_dtoh(&lengths.slice(..batch))?;
    stream.synchronize()?;
    let part = |(b, &length)| Part {
        batch: b..b + 1,
        keys: usize::try_from(length).unwrap_or(0).min(nk),
    };
    Ok(lengths.iter().enumerate().map(part).collect())
}

impl Part {
    fn attention(
        &self,
        kernels: &Kernels,
        products: Variant,
        mask_scores: &CudaFunction,
        inputs: &Inputs<'_>,
        outputs: &mut Outputs<'_>,
        shape: &Shape,
    ) -> Result<(), Error> {
        let Sizes {
            heads,
            kv_heads,
            nq,
            head_dim,
            ..
        } = shape.sizes;
        let (batch, keys) = (self.batch.len(), self.keys);
        let rows = batch * heads * nq;
        let packed_scores = Strides::packed(heads, nq, keys);
        let q_by_k = Gemm {
            batch,
            heads,
            b_heads: kv_heads,
            a: shape.q,
            b: shape.k,
            c: packed_scores,
            ..Gemm::nt(nq, keys, head_dim)
        };
        let p_by_v = Gemm {
            n: head_dim,
            k: keys,
            a: packed_scores,
            b: shape.v,
            c: shape.o,
            ..q_by_k
        };
        let by_row = Softmax {
            batch: batch * heads,
            rows: nq,
            columns: keys,
            axis: Axis::Last,
        };
        let q = self.of(&inputs.q, shape.q);
        let k = self.of(&inputs.k, shape.k);
        let v = self.of(&inputs.v, shape.v);
        let o = (outputs.o).slice_mut(self.batch.start * shape.o.batch..);
        let first_row = self.batch.start * heads * nq;
        let lse = (outputs.lse.as_mut()).map(|lse| lse.slice_mut(first_row..first_row + rows));

        // A driver allocates no 0 bytes, and without keys there are no scores.
        // SAFETY: the first product writes every score before the next step reads it.
        let mut scores = unsafe { kernels.stream().alloc::<f32>((rows * keys).max(1)) }?;
        kernels.gemm_nt(products, q, k, scores.as_view_mut(), &q_by_k)?;
        if keys > 0 {
            self.mask(kernels, mask_scores, scores.as_view_mut(), inputs, shape)?;
        }
        kernels.softmax(scores.as_view_mut(), lse, &by_row)?;
        Ok(kernels.gemm_nn(products, scores.as_view(), v, o, &p_by_v)?)
    }

    /// Scales and masks the scores `[B, H, nq, nk]` of this part, packed; there is at least one.
    fn mask(
        &self,
        kernels: &Kernels,
        mask_scores: &CudaFunction,
        mut scores: CudaViewMut<'_, f32>,
        inputs: &Inputs<'_>,
        shape: &Shape,
    ) -> Result<(), Error> {
        let Sizes { heads, nq, .. } = shape.sizes;
        let config = LaunchConfig {
            grid_dim: ((self.batch.len() * heads * nq) as u32, 1, 1),
            block_dim: (THREADS, 1, 1),
            shared_mem_bytes: 0,
        };
        let mask = inputs.mask.as_ref();
        let mask = mask.map(|mask| self.of(&mask.values, mask.strides));
        let blocks = inputs.blocks.as_ref();
        let blocks = blocks.map(|blocks| self.of(&blocks.bits, blocks.strides));
        // The band of diagonals is that of all nk keys: masks do not move with the length of a sequence.
        let mut problem = Problem::new(shape, inputs)?;
        problem.nk = self.keys as i32;
        let mut launch = kernels.stream().launch_builder(mask_scores);
        launch.arg(&mut scores);
        match &mask {
            Some(mask) => launch.arg(mask),
            None => launch.arg(&NULL),
        };
        match &blocks {
            Some(blocks) => launch.arg(blocks),
            None => launch.arg(&NULL),
        };
        launch.arg(&problem);
        // SAFETY: these are the parameters of `mask_scores`, in order. There is a block for each row of `scores`; the caller
        // found every element of the masks that the problem names inside their views; one that is null is not touched.
        unsafe { launch.launch(config) }?;
        Ok(())
    }

    /// The view from this part's first sequence on. It may be empty, if there are no keys.
    fn of<'a, T>(&self, view: &'a CudaView<'_, T>, strides: Strides) -> CudaView<'a, T> {
        let first = self.batch.start.saturating_mul(strides.batch);
        view.slice(first.min(view.len())..)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_has_the_threads_of_its_kernel() {
        let source = include_str!("../kernels/mask_scores.cu");
        assert!(source.contains(&format!("constexpr int THREADS = {THREADS};")));
    }
}
