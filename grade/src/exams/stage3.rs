//! Task `flash` of stage 3.

use conformance::{AnyError, Judge, suites};
use stage1_reference::Feature;
use stage3_flash_cpu::Flash as Solution;

use super::stage1::{LACKS, attend, explain_attention};
use super::{Exam, Input, Place, Rig, Whose, all, by};
use crate::cause::{Explanation, Wrong};

/// Keys of [`Input::Large`], for 64 queries: a few tiles of queries, if not one.
const LONG: usize = 1 << 16;

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

    /// The scores of four queries of [`Input::Large`]: more than tiles need, however many keys there are.
    fn most_memory(&self) -> Option<u64> {
        Some((4 * LONG * size_of::<f32>()) as u64)
    }

    fn compute(&self, rig: &Rig<'_>, whose: Whose, input: Input) -> Result<Vec<f32>, AnyError> {
        let ((q, k), masks, seed): (_, &[bool], _) = match input {
            Input::Repeated => (((1, 2, 129, 40), (1, 2, 200, 40)), &[false, true], 0),
            Input::Timed(seed) => (((1, 4, 1024, 64), (1, 4, 1024, 64)), &[true], seed),
            Input::Large => (((1, 1, 64, 1), (1, 1, LONG, 1)), &[false], 0),
            other => return Err(other.missing()),
        };
        by!(whose, rig.remote, &Solution, |own| {
            all(masks, |&causal| attend(own, q, k, causal, seed))
        })
    }
}
