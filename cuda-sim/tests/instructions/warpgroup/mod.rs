//! Products of matrices by a warpgroup, `wgmma`: `rig` runs one, `definition` says what it gives.

mod definition;
mod faults;
mod products;
mod rig;
mod speed;
