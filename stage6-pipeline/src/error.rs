//! Everything that can go wrong, each with the file, tensor or argument that caused it.

use std::path::PathBuf;

use gpu::arguments::ArgumentError;

/// Errors of loading a model and of generating a text.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A model file cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        source: std::io::Error,
    },

    /// A model cannot be downloaded.
    #[error("{model}: cannot download {file}: {reason}")]
    Hub {
        /// The model's Hugging Face name.
        model: String,
        /// The file.
        file: String,
        /// The cause, and the remedy.
        reason: String,
    },

    /// There is no such folder, and this build cannot download models.
    #[error(
        "there is no folder {model}; to download a model of that name, build with --features hub"
    )]
    NoHub {
        /// The folder, or a model's Hugging Face name.
        model: String,
    },

    /// A file of stories cannot be written.
    #[error("cannot write {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        source: std::io::Error,
    },

    /// Stories cannot replace what is there: a folder, a link, a device or another thing
    /// that is not a regular file.
    #[error("cannot write {}: it exists and is not a regular file", path.display())]
    NotAFile {
        /// Its path.
        path: PathBuf,
    },

    /// A file of a model is longer than any real one.
    #[error("{} is {bytes} bytes long, expected at most {most}", path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
        /// Its length.
        bytes: u64,
        /// The limit.
        most: u64,
    },

    /// `config.json` or `model.safetensors.index.json` is not JSON of the expected form.
    #[error("{file} is not what it should be")]
    ConfigSyntax {
        /// The file.
        file: String,
        /// Line, column and reason.
        source: serde_json::Error,
    },

    /// `config.json` lacks a key.
    #[error("{file}: {key} is missing")]
    ConfigMissing {
        /// The file.
        file: String,
        /// The key.
        key: &'static str,
    },

    /// `config.json` has a key that is not known: the model may mean something that
    /// this crate does not compute.
    #[error("{file}: the key {key} is not known, and may change what the model computes")]
    ConfigKey {
        /// The file.
        file: String,
        /// The key.
        key: String,
    },

    /// A value in `config.json` is impossible or unsupported.
    #[error("{file}: {field} is {found}, expected {expected}")]
    ConfigValue {
        /// The file.
        file: String,
        /// Name of the field.
        field: &'static str,
        /// Its value.
        found: String,
        /// The values that it may have.
        expected: String,
    },

    /// There is no chat template, or it is malformed, or it refuses a conversation.
    #[error("{file}: {reason}")]
    ChatTemplate {
        /// The file.
        file: String,
        /// The mistake.
        reason: String,
    },

    /// `tokenizer.json` is malformed, or of a kind that this crate cannot decode,
    /// or does not fit the model.
    #[error("{file}: {reason}")]
    Tokenizer {
        /// The file.
        file: String,
        /// The mistake in it.
        reason: String,
    },

    /// `model.safetensors` is damaged: truncated, or not a safetensors file.
    #[error("{file} is truncated or not a safetensors file ({bytes} bytes read)")]
    SafetensorsSyntax {
        /// The file.
        file: String,
        /// Its length.
        bytes: u64,
        /// The mistake in its header.
        source: safetensors::SafeTensorError,
    },

    /// A tensor that the model needs is not there.
    #[error("{file}: tensor {tensor} is missing")]
    MissingTensor {
        /// The file.
        file: String,
        /// The tensor, with the prefix that the file uses.
        tensor: String,
    },

    /// A tensor has another shape than `config.json` implies.
    #[error("{file}: tensor {tensor} has shape {found:?}, expected {expected:?}")]
    TensorShape {
        /// The file.
        file: String,
        /// The tensor.
        tensor: String,
        /// Its shape.
        found: Vec<usize>,
        /// The shape by the config.
        expected: Vec<usize>,
    },

    /// A tensor is stored in another type than those of weights, or than the tensor
    /// whose rows it continues.
    #[error("{file}: tensor {tensor} is stored as {found}, expected {expected}")]
    TensorDtype {
        /// The file.
        file: String,
        /// The tensor.
        tensor: String,
        /// Its dtype.
        found: String,
        /// The values that it may have.
        expected: &'static str,
    },

    /// A tensor holds NaN or an infinity.
    #[error("{file}: tensor {tensor} holds {found} at flat index {index}")]
    TensorNotFinite {
        /// The file.
        file: String,
        /// The tensor.
        tensor: String,
        /// The value.
        found: f32,
        /// Where, in row-major order.
        index: usize,
    },

    /// The file holds a tensor that the config does not tell of.
    #[error(
        "{file}: tensor {tensor} has no place in the model of {layers} layers that config.json describes"
    )]
    ExtraTensor {
        /// The file.
        file: String,
        /// The tensor.
        tensor: String,
        /// Layers by the config.
        layers: usize,
    },

    /// Two files hold the same tensor.
    #[error("{file}: tensor {tensor} is in {other} too")]
    TensorTwice {
        /// The second file.
        file: String,
        /// The first file.
        other: String,
        /// The tensor.
        tensor: String,
    },

    /// The index of a checkpoint names a file that is no file beside it.
    #[error("{index}: {file:?} is not the name of a file beside it")]
    ShardName {
        /// The index.
        index: String,
        /// The name in it.
        file: String,
    },

    /// The file has an output matrix of its own, and the config says that
    /// it is the token embedding.
    #[error(
        "{file}: lm_head.weight differs from {embedding}, and the config has tie_word_embeddings = true"
    )]
    UntiedHead {
        /// The file.
        file: String,
        /// The token embedding's name in the file.
        embedding: String,
    },

    /// The prompt is empty.
    #[error("the prompt is empty")]
    EmptyPrompt,

    /// The prompt leaves no room for even one more token.
    #[error(
        "the prompt has {tokens} tokens, but the model's context of {context} must hold it and one more"
    )]
    PromptTooLong {
        /// Tokens of the prompt.
        tokens: usize,
        /// The model's context.
        context: usize,
    },

    /// More tokens were passed to a sequence than its context has room for.
    #[error(
        "{new} more tokens do not fit behind the {cached} in the cache: the context is {context}"
    )]
    ContextFull {
        /// Tokens in the cache.
        cached: usize,
        /// Tokens passed.
        new: usize,
        /// The model's context.
        context: usize,
    },

    /// More sequences than a batch has room for.
    #[error("{found} sequences do not fit into a batch of {room}")]
    BatchFull {
        /// Sequences passed.
        found: usize,
        /// Sequences that the batch has room for.
        room: usize,
    },

    /// The driver captured no graph of a decode step, and reported no error.
    #[error("the driver captured no graph of a decode step")]
    NoGraph,

    /// Logits of a row that the last call did not have.
    #[error("there is no row {row} of logits: the last call had {rows} sequences")]
    NoRow {
        /// The row.
        row: usize,
        /// Rows of the last call.
        rows: usize,
    },

    /// A sequence that the batch does not have, or has twice in one call.
    #[error(transparent)]
    Sequence(#[from] stage5_decode::paged::PageError),

    /// `forward` was called with no token.
    #[error("forward needs at least one token")]
    NoTokens,

    /// A token id outside the vocabulary.
    #[error("token {token} at index {index} is outside the vocabulary of {vocab_size}")]
    TokenOutOfRange {
        /// The id.
        token: u32,
        /// Its place among the tokens passed.
        index: usize,
        /// Size of the vocabulary.
        vocab_size: usize,
    },

    /// An argument of a kernel or of a matrix product, softmax or attention does not fit.
    #[error(transparent)]
    Argument(#[from] ArgumentError),

    /// A sampling setting outside its range.
    #[error("{setting} is {found}, expected {expected}")]
    Setting {
        /// Name of the setting.
        setting: &'static str,
        /// Its value.
        found: String,
        /// Its range.
        expected: &'static str,
    },

    /// The model gave logits that no token can be drawn from.
    #[error("the logit of token {token} is {found}")]
    Logit {
        /// The token.
        token: usize,
        /// Its logit: NaN or positive infinity, or negative infinity where all are.
        found: f32,
    },

    /// No device, or a kernel that is not there.
    #[error(transparent)]
    Gpu(#[from] gpu::Error),

    /// The shapes of an attention problem do not fit each other.
    #[error(transparent)]
    Attention(#[from] stage1_reference::Error),

    /// An error of a stage below that this crate does not know.
    #[error(transparent)]
    Other(Box<dyn std::error::Error + Send + Sync>),

    /// The CUDA driver refused a call or a kernel failed.
    #[error("{:?}: {}", .0.0, gpu::explanation(.0))]
    Driver(cudarc::driver::DriverError),
}

// Not `#[from]`, which would make it the source as well and print it twice, once on one line.
impl From<cudarc::driver::DriverError> for Error {
    fn from(error: cudarc::driver::DriverError) -> Self {
        Self::Driver(error)
    }
}

impl From<stage4_flash_cuda::Error> for Error {
    fn from(error: stage4_flash_cuda::Error) -> Self {
        use stage4_flash_cuda::Error;
        match error {
            Error::Argument(error) => error.into(),
            Error::Attention(error) => error.into(),
            Error::Load(error) => error.into(),
            Error::Driver(error) => error.into(),
            other => Self::Other(Box::new(other)),
        }
    }
}

impl From<stage5_decode::Error> for Error {
    fn from(error: stage5_decode::Error) -> Self {
        use stage5_decode::Error;
        match error {
            Error::Argument(error) => error.into(),
            Error::Pages(error) => error.into(),
            Error::Load(error) => error.into(),
            Error::Driver(error) => error.into(),
            other => Self::Other(Box::new(other)),
        }
    }
}
