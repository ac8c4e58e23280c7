//! The keys of a config, taken one by one, each with its type and range.

use serde_json::{Map, Value};

use crate::Error;

/// The keys that nobody has taken yet.
pub(super) struct Keys<'f> {
    map: Map<String, Value>,
    file: &'f str,
}

/// Keys that cannot change a logit: rates of dropout and other settings of training, defaults of
/// generation, which this crate takes from its caller, and notes about the file.
pub(super) const HARMLESS: &[&str] = &[
    "_attn_implementation",
    "_attn_implementation_autoset",
    "_commit_hash",
    "_name_or_path",
    "_num_labels",
    "architectures",
    "attention_dropout",
    "attn_implementation",
    "attn_pdrop",
    "bad_words_ids",
    "begin_suppress_tokens",
    "bos_token_id",
    "chunk_size_feed_forward",
    "cross_attention_hidden_size",
    "decoder_start_token_id",
    "diversity_penalty",
    "do_sample",
    "dtype",
    "early_stopping",
    "embd_pdrop",
    "encoder_no_repeat_ngram_size",
    "exponential_decay_length_penalty",
    "finetuning_task",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "gradient_checkpointing",
    "hidden_dropout",
    "id2label",
    "initializer_range",
    "is_decoder",
    "is_llama_config",
    "keys_to_ignore_at_inference",
    "label2id",
    "length_penalty",
    "max_length",
    "max_sequence_length",
    "min_length",
    "n_ctx",
    "no_repeat_ngram_size",
    "num_beam_groups",
    "num_beams",
    "num_labels",
    "num_return_sequences",
    "output_attentions",
    "output_hidden_states",
    "output_past",
    "output_scores",
    "pad_token_id",
    "prefix",
    "pretraining_tp",
    "problem_type",
    "remove_invalid_values",
    "reorder_and_upcast_attn",
    "repetition_penalty",
    "resid_pdrop",
    "return_dict",
    "return_dict_in_generate",
    "sep_token_id",
    "summary_activation",
    "summary_first_dropout",
    "summary_proj_to_labels",
    "summary_type",
    "summary_use_proj",
    "suppress_tokens",
    "task_specific_params",
    "temperature",
    "tf_legacy_loss",
    "tie_encoder_decoder",
    "tokenizer_class",
    "top_k",
    "top_p",
    "torch_dtype",
    "torchscript",
    "transformers.js_config",
    "transformers_version",
    "typical_p",
    "unsloth_fixed",
    "unsloth_version",
    "use_bfloat16",
    "use_cache",
];

impl<'f> Keys<'f> {
    pub(super) fn parse(json: &str, file: &'f str) -> Result<Self, Error> {
        let map = serde_json::from_str(json).map_err(|source| Error::ConfigSyntax {
            file: file.to_owned(),
            source,
        })?;
        Ok(Self { map, file })
    }

    /// The object that is the value of a key; `null` and no key are the same, here and below.
    pub(super) fn object(&mut self, key: &'static str) -> Result<Option<Self>, Error> {
        match self.take(key) {
            None => Ok(None),
            Some(Value::Object(map)) => Ok(Some(Self {
                map,
                file: self.file,
            })),
            Some(found) => Err(self.wrong(key, found, "an object")),
        }
    }

    pub(super) fn text(&mut self, key: &'static str) -> Result<Option<String>, Error> {
        match self.take(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(found) => Err(self.wrong(key, found, "a string")),
        }
    }

    pub(super) fn flag(&mut self, key: &'static str, default: bool) -> Result<bool, Error> {
        match self.take(key) {
            None => Ok(default),
            Some(Value::Bool(flag)) => Ok(flag),
            Some(found) => Err(self.wrong(key, found, "true or false")),
        }
    }

    /// A number of at least 1 and at most `most`.
    pub(super) fn size(&mut self, key: &'static str, most: usize) -> Result<usize, Error> {
        let size = self.optional_size(key, most)?;
        size.ok_or_else(|| self.missing(key))
    }

