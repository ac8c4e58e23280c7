//! Operations, one file per family. `dispatch` compiles them for each instruction set of the host.
//!
//! Registers alone: `integer`, `bits`, `float` (`rounding`), `half`, `byte_float`, `data`,
//! `predicate`. Between lanes: `lanes`, `mma`, `matrix_rows`. Memory: `load_store` (`locate` finds
//! and checks the addresses, `word_access` is the short way for words), `atomic`; `peers` for other
//! blocks of the cluster. Text: `print`.
//! Asynchronous copies: `async_copy`, and `bulk_copy` by the tensor memory accelerator; barriers in
//! shared memory: `mbarrier`.

pub(crate) mod async_copy;
pub(crate) mod atomic;
mod bits;
pub(crate) mod bulk_copy;
mod byte_float;
mod data;
pub(crate) mod dispatch;
mod float;
pub(crate) mod half;
mod integer;
pub(crate) mod lanes;
pub(crate) mod load_store;
pub(crate) mod locate;
pub(crate) mod matrix_rows;
pub(crate) mod mbarrier;
pub(crate) mod mma;
pub(crate) mod peers;
pub(crate) mod predicate;
pub(crate) mod print;
mod rounding;
mod word_access;
