//! The report on an implementation: the outcomes of all problems and claims.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::rc::Rc;

use stage1_reference::Feature;

use crate::compare::Comparison;

/// A part of a suite, which can be run alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// The named problems.
    Table,
    /// Inputs and outputs that are not packed.
    Strided,
    /// Seeded random problems.
    Random,
    /// Arguments that must be refused, by name.
    Arguments,
    /// The order of blocks and warps, and the number of host threads.
    Schedules,
    /// Memory traffic, FLOPs and buffers, where they can be counted.
    Counted,
}

impl Part {
    /// All parts, in order.
    pub const ALL: [Self; 6] = [
        Self::Table,
        Self::Strided,
        Self::Random,
        Self::Arguments,
        Self::Schedules,
        Self::Counted,
    ];
}

/// The outcomes of all problems and claims. Its `Debug` form is the same
/// table as its `Display` form.
#[derive(Clone)]
pub struct Report {
    /// The name of the implementation.
    pub implementation: String,
    /// The device it ran on.
    pub device: String,
    /// One entry per problem and claim, in order.
    pub cases: Vec<Case>,
}

/// The outcome of one problem or claim.
#[derive(Debug, Clone)]
pub struct Case {
    /// The part of the suite that it belongs to.
    pub part: Part,
    /// Its name, such as `b1_h2_n65_d64_causal`.
    pub name: String,
    /// The outcome.
    pub outcome: Outcome,
    /// The error of the implementation, if it returned one. A caller that knows its
    /// type reads values from it.
    pub error: Option<Rc<dyn Error>>,
}

/// The outcome of one problem or claim, in words and numbers.
#[derive(Debug, Clone)]
pub enum Outcome {
    /// The implementation returned an error or an output of the wrong shape, or it panicked.
    Refused(String),
    /// The problem needs this feature, which the implementation lacks; it was not run.
    NotSupported(Feature),
    /// The outputs were compared.
    Compared(Vec<Comparison>),
    /// The claim was checked.
    Claimed(Claim),
    /// The claim is about a count that this device does not keep; nothing was checked.
    NotCounted,
}

/// A checked statement about an implementation that is not about the values of an output.
#[derive(Debug, Clone, PartialEq)]
pub struct Claim {
    /// The required behaviour.
    pub expected: String,
    /// The observed behaviour.
    pub actual: String,
    /// True if the two agree.
    pub holds: bool,
}

impl Case {
    /// True if all outputs were right, or the claim holds or is not counted here.
    pub fn passed(&self) -> bool {
        match &self.outcome {
            Outcome::Refused(_) | Outcome::NotSupported(_) => false,
            Outcome::Compared(comparisons) => comparisons.iter().all(Comparison::passed),
            Outcome::Claimed(claim) => claim.holds,
            Outcome::NotCounted => true,
        }
    }

    /// One comparison per output; none if there was nothing to compare.
    pub fn comparisons(&self) -> &[Comparison] {
        match &self.outcome {
            Outcome::Compared(comparisons) => comparisons,
            _ => &[],
        }
    }

    /// True if the problem was given to the implementation.
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

    /// The number of problems that were not run for want of a feature, by its name; each counts for
    /// the first that it lacks.
    pub fn not_supported(&self) -> BTreeMap<Feature, usize> {
        let mut counts = BTreeMap::new();
        for case in &self.cases {
            if let Outcome::NotSupported(feature) = case.outcome {
                *counts.entry(feature).or_default() += 1;
            }
        }
        counts
    }

