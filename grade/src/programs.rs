//! The program of a stage, which its tasks share, and the time that all builds and calls of a submission have together: those for
//! the tasks that count, and apart those for bonus tasks, so that the calls of a bonus take no time of a task that counts. The time
//! of compiling a stage is counted for the task that needs it first.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use crate::child::{BuildError, Limits, Program, build, compiler};
use crate::grade::Settings;
use crate::places::Places;
use crate::tasks::{TASKS, Task};

/// The program of the stage that was asked for last.
pub(crate) struct Programs<'a> {
    settings: &'a Settings,
    stage: u8,
    program: Option<Result<Program, BuildError>>,
    /// Tasks of the stage whose files do not compile, with the errors. The program has the solution's in their place.
    broken: Vec<(&'static Task, Result<Program, BuildError>)>,
    /// What is left of the submission's time, for tasks that count and for bonus tasks.
    left: [Duration; 2],
}

impl<'a> Programs<'a> {
    pub(crate) fn new(settings: &'a Settings) -> Self {
        Self {
            settings,
            stage: 0,
            program: None,
            broken: Vec::new(),
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

    /// The program of a task, or why there is none. Before each build, `begin` is called.
    ///
    /// Files of other tasks that do not compile cost this one nothing: the solution's take their place.
    pub(crate) fn of(
        &mut self,
        task: &'static Task,
        mut begin: impl FnMut(),
    ) -> &Result<Program, BuildError> {
        if self.stage != task.stage {
            (self.stage, self.broken, self.program) = (task.stage, Vec::new(), None);
        }
        let mut places = Ok(self.settings.places.clone());
        let program = loop {
            let program = self.program.take().unwrap_or_else(|| {
                begin();
                self.build(places, task)
            });
            match self.other_that_is_broken(&program, task) {
                Some(other) => self.broken.push((other, program)),
                None => break program,
            }
            places = self.with_broken_solved(task);
        };
        let program = self.program.insert(program);
        let own = self.broken.iter().find(|(broken, _)| *broken == task);
        own.map_or(program, |(_, error)| error)
    }

    fn build(&mut self, places: io::Result<Places>, task: &Task) -> Result<Program, BuildError> {
        let left = self.left[usize::from(task.bonus)];
        let limits = self.settings.limits.within(left);
        let (program, cost) = build(&places.map_err(BuildError::Files)?, task, &limits);
        self.spend(task, cost);
        program
    }

    /// The other task of the stage in whose files the error of a build is, if it is in those of one.
    fn other_that_is_broken(
        &self,
        program: &Result<Program, BuildError>,
        task: &Task,
    ) -> Option<&'static Task> {
        let Err(BuildError::Compiler(compiler::Error::Refused { headline, .. })) = program else {
            return None;
        };
        let place = |file| format!("exercises/{}/{file}:", task.folder());
        let is_in = |other: &Task| {
            other
                .files
                .iter()
                .any(|file| headline.contains(&place(file)))
        };
        let is_new = |other| self.broken.iter().all(|(broken, _)| *broken != other);
        let mut others = TASKS
            .iter()
            .filter(|other| other.stage == task.stage && *other != task);
        others.find(|&other| !self.settings.own && is_in(other) && is_new(other))
    }

    /// A copy of the stage with the solution's files in place of those that do not compile.
    fn with_broken_solved(&self, task: &Task) -> io::Result<Places> {
        let (places, folder) = (&self.settings.places, task.folder());
        let submission = places.scratch.join("others-solved");
        let _ = fs::remove_dir_all(&submission); // it may not be there
        for part in ["src", "kernels", "ptx"] {
            let of_part = places.submission.join(&folder).join(part);
            if of_part.is_dir() {
                copy_folder(&of_part, &submission.join(&folder).join(part))?;
            }
        }
        let solutions = places.root.join("exercises/solutions").join(&folder);
        for file in self.broken.iter().flat_map(|(broken, _)| broken.files) {
            fs::copy(solutions.join(file), submission.join(&folder).join(file))?;
        }
        Ok(Places {
            submission,
            ..places.clone()
        })
    }
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
