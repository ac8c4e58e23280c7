//! The program of an exercise: it reads calls of the grader, makes them, and answers.
//!
//! The grader never runs a learner's code in its own process. It starts the exercise's program,
//! which is three lines and a call of `serve` here, and sends it the inputs of a call; the program
//! sends back the outputs. Expected values stay with the grader.
//!
//! - [`frame`]: messages and their tensors as bytes. Both sides use it.
//! - [`message`]: request and reply, whatever the stage. Both sides use it.
//! - `stage1`, `stage2` …, each a feature: the calls of a stage's interface, which
//!   both sides use, and `serve`.
//! - [`serving`]: the loop; output that a learner's code prints goes to standard
//!   error, never into an answer.
//! - [`memory`]: counts host memory.
//! - `given`: attention for the decoder of stage 6: the course's, or of a learner's own stages.
//! - `cuda`: what the stages on a device share: seeds, checks, faults, profiles, memory in use.
//!
//! To add a stage: a feature in Cargo.toml; a file with `Call` (one variant for each method of the
//! interface, with its arguments: tensors, and the stage's own types), and `serve`, which makes the
//! calls. Code that is generic over the learner's type is compiled again at every save. Keep it to
//! one line, and pass the interface on as a trait object where that is possible.

#[cfg(feature = "cuda")]
pub mod cuda;
pub mod frame;
#[cfg(feature = "stage6")]
pub mod given;
pub mod memory;
pub mod message;
pub mod serving;
#[cfg(feature = "stage1")]
pub mod stage1;
#[cfg(feature = "stage2")]
pub mod stage2;
#[cfg(feature = "stage3")]
pub mod stage3;
#[cfg(feature = "stage4")]
pub mod stage4;
#[cfg(feature = "stage5")]
pub mod stage5;
#[cfg(feature = "stage6")]
pub mod stage6;

/// Set in the environment of a program whose lower steps are the learner's own, too.
pub const OWN: &str = "EXERCISE_OWN";
