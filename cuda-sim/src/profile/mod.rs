//! Counters of launches, in all and by source line.
//!
//! Counters are exact. They are the same on every run, for every number of host threads and every
//! schedule, as long as the kernel itself does the same.
//!
//! - `counters`: counters of instructions and memory traffic
//! - `launch_profile`: what users get of a launch
//! - `phase`: work between barriers, from which time is modelled
//! - `record`: raw counts of a launch, from which its profile is made

mod counters;
mod launch_profile;
mod phase;
mod record;

pub use counters::{Counters, Sectors, Wavefronts};
pub use launch_profile::{LaunchProfile, LineProfile};
pub use phase::Phase;

pub(crate) use counters::add_fields;
pub(crate) use record::Record;
