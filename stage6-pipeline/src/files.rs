//! The files of a model: a folder in Hugging Face layout, or the storyteller in this binary.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

use serde::Deserialize;

use crate::Error;
use crate::disk::read_text;
use crate::weights::{Bytes, TensorFile};

/// A model's files, not yet looked into.
#[derive(Debug, Clone)]
pub struct ModelFiles {
    /// Origin of the files, for messages: a folder, or `storyteller (embedded)`.
    pub origin: String,
    /// `config.json`.
    pub config: Cow<'static, str>,
    /// `generation_config.json`, if there is one.
    pub generation_config: Option<String>,
    /// `tokenizer.json`.
    pub tokenizer: Cow<'static, str>,
    /// `tokenizer_config.json`, if there is one.
    pub tokenizer_config: Option<String>,
    /// `chat_template.jinja`, if there is one.
    pub chat_template: Option<String>,
    /// `model.safetensors`, or the files that `model.safetensors.index.json` names.
    pub weights: Vec<TensorFile>,
}

/// Names the files of weights that are too large for one.
pub(crate) const INDEX: &str = "model.safetensors.index.json";

impl ModelFiles {
    /// The model in a folder, or, if there is no such folder and `model` can be a Hugging Face
    /// name, such as `openai-community/gpt2`, the one that `by_name` finds.
    ///
    /// # Errors
    ///
    /// Those of [`ModelFiles::read`] and of `by_name`.
    pub fn find(
        model: &Path,
        by_name: impl FnOnce(&str) -> Result<Self, Error>,
    ) -> Result<Self, Error> {
        match hub_name(model) {
            Some(name) if !model.exists() => by_name(name),
            _ => Self::read(model),
        }
    }

    /// The model that is compiled into this crate.
    pub fn storyteller() -> Self {
        let origin = "storyteller (embedded)".to_owned();
        let weights = TensorFile {
            name: format!("{origin}/model.safetensors"),
            bytes: Bytes::Memory(Cow::Borrowed(storyteller::MODEL_SAFETENSORS)),
        };
        Self {
            origin,
            config: Cow::Borrowed(storyteller::CONFIG_JSON),
            generation_config: None,
            tokenizer: Cow::Borrowed(storyteller::TOKENIZER_JSON),
            tokenizer_config: None,
            chat_template: None,
            weights: vec![weights],
        }
    }

    /// Reads the text files of a folder and opens its weights, which are read when they are loaded.
    ///
    /// # Errors
    ///
    /// [`Error::Read`] naming the first file that is missing, unreadable, no regular file or (the
    /// texts) not UTF-8, [`Error::TooLong`]; [`Error::ConfigSyntax`], [`Error::ShardName`] if an
    /// index of weights is malformed.
    pub fn read(folder: &Path) -> Result<Self, Error> {
        let text = |name| read_text(&folder.join(name));
        let optional = |name| match text(name) {
            Err(Error::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(None),
            other => other.map(Some),
        };
        Ok(Self {
            origin: folder.display().to_string(),
            config: Cow::Owned(text("config.json")?),
            generation_config: optional("generation_config.json")?,
            tokenizer: Cow::Owned(text("tokenizer.json")?),
            tokenizer_config: optional("tokenizer_config.json")?,
            chat_template: optional("chat_template.jinja")?,
            weights: match optional(INDEX)? {
                Some(index) if !folder.join("model.safetensors").exists() => {
                    shards(folder, &index)?
                }
                _ => vec![TensorFile::open(&folder.join("model.safetensors"))?],
            },
        })
    }

    /// The name of one of the files in messages.
    pub(crate) fn name_of(&self, file: &str) -> String {
        format!("{}/{file}", self.origin)
    }
}

/// An owner and a name, of letters, digits, `-`, `_` and `.`.
fn hub_name(model: &Path) -> Option<&str> {
    let model = model.to_str()?;
    let (owner, name) = model.split_once('/')?;
    let part = |part: &str| {
        let known = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        part.bytes().all(known)
            && part
                .bytes()
                .next()
                .is_some_and(|first| first.is_ascii_alphanumeric())
    };
    (part(owner) && part(name)).then_some(model)
}

/// `model.safetensors.index.json`; its metadata is of no use here.
#[derive(Deserialize)]
struct Index {
    /// The file of each tensor.
    weight_map: BTreeMap<String, String>,
}

fn shards(folder: &Path, index: &str) -> Result<Vec<TensorFile>, Error> {
    let names = shard_names(index, &folder.join(INDEX).display().to_string())?;
    names
        .iter()
        .map(|name| TensorFile::open(&folder.join(name)))
        .collect()
}

/// The files that an index of weights names. `file` is the name of the index in errors.
pub(crate) fn shard_names(index: &str, file: &str) -> Result<BTreeSet<String>, Error> {
    let index: Index = serde_json::from_str(index).map_err(|source| Error::ConfigSyntax {
        file: file.to_owned(),
        source,
    })?;
    let names: BTreeSet<String> = index.weight_map.into_values().collect();
    // Not a path that leads somewhere else.
    let plain = |name: &String| {
        Path::new(name)
            .file_name()
            .is_some_and(|last| last == name.as_str())
    };
    match names.iter().find(|name| !plain(name)) {
        None => Ok(names),
        Some(name) => Err(Error::ShardName {
            index: file.to_owned(),
            file: name.clone(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[rstest::rstest]
    #[case("openai-community/gpt2", true)]
    #[case("Qwen/Qwen2.5-0.5B", true)]
    #[case("gpt2", false)]
    #[case("./models/gpt2", false)]
    #[case("models/gpt2/", false)]
    #[case("../gpt2", false)]
    #[case("/models/gpt2", false)]
    #[case("my models/gpt2", false)]
    fn names_of_a_hub(#[case] model: &str, #[case] expected: bool) {
        assert_eq!(hub_name(Path::new(model)).is_some(), expected);
    }
}
