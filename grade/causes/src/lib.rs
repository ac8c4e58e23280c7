//! Causes of wrong values: which known mistake gives exactly these?
//!
//! A [`Hypothesis`] is a known mistake with the answer that it gives to a problem, in f64. [`explain`] compares what an
//! implementation computed with the answers of all hypotheses, on several problems. A hypothesis is named if it gives the
//! wrong values where they are wrong, within the tolerance, and the right ones where they are right.
//!
//! | file | mistakes |
//! |---|---|
//! | `formula` | attention in f64, with parts that a mistake exchanges |
//! | `maximum`, `scale`, `band`, `rescale`, `tail`, `masked_row`, `log_sum`, `reduction` | in the formula or in a row |
//! | `layout`, `layer`, `product` | in the place from which a value is read: heads, transposed tensors, weights |
//! | `gradients` | in the backward pass |
//! | `tensor_core` | of kernels on tensor cores, in half precision |
//! | `cache` | in the place to which a token is written |
//! | `decoder`, `generation` | in a forward pass; in the choice of tokens |
//! | `mask` | in scale-and-mask |
//! | `written` | elements that keep the value from before the call |
//! | `fault` | the kind of fault, and the memory |
//! | [`probes`] | the problems on which the hypotheses differ most |
//!
//! [`Cause`] has a sentence for each, which says what to look at.

mod band;
mod cache;
mod causes;
mod decoder;
mod explanation;
mod fault;
mod formula;
mod generation;
mod gradients;
mod layer;
mod layout;
mod log_sum;
mod mask;
mod masked_row;
mod maximum;
pub mod probes;
mod problems;
mod product;
mod reduction;
mod rescale;
mod scale;
mod tail;
mod tensor_core;
mod written;

pub use cache::{Cached, Update};
pub use causes::Cause;
pub use explanation::{
    Explained, Explanation, Hypothesis, Lazy, Wrong, explain, explanations, solved,
};
pub use fault::fault_cause;

use explanation::forgive_nan;
