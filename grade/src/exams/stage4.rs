//! The steps of task `flash`, and tasks `mma`, `swizzle`, `pipeline` and `wgmma` of stage 4. The task on its backward pass is in
//! `gradients.rs`.

use conformance::device::Device;
use conformance::layout::Layout;
use conformance::problems::{Step, attention};
use conformance::{AnyError, Element, Judge, suites};
use half::f16;
use stage1_reference::{Feature, Sizes};
use stage4_flash_cuda::{Attention, Fused, Inputs, Mode, Outputs, Rung, Shape, Stage4};

use super::stage1::tensors;
use super::{Exam, Input, MANY, OWN_KERNELS, Place, Rig, STEPS, Whose, all, by, in_table};
use crate::cause::{self, Explanation, Wrong, probes};
use crate::criteria::Means;
use crate::remote::Bonus;

/// A step of FlashAttention as one kernel.
pub(super) struct Flash(pub Step);

/// The same on tensor cores: the bonus task that a rung solves.
pub(super) struct OnTensorCores(pub Rung);

/// Sizes `[H, nq, nk, D]` and causal mask of [`Input::Repeated`], for head dimensions that may have tiles of their own.
pub(super) const SMALL: [([usize; 4], bool); 3] = [
    ([2, 50, 70, 16], false),
    ([2, 65, 65, 64], true),
    ([1, 40, 50, 128], true),
];

/// Those of task `flash`, by step.
const OF_TILE: [([usize; 4], bool); 2] = [([2, 32, 32, 64], false), ([1, 32, 32, 128], false)];
const OF_ONLINE: [([usize; 4], bool); 2] = [([2, 64, 192, 64], false), ([1, 64, 128, 128], false)];
const OF_RAGGED: [([usize; 4], bool); 2] = [([2, 50, 70, 16], false), ([1, 33, 70, 128], false)];
const OF_CAUSAL: [([usize; 4], bool); 2] = [([2, 65, 65, 64], true), ([1, 33, 50, 128], true)];

/// Those of [`Input::Apart`].
const APART: [([usize; 4], bool); 1] = [([1, 33, 70, 40], false)];

/// Those of [`Input::WithoutKeys`]: the first 72 queries see none, or there is none.
pub(super) const WITHOUT_KEYS: [([usize; 4], bool); 2] =
    [([1, 80, 8, 64], true), ([1, 17, 0, 64], false)];

/// Those of [`Input::WithoutLse`].
const WITHOUT_LSE: [([usize; 4], bool); 1] = [([1, 33, 70, 64], false)];

/// Those of [`Input::Many`].
const ONE_KEY: [([usize; 4], bool); 1] = [([MANY, 1, 1, 16], false)];

/// Those of [`Input::Repeated`] for task `wgmma`: five tiles of 128 keys use stages of shared memory again.
const OF_WARPGROUPS: [([usize; 4], bool); 3] = [
    ([2, 65, 65, 64], true),
    ([1, 40, 50, 128], true),
    ([1, 65, 520, 64], false),
];

/// Those of [`Input::Many`] for task `wgmma`. A block computes a tile of 128 keys, so they are as many as of task `backward`.
const ONE_KEY_OF_128: [([usize; 4], bool); 1] = [([700, 1, 1, 64], false)];

/// Those of [`Input::Counted`] for the step with a causal mask, behind the first: with the mask and without it.
const BOTH: [[([usize; 4], bool); 2]; 3] = [
    [([1, 512, 512, 16], true), ([1, 512, 512, 16], false)],
    [([1, 512, 512, 40], true), ([1, 512, 512, 40], false)],
    [([1, 512, 512, 128], true), ([1, 512, 512, 128], false)],
];

/// Those of [`Input::Counted`] for the step with ragged sizes.
const STORED: [[([usize; 4], bool); 1]; 3] = [
    [([2, 33, 70, 16], false)],
    [([2, 33, 70, 40], false)],
    [([2, 33, 70, 128], false)],
];

