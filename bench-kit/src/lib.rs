//! Parts of the stages' bench programs.
//!
//! - [`Peaks`]: operations and bytes per second of a device, from what its driver says.
//! - [`How`]: where a time comes from; [`median_seconds`]: a time by a GPU's clock.
//! - [`memory_remark`]: a line on problems larger than the device's memory.
//! - `Chart`: a line chart as SVG (feature `chart`).
//! - [`readme`]: transcripts and charts that are committed, for the tests that keep them current.
//!
//! Only the programs of the stages use it; their libraries do not.

#[cfg(feature = "chart")]
mod chart;
mod clock;
mod memory;
mod peaks;
pub mod readme;

#[cfg(feature = "chart")]
pub use chart::{Chart, Line};
pub use clock::{How, median_seconds};
pub use memory::memory_remark;
pub use peaks::Peaks;
