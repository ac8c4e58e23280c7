//! The tests of the judge, in one program.

mod attention;
mod gradients;
mod suites;
mod tables;
