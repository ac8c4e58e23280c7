//! Named problems, and the one runner that puts an implementation through them.
//!
//! Three tables: [`attention::problems`], [`softmax::problems`], [`gemm::problems`]. An implementation is a closure
//! that fills the outputs of a problem. They come poisoned with NaN, so that an element that is never written is
//! found. The [`Report`] shows every problem that failed. An implementation that [lacks](Implementation::lacks) a
//! feature is spared the problems that need it, and the report says so.
//!
//! ```
//! use stage1_reference::conformance::{self, Implementation};
//!
//! let who = Implementation { name: "stage 1 attention", device: "CPU", lacks: &[] };
//! let problems = conformance::attention::problems().into_iter().take(5);
//! let report = conformance::run(&who, problems, |problem, output| {
//!     *output = stage1_reference::attention(
//!         problem.q.view(),
//!         problem.k.view(),
//!         problem.v.view(),
//!         &problem.options,
//!     )?;
//!     Ok::<_, stage1_reference::Error>(())
//! });
//! report.into_result()?;
//! # Ok::<(), conformance::Report>(())
//! ```

pub mod attention;
pub mod gemm;
pub mod softmax;
pub mod torch;

use std::collections::BTreeMap;
use std::fmt;

use crate::Feature;
use crate::compare::Comparison;

/// A problem with a known answer.
pub trait Problem {
    /// What an implementation fills in.
    type Output;

    /// Its name, such as `b1_h2_n65_d64_causal`.
    fn name(&self) -> &str;

    /// What an implementation must have for it, beyond the plain problem.
    fn needs(&self) -> Vec<Feature> {
        Vec::new()
    }

    /// Outputs of the right shapes, full of NaN.
    fn poisoned(&self) -> Self::Output;

    /// Compares outputs with the oracle's. Says in words which output has the wrong shape, if one does.
    ///
    /// # Errors
    ///
    /// The sentence that names the output.
    fn judge(&self, output: &Self::Output) -> Result<Vec<Comparison>, String>;
}

/// Who is judged, for the report.
#[derive(Debug, Clone, Copy)]
pub struct Implementation<'a> {
    /// The implementation, such as `stage 2 attention, tiled`.
    pub name: &'a str,
    /// Where it runs, such as `NVIDIA H200` or `cuda-sim (h100)`.
    pub device: &'a str,
    /// What it cannot do. Problems that need one of these are not given to it; the report counts them by name.
    pub lacks: &'a [Feature],
}

/// Puts an implementation through all `problems` that need nothing it lacks, and prints a line that says who was judged,
/// where, and how it went.
///
/// `solve` gets a problem and its poisoned outputs; an error that it returns counts as a failure of that problem.
pub fn run<P: Problem, E: fmt::Display>(
    implementation: &Implementation<'_>,
    problems: impl IntoIterator<Item = P>,
    mut solve: impl FnMut(&P, &mut P::Output) -> Result<(), E>,
) -> Report {
    let cases = problems.into_iter().map(|problem| {
        let missing =
            (problem.needs().into_iter()).find(|feature| implementation.lacks.contains(feature));
        if let Some(feature) = missing {
            return Case {
                name: problem.name().to_owned(),
                outcome: Outcome::NotSupported(feature),
            };
        }
        let announce = NameOnPanic(problem.name());
        let mut output = problem.poisoned();
        let outcome = match solve(&problem, &mut output) {
            Err(error) => Outcome::Refused(error.to_string()),
            Ok(()) => match problem.judge(&output) {
                Err(sentence) => Outcome::Refused(sentence),
                Ok(comparisons) => Outcome::Compared(comparisons),
            },
        };
        drop(announce);
        Case {
            name: problem.name().to_owned(),
            outcome,
        }
    });
    let report = Report {
        implementation: implementation.name.to_owned(),
        device: implementation.device.to_owned(),
        cases: cases.collect(),
    };
    println!("{}", report.summary());
    report
}

/// What became of every problem. Its `Debug` form is the same table as its `Display` form.
#[derive(Clone)]
pub struct Report {
    /// The name of the implementation.
    pub implementation: String,
    /// The device it ran on.
    pub device: String,
    /// One entry per problem, in order.
    pub cases: Vec<Case>,
}

/// What became of one problem.
#[derive(Debug, Clone)]
pub struct Case {
    /// The problem's name.
    pub name: String,
    /// How it went.
    pub outcome: Outcome,
}

/// How one problem went.
#[derive(Debug, Clone)]
pub enum Outcome {
    /// The implementation returned an error, or an output of the wrong shape.
    Refused(String),
    /// The problem needs this feature, which the implementation lacks; it was not run.
    NotSupported(Feature),
    /// The outputs were compared.
    Compared(Vec<Comparison>),
}

