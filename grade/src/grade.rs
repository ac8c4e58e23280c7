//! A grading, from the submission to the points.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use conformance::AnyError;
use conformance::device::Device;
use exercise_kit::cuda::summary;
use exercise_kit::message::{Launch, Run};
use stage4_flash_cuda::library::Tile;

use crate::cause::Cause;
use crate::child::{BuildError, Child, Limits, Program, build, compiler, course, note};
use crate::criteria::{self, correct, explain, fast, not_judged, robust};
use crate::exams::{Exam, Input, Place, Rig, Whose, exam};
use crate::places::Places;
use crate::programs::Programs;
use crate::remote::{Remote, Tuned};
use crate::report::Points;
use crate::starters;
use crate::tasks::Task;
use crate::tuning::PROBLEMS;
use crate::verdict::{Criterion, Finding, Grade, Kind, SCHEMA, TaskGrade, Work};

/// The seed of the random problems, if none is given.
pub const SEED: u64 = 20_170_612;

/// The beginning of the sentence on a file that does not compile, be it Rust or a kernel.
const NOT_COMPILED: &str = "It does not compile";

/// Why an edited kernel is not graded.
const NO_COMPILER: &str = "an edited kernel cannot be compiled here: NVRTC is not installed";

/// Why a later step of a task is not judged.
const EARLIER_STEP_HANGS: &str = "Not run: a call of an earlier step of this task did not end.";

/// Why other criteria are not judged.
const WRONG: &str = "not judged: the values are wrong";

/// The beginnings of sentences that are about no problem of the suite, because there is no code yet.
const NO_CODE: [&str; 2] = [NOT_COMPILED, "It cannot be compiled here"];

/// The settings of a grading.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The folders, and whose code it is.
    pub places: Places,
    /// True if lower steps are the learner's own. Otherwise each task can be done alone.
    pub own: bool,
    /// The seed of the random problems, below 2⁴⁰.
    pub seed: u64,
    /// True if no report may show the seed.
    pub seed_is_secret: bool,
    /// True if [`Kind::Correct`] alone is judged.
    pub values_alone: bool,
    /// True if nothing is graded behind the first task that lacks more than speed.
    pub to_first_open: bool,
    /// The limits of the learner's process.
    pub limits: Limits,
}

impl Settings {
    /// The usual way to grade what lies there.
    pub fn new(places: Places) -> Self {
        Self {
            places,
            own: false,
            seed: SEED,
            seed_is_secret: false,
            values_alone: false,
            to_first_open: false,
            limits: Limits::default(),
        }
    }
}

