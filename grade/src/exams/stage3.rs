//! The steps of task `flash` of stage 3.

use conformance::problems::{Step, attention};
use conformance::{AnyError, Judge, suites};
use ndarray::Array4;
use stage1_reference::Feature;
use stage3_flash_cpu::Flash as Solution;

use super::stage1::{LACKS, attend, explain_attention, judge_others, tensors};
use super::{Exam, Input, Place, Rig, Whose, by};
use crate::cause::{Explanation, Wrong};

/// Keys of [`Input::Large`] in whole tiles, for 64 queries: a few tiles of queries, if not one.
const LONG: usize = 1 << 16;

/// The same tensor, each of whose matrices lies by columns in memory.
fn by_columns(tensor: Array4<f32>) -> Array4<f32> {
    let turned = tensor.permuted_axes([0, 1, 3, 2]);
    let turned = turned.as_standard_layout().into_owned();
    turned.permuted_axes([0, 1, 3, 2])
}

/// A step of FlashAttention-2 on the CPU.
pub(super) struct Flash(pub Step);

impl Flash {
    /// So many keys, or one more where a step has ragged sizes.
    fn keys(&self, whole: usize) -> usize {
        whole + usize::from(self.0 != Step::Online)
    }
}

impl Exam for Flash {
    /// A tile of the suite need not be one of the learner's.
    fn asks(&self, step: Option<Step>) -> bool {
        step == Some(self.0) || (self.0, step) == (Step::Ragged, Some(Step::Tile))
    }

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
        judge_others(judge, rig, attention::whole());
        judge_others(judge, rig, attention::others());
    }

    fn explain(&self, rig: &Rig<'_>, wrong: &Wrong) -> Option<(Explanation, String)> {
        explain_attention(rig, wrong, self.lacks())
    }

    fn timed_case(&self) -> &'static str {
        match self.0 {
            Step::Online => "b1_h4_n512_d64",
            Step::Ragged => "b1_h4_nq250_nk1000_d64",
            _ => "b1_h4_n1024_d64_causal",
        }
    }

    /// The scores of four queries of [`Input::Large`]: more than tiles need, however many keys there are, and less than a packed copy
    /// of all keys and values.
    fn most_memory(&self) -> Option<(usize, u64)> {
        Some((self.keys(LONG), (4 * LONG * size_of::<f32>()) as u64))
    }

    fn compute(&self, rig: &Rig<'_>, whose: Whose, input: Input) -> Result<Vec<f32>, AnyError> {
        let ([heads, nq, nk, head_dim], seed) = match (input, self.0) {
            (Input::Repeated, Step::Online) => ([2, 128, 192, 40], 0),
            (Input::Repeated, _) => ([2, 129, 200, 40], 0),
            (Input::Timed(seed), Step::Online) => ([4, 512, 512, 64], seed),
            (Input::Timed(seed), Step::Ragged) => ([4, 250, 1000, 64], seed),
            (Input::Timed(seed), _) => ([4, 1024, 1024, 64], seed),
            (Input::Large, _) => ([1, 64, self.keys(LONG), 3], 0),
            (Input::Quarter, _) => ([1, 64, self.keys(LONG / 4), 3], 0),
            (other, _) => return Err(other.missing()),
        };
        let causal = self.0 == Step::Causal;
        let mut all = tensors((1, heads, nq, head_dim), (1, heads, nk, head_dim), seed);
        if [Input::Large, Input::Quarter].contains(&input) {
            all = all.map(by_columns);
        }
        by!(whose, rig.remote, &Solution, |own| attend(
            own, &all, causal
        ))
    }
}
