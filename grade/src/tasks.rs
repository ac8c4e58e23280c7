//! The table of tasks.

/// A task, or a step of one: what a learner writes, and what it is worth.
#[derive(Debug, PartialEq)]
pub struct Task {
    /// The stage, 1 to 6.
    pub stage: u8,
    /// Its name within the stage, such as `softmax`; of a step with the task's, `flash/tile`.
    pub id: &'static str,
    /// A line that says what is to be written.
    pub title: &'static str,
    /// The points that it is worth.
    pub points: f64,
    /// True if the points come on top of the total.
    pub bonus: bool,
    /// The files that the learner writes, relative to the folder of the exercise. No other task has them, but for steps of one
    /// task.
    pub files: &'static [&'static str],
}

/// All tasks, in the order in which they are done.
pub static TASKS: &[Task] = &[
    Task {
        stage: 1,
        id: "mha",
        title: "multi-head attention on the CPU",
        points: 2.0,
        bonus: false,
        files: &["src/lib.rs"],
    },
    Task {
        stage: 2,
        id: "softmax",
        title: "softmax of rows, as a kernel",
        points: 1.0,
        bonus: false,
        files: &["kernels/softmax.cu", "src/softmax.rs"],
    },
    Task {
        stage: 2,
        id: "gemm",
        title: "both matrix products, as a tiled kernel",
        points: 1.0,
        bonus: false,
        files: &["kernels/gemm.cu", "src/gemm.rs"],
    },
    Task {
        stage: 2,
        id: "attention",
        title: "attention made of the kernels of the stage",
        points: 1.0,
        bonus: false,
        files: &["kernels/scale_and_mask.cu", "src/attention.rs"],
    },
    Task {
        stage: 3,
        id: "flash/online",
        title: "FlashAttention-2 on whole tiles, on the CPU",
        points: 1.0,
        bonus: false,
        files: &["src/flash.rs"],
    },
    Task {
        stage: 3,
        id: "flash/ragged",
        title: "the same for any sizes and for extreme scores",
        points: 1.0,
        bonus: false,
        files: &["src/flash.rs"],
    },
    Task {
        stage: 3,
        id: "flash/causal",
        title: "the same with a causal mask",
        points: 1.0,
        bonus: false,
        files: &["src/flash.rs"],
    },
    Task {
        stage: 4,
        id: "flash/tile",
        title: "attention on one tile of keys, as one fused kernel",
        points: 1.0,
        bonus: false,
        files: &["kernels/flash.cu", "src/launch.rs"],
    },
    Task {
        stage: 4,
        id: "flash/online",
        title: "FlashAttention on many tiles, with online softmax",
        points: 1.0,
        bonus: false,
        files: &["kernels/flash.cu", "src/launch.rs"],
    },
    Task {
        stage: 4,
        id: "flash/ragged",
        title: "the same for any sizes and for extreme scores",
        points: 1.0,
        bonus: false,
        files: &["kernels/flash.cu", "src/launch.rs"],
    },
    Task {
        stage: 4,
        id: "flash/causal",
        title: "the same with a causal mask that skips tiles",
        points: 1.0,
        bonus: false,
        files: &["kernels/flash.cu", "src/launch.rs"],
    },
    Task {
        stage: 4,
        id: "mma",
        title: "attention in half precision on tensor cores",
        points: 1.0,
        bonus: true,
        files: &["kernels/mma.cu", "src/mma.rs"],
    },
    Task {
        stage: 4,
        id: "swizzle",
        title: "tiles without bank conflicts, for ldmatrix",
        points: 1.0,
        bonus: true,
        files: &["kernels/swizzle.cu", "src/swizzle.rs"],
    },
    Task {
        stage: 4,
        id: "pipeline",
        title: "tiles that are copied during products",
        points: 1.0,
        bonus: true,
        files: &["kernels/pipeline.cu", "src/pipeline.rs"],
    },
    Task {
        stage: 4,
        id: "wgmma",
        title: "products of a warpgroup, from tiles that hardware copies",
        points: 1.0,
        bonus: true,
        files: &["kernels/wgmma.cu", "src/wgmma.rs"],
    },
    Task {
        stage: 4,
        id: "backward",
        title: "the gradients of attention, without stored scores",
        points: 1.0,
        bonus: true,
        files: &[
            "kernels/recompute_dk_dv.cu",
            "kernels/recompute_dq.cu",
            "src/backward.rs",
        ],
    },
    Task {
        stage: 4,
        id: "tune",
        title: "the best tile of a kernel for each shape, by counters",
        points: 1.0,
        bonus: true,
        files: &["src/tune.rs"],
    },
    Task {
        stage: 5,
        id: "update_cache",
        title: "the KV cache: append keys and values",
        points: 1.0,
        bonus: false,
        files: &["kernels/update_cache.cu", "src/update_cache.rs"],
    },
    Task {
        stage: 5,
        id: "decode/query",
        title: "attention of one query over the KV cache",
        points: 1.0,
        bonus: false,
        files: &["kernels/decode.cu", "src/decode.rs"],
    },
    Task {
        stage: 5,
        id: "decode/lengths",
        title: "the same on sequences of different lengths",
        points: 1.0,
        bonus: false,
        files: &["kernels/decode.cu", "src/decode.rs"],
    },
    Task {
        stage: 5,
        id: "decode/groups",
        title: "the same with heads that share keys, and several queries",
        points: 1.0,
        bonus: false,
        files: &["kernels/decode.cu", "src/decode.rs"],
    },
    Task {
        stage: 5,
        id: "split",
        title: "decoding with the keys split over blocks",
        points: 1.0,
        bonus: true,
        files: &["kernels/split.cu", "kernels/combine.cu", "src/split.rs"],
    },
    Task {
        stage: 6,
        id: "forward",
        title: "the forward pass of a decoder",
        points: 3.0,
        bonus: false,
        files: &["src/forward.rs"],
    },
    Task {
        stage: 6,
        id: "demo",
        title: "a text that the decoder writes",
        points: 1.0,
        bonus: false,
        files: &["src/generate.rs"],
    },
];

