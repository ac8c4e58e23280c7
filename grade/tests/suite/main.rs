//! The tests of the grader, in one program.

mod causes;
mod cli;
mod clinic;
mod confinement;
mod gradescope;
mod grading;
mod shared_builds;
mod story;
mod tuning;
mod variants;
