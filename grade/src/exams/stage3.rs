//! Task `flash` of stage 3.

use conformance::{AnyError, Judge, suites};
use stage1_reference::Feature;
use stage3_flash_cpu::Flash as Solution;

use super::stage1::{LACKS, attend, explain_attention};
use super::{Exam, Input, Place, Rig, Whose, all, by};
use crate::cause::{Explanation, Wrong};

/// FlashAttention-2 on the CPU.
pub(super) struct Flash;

impl Exam for Flash {
    fn place(&self) -> Place {
        Place::Host
    }

    fn lacks(&self) -> &'static [Feature] {
        &LACKS
    }

    fn random(&self) -> u64 {
        40
    }

    fn judge(&self, judge: &mut Judge<'_>, rig: &Rig<'_>) {
        suites::stage1::attention(judge, rig.remote);
    }

    fn explain(&self, rig: &Rig<'_>, wrong: &Wrong) -> Option<(Explanation, String)> {
        explain_attention(rig, wrong, self.lacks())
    }

    fn timed_case(&self) -> &'static str {
        "b1_h4_n1024_d64_causal"
    }

    /// An eighth of all scores of [`Input::Large`], which a tile needs a small part of.
    fn most_memory(&self) -> Option<u64> {
        Some((2048 * 2048 * size_of::<f32>() / 8) as u64)
    }

    fn compute(&self, rig: &Rig<'_>, whose: Whose, input: Input) -> Result<Vec<f32>, AnyError> {
        let square = |heads, n, d| ((1, heads, n, d), (1, heads, n, d));
        let ((q, k), masks, seed): (_, &[bool], _) = match input {
            Input::Timed(seed) => (square(4, 1024, 64), &[true], seed),
            Input::Large => (square(1, 2048, 8), &[false], 0),
            _ => (((1, 2, 129, 40), (1, 2, 200, 40)), &[false, true], 0),
        };
        by!(whose, rig.remote, &Solution, |own| {
            all(masks, |&causal| attend(own, q, k, causal, seed))
        })
    }
}
