//! Paged KV cache: each sequence holds its tokens in pages of fixed size, anywhere in one pool
//! [Kwon et al. 2023, PagedAttention].
//!
//! A contiguous cache reserves `max_seq` tokens for each sequence. A paged cache takes a page when
//! a token needs it, so at most `page_size − 1` slots of a sequence are unused. Forks of a sequence
//! share its pages: [`PageTables::fork`] copies no tokens, and a shared page is copied when a
//! sequence appends to it (copy-on-write).
//!
//! ```text
//! pages of 4 tokens         page 0           page 1           page 2           page 3
//! a, 6 tokens:    [0, 1]    a0 a1 a2 a3      a4 a5 ·  ·
//! b, fork of a:   [0, 1]    2 references     2 references
//! b, 1 token on:  [0, 2]    2 references     1 reference      a4 a5 b6 ·       free
//! ```
//!
//! - [`PageTables`]: the bookkeeping, on the host: page tables, lengths,
//!   reference counts, free pages.
//! - [`PagedCache`]: page tables, with the keys and values of all layers in device memory; its
//!   views are what kernels take.
//! - `pages.rs`: the free list and the reference count of each page; `error.rs`: [`PageError`].
//!
//! The paper calls a page a *block* and a page table a *block table*; in this project
//! a block is a CUDA block.

mod cache;
mod error;
mod pages;
mod sequence;
mod tables;

pub use cache::{PagedCache, PagedShape};
pub use error::PageError;
pub use sequence::SequenceId;
pub use tables::{BatchTables, PageCopy, PageTables};