impl Task {
    /// The name that is unique among all tasks: `2/softmax`.
    pub fn name(&self) -> String {
        format!("{}/{}", self.stage, self.id)
    }

    /// True if it has this name, or is a step of the task that has it: `flash`, `4/flash` and `4/flash/tile` are names of
    /// `4/flash/tile`.
    pub fn is_called(&self, name: &str) -> bool {
        [self.id, &self.name()].iter().any(|own| {
            let rest = own.strip_prefix(name);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    }

    /// True if both are steps of one task, or the same: they have the same files.
    pub fn shares_files(&self, other: &Task) -> bool {
        (self.stage, self.files) == (other.stage, other.files)
    }

    /// True if no kernel is written, but a tile of one is chosen.
    pub fn tunes(&self) -> bool {
        self.id == "tune"
    }

    /// True if it is about kernels, which may have to be compiled.
    pub fn has_kernels(&self) -> bool {
        self.tunes() || self.kernels().next().is_some()
    }

    /// The package of the exercise, `exercise-stage2`.
    pub fn package(&self) -> String {
        format!("exercise-stage{}", self.stage)
    }

    /// The folder of the exercise within `exercises`, `stage2`.
    pub fn folder(&self) -> String {
        format!("stage{}", self.stage)
    }

    /// The kernels among its files.
    pub fn kernels(&self) -> impl Iterator<Item = &'static str> {
        let files = self.files.iter().copied();
        files.filter(|file| file.ends_with(".cu"))
    }
}

/// A selection that fits no task.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum NoSuchTask {
    /// There is no such stage.
    #[error("there is no stage {0}; the stages are 1 to 6")]
    Stage(u8),
    /// No task of the stage, or of any, has this name.
    #[error("there is no task `{0}`; the tasks are {names}", names = names())]
    Name(String),
}

/// The tasks of a stage, or all; of these those called `name`, as `softmax` or `2/softmax`. In the order of [`TASKS`].
///
/// The name of a task in steps selects all of them; one that several stages have, such as `flash`, the task of each.
///
/// # Errors
///
/// [`NoSuchTask`], if nothing is selected.
pub fn select(stage: Option<u8>, name: Option<&str>) -> Result<Vec<&'static Task>, NoSuchTask> {
    let mut tasks: Vec<&Task> = TASKS.iter().collect();
    if let Some(stage) = stage {
        tasks.retain(|task| task.stage == stage);
        if tasks.is_empty() {
            return Err(NoSuchTask::Stage(stage));
        }
    }
    if let Some(name) = name {
        tasks.retain(|task| task.is_called(name));
        if tasks.is_empty() {
            return Err(NoSuchTask::Name(name.to_owned()));
        }
    }
    Ok(tasks)
}

fn names() -> String {
    let names: Vec<String> = TASKS.iter().map(Task::name).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tasks_add_up_to_20_points() {
        let counted = TASKS.iter().filter(|task| !task.bonus);
        assert_eq!(counted.map(|task| task.points).sum::<f64>(), 20.0);
    }

    /// The steps of a task follow each other, and have its name in front.
    #[test]
    fn a_file_belongs_to_one_task() {
        let tasks: Vec<_> = TASKS.chunk_by(|a, b| a.shares_files(b)).collect();
        let files = tasks
            .iter()
            .flat_map(|steps| steps[0].files.iter().map(|file| (steps[0].stage, *file)));
        let mut files: Vec<(u8, &str)> = files.collect();
        let count = files.len();
        files.sort();
        files.dedup();
        assert_eq!(files.len(), count);
        for steps in tasks.iter().filter(|steps| steps.len() > 1) {
            let (task, _) = steps[0].id.split_once('/').unwrap();
            assert!(steps.iter().all(|step| step.is_called(task)), "{steps:?}");
        }
    }

    #[test]
    fn a_selection_is_by_stage_and_by_either_name() {
        let selected = |stage, name| {
            let tasks = select(stage, name)?;
            Ok(tasks.into_iter().map(Task::name).collect::<Vec<_>>())
        };
        let of_stage_3 = ["3/flash/online", "3/flash/ragged", "3/flash/causal"];
        assert_eq!(selected(Some(3), None).unwrap(), of_stage_3);
        assert_eq!(selected(None, Some("3/flash")).unwrap(), of_stage_3);
        assert_eq!(selected(Some(3), Some("flash")).unwrap(), of_stage_3);
        assert_eq!(selected(None, Some("flash")).unwrap().len(), 7);
        let step = ["4/flash/tile"];
        assert_eq!(selected(None, Some("4/flash/tile")).unwrap(), step);
        assert_eq!(selected(None, Some("flash/tile")).unwrap(), step);
        for no_name in ["4/flash/", "4/fla", "tile"] {
            assert!(selected(None, Some(no_name)).is_err(), "{no_name}");
        }
        assert_eq!(selected(None, None).unwrap().len(), TASKS.len());
        assert_eq!(selected(Some(7), None), Err(NoSuchTask::Stage(7)));
        let error = selected(Some(4), Some("softmax")).unwrap_err();
        assert_eq!(error, NoSuchTask::Name("softmax".to_owned()));
        assert!(error.to_string().contains("1/mha, 2/softmax"), "{error}");
    }
}
