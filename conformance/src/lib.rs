//! The judge: everything that says whether an implementation of a stage is right.
//!
//! - [`inputs`]: seeded inputs, the same on every machine.
//! - [`oracle`]: the mathematics of attention, naively, in f64.
//! - [`problems`]: named problems, whose answers the oracle knows.
//! - [`compare`]: the one comparator, with its tolerances.
//! - [`run`]: puts an implementation through problems; its [`Report`] lists every problem that failed.
//! - [`torch`]: a stricter judgement of attention, beside the errors of PyTorch.
//!
//! An implementation is a closure that fills the outputs of a problem. They come poisoned with NaN, so that an element
//! that is never written is found. An implementation that [lacks](Implementation::lacks) a feature is spared the
//! problems that need it, and the report says so.
//!
//! ```
//! use conformance::{Implementation, problems};
//!
//! let who = Implementation { name: "stage 1 attention", device: "CPU", lacks: &[] };
//! let some = problems::attention::problems().into_iter().take(5);
//! let report = conformance::run(&who, some, |problem, output| {
//!     let (q, k, v) = (problem.q.view(), problem.k.view(), problem.v.view());
//!     *output = stage1_reference::attention(q, k, v, &problem.options)?;
//!     Ok::<_, stage1_reference::Error>(())
//! });
//! report.into_result()?;
//! # Ok::<(), conformance::Report>(())
//! ```

pub mod compare;
pub mod inputs;
pub mod oracle;
pub mod problems;
mod report;
mod run;
pub mod torch;

pub use report::{Case, Outcome, Report};
pub use run::{Implementation, run};
