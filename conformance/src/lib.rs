//! The judge: everything that says whether an implementation of a stage is right.
//!
//! - [`inputs`]: seeded inputs, the same on every machine; [`layout`]: the same tensors with gaps
//!   between their rows; [`Dtype`]: rounded to another type.
//! - [`oracle`]: the mathematics of attention, naively, in f64; [`dense`]: its gradient;
//!   [`decoder`]: that of a decoder.
//! - [`problems`]: named and random problems, whose answers the oracle knows.
//! - [`compare`]: the one comparator, with its tolerances.
//! - [`Judge`]: puts an implementation through problems and claims; the
//!   [`Report`] lists all that failed.
//! - [`suites`]: one for each stage, for anything that has the stage's interface.
//! - [`torch`]: a stricter judgement of attention, beside the errors of PyTorch.
//! - [`device`]: the rig: a device, copies, strided tensors in its memory, profiles;
//!   [`memory`]: counts host memory.
//!
//! Outputs come poisoned with NaN, so that an element that is never written is found. An
//! implementation that [lacks](Implementation::lacks) a feature is spared the problems that need
//! it, and the report says so.
//!
//! ```
//! use conformance::{Implementation, Part, Report, suites};
//! use stage1_reference::Stage1;
//!
//! let who = Implementation { name: "stage 1", device: "CPU", lacks: &[] };
//! let report: Report = suites::stage1::judge(&who, &[Part::Arguments], &Stage1);
//! report.into_result()?;
//! # Ok::<(), Report>(())
//! ```

pub mod compare;
pub mod decoder;
pub mod dense;
pub mod device;
mod dtype;
pub mod inputs;
mod judge;
pub mod layout;
mod memo;
pub mod memory;
pub mod oracle;
pub mod problems;
mod report;
pub mod suites;
pub mod torch;

pub use dtype::{Dtype, Element};
pub use judge::{AnyError, Card, Implementation, Judge, run};
pub use report::{Case, Claim, Outcome, Part, Report};
