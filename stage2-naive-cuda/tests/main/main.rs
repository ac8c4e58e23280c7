//! The tests of the stage.

mod errors;
mod readme;
mod suite;
mod wrong_softmax;
