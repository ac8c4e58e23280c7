//! Stage 6: a GPT-2 text generator. Every step of the network runs on the device as a CUDA kernel, launched with
//! plain [`cudarc`].
//!
//! ```text
//! tokens ── embedding ── x ─┬─ layernorm ─ linear ─ attention ─ linear ─ (+) ─┬─ layernorm ─ linear ─ gelu ─ linear ─ (+) ─ ···
//!                           └─────────────────────────────────────────────┘   └───────────────────────────────────────┘
//! ··· n_layer times ── layernorm ── product with the token embedding ── logits ── sampler ── next token
//! ```
//!
//! | file | what it holds |
//! |---|---|
//! | `files.rs` | the files of a model: a folder, or the storyteller in the binary |
//! | `hub.rs` | models by their Hugging Face name (feature `hub`) |
//! | `architecture.rs` | a description of a decoder, whatever the family of its checkpoint |
//! | `config.rs`, `weights.rs` | config.json and the tensors, checked; random weights |
//! | `text.rs` | text to tokens and back, chat templates |
//! | `kernels.rs` | this crate's kernels: embedding, layer norm, GELU, additions, appending to the cache |
//! | `cache.rs` | keys and values of the tokens so far |
//! | `model.rs` | the forward pass |
//! | `sampler.rs` | logits to the next token |
//! | `generate.rs` | token after token, and the times |
//!
//! Matrix products, softmax and attention are those of [`stage2_naive_cuda`]. Prefill (the prompt) and decode (one
//! token) are the same [`Session::forward`]; they differ in how many tokens are passed.
//!
//! Left out: batches of sequences.
//!
//! ```no_run
//! use stage6_pipeline::{Generation, Gpt2, ModelFiles, Request, Sampling, Text};
//!
//! let files = ModelFiles::storyteller();
//! let model = Gpt2::load(&files, 0)?;
//! let text = Text::load(&files, model.architecture())?;
//! let mut session = model.session()?;
//! let request = Request {
//!     prompt: text.encode("Once upon a time")?,
//!     sampling: Sampling { temperature: 0.8, top_k: None, top_p: None },
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
mod cache;
mod config;
mod error;
mod files;
mod generate;
#[cfg(feature = "hub")]
mod hub;
mod kernels;
mod model;
mod sampler;
mod text;
mod weights;

pub use architecture::{Architecture, Biases, Dummy, Mlp, NormKind, Positions, Rope};
pub use cache::KvCache;
pub use config::Config;
pub use error::Error;
pub use files::ModelFiles;
pub use generate::{Finish, Generation, Request, Timing};
#[cfg(feature = "hub")]
pub use hub::Hub;
pub use kernels::Kernels;
pub use model::{Gpt2, Session};
pub use sampler::{Sampler, Sampling};
pub use stage5_decode::Dtype;
pub use text::{Message, StreamDecoder, Text};
pub use weights::{Block, Bytes, Device, Host, Linear, Matrix, Memory, Norm, TensorFile, Weights};
