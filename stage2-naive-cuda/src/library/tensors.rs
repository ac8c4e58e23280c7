use cudarc::driver::{CudaView, CudaViewMut};

use super::Additive;

/// The device memory that attention reads.
#[derive(Debug)]
pub struct AttentionInputs<'a> {
    /// Queries, `[B, H, nq, D]`.
    pub q: CudaView<'a, f32>,
    /// Keys, `[B, H_kv, nk, D]`.
    pub k: CudaView<'a, f32>,
    /// Values, `[B, H_kv, nk, D]`.
    pub v: CudaView<'a, f32>,
    /// An additive mask, if there is one.
    pub mask: Option<Additive<'a>>,
}

/// The device memory that attention writes. `T` is the type of o's elements.
#[derive(Debug)]
pub struct AttentionOutputs<'a, T = f32> {
    /// The attended values, `[B, H, nq, D]`.
    pub o: CudaViewMut<'a, T>,
    /// The log-sum-exp of each row of scores, packed `[B, H, nq]`; not written if `None`.
    pub lse: Option<CudaViewMut<'a, f32>>,
}
