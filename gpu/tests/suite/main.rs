//! Tests of the library.

mod cache;
mod child;
mod committed;
mod device;
mod find_nvrtc;
mod nvrtc;
mod processes;
mod profile;
mod report;
mod unit;
