//! `config.json` of a GPT-2 or a Llama-style model: a decoder's description, or the
//! reason why it is refused.
//!
//! Every key is either read, or on the list of those that cannot change a logit. A key that is
//! neither is an error: the model may mean something that this crate does not compute.

mod gpt2;
mod keys;
mod llama;
mod rope;

use crate::architecture::Architecture;
use crate::{Error, ModelFiles};
use keys::{HARMLESS, Keys};

/// Names and layout of a family's tensors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    Gpt2,
    Llama,
}

/// A `config.json`, checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// The decoder that it describes.
    pub architecture: Architecture,
    /// Names and layout of the tensors in the files.
    pub(crate) layout: Layout,
}

impl Config {
    /// Reads the `config.json` of `files`. If there is a `generation_config.json` that names tokens
    /// which end a text, they take the place of those of `config.json`, as in transformers.
    ///
    /// # Errors
    ///
    /// As [`Config::parse`].
    pub fn load(files: &ModelFiles) -> Result<Self, Error> {
        let mut config = Self::parse(&files.config, &files.name_of("config.json"))?;
        if let Some(generation) = &files.generation_config {
            let file = files.name_of("generation_config.json");
            let mut keys = Keys::parse(generation, &file)?;
            let end = keys.tokens("eos_token_id", config.architecture.vocab)?;
            if !end.is_empty() {
                config.architecture.end = end;
            }
        }
        Ok(config)
    }

    /// Reads the text of a Hugging Face `config.json`. `file` names it in errors.
    ///
    /// `model_type` is `gpt2` (also if it is missing), `llama`, `mistral`, `qwen2` or `stablelm`.
    ///
    /// # Errors
    ///
    /// [`Error::ConfigSyntax`] if the text is not a JSON object, [`Error::ConfigMissing`] if it
    /// lacks a required key, [`Error::ConfigValue`] for a value that no such model can have or that
    /// asks for something this crate does not do, [`Error::ConfigKey`] for a key that is not known.
    pub fn parse(json: &str, file: &str) -> Result<Self, Error> {
        let mut keys = Keys::parse(json, file)?;
        let family = keys
            .text("model_type")?
            .unwrap_or_else(|| "gpt2".to_owned());
        let (architecture, layout) = match family.as_str() {
            "gpt2" => (gpt2::read(&mut keys)?, Layout::Gpt2),
            "llama" | "mistral" | "qwen2" | "stablelm" => {
                (llama::read(&mut keys, &family)?, Layout::Llama)
            }
            _ => {
                return Err(keys.wrong(
                    "model_type",
                    family,
                    "gpt2, llama, mistral, qwen2 or stablelm",
                ));
            }
        };
        keys.finish(HARMLESS)?;
        Ok(Self {
            architecture,
            layout,
        })
    }
}

#[cfg(test)]
mod tests;
