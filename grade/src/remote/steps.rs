//! Stage 2's interface.

use cudarc::driver::{CudaView, CudaViewMut};
use exercise_kit::cuda::array_of;
use exercise_kit::stage2::Call;
use stage2_naive_cuda::{
    Additive, AttentionInputs, AttentionOutputs, AttentionShape, Gemm, ScaleAndMask, Softmax, Steps,
};

use super::{Error, Remote};

impl Remote {
    fn product(
        &self,
        call: Call,
        [a, b]: [CudaView<'_, f32>; 2],
        mut c: CudaViewMut<'_, f32>,
    ) -> Result<(), Error> {
        let tensors = [self.read(&a)?, self.read(&b)?, self.read(&c.as_view())?];
        self.into_views(call, &tensors, &mut c, None)
    }
}

impl Steps for Remote {
    type Error = Error;

    fn softmax(
        &self,
        mut x: CudaViewMut<'_, f32>,
        mut lse: Option<CudaViewMut<'_, f32>>,
        shape: &Softmax,
    ) -> Result<(), Error> {
        let mut tensors = vec![self.read(&x.as_view())?];
        if let Some(lse) = &lse {
            tensors.push(self.read(&lse.as_view())?);
        }
        let call = Call::Softmax {
            shape: *shape,
            lse: lse.is_some(),
        };
        self.into_views(call, &tensors, &mut x, lse.as_mut())
    }

    fn gemm_nt(
        &self,
        a: CudaView<'_, f32>,
        b: CudaView<'_, f32>,
        c: CudaViewMut<'_, f32>,
        shape: &Gemm,
    ) -> Result<(), Error> {
        self.product(Call::GemmNt(*shape), [a, b], c)
    }

    fn gemm_nn(
        &self,
        a: CudaView<'_, f32>,
        b: CudaView<'_, f32>,
        c: CudaViewMut<'_, f32>,
        shape: &Gemm,
    ) -> Result<(), Error> {
        self.product(Call::GemmNn(*shape), [a, b], c)
    }

    fn scale_and_mask(
        &self,
        mut scores: CudaViewMut<'_, f32>,
        mask: Option<Additive<'_>>,
        shape: &ScaleAndMask,
    ) -> Result<(), Error> {
        let mut tensors = vec![self.read(&scores.as_view())?];
        if let Some(mask) = &mask {
            tensors.push(self.read(&mask.values)?);
        }
        let call = Call::ScaleAndMask {
            shape: *shape,
            mask: mask.map(|mask| array_of(mask.strides)),
        };
        self.into_views(call, &tensors, &mut scores, None)
    }

    fn attention(
        &self,
        inputs: AttentionInputs<'_>,
        outputs: AttentionOutputs<'_>,
        shape: &AttentionShape,
    ) -> Result<(), Error> {
        let AttentionInputs { q, k, v, mask } = inputs;
        let AttentionOutputs { mut o, mut lse } = outputs;
        let mut tensors = vec![self.read(&q)?, self.read(&k)?, self.read(&v)?];
        if let Some(mask) = &mask {
            tensors.push(self.read(&mask.values)?);
        }
        tensors.push(self.read(&o.as_view())?);
        if let Some(lse) = &lse {
            tensors.push(self.read(&lse.as_view())?);
        }
        let call = Call::Attention {
            shape: *shape,
            mask: mask.map(|mask| array_of(mask.strides)),
            lse: lse.is_some(),
        };
        self.into_views(call, &tensors, &mut o, lse.as_mut())
    }

    fn argument_of(error: &Error) -> Option<&str> {
        error.argument()
    }
}
