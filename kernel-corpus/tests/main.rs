//! Tests of the simulator on the corpus.

mod bugs;
mod common;
mod readme;
mod stress;