    pub(super) fn optional_size(
        &mut self,
        key: &'static str,
        most: usize,
    ) -> Result<Option<usize>, Error> {
        let Some(value) = self.take(key) else {
            return Ok(None);
        };
        let size = value.as_u64().and_then(|size| usize::try_from(size).ok());
        match size {
            Some(size) if (1..=most).contains(&size) => Ok(Some(size)),
            _ => Err(self.wrong(key, value, &format!("1 to {most}"))),
        }
    }

    /// A number of at least 0.
    pub(super) fn count(&mut self, key: &'static str) -> Result<Option<usize>, Error> {
        let Some(value) = self.take(key) else {
            return Ok(None);
        };
        match value.as_u64().and_then(|count| usize::try_from(count).ok()) {
            Some(count) => Ok(Some(count)),
            None => Err(self.wrong(key, value, "a whole number of at least 0")),
        }
    }

    /// A finite number above 0.
    pub(super) fn positive(&mut self, key: &'static str) -> Result<Option<f64>, Error> {
        let Some(value) = self.take(key) else {
            return Ok(None);
        };
        match value.as_f64() {
            // As f32 too: it would otherwise be zero or infinite where it is used.
            Some(number) if number > 0.0 && (number as f32).is_normal() => Ok(Some(number)),
            _ => Err(self.wrong(key, value, "a positive number")),
        }
    }

    /// A list of strings.
    pub(super) fn texts(&mut self, key: &'static str) -> Result<Option<Vec<String>>, Error> {
        let Some(value) = self.take(key) else {
            return Ok(None);
        };
        let texts = value.as_array().and_then(|list| {
            let texts = list.iter().map(|item| item.as_str().map(str::to_owned));
            texts.collect::<Option<Vec<String>>>()
        });
        match texts {
            Some(texts) => Ok(Some(texts)),
            None => Err(self.wrong(key, value, "a list of strings")),
        }
    }

    /// One token id, a list of them, or none, each below `vocab`.
    pub(super) fn tokens(&mut self, key: &'static str, vocab: usize) -> Result<Vec<u32>, Error> {
        let list = match self.take(key) {
            None => Vec::new(),
            Some(Value::Array(list)) => list,
            Some(value) => vec![value],
        };
        let token = |value: Value| match value.as_u64().map(u32::try_from) {
            Some(Ok(token)) if (token as usize) < vocab => Ok(token),
            _ => Err(self.wrong(
                key,
                value,
                &format!("token ids below the vocabulary's size, {vocab}"),
            )),
        };
        list.into_iter().map(token).collect()
    }

    /// Refuses every value but one.
    pub(super) fn only(&mut self, key: &'static str, expected: Value) -> Result<(), Error> {
        match self.take(key) {
            Some(found) if found != expected => Err(self.wrong(key, found, &expected.to_string())),
            _ => Ok(()),
        }
    }

    /// Refuses the keys that nobody has taken and that are not `harmless`.
    pub(super) fn finish(self, harmless: &[&str]) -> Result<(), Error> {
        match self
            .map
            .keys()
            .find(|key| !harmless.contains(&key.as_str()))
        {
            Some(key) => Err(Error::ConfigKey {
                file: self.file.to_owned(),
                key: key.clone(),
            }),
            None => Ok(()),
        }
    }

    /// True for a key that is there and that nobody has taken, even if its value is null.
    pub(super) fn has(&self, key: &str) -> bool {
        self.map.contains_key(key)
    }

    pub(super) fn missing(&self, key: &'static str) -> Error {
        Error::ConfigMissing {
            file: self.file.to_owned(),
            key,
        }
    }

    pub(super) fn wrong(&self, key: &'static str, found: impl ToString, expected: &str) -> Error {
        let mut found = found.to_string();
        if let Some((end, _)) = found.char_indices().nth(80) {
            found.truncate(end);
            found.push('…');
        }
        Error::ConfigValue {
            file: self.file.to_owned(),
            field: key,
            found,
            expected: expected.to_owned(),
        }
    }

    fn take(&mut self, key: &str) -> Option<Value> {
        self.map.remove(key).filter(|value| !value.is_null())
    }
}
