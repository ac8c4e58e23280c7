//! Task `mha`.

use conformance::inputs::{hash, normal, tensor};
use conformance::problems::attention;
use conformance::problems::multi_head::layer;
use conformance::{AnyError, Judge, suites};
use ndarray::Array4;
use stage1_reference::{Attend, Feature, MultiHead, Options, Stage1};

use super::{Exam, Input, Place, Rig, Whose, by, in_table};
use crate::cause::{self, Explanation, Wrong, probes};
use crate::remote::Remote;

/// Features that the tasks on the CPU do not ask for.
pub(super) const LACKS: [Feature; 5] = [
    Feature::Window,
    Feature::KeyLengths,
    Feature::AdditiveMask,
    Feature::BlockSparse,
    Feature::GroupedHeads,
];

/// Multi-head attention on the CPU.
pub(super) struct Mha;

impl Exam for Mha {
    fn place(&self) -> Place {
        Place::Host
    }

    fn lacks(&self) -> &'static [Feature] {
        &LACKS
    }

    fn judge(&self, judge: &mut Judge<'_>, rig: &Rig<'_>) {
        suites::stage1::multi_head(judge, rig.remote);
        suites::stage1::attention(judge, rig.remote);
        judge_others(judge, rig, attention::others());
    }

    fn explain(&self, rig: &Rig<'_>, wrong: &Wrong) -> Option<(Explanation, String)> {
        explain_attention(rig, wrong, self.lacks()).or_else(|| {
            cause::explain(
                wrong,
                cause::solved(probes::multi_head(), |problem, output| {
                    let (layer, x) = (&problem.layer, problem.x.view());
                    *output = rig.remote.multi_head(layer, x, &problem.options)?;
                    Ok::<_, <Remote as Attend>::Error>(())
                }),
            )
        })
    }

    fn timed_case(&self) -> &'static str {
        "b2_h8_n512_hidden512_causal"
    }

    fn compute(&self, rig: &Rig<'_>, whose: Whose, input: Input) -> Result<Vec<f32>, AnyError> {
        by!(whose, rig.remote, &Stage1, |own| match input {
            Input::Timed(seed) => multi_head(own, [2, 512, 512], 8, seed),
            Input::Repeated => {
                let mut values = multi_head(own, [2, 33, 48], 6, 0)?;
                values.extend(attend(
                    own,
                    &tensors((1, 2, 65, 40), (1, 2, 129, 40), 0),
                    true,
                )?);
                Ok(values)
            }
            other => Err(other.missing()),
        })
    }
}

/// The output of a causal layer with biases.
fn multi_head<M: MultiHead>(
    own: &M,
    [batch, n, hidden]: [usize; 3],
    heads: usize,
    seed: u64,
) -> Result<Vec<f32>, AnyError> {
    let x = tensor((batch, n, hidden), seed, normal);
    let layer = layer(hidden, heads, true);
    let y = own.multi_head(&layer, x.view(), &Options::default().causal());
    Ok(y?.into_iter().collect())
}

/// The outputs of attention on seeded arrays.
pub(super) fn attend<A: Attend>(
    own: &A,
    [q, k, v]: &[Array4<f32>; 3],
    causal: bool,
) -> Result<Vec<f32>, AnyError> {
    let options = match causal {
        true => Options::default().causal(),
        false => Options::default(),
    };
    let output = own.attend(q.view(), k.view(), v.view(), &options);
    let output = output?;
    Ok(output.o.into_iter().chain(output.lse).collect())
}

/// Gives attention on host arrays other problems than those of its suite.
pub(super) fn judge_others(
    judge: &mut Judge<'_>,
    rig: &Rig<'_>,
    problems: Vec<attention::Problem>,
) {
    in_table(judge, problems, |problem, output| {
        let [q, k, v] = [&problem.q, &problem.k, &problem.v].map(|x| x.view());
        *output = rig.remote.attend(q, k, v, &problem.options)?;
        Ok(())
    });
}

/// Why attention on host arrays gives wrong values.
pub(super) fn explain_attention(
    rig: &Rig<'_>,
    wrong: &Wrong,
    lacks: &[Feature],
) -> Option<(Explanation, String)> {
    cause::explain(
        wrong,
        cause::solved(probes::attention(lacks), |problem, output| {
            let [q, k, v] = [&problem.q, &problem.k, &problem.v].map(|x| x.view());
            *output = rig.remote.attend(q, k, v, &problem.options)?;
            Ok::<_, <Remote as Attend>::Error>(())
        }),
    )
}

type Shape = (usize, usize, usize, usize);

/// Seeded q, k and v.
pub(super) fn tensors(q: Shape, k: Shape, seed: u64) -> [Array4<f32>; 3] {
    [(q, 1), (k, 2), (k, 3)].map(|(shape, which)| tensor(shape, hash(seed, which), normal))
}
