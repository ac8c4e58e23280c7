//! The three files of a model: a folder in Hugging Face layout, or the storyteller in this binary.

use std::borrow::Cow;
use std::path::Path;

use crate::Error;

/// The contents of a model's files, not yet looked into.
#[derive(Debug, Clone)]
pub struct ModelFiles {
    /// Where the files come from, for messages: a folder, or `storyteller (embedded)`.
    pub origin: String,
    /// `config.json`.
    pub config: Cow<'static, str>,
    /// `tokenizer.json`.
    pub tokenizer: Cow<'static, str>,
    /// `model.safetensors`.
    pub weights: Cow<'static, [u8]>,
}

impl ModelFiles {
    /// The model that is compiled into this crate.
    pub fn storyteller() -> Self {
        Self {
            origin: "storyteller (embedded)".to_owned(),
            config: Cow::Borrowed(storyteller::CONFIG_JSON),
            tokenizer: Cow::Borrowed(storyteller::TOKENIZER_JSON),
            weights: Cow::Borrowed(storyteller::MODEL_SAFETENSORS),
        }
    }

    /// Reads `config.json`, `tokenizer.json` and `model.safetensors` from a folder.
    ///
    /// # Errors
    ///
    /// [`Error::Read`] naming the first file that is missing, unreadable or (the two JSON files) not UTF-8.
    pub fn read(folder: &Path) -> Result<Self, Error> {
        let text = |name| {
            let path = folder.join(name);
            std::fs::read_to_string(&path).map_err(|source| Error::Read { path, source })
        };
        let bytes = |name| {
            let path = folder.join(name);
            std::fs::read(&path).map_err(|source| Error::Read { path, source })
        };
        Ok(Self {
            origin: folder.display().to_string(),
            config: Cow::Owned(text("config.json")?),
            tokenizer: Cow::Owned(text("tokenizer.json")?),
            weights: Cow::Owned(bytes("model.safetensors")?),
        })
    }

    /// The name of one of the files in messages.
    pub(crate) fn name_of(&self, file: &str) -> String {
        format!("{}/{file}", self.origin)
    }
}
