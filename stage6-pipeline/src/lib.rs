//! Stage 6: text generation with GPT-2 and Llama-style models. Every step of the network runs on the device as a CUDA
//! kernel, launched with plain [`cudarc`].
//!
//! ```text
//! tokens ── embedding ── x ─┬─ norm ─ linear ─ attention ─ linear ─ (+) ─┬─ norm ─ linear ─ activation ─ linear ─ (+) ─ ···
//!                           └────────────────────────────────────────┘   └────────────────────────────────────────┘
//! ··· for each layer ── norm ── product with the output matrix ── logits ── sampler ── next token
//! ```
//!
//! | file | what it holds |
//! |---|---|
//! | `files.rs` | the files of a model: a folder, or the storyteller in the binary |
//! | `hub.rs` | models by their Hugging Face name (feature `hub`) |
//! | `architecture.rs` | a description of a decoder, whatever the family of its checkpoint |
//! | `config.rs`, `weights.rs` | config.json and the tensors, checked; random weights |
//! | `text.rs` | text to tokens and back, chat templates |
//! | `kernels.rs`, `linear.rs` | this crate's kernels: linear layers, norms, rotation, embedding, the choice of a token |
//! | `model/` | the decoder on a device; `batch.rs`: sequences and the two phases; `pass.rs`: the launches of a forward pass |
//! | `session.rs` | a batch of one sequence |
//! | `sampler.rs` | logits to the next token |
//! | `generate.rs` | token after token, and the times; one request or many at once |
//! | `stop.rs` | strings that end a text |
//!
//! [`Batch::forward`] has two phases. Prefill (a prompt) attends through [`stage4_flash_cuda`], decode (one more token of each
//! sequence) through [`stage5_decode`], whose paged cache holds keys and values.
//!
//! ```no_run
//! use stage6_pipeline::{Generation, Model, ModelFiles, Request, Sampling, Text};
//!
//! let files = ModelFiles::storyteller();
//! let model = Model::load(&files, 0)?;
//! let text = Text::load(&files, model.architecture())?;
//! let mut session = model.session()?;
//! let request = Request {
//!     prompt: text.encode("Once upon a time")?,
//!     sampling: Sampling { temperature: 0.8, ..Sampling::GREEDY },
//!     seed: 1,
//!     max_tokens: None,
//!     end: text.end().to_vec(),
//! };
//! let mut decoder = text.decoder();
//! for token in Generation::new(&mut session, &request)? {
//!     print!("{}", decoder.push(token?));
//! }
//! println!("{}", decoder.finish());
//! # Ok::<(), stage6_pipeline::Error>(())
//! ```

mod architecture;
mod config;
mod error;
mod files;
mod generate;
#[cfg(feature = "hub")]
mod hub;
mod kernels;
mod linear;
mod model;
mod sampler;
mod session;
mod stop;
mod text;
mod weights;

pub use architecture::{Architecture, Biases, Dummy, Mlp, NormKind, Positions, Rope};
pub use config::Config;
pub use error::Error;
pub use files::ModelFiles;
pub use generate::{Finish, Generation, Generations, Request, Timing};
#[cfg(feature = "hub")]
pub use hub::Hub;
pub use kernels::{Heads, Kernels};
pub use linear::Epilogue;
pub use model::{Batch, Model};
pub use sampler::{Sampler, Sampling};
pub use session::Session;
pub use stage5_decode::{Dtype, paged::SequenceId};
pub use stop::Stop;
pub use text::{Message, StreamDecoder, Text};
pub use weights::{Block, Bytes, Device, Host, Linear, Matrix, Memory, Norm, TensorFile, Weights};