/// Problems of [`Input::Counted`] with their sizes: no full tile of keys, other head dimensions than the timed one, and rows that share
/// their banks with others. Softmax is a small part of all operations where rows are long.
const COUNTED: [(&str, [usize; 4], Means); 11] = [
    (
        "b1_h2_nq64_nk31_d128_f16",
        [2, 64, 31, 128],
        Means::TensorCores,
    ),
    (
        "b1_h2_nq64_nk31_d128_f16",
        [2, 64, 31, 128],
        Means::Warpgroups,
    ),
    (
        "b1_h1_nq64_nk256_d16_f16",
        [1, 64, 256, 16],
        Means::TensorCores,
    ),
    (
        "b1_h1_nq64_nk256_d64_f16",
        [1, 64, 256, 64],
        Means::TensorCores,
    ),
    (
        "b1_h1_nq64_nk256_d64_f16",
        [1, 64, 256, 64],
        Means::Warpgroups,
    ),
    ("b1_h1_nq64_nk256_d16_f16", [1, 64, 256, 16], Means::Overlap),
    ("b1_h1_nq64_nk256_d64_f16", [1, 64, 256, 64], Means::Overlap),
    ("b1_h2_n64_d16_f16", [2, 64, 64, 16], Means::MatrixLoads),
    ("b1_h2_n64_d64_f16", [2, 64, 64, 64], Means::MatrixLoads),
    ("b1_h2_n64_d16_f16", [2, 64, 64, 16], Means::NoConflicts),
    ("b1_h2_n64_d64_f16", [2, 64, 64, 64], Means::NoConflicts),
];

impl OnTensorCores {
    /// The problem that is timed: its name, and its sizes `[H, nq, nk, D]`. It has four tiles of keys.
    fn timed(&self) -> (&'static str, [usize; 4]) {
        match self.0 {
            Rung::Wgmma => ("b1_h4_n512_d128_f16_causal", [4, 512, 512, 128]),
            _ => ("b1_h4_n256_d128_f16_causal", [4, 256, 256, 128]),
        }
    }

    /// Those of [`COUNTED`] whose means and head dimensions this task asks for.
    fn counted_problems(&self) -> impl Iterator<Item = (&'static str, [usize; 4], Means)> {
        let (means, head_dims) = (self.means(), self.0.head_dims());
        let asked = move |(_, sizes, counted): &(_, [usize; 4], Means)| {
            means.contains(counted) && head_dims.contains(&sizes[3])
        };
        COUNTED.into_iter().filter(asked)
    }

    fn learner<'a>(&self, rig: &Rig<'a>) -> Bonus<'a> {
        Bonus {
            remote: rig.remote,
            rung: self.0,
        }
    }
}

impl Flash {
    /// The problem that is timed: its name, and its sizes `[H, nq, nk, D]`. It fills a device.
    fn timed(&self) -> (&'static str, [usize; 4]) {
        match self.0 {
            Step::Tile => ("b1_h264_n32_d64", [264, 32, 32, 64]),
            Step::Online => ("b1_h33_nq128_nk256_d64", [33, 128, 256, 64]),
            Step::Ragged => ("b1_h33_nq125_nk250_d64", [33, 125, 250, 64]),
            _ => ("b1_h8_nq448_nk512_d64_causal", [8, 448, 512, 64]),
        }
    }
}

impl Exam for Flash {
    fn place(&self) -> Place {
        OWN_KERNELS
    }

