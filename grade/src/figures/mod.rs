//! The figures that the assignment asks for, of the learner's kernels, as far as they can be counted.
//!
//! Times are modelled. Of stages 4 and 5 one head is counted, and the model's time is that of all heads of the batch.
//!
//! - `flash`: stage 4 over stage 2's kernels.
//! - `decode`: stage 5's time to first token and between tokens, over recomputing.
//! - `pipeline`: stage 6's, and the text that it writes.

mod decode;
mod flash;
mod pipeline;

use conformance::device::Device;
use exercise_kit::message::{Outcome, Run};
use gpu::profile::LaunchProfile;

use crate::child::{Child, build};
use crate::exams::Rig;
use crate::grade::Settings;
use crate::remote::Remote;
use crate::report::figures::Figures;
use crate::tasks::{TASKS, Task};
use crate::verdict::{Grade, Kind};

/// The figures of a learner whose grade this is. What is not right is not measured.
pub fn figures(settings: &Settings, grade: &Grade) -> Figures {
    let mut figures = Figures::default();
    let device = Device::open();
    if right(grade, "4/flash") {
        with(settings, &device, "4/flash", |rig| {
            flash::measure(&rig, &mut figures)
        });
    }
    if right(grade, "5/update_cache") && right(grade, "5/decode") {
        let splitting = right(grade, "5/split");
        with(settings, &device, "5/decode", |rig| {
            decode::measure(&rig, splitting, &mut figures);
        });
    }
    if right(grade, "6/forward") {
        with(settings, &device, "6/forward", |rig| {
            pipeline::measure(&rig, &mut figures)
        });
    }
    if right(grade, "6/demo") {
        with(settings, &device, "6/demo", |rig| {
            figures.text = pipeline::text(&rig)
        });
    }
    figures
}

/// True if all values of a task are right, in each of its steps.
fn right(grade: &Grade, name: &str) -> bool {
    let right = |task: &Task| {
        let graded = grade.tasks.iter();
        let mut criteria = graded
            .filter(|graded| crate::report::name(graded) == task.name())
            .flat_map(|graded| &graded.criteria);
        criteria.any(|criterion| criterion.kind == Kind::Correct && criterion.share == 1.0)
    };
    let mut steps = TASKS.iter().filter(|task| task.is_called(name));
    steps.all(right)
}

/// Runs the program of a task. Its figures stay as they are if it cannot be run.
fn with(settings: &Settings, device: &Device, name: &str, measure: impl FnOnce(Rig<'_>)) {
    let Some(task) = TASKS.iter().find(|task| task.is_called(name)) else {
        return;
    };
    let (Ok(program), _) = build(&settings.places, task, &settings.limits) else {
        return;
    };
    let Ok(child) = Child::start(&program, &settings.limits, settings.own) else {
        return;
    };
    let remote = Remote::new(child, &settings.limits, Some(device.stream.clone()));
    measure(Rig {
        remote: &remote,
        device,
    });
}

/// Modelled milliseconds of the learner's launches, for as many problems as this; `None` if a call fails.
fn learners<E>(
    remote: &Remote,
    problems: u64,
    work: impl FnOnce() -> Result<(), E>,
) -> Option<f64> {
    remote.set_run(Run {
        profile: true,
        more: problems - 1,
        ..Run::default()
    });
    remote.take_calls();
    work().ok()?;
    let calls = remote.take_calls();
    let done = calls.iter().all(|call| call.outcome == Outcome::Done);
    let launches = calls.iter().flat_map(|call| &call.launches);
    done.then(|| 1e3 * launches.map(|launch| launch.seconds).sum::<f64>())
}

/// The same of the stage's own launches, in this process.
fn references<E>(problems: u64, work: impl FnOnce() -> Result<(), E>) -> Option<f64> {
    let (done, launches) = gpu::profile::profile(work).ok()?;
    done.ok()?;
    let seconds = |launch: &LaunchProfile| launch.repeated(problems).seconds;
    Some(1e3 * launches.iter().map(seconds).sum::<f64>())
}
