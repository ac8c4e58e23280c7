//! The grader: builds a learner's exercises, runs them in processes with limits, and gives points.
//!
//! - [`tasks`]: the table of tasks, with points and the files that a learner writes.
//! - [`cause`], a package of its own: which known mistake gives exactly the wrong values that were found.
//! - [`verdict`]: the result of a grading, as data that the reports are made of.
//! - [`report`]: a grade for the terminal, as Markdown, JSON, HTML and for Gradescope.
//! - [`mod@grade`]: a grading, from the submission to the points. [`places`]: its folders.
//! - `programs`: the program of a stage, and the time of a submission.
//! - [`figures`]: times of the learner's kernels at the shapes of the assignment.
//! - [`child`]: the learner's program: a copy of the sources with the given files restored, its build, its process, and the
//!   sandbox around it.
//! - [`compiler`]: which kernels were edited, and so need NVRTC.
//! - [`remote`]: the learner's implementation, as the suites of `conformance` see it.
//! - [`exams`]: each task: its suite, which problem belongs to which criterion, what is repeated and timed.
//! - [`criteria`]: correct, robust, clean, fast.
//! - `clock`: the time of work on the CPU. `cut`: text of others, cut to a length.
//! - [`starters`]: which files are still the starters.
//! - [`story`]: a story by the learner's decoder and kernels.
//! - [`tuning`]: tiles of a kernel, and what each costs.
//! - [`clinic`]: ten kernels that are wrong, and whether they are mended. The warm-ups are a package of their own.
//!
//! The learner's code runs in the child, and only there. It gets inputs and gives outputs; what is expected is computed
//! here and stays here.

pub mod child;
pub mod clinic;
mod clock;
pub mod compiler;
pub mod criteria;
mod cut;
pub mod exams;
pub mod figures;
pub mod grade;
pub mod places;
mod programs;
pub mod remote;
pub mod report;
pub mod starters;
pub mod story;
pub mod tasks;
pub mod tuning;
pub mod verdict;

pub use grade_causes as cause;
