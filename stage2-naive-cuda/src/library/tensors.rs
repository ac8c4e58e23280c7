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

/// The device memory that attention writes.
#[derive(Debug)]
pub struct AttentionOutputs<'a> {
    /// The attended values, `[B, H, nq, D]`.
    pub o: CudaViewMut<'a, f32>,
    /// The log-sum-exp of each row of scores, packed `[B, H, nq]`; not written if `None`.
    pub lse: Option<CudaViewMut<'a, f32>>,
}
