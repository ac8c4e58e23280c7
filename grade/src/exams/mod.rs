//! The examination of each task: which problems it is given, what is repeated, what is timed.
//!
//! To add a task: a file with its [`Exam`], and a line in [`exam`]. If its interface is new, `remote/` gets a file, too.

mod gradients;
mod stage1;
mod stage2;
mod stage3;
pub(crate) mod stage4;
pub(crate) mod stage5;
mod stage6;
mod tune;

use conformance::device::Device;
use conformance::problems::{Extent, Problem, Step};
use conformance::{AnyError, Card, Judge, Part};
use stage1_reference::Feature;
use stage4_flash_cuda::Rung;

use crate::cause::{Explanation, Wrong};
use crate::criteria::Means;
use crate::remote::Remote;
use crate::tasks::Task;
use crate::verdict::Kind;

/// The two sides of an examination.
#[derive(Debug)]
pub struct Rig<'a> {
    /// The learner's implementation.
    pub remote: &'a Remote,
    /// This process's device, which is simulated.
    pub device: &'a Device,
}

/// Whose implementation computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    /// The learner's.
    Learner,
    /// The stage's own.
    Reference,
}

/// Computes with either implementation. They have different types, and the interfaces are no trait objects.
macro_rules! by {
    ($whose:expr, $learner:expr, $reference:expr, |$own:ident| $work:expr) => {
        match $whose {
            $crate::exams::Whose::Learner => {
                let $own = $learner;
                $work
            }
            $crate::exams::Whose::Reference => {
                let $own = $reference;
                $work
            }
        }
    };
}
use by;

/// The most matrices of a problem that is given. Blocks of 1,024 threads, which are right too, run more instructions on more
/// than a launch may.
const MATRICES: usize = 10_000;

/// The longest of such problems: the side of a square of as many scores.
const LENGTH: usize = 300;

/// The examination of one task.
pub trait Exam {
    /// Where it computes.
    fn place(&self) -> Place;

    /// Features that are not asked for. Problems that need them are left out.
    fn lacks(&self) -> &'static [Feature] {
        &[]
    }

    /// True if problems of this step of the suite are asked for.
    fn asks(&self, step: Option<Step>) -> bool {
        let _ = step;
        true
    }

    /// The criterion that a problem of the suite belongs to, [`Kind::Correct`] or [`Kind::Robust`]; `None` for a problem that
    /// takes too long.
    fn criterion(&self, problem: &Card<'_>) -> Option<Kind> {
        let Extent { matrices, length } = problem.extent;
        let kind = match problem.needs_care {
            true => Kind::Robust,
            false => Kind::Correct,
        };
        (matrices <= MATRICES && length <= LENGTH).then_some(kind)
    }

    /// The number of random problems of each kind.
    fn random(&self) -> u64 {
        16
    }

    /// Gives the judge's parts of the task's suite to the learner's implementation.
    fn judge(&self, judge: &mut Judge<'_>, rig: &Rig<'_>);

    /// Why the values are wrong, if a known mistake gives them, and the name of one of the `wrong` problems, whose very values
    /// it gives. It gives probes to the learner's implementation.
    fn explain(&self, rig: &Rig<'_>, wrong: &Wrong) -> Option<(Explanation, String)> {
        let _ = (rig, wrong);
        None
    }

    /// The keys of [`Input::Large`], and the most bytes of host memory that the learner's call may take for it, if that is judged.
    fn most_memory(&self) -> Option<(usize, u64)> {
        None
    }

    /// The means without which the task is not solved, counted where the time is taken.
    fn means(&self) -> &'static [Means] {
        &[]
    }

    /// True if [`Input::Many`] is computed, once, under all checks.
    fn has_many(&self) -> bool {
        false
    }

    /// True if the device writes each element of the outputs once, and nothing else.
    fn writes_once(&self) -> bool {
        false
    }

    /// What is repeated besides [`Input::Repeated`]. Its values are compared with themselves alone.
    fn also_repeated(&self) -> &'static [Input] {
        &[]
    }

    /// The calls of [`Input::Step`], from small tensors to larger ones: in a program that has made no other, memory that is kept
    /// and grows does so in each.
    fn steps(&self) -> usize {
        0
    }

    /// The problems in which one of these means is counted, besides where the time is taken: the shapes of [`Input::Counted`], by
    /// their places here.
    fn counted(&self) -> Vec<(&'static str, Means)> {
        Vec::new()
    }

    /// What tells the calls of [`Input::Timed`] apart, if there are several with one launch each.
    fn calls(&self) -> &'static [&'static str] {
        &[]
    }

    /// The shape of [`Input::Timed`], such as `b1_h8_n256_d64`.
    fn timed_case(&self) -> &'static str;

    /// Computes problems with seeded inputs, and returns all outputs.
    ///
    /// # Errors
    ///
    /// Those of the implementation and of the device.
    fn compute(&self, rig: &Rig<'_>, whose: Whose, input: Input) -> Result<Vec<f32>, AnyError>;
}

