//! Correct and robust: problems of the task's suite, judged here.

use std::any::Any;
use std::cell::RefCell;
use std::error::Error;

use conformance::compare::{self, Comparison};
use conformance::{Card, Case, Implementation, Judge, Outcome, Part};
use exercise_kit::message::Run;

use super::{Judged, cause_of_error, criterion, dishonest, finding, stopped, under_checks};
use crate::cause::{self, Cause, Wrong};
use crate::exams::{Exam, Input, Place, Rig, Whose};
use crate::remote;
use crate::tasks::Task;
use crate::verdict::{Finding, Kind};

/// The named and the random problems. All or none: a kernel that is wrong somewhere is wrong.
///
/// The checks of the simulator are off, those of bounds apart: a race that happens to give the right values costs
/// [`Kind::Clean`].
pub fn correct(exam: &dyn Exam, task: &Task, rig: &Rig<'_>, seed: u64) -> Judged {
    let run = Run {
        profile: matches!(exam.place(), Place::Device { .. }),
        ..Run::default()
    };
    rig.remote.set_run(run);
    rig.remote.take_calls();
    let (cases, mut findings, wrong) = problems(exam, rig, seed, Kind::Correct);
    if let Some(wrong) = wrong {
        explain(&mut findings, &wrong, exam, rig, seed);
    }
    let calls = rig.remote.take_calls();
    let passed = cases.iter().filter(|case| case.passed()).count();
    let run = cases.len();
    let mut right = passed == run && run > 0;
    if let Some(sentence) = dishonest(task, exam.place(), &calls) {
        findings.insert(0, finding(Kind::Correct, "", sentence));
        right = false;
    }
    let launches = calls.iter().map(|call| call.launches.len()).sum::<usize>();
    if right && launches == 0 && exam.place() != Place::Host {
        let sentence =
            "The values are right, but no kernel was launched: the device has to compute them.";
        findings.insert(0, finding(Kind::Correct, "", sentence.to_owned()));
        right = false;
    }
    let share = f64::from(u8::from(right));
    let note = format!("{passed} of {run} problems");
    (criterion(Kind::Correct, share, passed, run, note), findings)
}

/// Wrong values of problems, as [`Judge::keeping`] keeps them; `None` if no values are wrong.
pub type WrongValues = Option<Vec<Box<dyn Any>>>;

/// Problems that need care, and arguments that must be refused: the share that passes; 0 if a problem is not right. And the wrong
/// values, so that [`explain`] may find the cause when all is judged.
pub fn robust(exam: &dyn Exam, rig: &Rig<'_>, seed: u64) -> (Judged, WrongValues) {
    rig.remote.set_run(Run::default());
    let (mut cases, mut findings, wrong) = problems(exam, rig, seed, Kind::Robust);
    let right = cases.iter().all(Case::passed);
    let who = implementation(exam);
    let parts = [Part::Arguments];
    let mut judge = Judge::new(&who, &parts);
    exam.judge(&mut judge, rig);
    let refusals = judge.finish().cases;
    findings.extend(described(Kind::Robust, &refusals));
    cases.extend(refusals);
    let passed = cases.iter().filter(|case| case.passed()).count();
    let run = cases.len();
    let (share, note) = match right {
        true => (passed as f64 / run.max(1) as f64, ""),
        false => (0.0, "; a problem that is not right costs all"),
    };
    let note = format!("{passed} of {run} cases{note}");
    let judged = (criterion(Kind::Robust, share, passed, run, note), findings);
    (judged, wrong)
}

fn implementation(exam: &dyn Exam) -> Implementation<'static> {
    Implementation {
        name: "the exercise",
        device: "",
        lacks: exam.lacks(),
    }
}

