//! The grader: builds a learner's exercises, runs them in processes with limits, and gives points.
//!
//! - [`tasks`]: the table of tasks, with points and the files that a learner writes.
//! - [`verdict`]: the result of a grading, as data that the reports are made of.
//! - [`report`]: a grade for the terminal, as Markdown, JSON, HTML and for Gradescope.

pub mod report;
pub mod tasks;
pub mod verdict;