/// A step of a grading, for a progress bar.
#[derive(Debug, Clone, Copy)]
pub enum Step<'a> {
    /// A task is begun.
    Begun(&'a Task),
    /// The program of its stage is being built.
    Building(&'a Task),
    /// A criterion is being judged.
    Judging(&'a Task, Kind),
    /// A task is graded.
    Graded(&'a TaskGrade),
}

/// Why nothing could be graded. What is wrong with the learner's code is in the [`Grade`].
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The simulated device.
    #[error(transparent)]
    Device(#[from] gpu::Error),
}

/// Grades tasks, and tells each step.
///
/// # Errors
///
/// [`Error`].
pub fn grade(
    settings: &Settings,
    tasks: &[&'static Task],
    mut step: impl FnMut(Step<'_>),
) -> Result<Grade, Error> {
    gpu::simulate()?;
    let device = Device::open();
    let date = date(SystemTime::now());
    let mut graded = Vec::new();
    let mut programs = Programs::new(settings);
    for task in tasks {
        let grade = task_grade(settings, &device, task, &mut programs, &mut step);
        step(Step::Graded(&grade));
        let open = !Points::is_right(&grade);
        graded.push(grade);
        if open && settings.to_first_open {
            break;
        }
    }
    Ok(Grade {
        schema: SCHEMA,
        subject: settings.places.subject,
        device: device.name,
        date,
        commit: commit(settings),
        seed: (!settings.seed_is_secret).then_some(settings.seed),
        tasks: graded,
    })
}

/// The launches of the timed problem with their lines, the learner's and the solution's.
///
/// # Errors
///
/// A sentence: the program is not built, or a call fails.
pub fn profiled(settings: &Settings, task: &'static Task) -> Result<[Vec<Launch>; 2], AnyError> {
    gpu::simulate()?;
    let device = Device::open();
    let exam = exam(task).ok_or("the grader cannot judge this task yet")?;
    let program = build(&settings.places, task, &settings.limits).0?;
    let child = Child::start(&program, &settings.limits, settings.own)?;
    let remote = Remote::new(child, &settings.limits, Some(device.stream.clone()));
    let rig = Rig {
        remote: &remote,
        device: &device,
    };
    let run = Run {
        profile: true,
        lines: true,
        ..Run::default()
    };
    let input = Input::Timed(settings.seed);
    remote.set_run(run);
    exam.compute(&rig, Whose::Learner, input)?;
    let mut calls = remote.take_calls();
    let (done, launches) = gpu::profile::profile(|| exam.compute(&rig, Whose::Reference, input))?;
    done?;
    let solutions = launches.iter().map(|launch| summary(launch, run));
    let mut solutions = Vec::from_iter(solutions);
    // The solution has one launch for each of these calls.
    for (i, what) in exam.calls().iter().enumerate() {
        let yours = calls.get_mut(i).map(|call| &mut call.launches);
        for launch in yours.into_iter().flatten().chain(solutions.get_mut(i)) {
            launch.kernel += &format!(" ({what})");
        }
    }
    let yours = calls.into_iter().flat_map(|call| call.launches);
    Ok([yours.collect(), solutions])
}

/// The tiles that a learner's code chooses, at each of [`PROBLEMS`].
///
/// # Errors
///
/// A sentence: the program is not built, or a call fails.
pub fn chosen(settings: &Settings, task: &'static Task) -> Result<Vec<Tile>, AnyError> {
    gpu::simulate()?;
    let device = Device::open();
    let program = build(&settings.places, task, &settings.limits).0?;
    let child = Child::start(&program, &settings.limits, settings.own)?;
    let remote = Remote::new(child, &settings.limits, None);
    let own = Tuned {
        remote: &remote,
        device: &device,
    };
    let tiles = PROBLEMS.iter().map(|problem| own.tile(&problem.sizes));
    Ok(tiles.collect::<Result<_, _>>()?)
}

/// The results of a task before they are summed.
struct Results {
    criteria: Vec<Criterion>,
    findings: Vec<Finding>,
    work: Option<Work>,
    output: String,
    not_graded: Option<String>,
}

fn task_grade(
    settings: &Settings,
    device: &Device,
    task: &'static Task,
    programs: &mut Programs<'_>,
    step: &mut impl FnMut(Step<'_>),
) -> TaskGrade {
    let start = Instant::now();
    step(Step::Begun(task));
    let results = match (exam(task), programs.limits(task)) {
        (None, _) => not_graded("The grader cannot judge this task yet.".to_owned(), ""),
        (Some(_), None) => nothing(over(&settings.limits), "", ""),
        (Some(_), Some(_)) if programs.hangs(task) => {
            nothing(EARLIER_STEP_HANGS.to_owned(), "", "")
        }
        (Some(exam), Some(limits)) => {
            let program = programs.of(task, || step(Step::Building(task)));
            match program {
                Ok(program) => {
                    let program = program.clone();
                    let (results, cost, hangs) =
                        examined(settings, &limits, device, task, exam, &program, step);
                    programs.spend(task, cost);
                    if hangs {
                        programs.hanged(task);
                    }
                    results
                }
                Err(error) => unbuilt(task, error),
            }
        }
    };
    let Results {
        criteria,
        mut findings,
        work,
        output,
        not_graded,
    } = results;
    let note = note().map(|note| format!("{note}\n")).unwrap_or_default();
    let absent = absent(&settings.places, task);
    if !absent.is_empty() && criteria[0].share < 1.0 {
        for finding in &mut findings {
            let of_starter = [Some(Cause::NotWritten), Some(Cause::NotBegun)];
            finding.cause = finding
                .cause
                .filter(|_| !of_starter.contains(&finding.cause));
        }
        let sentence = format!(
            "Not in the submission: {}. What is graded in its place is the starter.",
            absent.join(", ")
        );
        findings.insert(0, of_task(sentence, ""));
    }
    let share: f64 = criteria
        .iter()
        .map(|criterion| criterion.weight * criterion.share)
        .sum();
    if settings.seed_is_secret {
        let random = exam(task).map_or(0, |exam| exam.random());
        for Finding {
            case,
            sentence,
            detail,
            ..
        } in &mut findings
        {
            for text in [case, sentence, detail] {
                *text = without_seeds(text, settings.seed, random);
            }
        }
    }
    let begun = criteria.iter().any(|criterion| criterion.passed > 0);
    let headline = headline(&settings.places, task, share, begun, &findings);
    TaskGrade {
        stage: task.stage,
        task: task.id.to_owned(),
        title: task.title.to_owned(),
        points: task.points,
        bonus: task.bonus,
        score: task.points * share,
        headline,
        criteria,
        findings,
        work,
        seconds: start.elapsed().as_secs_f64(),
        output: note + &output,
        not_graded,
    }
}

/// The text with numbers from 0 on in place of the seeds of random problems, of which there are `count` from `first` on.
fn without_seeds(text: &str, first: u64, count: u64) -> String {
    // The largest first: one number may begin with another.
    (0..count).rev().fold(text.to_owned(), |text, i| {
        text.replace(&format!("seed {}", first + i), &format!("random {i}"))
    })
}

/// All criteria without a point, for this reason.
fn nothing(sentence: String, detail: &str, output: &str) -> Results {
    let criteria = Kind::ALL.map(|kind| not_judged(kind, "not judged"));
    Results {
        criteria: criteria.into(),
        findings: vec![of_task(sentence, detail)],
        work: None,
        output: output.to_owned(),
        not_graded: None,
    }
}

/// A finding on the whole task.
fn of_task(sentence: String, detail: &str) -> Finding {
    Finding {
        kind: Kind::Correct,
        case: String::new(),
        sentence,
        cause: None,
        detail: detail.to_owned(),
    }
}

/// The files of a task that a submission lacks, if it has the stage. A bonus of which it has no file is just not begun.
fn absent(places: &Places, task: &Task) -> Vec<String> {
    if !places.submission.join(task.folder()).is_dir() {
        return Vec::new();
    }
    let files = task
        .files
        .iter()
        .map(|file| format!("{}/{file}", task.folder()));
    let lacking = files.filter(|file| !places.submission.join(file).exists());
    let lacking: Vec<String> = lacking.collect();
    match task.bonus && lacking.len() == task.files.len() {
        true => Vec::new(),
        false => lacking,
    }
}

/// As [`nothing`], because of the grader or its machine, or because the files are not such as it takes.
fn not_graded(why: String, output: &str) -> Results {
    Results {
        not_graded: Some(why.clone()),
        ..nothing(why, output, output)
    }
}

fn unbuilt(task: &Task, error: &BuildError) -> Results {
    match error {
        BuildError::Compiler(compiler::Error::Refused { headline, messages }) => {
            nothing(format!("{NOT_COMPILED}: {headline}"), messages, messages)
        }
        BuildError::Compiler(compiler::Error::Stopped(_)) => {
            let rust = task.files.iter().filter(|file| file.ends_with(".rs"));
            let files: Vec<String> = rust
                .map(|file| format!("exercises/{}/{file}", task.folder()))
                .collect();
            let sentence = format!(
                "{NOT_COMPILED}: {error}. Of this task it compiled {}.",
                files.join(", ")
            );
            nothing(sentence, "", "")
        }
        BuildError::Course(course::Error::Cargo(output)) => not_graded(error.to_string(), output),
        _ => not_graded(error.to_string(), ""),
    }
}

/// The results of a program, the time of its calls, and if one did not end.
fn examined(
    settings: &Settings,
    limits: &Limits,
    device: &Device,
    task: &Task,
    exam: &dyn Exam,
    program: &Program,
    step: &mut impl FnMut(Step<'_>),
) -> (Results, Duration, bool) {
    let child = match Child::start(program, limits, settings.own) {
        Ok(child) => child,
        Err(error) => {
            let why = format!("The program cannot be started: {error}");
            return (not_graded(why, ""), Duration::ZERO, false);
        }
    };
    let stream = match exam.place() {
        Place::Host => None,
        Place::Device { .. } => Some(device.stream.clone()),
    };
    let remote = Remote::new(child, limits, stream);
    let rig = Rig {
        remote: &remote,
        device,
    };
    step(Step::Judging(task, Kind::Correct));
    let (correct, mut findings) = correct(exam, task, &rig, settings.seed);
    let right = correct.share == 1.0;
    let mut criteria = vec![correct];
    let mut work = None;
    let why_not = match (right, settings.values_alone) {
        (false, _) => Some(WRONG),
        (true, true) => Some("not judged"),
        (true, false) => None,
    };
    if let Some(why) = why_not {
        for kind in [Kind::Robust, Kind::Clean, Kind::Fast] {
            criteria.push(not_judged(kind, why));
        }
    } else {
        step(Step::Judging(task, Kind::Robust));
        let (mut robust, wrong) = robust(exam, &rig, settings.seed);
        step(Step::Judging(task, Kind::Clean));
        let fresh = || {
            let child = Child::start(program, limits, settings.own).ok()?;
            Some(Remote::new(child, limits, rig.remote.stream()))
        };
        let clean = criteria::clean(exam, &rig, fresh);
        step(Step::Judging(task, Kind::Fast));
        let (fast, timed) = fast(exam, task, &rig, settings.seed);
        work = timed;
        // Last, because it can stop the program.
        if let Some(wrong) = wrong {
            explain(&mut robust.1, &wrong, exam, &rig, settings.seed);
        }
        for (criterion, more) in [robust, clean, fast] {
            criteria.push(criterion);
            findings.extend(more);
        }
        // Wrong values are never correct, wherever they show.
        if findings.iter().any(|finding| finding.kind == Kind::Correct) {
            findings.sort_by_key(|finding| finding.kind);
            work = None;
            criteria[0].share = 0.0;
            criteria[0].note += ", and others are wrong";
            for criterion in &mut criteria[1..] {
                *criterion = not_judged(criterion.kind, WRONG);
            }
        }
    }
    let not_graded = remote.lacks_compiler().then(|| NO_COMPILER.to_owned());
    let (cost, hangs) = (remote.cost(), remote.hangs());
    let output = remote.finish();
    let results = Results {
        criteria,
        findings,
        work,
        output,
        not_graded,
    };
    (results, cost, hangs)
}

/// Why a task is not begun when the time of the submission is over.
fn over(limits: &Limits) -> String {
    format!(
        "Not run: the {} s are over that all builds and calls of a submission may take. `cargo grade` with the name of this task \
         grades it alone.",
        limits.submission.as_secs()
    )
}

/// The most important sentence. A task is not begun if it says `todo!` and nothing has passed.
fn headline(places: &Places, task: &Task, share: f64, begun: bool, findings: &[Finding]) -> String {
    let Some(first) = findings.first() else {
        return match share {
            1.0.. => "Full marks.".to_owned(),
            _ => "Nothing was found, but points are missing.".to_owned(),
        };
    };
    if first.cause == Some(Cause::NotBegun) && !begun {
        return not_begun(places, task, &first.sentence);
    }
    let of_no_case = first.case.is_empty()
        || NO_CODE
            .iter()
            .any(|words| first.sentence.starts_with(words));
    let case = match of_no_case {
        true => String::new(),
        false => format!("{}: ", first.case),
    };
    let end = first
        .sentence
        .ends_with(char::is_alphanumeric)
        .then_some(".");
    let end = end.unwrap_or_default();
    let cause = first
        .cause
        .map(|cause| format!("{end} {}", cause.sentence()));
    format!("{case}{}{}", first.sentence, cause.unwrap_or_default())
}

/// What is still to be written of a task whose code says `todo!`, in this panic: all files, or those that are the starter's still.
fn not_begun(places: &Places, task: &Task, panic: &str) -> String {
    let (mut open, mut written) = (Vec::new(), Vec::new());
    for file in task.files {
        let path = places.submission.join(task.folder()).join(file);
        let name = format!("exercises/{}/{file}", task.folder());
        let text = fs::read_to_string(&path).unwrap_or_default();
        let says_todo = file.ends_with(".rs") && text.contains("todo!");
        match says_todo || starters::is_starter(&path, &name) != Some(false) {
            true => open.push(name),
            false => written.push(name),
        }
    }
    let what = panic.rsplit_once("TODO, task ");
    let what = what.and_then(|(_, task)| task.split_once(": "));
    match (&open[..], what) {
        ([file], Some((_, what))) if !written.is_empty() => format!(
            "Not begun: write {what} in {file}, which still says `todo!`; {} {} written.",
            written.join(", "),
            if written.len() == 1 { "is" } else { "are" }
        ),
        ([], _) => format!("Not begun: write {}.", written.join(", ")),
        _ => format!("Not begun: write {}.", open.join(", ")),
    }
}

/// `2026-11-22T16:58:21Z`.
fn date(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let (days, second) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    // Years that begin in March, in eras of 400 years. Source: Hinnant, "chrono-compatible low-level date algorithms".
    let day = days + 719_468;
    let (era, of_era) = (day / 146_097, day % 146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + 400 * era + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// The checkout's commit; with `+` if files were changed since.
fn commit(settings: &Settings) -> Option<String> {
    let git = |arguments: &[&str]| {
        let mut git = Command::new("git");
        let output = git
            .args(arguments)
            .current_dir(&settings.places.root)
            .output();
        let output = output.ok().filter(|output| output.status.success())?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let commit = git(&["rev-parse", "--short=12", "HEAD"])?;
    let changed = git(&["status", "--porcelain", "--untracked-files=no"])?;
    Some(if changed.is_empty() {
        commit
    } else {
        commit + "+"
    })
}

#[cfg(test)]
mod tests;
