//! `config.json`: the sizes of a GPT-2 model, and the options that this crate refuses.

use serde::Deserialize;

use crate::architecture::{Architecture, Biases, Mlp, NormKind, Positions};
use crate::{Error, ModelFiles};

/// A `config.json`, checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// The decoder that it describes.
    pub architecture: Architecture,
}

impl Config {
    /// Reads the `config.json` of `files`.
    ///
    /// # Errors
    ///
    /// As [`Config::parse`].
    pub fn load(files: &ModelFiles) -> Result<Self, Error> {
        Self::parse(&files.config, &files.name_of("config.json"))
    }

    /// Reads the text of a Hugging Face `config.json`. `file` names it in errors.
    ///
    /// # Errors
    ///
    /// [`Error::ConfigSyntax`] if the text is not JSON or lacks a required field, [`Error::ConfigValue`]
    /// for a value that no GPT-2 can have or that asks for something this crate does not do.
    pub fn parse(json: &str, file: &str) -> Result<Self, Error> {
        let raw: Raw = serde_json::from_str(json).map_err(|source| Error::ConfigSyntax {
            file: file.to_owned(),
            source,
        })?;
        raw.check_options(file)?;
        raw.into_config(file)
    }
}

/// The largest value of any size. Kernels take widths as `u32`, and the widest matrix row is
/// `3 * n_embd`, so that 2^24 leaves room everywhere and no product of two sizes overflows `usize`.
const LARGEST: usize = 1 << 24;

/// The fields of the file that matter here. Hugging Face writes many more (dropout rates, summary heads);
/// they have no effect on generating text.
#[derive(Deserialize)]
struct Raw {
    model_type: Option<String>,
    n_layer: usize,
    n_head: usize,
    n_embd: usize,
    n_inner: Option<usize>,
    n_positions: Option<usize>,
    n_ctx: Option<usize>,
    vocab_size: usize,
    layer_norm_epsilon: Option<f32>,
    activation_function: Option<String>,
    eos_token_id: Option<u32>,
    scale_attn_weights: Option<bool>,
    scale_attn_by_inverse_layer_idx: Option<bool>,
    add_cross_attention: Option<bool>,
    tie_word_embeddings: Option<bool>,
}

impl Raw {
    /// Refuses the options that would change the arithmetic.
    fn check_options(&self, file: &str) -> Result<(), Error> {
        let text = |field, found: &Option<String>, supported: &'static str| match found {
            Some(value) if value != supported => Err(wrong(file, field, value, supported)),
            _ => Ok(()),
        };
        text("model_type", &self.model_type, "gpt2")?;
        text("activation_function", &self.activation_function, "gelu_new")?;

        let flag = |field, found: Option<bool>, supported: bool| match found {
            Some(value) if value != supported => Err(wrong(
                file,
                field,
                value,
                if supported { "true" } else { "false" },
            )),
            _ => Ok(()),
        };
        flag("scale_attn_weights", self.scale_attn_weights, true)?;
        flag(
            "scale_attn_by_inverse_layer_idx",
            self.scale_attn_by_inverse_layer_idx,
            false,
        )?;
        flag("add_cross_attention", self.add_cross_attention, false)?;
        flag("tie_word_embeddings", self.tie_word_embeddings, true)
    }

    fn into_config(self, file: &str) -> Result<Config, Error> {
        let n_ctx = self.n_positions.or(self.n_ctx).unwrap_or(0);
        let n_inner = self.n_inner.unwrap_or(self.n_embd.saturating_mul(4));
        let sizes = [
            ("n_layer", self.n_layer),
            ("n_head", self.n_head),
            ("n_embd", self.n_embd),
            ("n_inner", n_inner),
            ("n_positions", n_ctx),
            ("vocab_size", self.vocab_size),
        ];
        for (field, found) in sizes {
            if !(1..=LARGEST).contains(&found) {
                return Err(wrong(file, field, found, "1 to 16777216"));
            }
        }
        if !self.n_embd.is_multiple_of(self.n_head) {
            let expected = format!("a multiple of n_head = {}", self.n_head);
            return Err(wrong(file, "n_embd", self.n_embd, &expected));
        }

        let layer_norm_epsilon = self.layer_norm_epsilon.unwrap_or(1e-5);
        if !(layer_norm_epsilon > 0.0 && layer_norm_epsilon.is_finite()) {
            return Err(wrong(
                file,
                "layer_norm_epsilon",
                layer_norm_epsilon,
                "a positive number",
            ));
        }
        if let Some(token) = self.eos_token_id
            && token as usize >= self.vocab_size
        {
            let expected = format!("below vocab_size = {}", self.vocab_size);
            return Err(wrong(file, "eos_token_id", token, &expected));
        }

        let architecture = Architecture {
            layers: self.n_layer,
            hidden: self.n_embd,
            heads: self.n_head,
            kv_heads: self.n_head,
            head_dim: self.n_embd / self.n_head,
            inner: n_inner,
            context: n_ctx,
            vocab: self.vocab_size,
            norm: NormKind::LayerNorm,
            norm_epsilon: layer_norm_epsilon,
            positions: Positions::Learned,
            mlp: Mlp::Gelu,
            windows: vec![None; self.n_layer],
            biases: Biases {
                qkv: true,
                out: true,
                mlp: true,
            },
            tied: true,
            end: self.eos_token_id.into_iter().collect(),
        };
        Ok(Config { architecture })
    }
}

