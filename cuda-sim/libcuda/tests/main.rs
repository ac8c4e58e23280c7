//! Tests of the library on disk and of the program `cuda-sim`.

mod run;
mod unmodified;