impl Case {
    /// Whether all outputs were right.
    pub fn passed(&self) -> bool {
        match &self.outcome {
            Outcome::Refused(_) | Outcome::NotSupported(_) => false,
            Outcome::Compared(comparisons) => comparisons.iter().all(Comparison::passed),
        }
    }

    /// One comparison per output; none if there was nothing to compare.
    pub fn comparisons(&self) -> &[Comparison] {
        match &self.outcome {
            Outcome::Refused(_) | Outcome::NotSupported(_) => &[],
            Outcome::Compared(comparisons) => comparisons,
        }
    }

    /// Whether the problem was given to the implementation.
    pub fn was_run(&self) -> bool {
        !matches!(self.outcome, Outcome::NotSupported(_))
    }
}

impl Report {
    /// The problems that were run and not solved.
    pub fn failures(&self) -> impl Iterator<Item = &Case> {
        let run = self.cases.iter().filter(|case| case.was_run());
        run.filter(|case| !case.passed())
    }

    /// How many problems were not run for want of a feature, by its name; each counts for the first that it lacks.
    pub fn not_supported(&self) -> BTreeMap<Feature, usize> {
        let mut counts = BTreeMap::new();
        for case in &self.cases {
            if let Outcome::NotSupported(feature) = case.outcome {
                *counts.entry(feature).or_default() += 1;
            }
        }
        counts
    }

    /// One line: who was judged, where, how many problems were solved, how close the solved ones came to not being,
    /// and what was not run.
    pub fn summary(&self) -> String {
        let Self {
            implementation,
            device,
            cases,
        } = self;
        let solved: Vec<&Case> = cases.iter().filter(|case| case.passed()).collect();
        let share = solved
            .iter()
            .flat_map(|case| case.comparisons())
            .map(|comparison| comparison.max_share)
            .fold(0.0, f64::max);
        let mut text = format!(
            "{implementation} on {device}: {} of {} problems solved, with errors of up to {:.0}% of the tolerance",
            solved.len(),
            cases.iter().filter(|case| case.was_run()).count(),
            100.0 * share
        );
        let not_supported = self.not_supported();
        if !not_supported.is_empty() {
            let counts = not_supported
                .iter()
                .map(|(feature, count)| format!("{feature} ({count})"));
            text += &format!("; not supported: {}", Vec::from_iter(counts).join(", "));
        }
        text
    }

    /// The report as an error if a problem was not solved, or if none was run at all.
    ///
    /// # Errors
    ///
    /// The report itself.
    pub fn into_result(self) -> Result<(), Self> {
        if self.cases.iter().any(Case::was_run) && self.failures().next().is_none() {
            Ok(())
        } else {
            Err(self)
        }
    }
}

impl std::error::Error for Report {}

impl fmt::Debug for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.summary())?;
        let width = self
            .failures()
            .map(|case| case.name.len())
            .max()
            .unwrap_or(0);
        for case in self.failures() {
            let name = &case.name;
            if let Outcome::Refused(sentence) = &case.outcome {
                let sentence = sentence.replace('\n', "\n    ");
                write!(f, "\n  {name:width$}  {sentence}")?;
            }
            for comparison in case
                .comparisons()
                .iter()
                .filter(|comparison| !comparison.passed())
            {
                write!(f, "\n  {name:width$}  {comparison}")?;
            }
        }
        Ok(())
    }
}

/// Says which problem was being solved when the implementation panicked.
struct NameOnPanic<'a>(&'a str);

impl Drop for NameOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the panic came from problem {}", self.0);
        }
    }
}

/// Compares one output, or says that its shape is wrong.
fn compare<D: ndarray::Dimension>(
    tensor: &'static str,
    actual: &ndarray::Array<f32, D>,
    expected: &ndarray::Array<f64, D>,
    tolerance: crate::compare::Tolerance,
) -> Result<Comparison, String> {
    if actual.shape() != expected.shape() {
        return Err(format!(
            "`{tensor}` has shape {:?}, not {:?}",
            actual.shape(),
            expected.shape()
        ));
    }
    Ok(Comparison::new(
        tensor,
        actual.view(),
        expected.view(),
        tolerance,
    ))
}

/// The root mean square of the finite values of an array, 0 if there are none.
fn rms<D: ndarray::Dimension>(array: &ndarray::Array<f32, D>) -> f64 {
    let squares = array
        .iter()
        .filter(|x| x.is_finite())
        .map(|&x| f64::from(x) * f64::from(x));
    let (count, sum) = squares.fold((0, 0.0), |(count, sum), square| (count + 1, sum + square));
    (sum / f64::from(count.max(1))).sqrt()
}
