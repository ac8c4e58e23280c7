//! Models by their Hugging Face name: downloaded with [`hf_hub`] into its cache, where
//! other programs look too.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hf_hub::api::Progress;
use hf_hub::api::sync::{Api, ApiBuilder, ApiError, ApiRepo};
use hf_hub::{Cache, CacheRepo, Repo, RepoType};
use indicatif::{ProgressBar, ProgressStyle};

use crate::files::{INDEX, shard_names};
use crate::{Error, ModelFiles};

/// A Hugging Face hub and its cache on this machine.
#[derive(Debug, Clone)]
pub struct Hub {
    endpoint: String,
    cache: Cache,
    /// True if downloads show a bar.
    bars: bool,
}

/// Number of times that a download that is cut off goes on by itself.
/// Started again, it goes on too.
const RETRIES: usize = 2;

/// Files that a model may lack.
const OPTIONAL: [&str; 3] = [
    "generation_config.json",
    "tokenizer_config.json",
    "chat_template.jinja",
];

impl Hub {
    /// The hub and the cache that `HF_ENDPOINT` and `HF_HOME` name, or the usual ones.
    pub fn from_env() -> Self {
        let endpoint = std::env::var("HF_ENDPOINT").ok();
        Self {
            endpoint: endpoint.unwrap_or_else(|| "https://huggingface.co".to_owned()),
            cache: Cache::from_env(),
            bars: false,
        }
    }

    /// The hub at an address, with a folder as its cache.
    pub fn new(endpoint: impl Into<String>, cache: impl Into<PathBuf>) -> Self {
        Self {
            endpoint: endpoint.into(),
            cache: Cache::new(cache.into()),
            bars: false,
        }
    }

    /// The same, with a bar for each download on standard error, if that is a terminal.
    pub fn with_bars(mut self) -> Self {
        self.bars = true;
        self
    }

    /// The files of a model such as `openai-community/gpt2`. Nothing is asked of the hub if
    /// the cache has all of them.
    ///
    /// # Errors
    ///
    /// [`Error::Hub`] if the hub cannot be reached, does not have the model, or sends a file of a
    /// wrong length; those of [`ModelFiles::read`].
    pub fn model(&self, name: &str) -> Result<ModelFiles, Error> {
        let download = Download {
            hub: self,
            name,
            cache: self.cache.repo(Repo::new(name.to_owned(), RepoType::Model)),
        };
        let folder = match download.cached() {
            Some(folder) => folder,
            None => download.all()?,
        };
        ModelFiles::read(&folder)
    }
}

struct Download<'h> {
    hub: &'h Hub,
    name: &'h str,
    cache: CacheRepo,
}

