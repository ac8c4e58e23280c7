//! The program of a stage, which its tasks share, and the time that all builds and calls of a submission have together: those for
//! the tasks that count, and apart those for bonus tasks, so that the calls of a bonus take no time of a task that counts. The time
//! of compiling a stage is counted for the task that needs it first.
//!
//! If a stage does not compile, each of its tasks has a program of its own, with the solution's files in place of other tasks'. So a
//! task is judged by its own files, whatever is wrong with the others, and wherever the compiler says so or is stopped.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use crate::child::{BuildError, Limits, Program, build};
use crate::grade::Settings;
use crate::places::Places;
use crate::tasks::{TASKS, Task};

/// The program of the stage that was asked for last.
pub(crate) struct Programs<'a> {
    settings: &'a Settings,
    stage: u8,
    /// With the learner's files of all tasks.
    shared: Option<Result<Program, BuildError>>,
    /// With those of the task that was asked for last, if the stage does not compile: the same for all its steps.
    alone: Option<(&'static Task, Result<Program, BuildError>)>,
    /// The last task a call of which did not end.
    hangs: Option<&'static Task>,
    /// What is left of the submission's time, for tasks that count and for bonus tasks.
    left: [Duration; 2],
}

impl<'a> Programs<'a> {
    pub(crate) fn new(settings: &'a Settings) -> Self {
        Self {
            settings,
            stage: 0,
            shared: None,
            alone: None,
            hangs: None,
            left: [settings.limits.submission; 2],
        }
    }

    /// The limits of a task, within what is left of the submission's time; `None` if that is over.
    pub(crate) fn limits(&self, task: &Task) -> Option<Limits> {
        let left = self.left[usize::from(task.bonus)];
        (!left.is_zero()).then(|| self.settings.limits.within(left))
    }

    /// Takes the time of builds or calls for a task off.
    pub(crate) fn spend(&mut self, task: &Task, cost: Duration) {
        let left = &mut self.left[usize::from(task.bonus)];
        *left = left.saturating_sub(cost);
    }

    /// A call of this task did not end: its later steps would wait for it again, until no time is left for other tasks.
    pub(crate) fn hanged(&mut self, task: &'static Task) {
        self.hangs = Some(task);
    }

    /// True if an earlier step of the task did not end.
    pub(crate) fn hangs(&self, task: &Task) -> bool {
        self.hangs.is_some_and(|hangs| hangs.shares_files(task))
    }

    /// The program of a task, or why there is none. Before each build, `begin` is called.
    pub(crate) fn of(
        &mut self,
        task: &'static Task,
        mut begin: impl FnMut(),
    ) -> &Result<Program, BuildError> {
        if self.stage != task.stage {
            (self.stage, self.shared) = (task.stage, None);
        }
        let shared = self.shared.take().unwrap_or_else(|| {
            begin();
            self.build(Ok(self.settings.places.clone()), task)
        });
        let breaks = matches!(shared, Err(BuildError::Compiler(_)));
        let others = !self.settings.own && others(task).next().is_some();
        let alone = self.alone.take().filter(|(of, _)| of.shares_files(task));
        self.alone = (breaks && others && self.limits(task).is_some()).then(|| {
            alone.unwrap_or_else(|| {
                begin();
                (task, self.build(self.with_others_solved(task), task))
            })
        });
        let shared = self.shared.insert(shared);
        self.alone.as_ref().map_or(shared, |(_, program)| program)
    }

    fn build(&mut self, places: io::Result<Places>, task: &Task) -> Result<Program, BuildError> {
        let left = self.left[usize::from(task.bonus)];
        let limits = self.settings.limits.within(left);
        let (program, cost) = build(&places.map_err(BuildError::Files)?, task, &limits);
        self.spend(task, cost);
        program
    }

    /// A copy of the stage with the solution's files in place of those of other tasks.
    fn with_others_solved(&self, task: &Task) -> io::Result<Places> {
        let (places, folder) = (&self.settings.places, task.folder());
        let submission = places.scratch.join("others-solved");
        let _ = fs::remove_dir_all(&submission); // it may not be there
        for part in ["src", "kernels", "ptx"] {
            let of_part = places.submission.join(&folder).join(part);
            let copy = submission.join(&folder).join(part);
            match of_part.is_dir() {
                true => copy_folder(&of_part, &copy)?,
                false => fs::create_dir_all(&copy)?,
            }
        }
        let solutions = places.root.join("exercises/solutions").join(&folder);
        for file in others(task).flat_map(|other| other.files) {
            fs::copy(solutions.join(file), submission.join(&folder).join(file))?;
        }
        Ok(Places {
            submission,
            ..places.clone()
        })
    }
}

/// The other tasks of the stage, without steps of this one.
fn others(task: &Task) -> impl Iterator<Item = &'static Task> {
    TASKS
        .iter()
        .filter(move |other| other.stage == task.stage && !other.shares_files(task))
}

/// Copies the files of a folder that was built from, so that it has no links.
fn copy_folder(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        match entry.file_type()?.is_dir() {
            true => copy_folder(&entry.path(), &to)?,
            false => fs::copy(entry.path(), to).map(drop)?,
        }
    }
    Ok(())
}
