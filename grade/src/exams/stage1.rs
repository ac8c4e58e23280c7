//! Task `mha`.

use conformance::inputs::{normal, tensor};
use conformance::problems::multi_head::{input, layer};
use conformance::{Judge, suites};
use ndarray::Array4;
use stage1_reference::{Attend, Feature, MultiHead, Options, Stage1};

use super::{Exam, Place, Rig, Whose, care, size};
use crate::cause::{self, Explanation, probes};
use crate::remote::Remote;
use crate::verdict::Kind;

/// Multi-head attention on the CPU.
pub(super) struct Mha;

impl Exam for Mha {
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
        let large = large.contains(&true);
        (!large).then(|| care(problem))
    }

    fn judge(&self, judge: &mut Judge<'_>, rig: &Rig<'_>) {
        suites::stage1::multi_head(judge, rig.remote);
        suites::stage1::attention(judge, rig.remote);
    }

    fn explain(&self, rig: &Rig<'_>) -> Option<Explanation> {
        explain_attention(rig, self.lacks()).or_else(|| {
            cause::explain(&cause::solved(probes::multi_head(), |problem, output| {
                let (layer, x) = (&problem.layer, problem.x.view());
                *output = rig.remote.multi_head(layer, x, &problem.options)?;
                Ok::<_, <Remote as Attend>::Error>(())
            }))
        })
    }

    fn repeated(&self, rig: &Rig<'_>) -> Result<Vec<f32>, String> {
        let mut values = Vec::new();
        let x = input(2, 33, 48);
        let layer = layer(48, 6, true);
        let options = Options::default().causal();
        let y = rig.remote.multi_head(&layer, x.view(), &options);
        values.extend(y.map_err(|error| error.to_string())?);
        let [q, k, v] = tensors((1, 2, 65, 40), (1, 2, 129, 40));
        let output = rig.remote.attend(q.view(), k.view(), v.view(), &options);
        let output = output.map_err(|error| error.to_string())?;
        values.extend(output.o.into_iter().chain(output.lse));
        Ok(values)
    }

    fn timed_case(&self) -> &'static str {
        "b2_h8_n512_hidden512_causal"
    }

    fn timed(&self, rig: &Rig<'_>, whose: Whose) -> Result<Vec<f32>, String> {
        let x = input(2, 512, 512);
        let layer = layer(512, 8, true);
        let options = Options::default().causal();
        let y = match whose {
            Whose::Learner => {
                let y = rig.remote.multi_head(&layer, x.view(), &options);
                y.map_err(|error| error.to_string())?
            }
            Whose::Reference => {
                let y = Stage1.multi_head(&layer, x.view(), &options);
                y.map_err(|error| error.to_string())?
            }
        };
        Ok(y.into_iter().collect())
    }
}

/// Why attention on host arrays gives wrong values.
pub(super) fn explain_attention(rig: &Rig<'_>, lacks: &[Feature]) -> Option<Explanation> {
    cause::explain(&cause::solved(
        probes::attention(lacks),
        |problem, output| {
            let [q, k, v] = [&problem.q, &problem.k, &problem.v].map(|x| x.view());
            *output = rig.remote.attend(q, k, v, &problem.options)?;
            Ok::<_, <Remote as Attend>::Error>(())
        },
    ))
}

type Shape = (usize, usize, usize, usize);

/// Seeded q, k and v.
pub(super) fn tensors(q: Shape, k: Shape) -> [Array4<f32>; 3] {
    [
        tensor(q, 1, normal),
        tensor(k, 2, normal),
        tensor(k, 3, normal),
    ]
}