/// The problems of one criterion that were run, the findings, and the wrong values.
fn problems(
    exam: &dyn Exam,
    rig: &Rig<'_>,
    seed: u64,
    kind: Kind,
) -> (Vec<Case>, Vec<Finding>, WrongValues) {
    let chosen = |card: &Card<'_>| exam.asks(card.step) && exam.criterion(card) == Some(kind);
    let (cases, wrong) = run(exam, rig, seed, &chosen);
    let mut findings = described(kind, &cases);
    let stopped = stopped(kind, rig.remote).filter(|_| !findings.is_empty());
    let wrong_values = !rig.remote.is_lost() && has_values(&cases);
    if let Some(mut stop) = stopped {
        // A kernel that does not compile has a finding of its own, with the problem.
        let why = findings.iter().position(|finding| {
            let why = finding.sentence.split_once(": ").map(|(_, why)| why);
            why.is_some_and(|why| stop.sentence.contains(why.trim_end_matches('.')))
        });
        if let Some(at) = why {
            stop.case = findings[at].case.clone();
        }
        findings.truncate(1);
        if why != Some(0) {
            findings.push(stop);
        }
    }
    (cases, findings, wrong_values.then_some(wrong))
}

/// Runs the chosen problems, and keeps wrong values.
fn run(
    exam: &dyn Exam,
    rig: &Rig<'_>,
    seed: u64,
    chosen: &dyn Fn(&Card<'_>) -> bool,
) -> (Vec<Case>, Vec<Box<dyn Any>>) {
    let who = implementation(exam);
    let parts = [Part::Table, Part::Random];
    let wrong = RefCell::default();
    let mut judge = Judge::new(&who, &parts)
        .seeded(seed, exam.random())
        .only(chosen)
        .keeping(&wrong);
    exam.judge(&mut judge, rig);
    let mut cases = judge.finish().cases;
    cases.retain(Case::was_run);
    (cases, wrong.into_inner())
}

/// Names the known mistake that gives the wrong values of a problem, and puts its finding first; if none does, the fault that the
/// simulator's checks find in the first problem that failed. A fault in the problems that are repeated is a finding of its
/// own, if clean is not judged.
///
/// The program runs again, and may be stopped: what is judged after that loses points.
pub fn explain(
    findings: &mut Vec<Finding>,
    wrong: &Wrong,
    exam: &dyn Exam,
    rig: &Rig<'_>,
    seed: u64,
) {
    rig.remote.forget_uncompiled();
    let explanation = exam.explain(rig, wrong);
    // Probes may have a head dimension that the task does not ask for.
    rig.remote.forget_uncompiled();
    if let Some((explanation, case)) = explanation {
        let explained = |finding: &Finding| case.is_empty() || finding.case == case;
        if let Some(at) = findings.iter().position(explained) {
            let mut finding = findings.remove(at);
            finding.cause = Some(match explanation.cause {
                Cause::NotWritten if launches_nothing(exam, rig, seed, &finding.case) => {
                    Cause::NothingLaunched
                }
                cause => cause,
            });
            finding.detail = explanation.form() + &finding.detail;
            findings.insert(0, finding);
        }
        return;
    }
    let Some(first) = findings.first_mut() else {
        return;
    };
    let fault_of = |error: &(dyn Error + 'static)| {
        let fault = error.downcast_ref::<remote::Error>()?.fault()?;
        Some((fault.to_string(), cause::fault_cause(fault)?))
    };
    let found = under_checks(rig, || {
        let (cases, _) = run(exam, rig, seed, &|card| card.name == first.case);
        let mut errors = cases.iter().filter_map(|case| case.error.as_deref());
        errors.find_map(fault_of)
    });
    if let Some((report, cause)) = found {
        first.cause = Some(cause);
        first.detail = format!("{report}\n{}", first.detail);
    } else if first.kind == Kind::Correct {
        let repeated = under_checks(rig, || {
            let failed = exam.compute(rig, Whose::Learner, Input::Repeated).err();
            failed.and_then(|error| fault_of(&*error))
        });
        findings.extend(repeated.map(|(report, cause)| Finding {
            cause: Some(cause),
            detail: report.clone(),
            ..finding(
                Kind::Clean,
                "small problems under all checks",
                report.lines().next().unwrap_or_default().to_owned(),
            )
        }));
    }
    rig.remote.set_run(Run::default());
}

/// True if the call of a problem launches no kernel.
fn launches_nothing(exam: &dyn Exam, rig: &Rig<'_>, seed: u64, case: &str) -> bool {
    if exam.place() == Place::Host {
        return false;
    }
    rig.remote.set_run(Run {
        profile: true,
        ..Run::default()
    });
    let calls = rig.remote.calls_of(|| {
        run(exam, rig, seed, &|card| card.name == case);
    });
    rig.remote.set_run(Run::default());
    !calls.is_empty() && calls.iter().all(|call| call.launches.is_empty())
}

/// True if a problem failed by its values, and not by an error.
fn has_values(cases: &[Case]) -> bool {
    let mut failed = cases.iter().filter(|case| !case.passed());
    failed.any(|case| match &case.outcome {
        Outcome::Compared(comparisons) => !comparisons.is_empty(),
        Outcome::Claimed(_) => true,
        _ => false,
    })
}

/// The failures, as findings.
fn described(kind: Kind, cases: &[Case]) -> Vec<Finding> {
    let failed = cases.iter().filter(|case| !case.passed());
    let findings = failed.map(|case| {
        let (sentence, detail) = sentence_of(&case.outcome);
        Finding {
            cause: case.error.as_deref().and_then(cause_of_error),
            detail,
            ..finding(kind, &case.name, sentence)
        }
    });
    findings.collect()
}

/// The fault in one sentence, and more lines.
fn sentence_of(outcome: &Outcome) -> (String, String) {
    match outcome {
        Outcome::Refused(text) => {
            let mut lines = text.lines();
            let first = lines.next().unwrap_or_default().to_owned();
            let more = lines.next().map(|_| text.clone());
            (first, more.unwrap_or_default())
        }
        Outcome::Claimed(claim) => {
            let mut lines = claim.actual.lines();
            let first = lines.next().unwrap_or_default();
            let more = lines.next().map(|_| claim.actual.clone());
            (
                format!("expected {}, got {first}", claim.expected),
                more.unwrap_or_default(),
            )
        }
        Outcome::Compared(comparisons) => {
            let wrong = comparisons.iter().find(|comparison| !comparison.passed());
            let all: Vec<String> = comparisons.iter().map(ToString::to_string).collect();
            (wrong.map(wrong_value).unwrap_or_default(), all.join("\n"))
        }
        Outcome::NotSupported(feature) => (format!("it needs {feature}"), String::new()),
        Outcome::NotCounted => ("it is not counted here".to_owned(), String::new()),
    }
}

/// The first wrong element, with its place.
fn wrong_value(comparison: &Comparison) -> String {
    let Some(compare::Wrong {
        index,
        actual,
        expected,
        ..
    }) = &comparison.first_wrong
    else {
        return String::new();
    };
    format!(
        "{} is wrong in {} of {} elements, first at {}: {actual}, not {expected:.6}.",
        comparison.tensor,
        comparison.wrong,
        comparison.count,
        place(comparison.tensor, index)
    )
}

/// An element of a tensor, by the names of the axes.
fn place(tensor: &str, index: &[usize]) -> String {
    // Step 0 is the prompt's.
    let first = usize::from(tensor == "decode");
    let axes = axes(tensor, index.len()).iter().zip(index);
    let place = axes.enumerate().map(|(axis, (name, i))| match axis {
        0 => format!("{name} {}", i + first),
        _ => format!("{name} {i}"),
    });
    place.collect::<Vec<_>>().join(", ")
}

/// The names of a tensor's axes.
fn axes(tensor: &str, dimensions: usize) -> &'static [&'static str] {
    match (tensor, dimensions) {
        (_, 4) => &["b", "h", "row", "column"],
        ("lse", 3) => &["b", "h", "row"],
        ("lse", 2) => &["b", "vector"], // of softmax, over either dimension
        ("prefill", 3) => &["step", "sequence", "token"], // logits
        ("decode", 3) => &["decode step", "sequence", "token"],
        (_, 3) => &["b", "row", "column"],
        (_, 2) => &["row", "column"],
        (_, 1) => &["element"],
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_is_named() {
        assert_eq!(place("lengths", &[3]), "element 3");
        assert_eq!(place("y", &[0, 3]), "row 0, column 3");
        assert_eq!(place("prefill", &[0, 1, 2]), "step 0, sequence 1, token 2");
        let decode = place("decode", &[0, 1, 2]);
        assert_eq!(decode, "decode step 1, sequence 1, token 2");
    }
}
