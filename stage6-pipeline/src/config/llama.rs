//! The keys of Llama, Mistral, Qwen2 and StableLM: one architecture, four
//! sets of names and defaults.

use serde_json::json;

use super::keys::Keys;
use super::rope;
use crate::Error;
use crate::architecture::{
    Architecture, Biases, LARGEST, MOST_LAYERS, Mlp, NormKind, Positions, WIDEST_HEAD,
};

pub(super) fn read(keys: &mut Keys, family: &str) -> Result<Architecture, Error> {
    keys.only("rope_interleaved", json!(false))?;
    keys.only("is_encoder_decoder", json!(false))?;
    keys.only("add_cross_attention", json!(false))?;
    keys.only("pruned_heads", json!({}))?;
    // Two names of the same function.
    if let Some(name) = keys.text("hidden_act")?
        && !matches!(name.as_str(), "silu" | "swish")
    {
        return Err(keys.wrong("hidden_act", name, "silu"));
    }

    let layers = keys.size("num_hidden_layers", MOST_LAYERS)?;
    let hidden = keys.size("hidden_size", LARGEST)?;
    let inner = keys.size("intermediate_size", LARGEST)?;
    let heads = keys.size("num_attention_heads", LARGEST)?;
    let kv_heads = keys
        .optional_size("num_key_value_heads", heads)?
        .unwrap_or(heads);
    let context = keys.size("max_position_embeddings", LARGEST)?;
    let vocab = keys.size("vocab_size", LARGEST)?;
    if !heads.is_multiple_of(kv_heads) {
        let expected = format!("a divisor of num_attention_heads = {heads}");
        return Err(keys.wrong("num_key_value_heads", kv_heads, &expected));
    }
    let head_dim = match keys.optional_size("head_dim", WIDEST_HEAD)? {
        Some(head_dim) => head_dim,
        None if hidden.is_multiple_of(heads) && hidden / heads <= WIDEST_HEAD => hidden / heads,
        None => {
            let expected = format!("num_attention_heads = {heads} times at most {WIDEST_HEAD}");
            return Err(keys.wrong("hidden_size", hidden, &expected));
        }
    };
    if !head_dim.is_multiple_of(2) {
        return Err(keys.wrong(
            "head_dim",
            head_dim,
            "an even number, of which RoPE rotates pairs",
        ));
    }

    let (biases, windows) = match family {
        "llama" => {
            keys.only("sliding_window", json!(null))?;
            let attention = keys.flag("attention_bias", false)?;
            let biases = Biases {
                qkv: attention,
                out: attention,
                mlp: keys.flag("mlp_bias", false)?,
            };
            (biases, vec![None; layers])
        }
        "mistral" => {
            refuse_biases(keys)?;
            let biases = Biases {
                qkv: false,
                out: false,
                mlp: false,
            };
            (biases, vec![mistral_window(keys)?; layers])
        }
        "stablelm" => {
            keys.only("use_parallel_residual", json!(false))?;
            keys.only("qk_layernorm", json!(false))?;
            let biases = Biases {
                qkv: keys.flag("use_qkv_bias", false)?,
                out: false,
                mlp: false,
            };
            (biases, vec![None; layers])
        }
        _ => {
            keys.only("mlp_bias", json!(false))?;
            keys.only("use_mrope", json!(false))?;
            // Some configs note what Qwen2 always has.
            keys.only("attention_bias", json!(true))?;
            let biases = Biases {
                qkv: true,
                out: false,
                mlp: false,
            };
            (biases, qwen2_windows(keys, layers)?)
        }
    };
    // StableLM rotates a quarter of a head unless its config says otherwise.
    let whole = family != "stablelm";
    let rope = rope::read(keys, head_dim, context, whole)?;
    let (norm, epsilon) = match family {
        "stablelm" => (
            NormKind::LayerNorm,
            keys.positive("layer_norm_eps")?.unwrap_or(1e-5),
        ),
        _ => (
            NormKind::RmsNorm,
            keys.positive("rms_norm_eps")?.unwrap_or(1e-6),
        ),
    };
    Ok(Architecture {
        layers,
        hidden,
        heads,
        kv_heads,
        head_dim,
        inner,
        context,
        vocab,
        norm,
        norm_epsilon: epsilon as f32,
        positions: Positions::Rope(rope),
        mlp: Mlp::SwiGlu,
        windows,
        biases,
        tied: keys.flag("tie_word_embeddings", false)?,
        end: keys.tokens("eos_token_id", vocab)?,
    })
}

fn refuse_biases(keys: &mut Keys) -> Result<(), Error> {
    keys.only("attention_bias", json!(false))?;
    keys.only("mlp_bias", json!(false))
}

/// The window of every layer: 4096 if the key is not there, none if it is null.
fn mistral_window(keys: &mut Keys) -> Result<Option<usize>, Error> {
    let missing = !keys.has("sliding_window");
    let window = keys.optional_size("sliding_window", LARGEST)?;
    Ok(if missing { Some(4096) } else { window })
}

/// `layer_types` says it layer by layer; else the layers from
/// `max_window_layers` on have the window.
fn qwen2_windows(keys: &mut Keys, layers: usize) -> Result<Vec<Option<usize>>, Error> {
    let used = keys.flag("use_sliding_window", false)?;
    let window = match keys.has("sliding_window") {
        true => keys.optional_size("sliding_window", LARGEST)?,
        false => Some(4096),
    };
    let window = window.filter(|_| used);
    let first = keys.count("max_window_layers")?.unwrap_or(28);
    let Some(types) = keys.texts("layer_types")? else {
        return Ok((0..layers)
            .map(|layer| window.filter(|_| layer >= first))
            .collect());
    };
    if types.len() != layers {
        let expected = format!("one for each of num_hidden_layers = {layers}");
        return Err(keys.wrong("layer_types", format!("{} entries", types.len()), &expected));
    }
    let window_of = |kind: &String| match (kind.as_str(), window) {
        ("full_attention", _) => Ok(None),
        ("sliding_attention", Some(window)) => Ok(Some(window)),
        ("sliding_attention", None) => Err(keys.wrong(
            "layer_types",
            kind,
            "full_attention, as there is no sliding window",
        )),
        _ => Err(keys.wrong("layer_types", kind, "full_attention or sliding_attention")),
    };
    types.iter().map(window_of).collect()
}