impl Download<'_> {
    /// The folder of the model in the cache, if it is complete: the weights come last.
    fn cached(&self) -> Option<PathBuf> {
        self.cache.get("tokenizer.json")?;
        let folder = self.cache.get("config.json")?.parent()?.to_owned();
        if self.cache.get("model.safetensors").is_none() {
            let index = std::fs::read_to_string(self.cache.get(INDEX)?).ok()?;
            let shards = shard_names(&index, INDEX).ok()?;
            if !shards.iter().all(|shard| self.cache.get(shard).is_some()) {
                return None;
            }
        }
        Some(folder)
    }

    fn all(&self) -> Result<PathBuf, Error> {
        let repo = self
            .repo()
            .map_err(|error| self.failed("config.json", &error))?;
        let config = self.file(&repo, "config.json")?;
        self.file(&repo, "tokenizer.json")?;
        for name in OPTIONAL {
            self.optional_file(&repo, name)?;
        }
        if self.optional_file(&repo, "model.safetensors")?.is_none() {
            let index = self.file(&repo, INDEX)?;
            let text = std::fs::read_to_string(&index).map_err(|source| Error::Read {
                path: index.clone(),
                source,
            })?;
            for shard in shard_names(&text, &index.display().to_string())? {
                self.file(&repo, &shard)?;
            }
        }
        Ok(config.parent().map(Path::to_owned).unwrap_or_default())
    }

    fn repo(&self) -> Result<ApiRepo, ApiError> {
        let builder = ApiBuilder::from_cache(self.hub.cache.clone());
        let builder = builder
            .with_endpoint(self.hub.endpoint.clone())
            .with_retries(RETRIES);
        let api: Api = builder.build()?;
        Ok(api.model(self.name.to_owned()))
    }

    fn optional_file(&self, repo: &ApiRepo, file: &str) -> Result<Option<PathBuf>, Error> {
        match self.fetch(repo, file) {
            Err(Failure::Hub(error)) if status(&error) == Some(404) => Ok(None),
            result => result
                .map(Some)
                .map_err(|failure| self.error(file, failure)),
        }
    }

    fn file(&self, repo: &ApiRepo, file: &str) -> Result<PathBuf, Error> {
        self.fetch(repo, file)
            .map_err(|failure| self.error(file, failure))
    }

    fn fetch(&self, repo: &ApiRepo, file: &str) -> Result<PathBuf, Failure> {
        if let Some(path) = self.cache.get(file) {
            return Ok(path);
        }
        let mut expected = 0;
        let path = repo
            .download_with_progress(file, Bar::new(self.hub.bars, &mut expected))
            .map_err(Failure::Hub)?;
        let found = std::fs::metadata(&path).map_or(0, |metadata| metadata.len());
        if found == expected {
            return Ok(path);
        }
        // The cache must not keep it: the file behind the link, and the link.
        if let Ok(blob) = std::fs::canonicalize(&path) {
            let _ = std::fs::remove_file(blob);
        }
        let _ = std::fs::remove_file(&path);
        Err(Failure::Length { found, expected })
    }

    fn error(&self, file: &str, failure: Failure) -> Error {
        match failure {
            Failure::Hub(error) => self.failed(file, &error),
            Failure::Length { found, expected } => self.because(
                file,
                format!("{found} bytes came, expected {expected}; start again"),
            ),
        }
    }

    /// The cause, and the remedy.
    fn failed(&self, file: &str, error: &ApiError) -> Error {
        let endpoint = &self.hub.endpoint;
        let reason = match status(error) {
            Some(404) => format!("{endpoint} has no such model or file"),
            Some(401 | 403) => {
                format!(
                    "{endpoint} does not give it to everybody; accept its licence there and store a token (hf auth login)"
                )
            }
            _ => format!(
                "{error}; start again to go on where it stopped, or without a network pass a folder that has the model's \
                 files, or set HF_HOME to a cache that has them"
            ),
        };
        self.because(file, reason)
    }

    fn because(&self, file: &str, reason: String) -> Error {
        Error::Hub {
            model: self.name.to_owned(),
            file: file.to_owned(),
            reason,
        }
    }
}

enum Failure {
    Hub(ApiError),
    Length { found: u64, expected: u64 },
}

/// The status of a hub's answer that is an error.
fn status(error: &ApiError) -> Option<u16> {
    match error {
        ApiError::RequestError(error) => match **error {
            ureq::Error::StatusCode(status) => Some(status),
            _ => None,
        },
        ApiError::TooManyRetries(error) => status(error),
        _ => None,
    }
}

/// A bar, which may be hidden, and the length that the hub tells.
struct Bar<'e> {
    bar: ProgressBar,
    expected: &'e mut u64,
}

impl<'e> Bar<'e> {
    fn new(shown: bool, expected: &'e mut u64) -> Self {
        let bar = match shown && std::io::stderr().is_terminal() {
            true => ProgressBar::new(0),
            false => ProgressBar::hidden(),
        };
        Self { bar, expected }
    }
}

impl Progress for Bar<'_> {
    fn init(&mut self, size: usize, filename: &str) {
        *self.expected = size as u64;
        let template = "{msg} {bar:30} {bytes}/{total_bytes}, {bytes_per_sec}, {eta} left";
        let style = ProgressStyle::with_template(template).unwrap_or(ProgressStyle::default_bar());
        self.bar.set_style(style);
        self.bar.set_length(size as u64);
        self.bar.set_position(0);
        self.bar.set_message(filename.to_owned());
        self.bar.enable_steady_tick(Duration::from_millis(200));
    }

    fn update(&mut self, size: usize) {
        self.bar.inc(size as u64);
    }

    fn finish(&mut self) {
        self.bar.finish();
    }
}
