use ndarray::{Array1, Array2, ArrayView3};

use crate::Error;

/// An affine map of rows, `y = x · weight + bias`.
#[derive(Debug, Clone, PartialEq)]
pub struct Linear {
    /// `[in, out]`. (PyTorch's `nn.Linear` stores the transpose.)
    pub weight: Array2<f32>,
    /// `[out]`.
    pub bias: Option<Array1<f32>>,
}

/// A multi-head attention layer: project to queries, keys and values, attend in
/// every head, project back.
///
/// Source: Vaswani et al., "Attention Is All You Need", 2017, section 3.2.2. With the same weights
/// (transposed) it computes what `torch.nn.MultiheadAttention(hidden, heads, batch_first=True)`
/// computes from `x, x, x`.
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
    /// Checks that the layer fits `x` `[B, N, hidden]`, without computing anything.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] names the first weight or bias that does not fit, or `x` if `hidden` is 0
    /// or no multiple of `heads`.
    pub fn check(&self, x: ArrayView3<'_, f32>) -> Result<(), Error> {
        let (hidden, heads) = (x.dim().2, self.heads);
        let shape_error = |argument, actual: &[usize], expected| {
            Err(Error::shape("multi_head", argument, actual, expected))
        };
        if hidden == 0 || heads == 0 || !hidden.is_multiple_of(heads) {
            let expected =
                format!("[B, N, hidden], hidden a positive multiple of the {heads} heads");
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