/// The problems that [`Exam::compute`] is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    /// A few small ones, of ragged sizes unless a step has whole tiles alone. They are repeated, and the bits must be the same.
    Repeated,
    /// Tensors, blocks and sequences without keys, and products without terms: what they give is judged by [`Kind::Robust`].
    WithoutKeys,
    /// One whose log-sum-exp is not asked for.
    WithoutLse,
    /// One of sizes that the stage's own implementation does not take.
    Apart,
    /// More blocks than a launch may be limited to, with little work each: a block that takes several of them in turn has to
    /// separate them by barriers.
    Many,
    /// One whose time is taken, with other values for each seed, so that no answer of an earlier call is its own.
    Timed(u64),
    /// One in which a means is counted: see [`Exam::counted`].
    Counted(usize),
    /// One whose memory is counted: see [`Exam::most_memory`].
    Large,
    /// The same with a quarter of its keys.
    Quarter,
    /// One of a few, each larger than the one before it: see [`Exam::steps`].
    Step(usize),
}

/// Matrices, or heads, of [`Input::Many`].
const MANY: usize = 2600;

/// Calls of [`Input::Step`]: more than a workspace of a constant size needs.
const STEPS: usize = 7;

impl Input {
    /// The error of a task that has no such problem.
    fn missing(self) -> AnyError {
        format!("the task has no problem for {self:?}").into()
    }
}

/// Adds problems to those of the table.
fn in_table<P: Problem<Output: 'static> + 'static>(
    judge: &mut Judge<'_>,
    problems: impl IntoIterator<Item = P>,
    solve: impl FnMut(&P, &mut P::Output) -> Result<(), AnyError>,
) {
    if judge.parts().contains(&Part::Table) {
        judge.problems(Part::Table, problems, solve);
    }
}

/// The outputs of some problems.
fn all<P>(
    problems: &[P],
    compute: impl FnMut(&P) -> Result<Vec<f32>, AnyError>,
) -> Result<Vec<f32>, AnyError> {
    let outputs = problems.iter().map(compute);
    Ok(outputs.collect::<Result<Vec<_>, _>>()?.concat())
}

/// Where a task computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// On the CPU.
    Host,
    /// On a device.
    Device {
        /// Kernels that the task may launch besides its own: those of lower steps, by the start of their file's name,
        /// `stage2-naive-cuda/kernels/softmax`.
        lower: &'static [&'static str],
        /// True if the host needs what the device computed: logits.
        reads_back: bool,
    },
}

/// Of the task's own kernels, all of whose inputs and outputs lie in device memory.
const OWN_KERNELS: Place = Place::Device {
    lower: &[],
    reads_back: false,
};

