//! The tests of the judge, in one program.

mod attention;
mod suites;
mod tables;
