use ndarray::{Array3, Array4, ArrayView3};

use crate::Linear;

// ANCHOR: linear
/// `x · weight + bias` for `x` `[B, N, in]`: one matrix product over all rows of all batches.
pub fn apply(linear: &Linear, x: ArrayView3<'_, f32>) -> Array3<f32> {
    let (batch, n, width) = x.dim();
    let rows = x.to_shape((batch * n, width)).expect("as many elements");
    let mut y = rows.dot(&linear.weight); // [B · N, out]
    if let Some(bias) = &linear.bias {
        y += bias;
    }
    let shape = (batch, n, linear.weight.ncols());
    y.into_shape_clone(shape).expect("as many elements")
}
// ANCHOR_END: linear

// ANCHOR: heads
/// `[B, N, hidden]` to `[B, H, N, D]`, where `hidden = H · D`: each head
/// takes D neighbouring columns.
pub fn split_heads(x: Array3<f32>, heads: usize) -> Array4<f32> {
    let (batch, n, hidden) = x.dim();
    let shape = (batch, n, heads, hidden / heads);
    let split = x.into_shape_clone(shape).expect("hidden = H · D");
    split.permuted_axes([0, 2, 1, 3])
}

/// The inverse: `[B, H, N, D]` to `[B, N, H · D]`, the heads side by side.
pub fn merge_heads(o: Array4<f32>) -> Array3<f32> {
    let (batch, heads, n, d) = o.dim();
    let o = o.permuted_axes([0, 2, 1, 3]); // [B, N, H, D], not contiguous
    o.as_standard_layout()
        .into_owned()
        .into_shape_with_order((batch, n, heads * d))
        .expect("hidden = H · D")
}
// ANCHOR_END: heads