    fn lacks(&self) -> &'static [Feature] {
        &Rung::LACKS
    }

    fn asks(&self, step: Option<Step>) -> bool {
        step == Some(self.0)
    }

    /// Of 15 head dimensions 4 are asked for.
    fn random(&self) -> u64 {
        40
    }

    fn judge(&self, judge: &mut Judge<'_>, rig: &Rig<'_>) {
        suites::stage4::attention(judge, rig.device, rig.remote);
        let mut others = attention::whole();
        others.extend(attention::at_odd_places());
        in_table(judge, others, |problem, output| {
            *output = suites::stage4::solve(rig.device, rig.remote, problem, problem.layouts)?;
            Ok(())
        });
    }

    fn explain(&self, rig: &Rig<'_>, wrong: &Wrong) -> Option<(Explanation, String)> {
        explained(wrong, rig.device, rig.remote)
    }

    /// The timed problem without its mask; problems with the mask and without it, in other head dimensions; and ragged sizes.
    fn counted(&self) -> Vec<(&'static str, Means)> {
        match self.0 {
            Step::Causal => vec![
                ("b1_h8_nq448_nk512_d64", Means::SkippedTiles),
                ("b1_h1_n512_d16", Means::SkippedTilesOfBoth),
                ("b1_h1_n512_d40", Means::SkippedTilesOfBoth),
                ("b1_h1_n512_d128", Means::SkippedTilesOfBoth),
            ],
            Step::Ragged => vec![
                ("b1_h2_nq33_nk70_d16", Means::Stores),
                ("b1_h2_nq33_nk70_d40", Means::Stores),
                ("b1_h2_nq33_nk70_d128", Means::Stores),
            ],
            _ => Vec::new(),
        }
    }

    /// The outputs of the last take 112 KiB.
    fn steps(&self) -> usize {
        match self.0 {
            Step::Ragged => STEPS,
            _ => 0,
        }
    }

    fn also_repeated(&self) -> &'static [Input] {
        match self.0 {
            Step::Causal => &[Input::WithoutKeys],
            Step::Ragged => &[Input::Apart, Input::WithoutLse],
            _ => &[],
        }
    }

    fn has_many(&self) -> bool {
        self.0 == Step::Ragged
    }

    fn writes_once(&self) -> bool {
        true
    }

    fn timed_case(&self) -> &'static str {
        self.timed().0
    }

    fn compute(&self, rig: &Rig<'_>, whose: Whose, input: Input) -> Result<Vec<f32>, AnyError> {
        let causal = self.0 == Step::Causal;
        let step;
        let (problems, seed): (&[_], _) = match (input, self.0) {
            (Input::Step(number), _) => {
                let n = 16 * (number + 1);
                step = [([4, n, n, 64], false)];
                (&step, 0)
            }
            (Input::Repeated, Step::Tile) => (&OF_TILE, 0),
            (Input::Repeated, Step::Online) => (&OF_ONLINE, 0),
            (Input::Repeated, Step::Causal) => (&OF_CAUSAL, 0),
            (Input::Repeated, _) => (&OF_RAGGED, 0),
            (Input::Apart, _) => (&APART, 0),
            (Input::WithoutKeys, _) => (&WITHOUT_KEYS, 0),
            (Input::WithoutLse, _) => (&WITHOUT_LSE, 0),
            (Input::Many, _) => (&ONE_KEY, 0),
            (Input::Timed(seed), _) => (&[(self.timed().1, causal)], seed),
            (Input::Counted(0), Step::Causal) => (&[(self.timed().1, false)], 0),
            (Input::Counted(place), Step::Causal) => (&BOTH[place - 1], 0),
            (Input::Counted(place), Step::Ragged) => (&STORED[place], 0),
            (other, _) => return Err(other.missing()),
        };
        let lse = input != Input::WithoutLse;
        let reference = || match input {
            // Rungs have no 40 columns.
            Input::Counted(_) => library(rig),
            _ => reference(rig, Rung::Flash),
        };
        by!(whose, rig.remote, &reference()?, |own| {
            computed::<f32>(own, rig.device, problems, lse, seed)
        })
    }
}

impl Exam for OnTensorCores {
    fn place(&self) -> Place {
        OWN_KERNELS
    }

    fn lacks(&self) -> &'static [Feature] {
        &Rung::LACKS
    }

    /// Of 15 head dimensions 3 are asked for. Where 16 is not, the suite has none but those.
    fn random(&self) -> u64 {
        match self.0 {
            Rung::Wgmma => 8,
            _ => 40,
        }
    }

    fn judge(&self, judge: &mut Judge<'_>, rig: &Rig<'_>) {
        suites::stage4::attention::<f16>(judge, rig.device, &self.learner(rig));
    }

    fn explain(&self, rig: &Rig<'_>, wrong: &Wrong) -> Option<(Explanation, String)> {
        let found = explained::<f16>(wrong, rig.device, &self.learner(rig))?;
        // Other rungs have no descriptors.
        (found.0.cause != cause::Cause::Descriptor || self.0 == Rung::Wgmma).then_some(found)
    }

    fn means(&self) -> &'static [Means] {
        match self.0 {
            Rung::Swizzle => &[Means::TensorCores, Means::MatrixLoads, Means::NoConflicts],
            Rung::Pipeline => &[Means::TensorCores, Means::Overlap],
            Rung::Wgmma => &[Means::TensorCores, Means::Warpgroups, Means::NoConflicts],
            _ => &[Means::TensorCores],
        }
    }

    fn also_repeated(&self) -> &'static [Input] {
        &[Input::WithoutKeys, Input::WithoutLse]
    }

    fn counted(&self) -> Vec<(&'static str, Means)> {
        let problems = self.counted_problems();
        problems.map(|(case, _, means)| (case, means)).collect()
    }

    fn has_many(&self) -> bool {
        true
    }

    fn timed_case(&self) -> &'static str {
        self.timed().0
    }

    fn compute(&self, rig: &Rig<'_>, whose: Whose, input: Input) -> Result<Vec<f32>, AnyError> {
        let counted: Option<_>;
        let (problems, seed): (&[_], _) = match (input, self.0) {
            (Input::Repeated, Rung::Wgmma) => (&OF_WARPGROUPS, 0),
            (Input::Repeated, _) => (&SMALL, 0),
            (Input::WithoutKeys, _) => (&WITHOUT_KEYS, 0),
            (Input::WithoutLse, _) => (&WITHOUT_LSE, 0),
            (Input::Many, Rung::Wgmma) => (&ONE_KEY_OF_128, 0),
            (Input::Many, _) => (&ONE_KEY, 0),
            (Input::Timed(seed), _) => (&[(self.timed().1, true)], seed),
            (Input::Counted(place), _) => {
                counted = self
                    .counted_problems()
                    .nth(place)
                    .map(|(_, sizes, _)| (sizes, false));
                (counted.as_slice(), 0)
            }
            (other, _) => return Err(other.missing()),
        };
        let lse = input != Input::WithoutLse;
        by!(whose, &self.learner(rig), &reference(rig, self.0)?, |own| {
            computed::<f16>(own, rig.device, problems, lse, seed)
        })
    }
}

