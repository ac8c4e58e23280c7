use ndarray::{Array1, Array2, Array3, Array4, ArrayView3};

use crate::{Error, Options, attention};

/// An affine map of rows, `y = x · weight + bias`.
#[derive(Debug, Clone, PartialEq)]
pub struct Linear {
    /// `[in, out]`. (PyTorch's `nn.Linear` stores the transpose.)
    pub weight: Array2<f32>,
    /// `[out]`.
    pub bias: Option<Array1<f32>>,
}

/// A multi-head attention layer: project to queries, keys and values, attend in every head, project back.
///
/// Source: Vaswani et al., "Attention Is All You Need", 2017, section 3.2.2. With the same weights (transposed) it
/// computes what `torch.nn.MultiheadAttention(hidden, heads, batch_first=True)` computes from `x, x, x`.
#[derive(Debug, Clone, PartialEq)]
pub struct MultiHeadAttention {
    /// To queries, `[hidden, hidden]`.
    pub w_q: Linear,
    /// To keys, `[hidden, hidden]`.
    pub w_k: Linear,
    /// To values, `[hidden, hidden]`.
    pub w_v: Linear,
    /// From the heads' outputs, side by side, to the layer's output, `[hidden, hidden]`.
    pub w_o: Linear,
    /// Heads, `H`; divides `hidden`.
    pub heads: usize,
}

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

    fn check(&self, x: ArrayView3<'_, f32>) -> Result<(), Error> {
        let hidden = x.dim().2;
        let shape_error = |argument, actual: &[usize], expected| {
            let operation = "MultiHeadAttention::forward";
            Err(Error::shape(operation, argument, actual, expected))
        };
        if hidden == 0 || self.heads == 0 || !hidden.is_multiple_of(self.heads) {
            let expected = format!(
                "[B, N, hidden] with hidden a positive multiple of the {} heads",
                self.heads
            );
            return shape_error("x", x.shape(), expected);
        }
        for (weight_name, bias_name, linear) in [
            ("w_q.weight", "w_q.bias", &self.w_q),
            ("w_k.weight", "w_k.bias", &self.w_k),
            ("w_v.weight", "w_v.bias", &self.w_v),
            ("w_o.weight", "w_o.bias", &self.w_o),
        ] {
            if linear.weight.dim() != (hidden, hidden) {
                let expected = format!("[{hidden}, {hidden}] to fit `x`");
                return shape_error(weight_name, linear.weight.shape(), expected);
            }
            if let Some(bias) = &linear.bias
                && bias.len() != hidden
            {
                return shape_error(bias_name, bias.shape(), format!("[{hidden}] to fit `x`"));
            }
        }
        Ok(())
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
