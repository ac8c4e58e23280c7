//! The judge: runs an implementation on problems, checks claims about it,
//! and collects the outcomes.

use std::any::Any;
use std::cell::RefCell;
use std::error::Error;
use std::fmt::{self, Display};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use gpu::profile::LaunchProfile;
use stage1_reference::Feature;

use crate::compare::Comparison;
use crate::device::Launches;
use crate::inputs::hash;
use crate::problems::{Extent, Problem, Step};
use crate::report::{Case, Claim, Outcome, Part, Report};

/// Who is judged, for the report.
#[derive(Debug, Clone, Copy)]
pub struct Implementation<'a> {
    /// The implementation, such as `stage 2 attention, tiled`.
    pub name: &'a str,
    /// Where it runs, such as `NVIDIA H200` or `cuda-sim (h100)`.
    pub device: &'a str,
    /// Features that it lacks. Problems that need one of these are not given to it; the
    /// report counts them by name.
    pub lacks: &'a [Feature],
}

/// Puts an implementation through all `problems` that need nothing it lacks, and prints a line that
/// says who was judged, where, and how it went.
///
/// `solve` gets a problem and its poisoned outputs; an error that it returns counts as a failure of
/// that problem, and so does a panic.
pub fn run<P: Problem<Output: 'static> + 'static, E: Into<AnyError>>(
    implementation: &Implementation<'_>,
    problems: impl IntoIterator<Item = P>,
    solve: impl FnMut(&P, &mut P::Output) -> Result<(), E>,
) -> Report {
    let mut judge = Judge::new(implementation, &[Part::Table]);
    judge.problems(Part::Table, problems, solve);
    judge.report()
}

/// An error of an implementation, of the device, or a sentence.
pub type AnyError = Box<dyn Error>;

/// The description of a problem, by which it is chosen or left out.
#[derive(Debug, Clone, Copy)]
pub struct Card<'a> {
    /// The name.
    pub name: &'a str,
    /// [`Problem::needs_care`].
    pub needs_care: bool,
    /// [`Problem::step`].
    pub step: Option<Step>,
    /// [`Problem::extent`].
    pub extent: Extent,
}

/// One run of a suite, or of some of its parts.
pub struct Judge<'a> {
    implementation: &'a Implementation<'a>,
    parts: &'a [Part],
    first_seed: u64,
    most_random: u64,
    /// One of so many problems is judged.
    sample: usize,
    seen: usize,
    chosen: Option<&'a dyn Fn(&Card<'_>) -> bool>,
    wrong: Option<&'a RefCell<Vec<Box<dyn Any>>>>,
    cases: Vec<Case>,
    /// A launch did not end.
    endless: bool,
}

/// Instructions that one warp of a judged kernel may run, unless `CUDA_SIM_BUDGET` says otherwise.
/// The longest of the stages' own kernels runs a fraction of that.
const BUDGET: u64 = 1 << 24;

impl<'a> Judge<'a> {
    /// Judges an implementation by these parts of a suite.
    pub fn new(implementation: &'a Implementation<'a>, parts: &'a [Part]) -> Self {
        Self {
            implementation,
            parts,
            first_seed: 0,
            most_random: u64::MAX,
            sample: 1,
            seen: 0,
            chosen: None,
            wrong: None,
            cases: Vec::new(),
            endless: false,
        }
    }

    /// With random problems from this seed on, and at most so many of a kind.
    pub fn seeded(mut self, first: u64, most: u64) -> Self {
        self.first_seed = first;
        self.most_random = most;
        self
    }

    /// With one of so many problems only, from the first on. Refusals, schedules and counts are not
    /// sampled.
    pub fn sampled(mut self, of: usize) -> Self {
        self.sample = of;
        self
    }