/// The stage's own implementation, by a rung.
pub(super) fn reference(rig: &Rig<'_>, rung: Rung) -> Result<Stage4, AnyError> {
    let Stage4 { stream, attention } = library(rig)?;
    let attention = attention.with_mode(Mode::Rung(rung));
    Ok(Stage4 { stream, attention })
}

/// The stage's own implementation, by the library.
fn library(rig: &Rig<'_>) -> Result<Stage4, AnyError> {
    Ok(Stage4 {
        stream: rig.device.stream.clone(),
        attention: Attention::new(rig.device.stream.context())?,
    })
}

/// Why values on tensors of `T` are wrong.
fn explained<T: Element>(
    wrong: &Wrong,
    device: &Device,
    own: &impl Fused<T>,
) -> Option<(Explanation, String)> {
    let probes = probes::attention_in(T::DTYPE, &Rung::LACKS);
    cause::explain(
        wrong,
        cause::solved(probes, |problem, output| {
            *output = suites::stage4::solve(device, own, problem, [Layout::Packed; 4])?;
            Ok::<_, AnyError>(())
        }),
    )
}

/// The outputs of some problems.
fn computed<T: Element>(
    own: &impl Fused<T>,
    device: &Device,
    problems: &[([usize; 4], bool)],
    wants_lse: bool,
    seed: u64,
) -> Result<Vec<f32>, AnyError> {
    all(problems, |&(sizes, causal)| {
        attend(own, device, sizes, causal, wants_lse, seed)
    })
}

/// Computes one problem of these sizes on tensors of `T`, and returns its outputs.
pub(crate) fn forward<T: Element>(
    own: &impl Fused<T>,
    device: &Device,
    sizes: [usize; 4],
    causal: bool,
    seed: u64,
) -> Result<Vec<f32>, AnyError> {
    attend(own, device, sizes, causal, true, seed)
}

/// The same, with the log-sum-exp or without it.
fn attend<T: Element>(
    own: &impl Fused<T>,
    device: &Device,
    [heads, nq, nk, head_dim]: [usize; 4],
    causal: bool,
    wants_lse: bool,
    seed: u64,
) -> Result<Vec<f32>, AnyError> {
    let host = tensors((1, heads, nq, head_dim), (1, heads, nk, head_dim), seed);
    let [q, k, v] = host
        .each_ref()
        .map(|x| device.input::<T>(x, Layout::Packed));
    let mut o = device.filled::<T>(f32::NAN, heads * nq * head_dim);
    let mut lse = device.filled::<f32>(f32::NAN, heads * nq);
    let sizes = Sizes {
        batch: 1,
        heads,
        kv_heads: heads,
        nq,
        nk,
        head_dim,
    };
    let shape = Shape {
        causal,
        ..Shape::packed(sizes)
    };
    let inputs = Inputs::new(q.view(), k.view(), v.view());
    let outputs = Outputs {
        o: o.as_view_mut(),
        lse: wants_lse.then(|| lse.as_view_mut()),
    };
    own.forward(inputs, outputs, &shape)?;
    let o = device.read(&o)?.into_iter().map(T::to_f32);
    let lse = wants_lse.then(|| device.read(&lse)).transpose()?;
    Ok(o.chain(lse.into_iter().flatten()).collect())
}
