//! The tests of the stage.

mod errors;
mod judged;
mod readme;
mod wrong_softmax;