    /// With those problems only that are `chosen`.
    pub fn only(mut self, chosen: &'a dyn Fn(&Card<'_>) -> bool) -> Self {
        self.chosen = Some(chosen);
        self
    }

    /// Keeps the first problem of each type `P` whose values are wrong, and every one of generated
    /// texts, with the output: a `(P, P::Output)`.
    pub fn keeping(mut self, wrong: &'a RefCell<Vec<Box<dyn Any>>>) -> Self {
        self.wrong = Some(wrong);
        self
    }

    /// The seeds of a suite's random problems, of which it has `count`.
    pub fn seeds(&self, count: u64) -> Range<u64> {
        self.first_seed..self.first_seed + count.min(self.most_random)
    }

    /// True if this problem is to be judged.
    pub fn is_chosen(&self, card: &Card<'_>) -> bool {
        self.chosen.is_none_or(|chosen| chosen(card))
    }

    /// The parts that are asked for.
    pub fn parts(&self) -> &'a [Part] {
        self.parts
    }

    /// The features that the implementation lacks.
    pub fn lacks(&self) -> &'a [Feature] {
        self.implementation.lacks
    }

    /// The first feature that a problem needs and the implementation lacks.
    pub fn missing(&self, problem: &impl Problem) -> Option<Feature> {
        let mut needs = problem.needs().into_iter();
        needs.find(|feature| self.lacks().contains(feature))
    }

    /// Gives the implementation all `problems` that need nothing it lacks: see [`run`]. After a
    /// kernel that does not end, the others are not run, and fail: each would take as long.
    pub fn problems<P: Problem<Output: 'static> + 'static, E: Into<AnyError>>(
        &mut self,
        part: Part,
        problems: impl IntoIterator<Item = P>,
        mut solve: impl FnMut(&P, &mut P::Output) -> Result<(), E>,
    ) {
        for problem in problems {
            let card = Card {
                name: problem.name(),
                needs_care: problem.needs_care(),
                step: problem.step(),
                extent: problem.extent(),
            };
            if !self.is_chosen(&card) {
                continue;
            }
            if let Some(feature) = self.missing(&problem) {
                self.add(part, card.name, Outcome::NotSupported(feature), None);
                continue;
            }
            self.seen += 1;
            if !(self.seen - 1).is_multiple_of(self.sample) {
                continue;
            }
            let mut output = problem.poisoned();
            let solved = self.attempt(|| solve(&problem, &mut output));
            let judged = solved.and_then(|()| problem.judge(&output).map_err(AnyError::from));
            let wrong = judged.as_ref().is_ok_and(|outputs| {
                let mut outputs = outputs.iter();
                outputs.any(|comparison| !comparison.passed())
            });
            self.compared_with(part, card.name, judged);
            let first = |kept: &RefCell<Vec<Box<dyn Any>>>| {
                !kept.borrow().iter().any(|kept| kept.is::<(P, P::Output)>())
            };
            if wrong && self.wrong.is_some_and(first) {
                self.keep(problem, output);
            }
        }
    }

    /// Makes a call that must fail, with an error that names `argument`, as `argument_of` reads it.
    ///
    /// `call` gives the result of the implementation, and whether its outputs are as they were.
    pub fn refusal<E: Error + 'static>(
        &mut self,
        name: &str,
        argument: &str,
        argument_of: impl Fn(&E) -> Option<&str>,
        call: impl FnOnce() -> (Result<(), E>, bool),
    ) {
        let mut error = None;
        let (holds, actual) = match caught(|| Ok::<_, AnyError>(call())) {
            Ok((Ok(()), _)) => (false, "no error".to_owned()),
            Ok((Err(refused), untouched)) => {
                let holds = untouched && argument_of(&refused) == Some(argument);
                let after = if untouched { "" } else { ", after a write" };
                let actual = format!("{refused}{after}");
                error = Some(refused.into());
                (holds, actual)
            }
            Err(panic) => (false, panic.to_string()),
        };
        let claim = Claim {
            expected: format!("an error that names `{argument}`, and outputs as they were"),
            actual,
            holds,
        };
        self.claim_with(Part::Arguments, format!("refuses_{name}"), claim, error);
    }

    /// Repeats a computation under each of the `schedules`; the results must be
    /// the same to the last bit.
    pub fn same_bits<S: Display, E: Into<AnyError>>(
        &mut self,
        name: &str,
        schedules: impl IntoIterator<Item = S>,
        mut compute: impl FnMut(&S) -> Result<Vec<f32>, E>,
    ) {
        let mut digests = Vec::new();
        for schedule in schedules {
            let digest = match self.attempt(|| compute(&schedule)) {
                Ok(values) => {
                    let bits = values.iter().map(|x| u64::from(x.to_bits()));
                    format!("digest {:016x}", bits.fold(0, hash))
                }
                Err(error) => error.to_string(),
            };
            digests.push((schedule.to_string(), digest));
        }
        let first = digests.first().map(|(_, digest)| digest.clone());
        let first = first.unwrap_or_else(|| "no schedule".to_owned());
        let other = digests.iter().find(|(_, digest)| *digest != first);
        let claim = Claim {
            expected: "the same bits whatever the schedule".to_owned(),
            holds: first.starts_with("digest ") && other.is_none(),
            actual: match other {
                Some((schedule, digest)) => format!("{first}, but with {schedule} {digest}"),
                None => first,
            },
        };
        self.claim(Part::Schedules, name.to_owned(), claim);
    }

    /// Adds comparisons that `compare` makes.
    pub fn compared<E: Into<AnyError>>(
        &mut self,
        part: Part,
        name: &str,
        compare: impl FnOnce() -> Result<Vec<Comparison>, E>,
    ) {
        let result = self.attempt(compare);
        self.compared_with(part, name, result);
    }

    fn compared_with(&mut self, part: Part, name: &str, result: Result<Vec<Comparison>, AnyError>) {
        match result {
            Ok(comparisons) => self.add(part, name, Outcome::Compared(comparisons), None),
            Err(error) => {
                let outcome = Outcome::Refused(error.to_string());
                self.add(part, name, outcome, Some(error));
            }
        }
    }

    /// Keeps a problem whose values are wrong: see [`Judge::keeping`].
    pub(crate) fn keep<P: Problem<Output: 'static> + 'static>(
        &self,
        problem: P,
        output: P::Output,
    ) {
        if let Some(kept) = self.wrong {
            kept.borrow_mut().push(Box::new((problem, output)));
        }
    }

    /// Adds a claim that was checked.
    pub fn claim(&mut self, part: Part, name: String, claim: Claim) {
        self.claim_with(part, name, claim, None);
    }

    /// Adds a claim that was checked, and the error of the implementation, if it returned one.
    pub fn claim_with(&mut self, part: Part, name: String, claim: Claim, error: Option<AnyError>) {
        self.add(part, &name, Outcome::Claimed(claim), error);
    }

    /// Adds the claim that a measured number is at most `limit`.
    pub fn at_most(&mut self, name: &str, unit: &str, measured: u64, limit: u64) {
        let claim = Claim {
            expected: format!("at most {limit} {unit}"),
            actual: format!("{measured} {unit}"),
            holds: measured <= limit,
        };
        self.claim(Part::Counted, name.to_owned(), claim);
    }

    /// Adds the claim that the sum of a counter over launches is at most `limit`. It fails if the
    /// launches failed, or there were none; on a device that does not count it is
    /// [`Outcome::NotCounted`].
    pub fn counted(
        &mut self,
        name: &str,
        unit: &str,
        launches: &Launches,
        counter: impl Fn(&LaunchProfile) -> u64,
        limit: u64,
    ) {
        let failed = |actual: &str| Claim {
            expected: format!("at most {limit} {unit}"),
            actual: actual.to_owned(),
            holds: false,
        };
        let claim = match launches {
            None => return self.add(Part::Counted, name, Outcome::NotCounted, None),
            Some(Err(error)) => failed(error),
            Some(Ok(launches)) if launches.is_empty() => failed("no launch"),
            Some(Ok(launches)) => {
                return self.at_most(name, unit, launches.iter().map(counter).sum(), limit);
            }
        };
        self.claim(Part::Counted, name.to_owned(), claim);
    }

    /// Calls the implementation, unless a launch of it has not ended before. A panic is an error.
    fn attempt<T, E: Into<AnyError>>(
        &mut self,
        call: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, AnyError> {
        if self.endless {
            return Err("not run, because an earlier kernel did not end".into());
        }
        let (result, ended) = gpu::with_budget(BUDGET, || caught(call));
        self.endless = !ended;
        result
    }

    fn add(&mut self, part: Part, name: &str, outcome: Outcome, error: Option<AnyError>) {
        self.cases.push(Case {
            part,
            name: name.to_owned(),
            outcome,
            error: error.map(Rc::from),
        });
    }

    /// The report.
    pub fn finish(self) -> Report {
        Report {
            implementation: self.implementation.name.to_owned(),
            device: self.implementation.device.to_owned(),
            cases: self.cases,
        }
    }

    /// The report. Its summary is printed, unless it tells of failures: then it begins the
    /// report, which its owner shows.
    pub fn report(self) -> Report {
        let report = self.finish();
        if report.failures().next().is_none() {
            println!("{}", report.summary());
        }
        report
    }
}

impl fmt::Debug for Judge<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut judge = f.debug_struct("Judge");
        judge.field("implementation", self.implementation);
        judge
            .field("parts", &self.parts)
            .field("cases", &self.cases);
        judge.finish_non_exhaustive()
    }
}

/// Calls the implementation. A panic is an error.
fn caught<T, E: Into<AnyError>>(call: impl FnOnce() -> Result<T, E>) -> Result<T, AnyError> {
    // A panic ends the use of whatever it left half done: the caller drops the outputs.
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(result) => result.map_err(Into::into),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
            Err(format!("it panicked: {}", text.unwrap_or("no message")).into())
        }
    }
}
