//! The files of the trained model, in the layout of Hugging Face transformers.

/// The GPT-2 configuration.
pub const CONFIG_JSON: &str = include_str!("../config.json");

/// The byte-level BPE tokenizer, in the format of Hugging Face tokenizers;
/// token 0 is `<|endoftext|>`.
pub const TOKENIZER_JSON: &str = include_str!("../tokenizer.json");

/// The weights, f32, as `GPT2LMHeadModel.save_pretrained` writes them: names begin with
/// `transformer.`, the matrices of the layers are `[in, out]`, and `lm_head` is left out because it
/// is `transformer.wte.weight`.
pub const MODEL_SAFETENSORS: &[u8] = include_bytes!("../model.safetensors");