fn wrong(file: &str, field: &'static str, found: impl ToString, expected: &str) -> Error {
    Error::ConfigValue {
        file: file.to_owned(),
        field,
        found: found.to_string(),
        expected: expected.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"{"model_type": "gpt2", "n_layer": 2, "n_head": 3, "n_embd": 36, "n_positions": 48,
        "vocab_size": 300, "activation_function": "gelu_new", "eos_token_id": 299, "n_inner": null}"#;

    #[test]
    fn defaults_are_those_of_hugging_face() {
        let config = Config::parse(GOOD, "config.json").unwrap().architecture;
        assert_eq!(config.inner, 144);
        assert_eq!(config.head_dim, 12);
        assert_eq!(config.norm_epsilon, 1e-5);
        assert_eq!(config.end, [299]);
    }

    #[rstest::rstest]
    #[case::heads(r#""n_head": 3"#, r#""n_head": 5"#, "n_embd", "36")]
    #[case::no_heads(r#""n_head": 3"#, r#""n_head": 0"#, "n_head", "0")]
    #[case::no_layers(r#""n_layer": 2"#, r#""n_layer": 0"#, "n_layer", "0")]
    #[case::huge(
        r#""vocab_size": 300"#,
        r#""vocab_size": 99999999999"#,
        "vocab_size",
        "99999999999"
    )]
    #[case::activation("gelu_new", "relu", "activation_function", "relu")]
    #[case::family(r#""gpt2""#, r#""llama""#, "model_type", "llama")]
    #[case::end(
        r#""eos_token_id": 299"#,
        r#""eos_token_id": 300"#,
        "eos_token_id",
        "300"
    )]
    #[case::inner(r#""n_inner": null"#, r#""n_inner": 0"#, "n_inner", "0")]
    #[case::no_context(r#""n_positions": 48"#, r#""n_posit": 48"#, "n_positions", "0")]
    #[case::epsilon(
        r#""n_inner": null"#,
        r#""layer_norm_epsilon": -1e-5"#,
        "layer_norm_epsilon",
        "-0.00001"
    )]
    #[case::untied(
        r#""n_inner": null"#,
        r#""tie_word_embeddings": false"#,
        "tie_word_embeddings",
        "false"
    )]
    #[case::scaling(
        r#""n_inner": null"#,
        r#""scale_attn_weights": false"#,
        "scale_attn_weights",
        "false"
    )]
    fn refuses(#[case] good: &str, #[case] bad: &str, #[case] name: &str, #[case] value: &str) {
        assert!(GOOD.contains(good));
        match Config::parse(&GOOD.replace(good, bad), "config.json") {
            Err(Error::ConfigValue { field, found, .. }) => {
                assert_eq!((field, found.as_str()), (name, value));
            }
            other => panic!("expected a ConfigValue error, got {other:?}"),
        }
    }

    #[rstest::rstest]
    #[case::empty("")]
    #[case::cut(&GOOD[..40])]
    #[case::missing_field(r#"{"n_layer": 2}"#)]
    #[case::negative(r#"{"n_layer": -2, "n_head": 3, "n_embd": 36, "vocab_size": 300}"#)]
    fn refuses_what_is_no_config(#[case] json: &str) {
        let error = Config::parse(json, "some/config.json").unwrap_err();
        assert!(matches!(error, Error::ConfigSyntax { .. }), "{error:?}");
        assert!(error.to_string().contains("some/config.json"), "{error}");
    }
}