/// The examination of a task; `None` if there is none yet.
pub fn exam(task: &Task) -> Option<&'static dyn Exam> {
    Some(match (task.stage, task.id) {
        (1, "mha") => &stage1::Mha,
        (2, "softmax") => &stage2::SoftmaxTask,
        (2, "gemm") => &stage2::GemmTask,
        (2, "attention") => &stage2::AttentionTask,
        (3, "flash/online") => &stage3::Flash(Step::Online),
        (3, "flash/ragged") => &stage3::Flash(Step::Ragged),
        (3, "flash/causal") => &stage3::Flash(Step::Causal),
        (4, "flash/tile") => &stage4::Flash(Step::Tile),
        (4, "flash/online") => &stage4::Flash(Step::Online),
        (4, "flash/ragged") => &stage4::Flash(Step::Ragged),
        (4, "flash/causal") => &stage4::Flash(Step::Causal),
        (4, "mma") => &stage4::OnTensorCores(Rung::Mma),
        (4, "swizzle") => &stage4::OnTensorCores(Rung::Swizzle),
        (4, "pipeline") => &stage4::OnTensorCores(Rung::Pipeline),
        (4, "wgmma") => &stage4::OnTensorCores(Rung::Wgmma),
        (4, "backward") => &gradients::BackwardTask,
        (4, "tune") => &tune::Tune,
        (5, "update_cache") => &stage5::UpdateCache,
        (5, "decode/query") => &stage5::DecodeTask(Some(Step::Query)),
        (5, "decode/lengths") => &stage5::DecodeTask(Some(Step::Lengths)),
        (5, "decode/groups") => &stage5::DecodeTask(Some(Step::Groups)),
        (5, "split") => &stage5::DecodeTask(None),
        (6, "forward") => &stage6::ForwardTask,
        (6, "demo") => &stage6::Demo,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::Problem;
    use conformance::problems::{
        attention, decode, gemm, gradients, multi_head, scale_and_mask, softmax,
    };

    /// Names of the problems that need care and that are not left out, of those that are asked for.
    fn robust<P: Problem>(problems: Vec<P>, names: &[&str]) -> Vec<String> {
        let asked = problems
            .iter()
            .filter(|problem| names.contains(&problem.name()));
        let asked = Vec::from_iter(asked);
        assert_eq!(asked.len(), names.len(), "{names:?}");
        let robust = asked.into_iter().filter(|problem| problem.needs_care());
        robust.map(|problem| problem.name().to_owned()).collect()
    }

    #[test]
    fn extreme_values_masked_rows_and_empty_tensors_need_care() {
        let names = [
            "b1_h2_n65_d64_causal",
            "b1_h2_nq65_nk129_d16_causal",
            "b1_h2_nq129_nk65_d16",
            "b2_h2_nq5_nk0_d16",
            "b1_h2_nq129_nk65_d16_causal",
            "b1_h2_n65_d16_window_7_5_causal",
            "b1_h2_nq17_nk33_d16_mask_everything",
            "b1_h1_nq17_nk129_d64_plus85",
            "b1_h2_nq65_nk129_d64_one_hot",
        ];
        let expected = [4, 3, 6, 7, 8].map(|i| names[i]);
        assert_eq!(robust(attention::problems(), &names), expected);
        assert_eq!(robust(gradients::problems(), &names), expected);
        let names = [
            "b2_r3_c129",
            "b2_r7_c129_holes",
            "b2_r7_c129_plus1e4",
            "b1_r4_c129_plus87",
        ];
        assert_eq!(
            robust(softmax::problems(softmax::Axis::Last), &names),
            names[2..]
        );
        let names = ["b1_h1_m65_n65_k65", "b2_h3_m5_n7_k0"];
        let products = gemm::problems(gemm::Product::Nn);
        assert_eq!(robust(products, &names), names[1..]);
        let names = [
            "b2_h3_nq5_nk129_causal",
            "b1_h2_nq9_nk9_causal_hidden_nan_and_infinity",
        ];
        assert_eq!(robust(scale_and_mask::problems(), &names), names[1..]);
        let names = ["one_token", "no_token"];
        assert_eq!(robust(multi_head::problems(), &names), names[1..]);
        let names = [
            "b1_h2_kv1_nq3_n70of73_d16_f32_scale1.5e0",
            "b1_h2_kv1_nq1_n70of73_d16_f32_scale1e3",
        ];
        assert_eq!(robust(decode::problems(), &names), names[1..]);
    }
}
