//! The folders of a grading.

use std::env;
use std::path::{Path, PathBuf};

use crate::verdict::Subject;

/// The folders of a grading, and whose code is graded.
#[derive(Debug, Clone)]
pub struct Places {
    /// The checkout: its stages judge, and its `exercises/` has all files that are not the learner's.
    pub root: PathBuf,
    /// A folder with `stage1`, `stage2` …, each with the learner's `src` and `kernels`; what is not there is as in `root`.
    pub submission: PathBuf,
    /// A folder of the grader's own: the learner's program, and what it may write. It is kept between gradings, and no two
    /// may use it at once.
    pub scratch: PathBuf,
    /// Whose code it is.
    pub subject: Subject,
}

impl Places {
    /// The exercises of a checkout.
    pub fn learner(root: &Path) -> Self {
        Self::new(root, "learner", root.join("exercises"), Subject::Learner)
    }

    /// The solutions of a checkout.
    pub fn solution(root: &Path) -> Self {
        let submission = root.join("exercises/solutions");
        Self::new(root, "solution", submission, Subject::Solution)
    }

    /// A learner's exercises in any folder. Gradings of another `name` can run at the same time.
    pub fn submission(root: &Path, name: &str, submission: PathBuf) -> Self {
        Self::new(root, name, submission, Subject::Learner)
    }

    fn new(root: &Path, name: &str, submission: PathBuf, subject: Subject) -> Self {
        let root = root.to_owned();
        Self {
            scratch: target(&root).join("grade").join(name),
            root,
            submission,
            subject,
        }
    }

    /// The folder that cargo builds in.
    pub fn target(&self) -> PathBuf {
        target(&self.root)
    }
}

fn target(root: &Path) -> PathBuf {
    match env::var_os("CARGO_TARGET_DIR") {
        Some(folder) => root.join(folder),
        None => root.join("target"),
    }
}
