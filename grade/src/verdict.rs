//! The result of a grading. The reports are made of it, and its JSON form is one of them.

use std::fmt;

use serde::{Deserialize, Serialize};

pub use crate::cause::Cause;

/// The version of the JSON form: [`Grade::schema`].
pub const SCHEMA: u32 = 1;

/// The result of one grading.
#[derive(Serialize, Deserialize, Debug, Clone, PartialEq)]
pub struct Grade {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Whose code was graded.
    pub subject: Subject,
    /// The device that the kernels ran on, such as `cuda-sim (h100)`.
    pub device: String,
    /// When the grading began, in UTC: `2026-11-22T16:58:21Z`.
    pub date: String,
    /// The commit of the checkout, with `+` behind it if files were changed since; `None` outside a git checkout.
    pub commit: Option<String>,
    /// The seed of the random problems; `None` if it is secret.
    pub seed: Option<u64>,
    /// The tasks that were graded, in order.
    pub tasks: Vec<TaskGrade>,
}

/// Whose code is graded.
#[derive(Serialize, Deserialize, Debug, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    /// The learner's: the files in `exercises/`.
    Learner,
    /// The solution's, in `exercises/solutions/`.
    Solution,
}

/// The result of one task.
#[derive(Serialize, Deserialize, Debug, Clone, PartialEq)]
pub struct TaskGrade {
    /// The stage, 1 to 6.
    pub stage: u8,
    /// The task's name within the stage, such as `softmax`; of a step with the task's, `flash/tile`.
    pub task: String,
    /// A line that says what was to be written.
    pub title: String,
    /// The points that the task is worth.
    pub points: f64,
    /// True if the points come on top of the total.
    pub bonus: bool,
    /// The points earned: `points` times the sum of the criteria's weighted shares.
    pub score: f64,
    /// One sentence: the most important thing to know about this result.
    pub headline: String,
    /// The four criteria, in the order of [`Kind::ALL`].
    pub criteria: Vec<Criterion>,
    /// The faults, the most important first.
    pub findings: Vec<Finding>,
    /// The work that was counted or timed for [`Kind::Fast`]; `None` if it did not come to that.
    pub work: Option<Work>,
    /// The seconds that the grading took, build included.
    pub seconds: f64,
    /// The text that the learner's code printed, and the compiler: capped.
    pub output: String,
    /// Why the score says nothing: the grader could not take the files, build, start the program or compile its kernels.
    pub not_graded: Option<String>,
}

/// A criterion of a task, which gets a share of the points.
#[derive(Serialize, Deserialize, Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The values are right: half the points, all or none. The other criteria count only if it is met.
    Correct,
    /// ±1e4, ragged sizes and masked rows give right values, or the share is 0; bad arguments are refused by name.
    Robust,
    /// No fault, no race, no leak, and the same bits under every schedule.
    Clean,
    /// The work, compared with that of the solution.
    Fast,
}

impl Kind {
    /// All of them, in order.
    pub const ALL: [Self; 4] = [Self::Correct, Self::Robust, Self::Clean, Self::Fast];

    /// Its share of the points of a task. The weights add up to 1.
    pub const fn weight(self) -> f64 {
        match self {
            Self::Correct => 0.50,
            Self::Robust | Self::Clean => 0.15,
            Self::Fast => 0.20,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Correct => "correct",
            Self::Robust => "robust",
            Self::Clean => "clean",
            Self::Fast => "fast",
        })
    }
}

/// The result of a criterion.
#[derive(Serialize, Deserialize, Debug, Clone, PartialEq)]
pub struct Criterion {
    /// Which one.
    pub kind: Kind,
    /// Its share of the points: [`Kind::weight`].
    pub weight: f64,
    /// The share of its points that is earned, 0 to 1.
    pub share: f64,
    /// Checks that passed.
    pub passed: usize,
    /// Checks that were made; 0 if it did not come to that.
    pub run: usize,
    /// A few words for the table, such as `61 of 64 problems`, `1.4 × the solution` or `not judged: the values are wrong`.
    pub note: String,
}

