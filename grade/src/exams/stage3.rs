//! Task `flash` of stage 3.

use conformance::{AnyError, Judge, suites};
use stage1_reference::{Feature, Stage1};

use super::stage1::{LACKS, attend, explain_attention};
use super::{Exam, Input, Place, Rig, Whose, all, by};
use crate::cause::Explanation;

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

    fn explain(&self, rig: &Rig<'_>) -> Option<Explanation> {
        explain_attention(rig, self.lacks())
    }

    fn timed_case(&self) -> &'static str {
        "b1_h4_n1024_d64_causal"
    }

    /// Against stage 1, which forms all scores: tiles that the causal mask hides need not be computed.
    fn compute(&self, rig: &Rig<'_>, whose: Whose, input: Input) -> Result<Vec<f32>, AnyError> {
        let (q, k, masks): (_, _, &[bool]) = match input {
            Input::Repeated => ((1, 2, 129, 40), (1, 2, 200, 40), &[false, true]),
            Input::Timed => ((1, 4, 1024, 64), (1, 4, 1024, 64), &[true]),
        };
        by!(whose, rig.remote, &Stage1, |own| {
            all(masks, |&causal| attend(own, q, k, causal))
        })
    }
}
