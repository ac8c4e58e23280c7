//! The keys of GPT-2's config.

use serde_json::json;

use super::keys::Keys;
use crate::Error;
use crate::architecture::{
    Architecture, Biases, LARGEST, MOST_LAYERS, Mlp, NormKind, Positions, WIDEST_HEAD,
};

pub(super) fn read(keys: &mut Keys) -> Result<Architecture, Error> {
    keys.only("scale_attn_weights", json!(true))?;
    keys.only("scale_attn_by_inverse_layer_idx", json!(false))?;
    keys.only("add_cross_attention", json!(false))?;
    keys.only("is_encoder_decoder", json!(false))?;
    keys.only("pruned_heads", json!({}))?;
    // Three names of the same function.
    let activation = keys.text("activation_function")?;
    if let Some(name) = activation
        && !matches!(
            name.as_str(),
            "gelu_new" | "gelu_pytorch_tanh" | "gelu_fast"
        )
    {
        return Err(keys.wrong("activation_function", name, "gelu_new"));
    }

    let layers = keys.size("n_layer", MOST_LAYERS)?;
    let heads = keys.size("n_head", LARGEST)?;
    let hidden = keys.size("n_embd", LARGEST)?;
    let inner = keys
        .optional_size("n_inner", LARGEST)?
        .unwrap_or(4 * hidden);
    let vocab = keys.size("vocab_size", LARGEST)?;
    let context = keys.optional_size("n_positions", LARGEST)?;
    let context = match context {
        Some(context) => context,
        None => keys.size("n_ctx", LARGEST)?,
    };
    if !hidden.is_multiple_of(heads) {
        return Err(keys.wrong("n_embd", hidden, &format!("a multiple of n_head = {heads}")));
    }
    if hidden / heads > WIDEST_HEAD {
        return Err(keys.wrong(
            "n_embd",
            hidden,
            &format!("at most {WIDEST_HEAD} for each of n_head = {heads}"),
        ));
    }

    Ok(Architecture {
        layers,
        hidden,
        heads,
        kv_heads: heads,
        head_dim: hidden / heads,
        inner,
        context,
        vocab,
        norm: NormKind::LayerNorm,
        norm_epsilon: keys.positive("layer_norm_epsilon")?.unwrap_or(1e-5) as f32,
        positions: Positions::Learned,
        mlp: Mlp::Gelu,
        windows: vec![None; layers],
        biases: Biases {
            qkv: true,
            out: true,
            mlp: true,
        },
        tied: keys.flag("tie_word_embeddings", true)?,
        end: keys.tokens("eos_token_id", vocab)?,
    })
}