/// Something that is wrong.
#[derive(Serialize, Deserialize, Debug, Clone, PartialEq)]
pub struct Finding {
    /// The criterion that it costs.
    pub kind: Kind,
    /// The problem, such as `b1_h2_n65_d64_causal`; empty if it is not about one.
    pub case: String,
    /// The fault and what to look at, in one sentence: the first bad element with expected and actual value, the
    /// fault with file and line, or the argument that was not refused.
    pub sentence: String,
    /// The likely cause, if the wrong values tell.
    pub cause: Option<Cause>,
    /// More lines: the fault report, the compiler's message, the panic.
    pub detail: String,
}

/// The work that [`Kind::Fast`] is judged by.
#[derive(Serialize, Deserialize, Debug, Clone, PartialEq)]
pub struct Work {
    /// The quantity: `modelled (h100)`, or `time on the CPU`.
    pub label: String,
    /// The shape, such as `b1_h8_n1024_d64`.
    pub case: String,
    /// The learner's, in `unit`.
    pub yours: f64,
    /// The solution's, in `unit`.
    pub reference: f64,
    /// `µs`.
    pub unit: String,
    /// The learner's launches, in order; none for a task on the CPU.
    pub launches: Vec<LaunchWork>,
}

/// The work of one launch, as the simulator counts it.
#[derive(Serialize, Deserialize, Debug, Clone, PartialEq)]
pub struct LaunchWork {
    /// The kernel.
    pub kernel: String,
    /// Modelled time.
    pub microseconds: f64,
    /// Floating-point operations, on f32 and on tensor cores.
    pub flops: f64,
    /// Bytes that must be read from and written to DRAM at least once.
    pub dram_bytes: f64,
}

impl Grade {
    /// The points earned, bonus included.
    pub fn score(&self) -> f64 {
        self.tasks.iter().map(|task| task.score).sum()
    }

    /// The points that the tasks are worth, without bonus tasks.
    pub fn points(&self) -> f64 {
        let counted = self.tasks.iter().filter(|task| !task.bonus);
        counted.map(|task| task.points).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_weights_add_up_to_1() {
        let sum: f64 = Kind::ALL.into_iter().map(Kind::weight).sum();
        assert!((sum - 1.0).abs() < 1e-12, "{sum}");
    }

    #[test]
    fn json_gives_the_grade_back() {
        let grade = Grade {
            schema: SCHEMA,
            subject: Subject::Learner,
            device: "cuda-sim (h100)".to_owned(),
            date: "2026-11-22T16:58:21Z".to_owned(),
            commit: None,
            seed: Some(1),
            tasks: vec![TaskGrade {
                stage: 5,
                task: "decode".to_owned(),
                title: "decode".to_owned(),
                points: 3.0,
                bonus: false,
                score: 1.5,
                headline: "A slot is stale.".to_owned(),
                criteria: vec![Criterion {
                    kind: Kind::Correct,
                    weight: Kind::Correct.weight(),
                    share: 1.0,
                    passed: 4,
                    run: 4,
                    note: String::new(),
                }],
                findings: vec![Finding {
                    kind: Kind::Robust,
                    case: "b1_n65".to_owned(),
                    sentence: "o is wrong.".to_owned(),
                    cause: Some(Cause::StaleCacheSlot),
                    detail: String::new(),
                }],
                work: None,
                seconds: 0.5,
                output: "printed".to_owned(),
                not_graded: Some("cargo failed".to_owned()),
            }],
        };
        let json = serde_json::to_string(&grade).unwrap();
        assert!(json.contains("stale_cache_slot"), "{json}");
        assert_eq!(serde_json::from_str::<Grade>(&json).unwrap(), grade);
        assert_eq!((grade.score(), grade.points()), (1.5, 3.0));
    }
}
