//! The examination of each task: which problems it is given, what is repeated, what is timed.
//!
//! To add a task: a file with its [`Exam`], and a line in [`exam`]. If its interface is new, `remote/` gets a file, too.

mod stage1;
mod stage2;
mod stage3;
pub(crate) mod stage4;
pub(crate) mod stage5;
mod stage6;

use conformance::Judge;
use conformance::device::Device;
use stage1_reference::Feature;

use crate::cause::Explanation;
use crate::remote::Remote;
use crate::tasks::Task;
use crate::verdict::Kind;

/// What an examination works with.
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

/// The examination of one task.
pub trait Exam {
    /// Where it computes.
    fn place(&self) -> Place;

    /// What is not asked for. Problems that need it are left out.
    fn lacks(&self) -> &'static [Feature] {
        &[]
    }

    /// The criterion that a problem of the suite belongs to, [`Kind::Correct`] or [`Kind::Robust`], by its name; `None` for
    /// a problem that takes too long.
    fn criterion_of(&self, problem: &str) -> Option<Kind>;

    /// How many random problems of each kind.
    fn random(&self) -> u64 {
        16
    }

    /// Gives the judge's parts of the task's suite to the learner's implementation.
    fn judge(&self, judge: &mut Judge<'_>, rig: &Rig<'_>);

    /// Why the values are wrong, if a known mistake gives them. It gives probes to the learner's implementation.
    fn explain(&self, rig: &Rig<'_>) -> Option<Explanation> {
        let _ = rig;
        None
    }

    /// Computes a few problems with seeded inputs, and returns all outputs. It is repeated, and the bits must be the same.
    ///
    /// # Errors
    ///
    /// A sentence.
    fn repeated(&self, rig: &Rig<'_>, whose: Whose) -> Result<Vec<f32>, String>;

    /// The shape of [`Exam::timed`], such as `b1_h8_n256_d64`.
    fn timed_case(&self) -> &'static str;

    /// Computes one problem of that shape, and returns its outputs.
    ///
    /// # Errors
    ///
    /// A sentence.
    fn timed(&self, rig: &Rig<'_>, whose: Whose) -> Result<Vec<f32>, String>;
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
    },
}

/// The examination of a task; `None` if there is none yet.
pub fn exam(task: &Task) -> Option<&'static dyn Exam> {
    Some(match (task.stage, task.id) {
        (1, "mha") => &stage1::Mha,
        (2, "softmax") => &stage2::SoftmaxTask,
        (2, "gemm") => &stage2::GemmTask,
        (2, "attention") => &stage2::AttentionTask,
        (3, "flash") => &stage3::Flash,
        (4, "flash") => &stage4::Flash,
        (5, "update_cache") => &stage5::UpdateCache,
        (5, "decode") => &stage5::DecodeTask { splitting: false },
        (5, "split") => &stage5::DecodeTask { splitting: true },
        (6, "forward") => &stage6::ForwardTask,
        (6, "demo") => &stage6::Demo,
        _ => return None,
    })
}

/// [`Kind::Robust`] for the problems of the tables, and the random ones, that need care: extreme values, hidden or absent
/// keys, empty tensors. By their names.
fn care(problem: &str) -> Kind {
    // Not `holes` and `constant`: their problems have one shape, so that an answer from an earlier call is wrong.
    const WORDS: [&str; 9] = [
        "1e4", "scale1e3", "huge", "empty", "one_hot", "outliers", "mask", "Mask", "no_",
    ];
    // Sizes of 0: `b2_h0_nq5`, `nq0`, `c0`.
    let mut parts = problem.split('_');
    let nothing = parts.any(|part| {
        let digits = part.trim_start_matches(|c: char| c.is_ascii_lowercase());
        digits == "0" && digits.len() < part.len()
    });
    let masked = !may_see_a_key(problem);
    if nothing || masked || WORDS.iter().any(|word| problem.contains(word)) {
        Kind::Robust
    } else {
        Kind::Correct
    }
}

/// False for a causal problem with more queries than keys, whose first queries see none.
fn may_see_a_key(problem: &str) -> bool {
    if !problem.contains("causal") && !problem.contains("Causal") {
        return true;
    }
    match (number(problem, "nq"), number(problem, "nk")) {
        (Some(nq), Some(nk)) => nq <= nk,
        _ => true,
    }
}

/// Whether a problem is longer than 300 in one of these axes, and so takes too long.
fn is_large(problem: &str, axes: &[&str]) -> bool {
    axes.iter().any(|axis| size(problem, axis) > Some(300))
}

/// The number after `name` in `b1_h2_nq129_nk65` or in `Sizes { nq: 129, nk: 65 }`.
fn number(problem: &str, name: &str) -> Option<usize> {
    let (_, rest) = problem.split_once(name)?;
    let rest = rest.trim_start_matches([':', ' ']);
    let end = rest.find(|c: char| !c.is_ascii_digit());
    rest[..end.unwrap_or(rest.len())].parse().ok()
}

/// The size of an axis in a name like `b1_h2_n65_d64`.
fn size(problem: &str, axis: &str) -> Option<usize> {
    let mut parts = problem.split('_');
    parts.find_map(|part| part.strip_prefix(axis)?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_that_need_care_are_known_by_name() {
        for name in [
            "b2_r129_c7_plus1e4_over_rows",
            "seed 3: b1_r2_c30_huge",
            "b2_h2_nq5_nk0_d16",
            "b0_r5_c3",
            "b1_h2_nq129_nk65_d16_causal",
            "b1_h2_n65_d16_mask",
            "seed 7: Sizes { batch: 1, heads: 1, kv_heads: 1, nq: 60, nk: 9, head_dim: 3 }, [Causal], [Packed]",
            "no_token",
            "b1_h2_kv1_nq1_n70of73_d16_f32_scale1e3",
        ] {
            assert_eq!(care(name), Kind::Robust, "{name}");
        }
        for name in [
            "b1_h2_n65_d64_causal",
            "b1_h2_nq65_nk129_d16_causal",
            "b1_h2_nq129_nk65_d16",
            "b2_r1000_c10",
            "seed 10: b1_h1_m1_n20_k30, [Packed]",
            "assignment_b4_n10_causal",
            "narrow_heads_b3_n7",
            "b1_h2_kv1_nq1_n70of73_d16_f32_scale1.5e0",
        ] {
            assert_eq!(care(name), Kind::Correct, "{name}");
        }
    }

    #[test]
    fn a_problem_is_large_by_the_axes_that_count() {
        assert!(is_large("b1_h1_n301_d64", &["n", "nq"]));
        assert!(!is_large("b1_h1_n300_d64", &["n", "nq"]));
        assert!(!is_large("b1_h1_n65_d512", &["n", "nq"]));
        assert!(is_large("b301_h1_n1_d1", &["n", "b"]));
    }
}
