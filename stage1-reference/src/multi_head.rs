use ndarray::{Array3, Array4, ArrayView3};

use crate::{Error, Linear, MultiHeadAttention, Options, attention};

impl MultiHeadAttention {
    /// Applies the layer to `x` `[B, N, hidden]` and returns `[B, N, hidden]`.
    ///
    /// The masks of `options` are those of [`attention()`]; the additive one is `[B or 1, H or 1, N, N]`.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] if a weight or bias does not fit `x`, or `hidden` is not a positive multiple of `heads`; and
    /// the errors of [`attention()`].
    pub fn forward(&self, x: ArrayView3<'_, f32>, options: &Options) -> Result<Array3<f32>, Error> {
        self.check(x)?;
        // ANCHOR: forward
        let q = split_heads(self.w_q.apply(x), self.heads); // [B, H, N, D]
        let k = split_heads(self.w_k.apply(x), self.heads);
        let v = split_heads(self.w_v.apply(x), self.heads);
        let output = attention(q.view(), k.view(), v.view(), options)?;
        let merged = merge_heads(output.o); // [B, N, hidden]
        Ok(self.w_o.apply(merged.view()))
        // ANCHOR_END: forward
    }
}

// ANCHOR: linear
impl Linear {
    /// `x · weight + bias` for `x` `[B, N, in]`: one matrix product over all rows of all batches.
    fn apply(&self, x: ArrayView3<'_, f32>) -> Array3<f32> {
        let (batch, n, width) = x.dim();
        let rows = x
            .to_shape((batch * n, width))
            .expect("the same number of elements");
        let mut y = rows.dot(&self.weight); // [B · N, out]
        if let Some(bias) = &self.bias {
            y += bias;
        }
        let shape = (batch, n, self.weight.ncols());
        y.into_shape_with_order(shape)
            .expect("the same number of elements")
    }
}
// ANCHOR_END: linear

// ANCHOR: heads
/// `[B, N, hidden]` to `[B, H, N, D]`, where `hidden = H · D`: each head takes D neighbouring columns.
fn split_heads(x: Array3<f32>, heads: usize) -> Array4<f32> {
    let (batch, n, hidden) = x.dim();
    let shape = (batch, n, heads, hidden / heads);
    let split = x.into_shape_with_order(shape).expect("hidden = H · D");
    split.permuted_axes([0, 2, 1, 3])
}

/// The inverse: `[B, H, N, D]` to `[B, N, H · D]`, the heads side by side.
fn merge_heads(o: Array4<f32>) -> Array3<f32> {
    let (batch, heads, n, d) = o.dim();
    let o = o.permuted_axes([0, 2, 1, 3]); // [B, N, H, D], not contiguous
    o.as_standard_layout()
        .into_owned()
        .into_shape_with_order((batch, n, heads * d))
        .expect("hidden = H · D")
}
// ANCHOR_END: heads
