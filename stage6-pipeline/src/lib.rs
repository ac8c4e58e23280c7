//! Stage 6: text generation with GPT-2 and Llama-style models. Every step of the network runs on
//! the device as a CUDA kernel, launched with plain [`cudarc`].
//!
//! ```text
//! tokens ── embedding ── x ─┬─ norm ─ linear ─ attention ── linear ─ (+) ─┐
//!                           └─────────────────────────────────────────┘   │
//!                         ┌───────────────────────────────────────────────┘
//!                         └─┬─ norm ─ linear ─ activation ─ linear ─ (+) ─ ···
//!                           └─────────────────────────────────────────┘
//! ··· for each layer ── norm ── product with the output matrix ── logits ── sampler ── next token
//! ```
//!
//! | file | what it holds |
//! |---|---|
//! | `files.rs`, `disk.rs` | the files of a model: a folder, or the storyteller in the binary |
//! | `hub.rs` | models by their Hugging Face name (feature `hub`) |
//! | `architecture.rs` | a description of a decoder, whatever the family of its checkpoint |
//! | `config/`, `weights/` | config.json and the tensors, checked; random weights |
//! | `text/` | text to tokens and back, chat templates |
//! | `kernels/`, `linear.rs` | this crate's kernels: linear layers, norms, rotation, embedding, the choice of a token |
//! | `model/` | the decoder on a device; `batch.rs`: sequences and the two phases; `pass.rs`: the launches of a forward pass; `half_pass.rs`: of a long prompt in half precision |
//! | `sampler.rs` | logits to the next token |
//! | `generate.rs`, `stop.rs` | token after token, one request or many at once, and the times; strings that end a text |
//! | `interface.rs`, `stage6.rs` | what an exercise implements, and this crate's own implementation of it |
//!
//! [`Batch::forward`] has two phases. Prefill (a prompt) attends through
//! [`stage4_flash_cuda`], decode (one more token of each sequence) through [`stage5_decode`],
//! whose paged cache holds keys and values.
//!
//! [`Forward`] and [`Generate`] are the interface of the stage: what an exercise implements, and
//! what the suite in `conformance` judges. Without the feature `solution`, on by default, the crate
//! has what an exercise is made of (the description of a decoder, its parameters, the kernels) and
//! not what the exercise asks for: `model/` and what uses it.

mod architecture;
mod config;
mod disk;
mod error;
mod files;
#[cfg(feature = "solution")]
mod generate;
#[cfg(feature = "hub")]
mod hub;
mod interface;
mod kernels;
mod linear;
#[cfg(feature = "solution")]
mod model;
#[cfg(feature = "solution")]
mod sampler;
#[cfg(feature = "solution")]
mod stage6;
#[cfg(feature = "solution")]
mod stop;
#[cfg(feature = "solution")]
mod text;
mod weights;

pub use architecture::{Architecture, Biases, Dummy, Mlp, NormKind, Positions, Rope};
pub use config::Config;
pub use error::Error;
pub use files::ModelFiles;
#[cfg(feature = "hub")]
pub use hub::Hub;
pub use interface::{Forward, Generate, Room, Source};
pub use kernels::{Activation, Heads, Kernels};
pub use linear::Epilogue;
pub use stage5_decode::{Dtype, paged::SequenceId};
pub use weights::{Block, Bytes, Device, Host, Linear, Matrix, Memory, Norm, TensorFile, Weights};
#[cfg(feature = "solution")]
pub use {
    generate::{Finish, Generations, Request, Timing},
    model::{Batch, Model},
    sampler::{Sampler, Sampling},
    stage6::{Sequences, Stage6},
    stop::Stop,
    text::{Message, StreamDecoder, Text},
};