    /// One line: who was judged, where, how many problems were solved, how close the solved
    /// ones came to not being if they were not exact, what was not run, and how many claims are
    /// not counted on this device.
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
            "{implementation} on {device}: {} of {} problems solved",
            solved.len(),
            cases.iter().filter(|case| case.was_run()).count(),
        );
        if share >= 0.005 {
            text += &format!(
                ", with errors of up to {:.0}% of the tolerance",
                100.0 * share
            );
        } else if share > 0.0 {
            text += ", with errors below 1% of the tolerance";
        }
        let not_supported = self.not_supported();
        if !not_supported.is_empty() {
            let counts = not_supported
                .iter()
                .map(|(feature, count)| format!("{feature} ({count})"));
            text += &format!("; not supported: {}", Vec::from_iter(counts).join(", "));
        }
        let not_counted = |case: &&Case| matches!(case.outcome, Outcome::NotCounted);
        let not_counted = cases.iter().filter(not_counted).count();
        if not_counted > 0 {
            text += &format!("; not counted on this device: {not_counted}");
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

impl Error for Report {}

impl fmt::Debug for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.summary())?;
        let groups = groups(self.failures());
        let shown = groups.iter().flat_map(Group::shown);
        let width = shown.map(|(name, _)| name.len()).max().unwrap_or(0);
        for group in &groups {
            for (name, sentence) in group.shown() {
                let sentence = sentence.replace('\n', "\n    ");
                write!(f, "\n  {name:width$}  {sentence}")?;
            }
            let more: Vec<&str> = group.more().map(|(name, _)| *name).collect();
            if !more.is_empty() {
                let (count, names) = (more.len(), more[..more.len().min(NAMES)].join(", "));
                let rest = if count > NAMES { ", …" } else { "" };
                write!(
                    f,
                    "\n  {:width$}  and {count} more like it: {names}{rest}",
                    ""
                )?;
            }
        }
        Ok(())
    }
}

/// Failures of one kind that are shown in full; of those that take several lines, such
/// as faults of kernels, one.
const SHOWN: usize = 8;

/// Names of further failures that are listed.
const NAMES: usize = 6;

/// Failures that have the same cause, by their look.
struct Group<'a> {
    look: String,
    /// The names of the cases, and what is said of each.
    failures: Vec<(&'a str, String)>,
}

impl<'a> Group<'a> {
    fn shown(&self) -> impl Iterator<Item = &(&'a str, String)> {
        self.failures[..self.count()].iter()
    }

    fn more(&self) -> impl Iterator<Item = &(&'a str, String)> {
        self.failures[self.count()..].iter()
    }

    fn count(&self) -> usize {
        let lines = self
            .failures
            .iter()
            .any(|(_, sentence)| sentence.contains('\n'));
        self.failures.len().min(if lines { 1 } else { SHOWN })
    }
}

/// The failures, in the order of the first of each group.
fn groups<'a>(failures: impl Iterator<Item = &'a Case>) -> Vec<Group<'a>> {
    let mut groups: Vec<Group<'a>> = Vec::new();
    for case in failures {
        for (look, sentence) in sentences(case) {
            let failure = (&*case.name, sentence);
            match groups.iter_mut().find(|group| group.look == look) {
                Some(group) => group.failures.push(failure),
                None => groups.push(Group {
                    look,
                    failures: vec![failure],
                }),
            }
        }
    }
    groups
}

/// The sentences on a failure, each with its look: the same for failures that differ only in
/// numbers, or only in values.
fn sentences(case: &Case) -> Vec<(String, String)> {
    let sentence = match &case.outcome {
        Outcome::Refused(sentence) => sentence.clone(),
        Outcome::Claimed(claim) => format!("{}, not {}", claim.actual, claim.expected),
        Outcome::Compared(comparisons) => {
            let wrong = comparisons.iter().filter(|comparison| !comparison.passed());
            return wrong
                .map(|comparison| (comparison.tensor.to_owned(), comparison.to_string()))
                .collect();
        }
        Outcome::NotSupported(_) | Outcome::NotCounted => return Vec::new(),
    };
    vec![(look(&sentence), sentence)]
}

/// A sentence without its numbers; of a fault's report the first line without numbers, and the line
/// with the source, which is the fault's place.
fn look(sentence: &str) -> String {
    let mut lines = sentence.lines();
    let first = lines.next().unwrap_or_default();
    let place = lines.find(|line| line.trim_start().starts_with("source  "));
    let words = first.split(|c: char| !c.is_alphanumeric() && c != '_');
    let words = words.filter(|word| !word.starts_with(|c: char| c.is_ascii_digit()));
    words.chain(place).collect::<Vec<_>>().join(" ")
}
