//! Copies of the tensor memory accelerator: what each moves, against definitions of the tests' own.
//!
//! One thread begins the copies, so that nothing depends on what orders threads.

mod bytes;
mod clusters;
mod encode;
mod faults;
mod launches;
mod made_maps;
mod pixels;
mod reductions;
mod rig;
mod tiles;
