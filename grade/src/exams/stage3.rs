//! Task `flash` of stage 3.

use conformance::{Judge, suites};
use stage1_reference::{Attend, Feature, Options, Stage1};

use super::stage1::{explain_attention, tensors};
use super::{Exam, Place, Rig, Whose, care, size};
use crate::cause::Explanation;
use crate::verdict::Kind;

/// FlashAttention-2 on the CPU.
pub(super) struct Flash;

impl Exam for Flash {
    fn place(&self) -> Place {
        Place::Host
    }

    fn lacks(&self) -> &'static [Feature] {
        &[
            Feature::Window,
            Feature::KeyLengths,
            Feature::AdditiveMask,
            Feature::BlockSparse,
            Feature::GroupedHeads,
        ]
    }

    fn criterion_of(&self, problem: &str) -> Option<Kind> {
        let large = ["n", "nq", "nk"].map(|axis| size(problem, axis) > Some(300));
        (!large.contains(&true)).then(|| care(problem))
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

    fn repeated(&self, rig: &Rig<'_>) -> Result<Vec<f32>, String> {
        let mut values = Vec::new();
        for options in [Options::default(), Options::default().causal()] {
            let [q, k, v] = tensors((1, 2, 129, 40), (1, 2, 200, 40));
            let output = rig.remote.attend(q.view(), k.view(), v.view(), &options);
            let output = output.map_err(|error| error.to_string())?;
            values.extend(output.o.into_iter().chain(output.lse));
        }
        Ok(values)
    }

    fn timed_case(&self) -> &'static str {
        "b1_h4_n1024_d64_causal"
    }

    /// Against stage 1, which forms all scores: tiles that the causal mask hides need not be computed.
    fn timed(&self, rig: &Rig<'_>, whose: Whose) -> Result<Vec<f32>, String> {
        let shape = (1, 4, 1024, 64);
        let [q, k, v] = tensors(shape, shape);
        let (q, k, v, options) = (q.view(), k.view(), v.view(), Options::default().causal());
        let output = match whose {
            Whose::Learner => {
                let output = rig.remote.attend(q, k, v, &options);
                output.map_err(|error| error.to_string())?
            }
            Whose::Reference => {
                let output = Stage1.attend(q, k, v, &options);
                output.map_err(|error| error.to_string())?
            }
        };
        Ok(output.o.into_iter().chain(output.lse).collect())
    }
}
