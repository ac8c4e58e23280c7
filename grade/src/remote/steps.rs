//! Stage 2's interface.

use cudarc::driver::{CudaView, CudaViewMut};
use exercise_kit::stage2::{Call, Product};
use stage2_naive_cuda::{
    Additive, AttentionInputs, AttentionOutputs, AttentionShape, Gemm, ScaleAndMask, Softmax, Steps,
};

use super::{Error, Remote};

impl Remote {
    fn product(
        &self,
        call: fn(Product) -> Call,
        [a, b]: [CudaView<'_, f32>; 2],
        mut c: CudaViewMut<'_, f32>,
        shape: &Gemm,
    ) -> Result<(), Error> {
        let product = Product {
            a: self.read(&a)?,
            b: self.read(&b)?,
            c: self.read(&c.as_view())?,
            shape: *shape,
        };
        self.into_views(call(product), &mut c, None)
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
        let call = Call::Softmax {
            x: self.read(&x.as_view())?,
            lse: self.read_some(&lse)?,
            shape: *shape,
        };
        self.into_views(call, &mut x, lse.as_mut())
    }

    fn gemm_nt(
        &self,
        a: CudaView<'_, f32>,
        b: CudaView<'_, f32>,
        c: CudaViewMut<'_, f32>,
        shape: &Gemm,
    ) -> Result<(), Error> {
        self.product(Call::GemmNt, [a, b], c, shape)
    }

    fn gemm_nn(
        &self,
        a: CudaView<'_, f32>,
        b: CudaView<'_, f32>,
        c: CudaViewMut<'_, f32>,
        shape: &Gemm,
    ) -> Result<(), Error> {
        self.product(Call::GemmNn, [a, b], c, shape)
    }

    fn scale_and_mask(
        &self,
        mut scores: CudaViewMut<'_, f32>,
        mask: Option<Additive<'_>>,
        shape: &ScaleAndMask,
    ) -> Result<(), Error> {
        let call = Call::ScaleAndMask {
            scores: self.read(&scores.as_view())?,
            mask: self.read_strided(&mask)?,
            shape: *shape,
        };
        self.into_views(call, &mut scores, None)
    }

    fn attention(
        &self,
        AttentionInputs { q, k, v, mask }: AttentionInputs<'_>,
        AttentionOutputs { mut o, mut lse }: AttentionOutputs<'_>,
        shape: &AttentionShape,
    ) -> Result<(), Error> {
        let call = Call::Attention {
            q: self.read(&q)?,
            k: self.read(&k)?,
            v: self.read(&v)?,
            mask: self.read_strided(&mask)?,
            o: self.read(&o.as_view())?,
            lse: self.read_some(&lse)?,
            shape: *shape,
        };
        self.into_views(call, &mut o, lse.as_mut())
    }

    fn argument_of(error: &Error) -> Option<&str> {
        error.argument()
    }
}
