use ndarray::{Array3, ArrayView3};

use crate::heads::{apply, merge_heads, split_heads};
use crate::{Error, MultiHead, MultiHeadAttention, Options, Stage1, attention};

impl MultiHead for Stage1 {
    fn multi_head(
        &self,
        layer: &MultiHeadAttention,
        x: ArrayView3<'_, f32>,
        options: &Options,
    ) -> Result<Array3<f32>, Error> {
        layer.check(x)?;
        // ANCHOR: forward
        let q = split_heads(apply(&layer.w_q, x), layer.heads); // [B, H, N, D]
        let k = split_heads(apply(&layer.w_k, x), layer.heads);
        let v = split_heads(apply(&layer.w_v, x), layer.heads);
        let output = attention(q.view(), k.view(), v.view(), options)?;
        let merged = merge_heads(output.o); // [B, N, hidden]
        Ok(apply(&layer.w_o, merged.view()))
        // ANCHOR_END: forward
    }
}
