//! Tasks `update_cache` and `split` and the steps of task `decode` of stage 5.

use conformance::device::Device;
use conformance::inputs::{hash, normal, tensor};
use conformance::layout::Layout;
use conformance::problems::Step;
use conformance::problems::decode::{self, Problem};
use conformance::suites::stage5::{DeviceCache, solve};
use conformance::{AnyError, Card, Dtype, Judge, suites};
use gpu::arguments::Strides;
use ndarray::Array4;
use stage1_reference::{Feature, Output};
use stage5_decode::{Decode, Decoding, Mode, NewTokens, PerSequence, Rung, Stage5};

use super::{
    Exam, Input, MANY, MATRICES, OWN_KERNELS, Place, Rig, STEPS, Whose, all, by, in_table,
};
use crate::cause::{self, Cached, Explanation, Update, Wrong, probes};
use crate::criteria::Means;
use crate::remote::Decoder;
use crate::verdict::Kind;

/// New tokens into the cache.
pub(super) struct UpdateCache;

/// Attention on the cache, by the kernel of `decode` in a step, or by those of the bonus task.
pub(super) struct DecodeTask(pub Option<Step>);

impl DecodeTask {
    /// True if by those of the bonus task.
    fn splitting(&self) -> bool {
        self.0.is_none()
    }
}

/// The learner's implementation of the tasks, or of the bonus task.
pub(crate) fn learner<'a>(rig: &Rig<'a>, splitting: bool) -> Decoder<'a> {
    Decoder {
        remote: rig.remote,
        splitting,
    }
}

/// The stage's own.
fn reference(rig: &Rig<'_>, splitting: bool) -> Result<Stage5, AnyError> {
    let rung = if splitting { Rung::Split } else { Rung::Decode };
    let decode = Decode::new(rig.device.stream.context());
    Ok(Stage5 {
        stream: rig.device.stream.clone(),
        decode: decode?.with_mode(Mode::Rung(rung)),
    })
}

/// The last two tokens of a sequence, in caches of the sizes of [`decode::far`]'s.
fn far_updates() -> [Update; 2] {
    decode::FAR.map(|(head_dim, max_seq)| {
        let empty = Array4::from_elem((1, 1, max_seq, head_dim), f32::NAN);
        Update {
            before: [empty.clone(), empty],
            rows: [1, 2].map(|seed| tensor((1, 1, 2, head_dim), seed, normal)),
            counts: vec![2],
            lengths: vec![40],
            far: true,
        }
    })
}

impl Exam for UpdateCache {
    fn place(&self) -> Place {
        OWN_KERNELS
    }

    fn judge(&self, judge: &mut Judge<'_>, rig: &Rig<'_>) {
        suites::stage5::update_cache(judge, rig.device, &learner(rig, false));
        let far = |update: &Update, output: &mut Cached<f32>| {
            *output = rig.remote.update_far(update)?;
            Ok::<_, AnyError>(())
        };
        in_table(judge, far_updates(), far);
    }

    fn explain(&self, rig: &Rig<'_>, wrong: &Wrong) -> Option<(Explanation, String)> {
        let own = learner(rig, false);
        cause::explain(
            wrong,
            cause::solved(probes::update(), |problem, output| {
                *output = updated(&own, rig.device, problem)?;
                Ok::<_, AnyError>(())
            }),
        )
    }

    fn timed_case(&self) -> &'static str {
        "b4_h8_n32of40_d128"
    }

    fn compute(&self, rig: &Rig<'_>, whose: Whose, input: Input) -> Result<Vec<f32>, AnyError> {
        let (sizes, seed) = match input {
            Input::Repeated => ([2, 2, 5, 40, 33], 0),
            Input::Timed(seed) => ([4, 8, 32, 40, 128], seed),
            other => return Err(other.missing()),
        };
        by!(
            whose,
            &learner(rig, false),
            &reference(rig, false)?,
            |own| update(own, rig.device, sizes, seed)
        )
    }
}

/// A cache of zeros after `n` new tokens of each sequence, the last that fit.
pub(crate) fn update<D: Decoding>(
    own: &D,
    device: &Device,
    [batch, kv_heads, n, max_seq, head_dim]: [usize; 5],
    seed: u64,
) -> Result<Vec<f32>, AnyError> {
    let old = Array4::zeros((batch, kv_heads, max_seq, head_dim));
    let update = Update {
        before: [old.clone(), old],
        rows: [1, 2].map(|which| {
            let shape = (batch, kv_heads, n, head_dim);
            tensor(shape, hash(seed, which), normal)
        }),
        counts: vec![n; batch],
        lengths: vec![max_seq; batch],
        far: false,
    };
    let cache = updated(own, device, &update)?;
    Ok(cache.into_iter().flatten().collect())
}

/// The cache after an update.
fn updated<D: Decoding>(
    own: &D,
    device: &Device,
    update: &Update,
) -> Result<Cached<f32>, AnyError> {
    let [before_k, before_v] = &update.before;
    let [k, v] = &update.rows;
    let (batch, kv_heads, n, head_dim) = k.dim();
    let before = [before_k, before_v];
    let mut cache = DeviceCache::new(device, before, Dtype::F32, None, &update.lengths);
    let counts: Vec<i32> = update.counts.iter().map(|&count| count as i32).collect();
    let of_counts = device.upload(&counts);
    let [k, v] = [device.upload(k), device.upload(v)];
    let strides = Strides::packed(kv_heads, n, head_dim);
    let new = NewTokens {
        k: k.as_view(),
        v: v.as_view(),
        n,
        k_strides: strides,
        v_strides: strides,
    };
    let counts = PerSequence {
        host: &update.counts,
        device: of_counts.as_view(),
    };
    own.update_cache(cache.view_mut(), counts, new)?;
    let shape = (batch, kv_heads, before_k.dim().2, head_dim);
    let [k, v] = cache.read(device)?.map(|bytes| {
        let (words, _) = bytes.as_chunks::<4>();
        let values = words.iter().map(|&word| f32::from_ne_bytes(word));
        Array4::from_shape_vec(shape, values.collect())
    });
    Ok([k?, v?])
}

impl Exam for DecodeTask {
    fn place(&self) -> Place {
        OWN_KERNELS
    }

    fn lacks(&self) -> &'static [Feature] {
        &[Feature::Window, Feature::Strides]
    }

    fn asks(&self, step: Option<Step>) -> bool {
        self.splitting() || step == self.0
    }

    /// Of many heads, each with as many blocks as there are parts, there would be too many.
    fn criterion(&self, problem: &Card<'_>) -> Option<Kind> {
        let kind = match problem.needs_care {
            true => Kind::Robust,
            false => Kind::Correct,
        };
        (!self.splitting() || problem.extent.matrices <= MATRICES).then_some(kind)
    }

    /// Half of them have another type of cache, or pages.
    fn random(&self) -> u64 {
        40
    }

    fn judge(&self, judge: &mut Judge<'_>, rig: &Rig<'_>) {
        let own = learner(rig, self.splitting());
        suites::stage5::decode(judge, rig.device, &own);
        in_table(judge, [decode::at_odd_places()], |problem, output| {
            *output = solve(rig.device, &own, problem, [Layout::Odd; 2])?;
            Ok(())
        });
        let far = |problem: &Problem, output: &mut Output| {
            *output = rig.remote.decode_far(self.splitting(), problem)?;
            Ok::<_, AnyError>(())
        };
        in_table(judge, decode::far(), far);
    }

    fn explain(&self, rig: &Rig<'_>, wrong: &Wrong) -> Option<(Explanation, String)> {
        let own = learner(rig, self.splitting());
        cause::explain(
            wrong,
            cause::solved(probes::decode(), |problem, output| {
                *output = solve(rig.device, &own, problem, [Layout::Packed; 2])?;
                Ok::<_, AnyError>(())
            }),
        )
    }

    fn means(&self) -> &'static [Means] {
        match self.splitting() {
            false => &[],
            true => &[Means::Split { queries: 2 }],
        }
    }

    fn also_repeated(&self) -> &'static [Input] {
        match self.0 {
            None | Some(Step::Lengths) => &[Input::WithoutKeys, Input::WithoutLse],
            Some(_) => &[],
        }
    }

    /// The parts of the last take 112 KiB.
    fn steps(&self) -> usize {
        match self.splitting() {
            false => 0,
            true => STEPS,
        }
    }

    fn has_many(&self) -> bool {
        [None, Some(Step::Query)].contains(&self.0)
    }

    fn counted(&self) -> Vec<(&'static str, Means)> {
        match self.splitting() {
            false => Vec::new(),
            true => vec![("b2_h2_n5+2000_d64", Means::Split { queries: 4 })],
        }
    }

    fn timed_case(&self) -> &'static str {
        match self.0 {
            Some(Step::Query) => "b1_h16_n1000_d128",
            Some(Step::Lengths) => "b3_h16_n1000+5+300_d128",
            Some(_) => "b1_h16_kv4_nq2_n1000_d128",
            None => "b1_h2_n4000_d128",
        }
    }

    fn compute(&self, rig: &Rig<'_>, whose: Whose, input: Input) -> Result<Vec<f32>, AnyError> {
        let full = |heads, kv_heads, head_dim, length| {
            decode::counted(heads, kv_heads, head_dim, length, Dtype::F32)
        };
        let mut problems = match (input, self.0) {
            // Columns, here and below: more than a warp has lanes, no more than that, and more than a block has threads.
            (Input::Repeated, Some(Step::Query)) => {
                vec![
                    full(2, 2, 64, 200),
                    full(2, 2, 32, 140),
                    full(1, 1, 256, 140),
                ]
            }
            (Input::Repeated, Some(Step::Lengths)) => vec![
                decode::ragged(2, 40, &[200, 0, 37]),
                decode::ragged(2, 17, &[140]),
                decode::ragged(1, 200, &[3, 140]),
            ],
            (Input::WithoutKeys | Input::WithoutLse, Some(Step::Lengths)) => {
                vec![full(2, 2, 40, 200)]
            }
            (Input::Step(number), _) => vec![full(32, 32, 128, 64 * (number + 1))],
            (Input::Repeated, _) => vec![full(4, 2, 40, 200), full(2, 1, 24, 300)],
            (Input::WithoutKeys | Input::WithoutLse, _) => vec![full(4, 2, 40, 200)],
            (Input::Many, Some(Step::Query)) => vec![full(MANY, MANY, 64, 3)],
            (Input::Many, _) => vec![full(MANY, MANY, 16, 3)],
            (Input::Timed(_), Some(Step::Query)) => vec![full(16, 16, 128, 1000)],
            (Input::Timed(_), Some(Step::Lengths)) => {
                vec![decode::ragged(16, 128, &[1000, 5, 300])]
            }
            (Input::Timed(_), Some(_)) => vec![full(16, 4, 128, 1000)],
            (Input::Timed(_), None) => vec![full(2, 2, 128, 4000)],
            (Input::Counted(_), None) => vec![decode::ragged(2, 64, &[5, 2000])],
            (other, _) => return Err(other.missing()),
        };
        for problem in &mut problems {
            if self.0 == Some(Step::Groups) {
                let (batch, heads, _, head_dim) = problem.q.dim();
                problem.q = tensor((batch, heads, 2, head_dim), 0, normal);
            }
            match input {
                Input::Timed(seed) => problem.q = tensor(problem.q.dim(), seed, normal),
                Input::WithoutKeys => problem.lengths = vec![0],
                Input::WithoutLse => problem.wants_lse = false,
                _ => {}
            }
        }
        by!(
            whose,
            &learner(rig, self.splitting()),
            &reference(rig, self.splitting())?,
            |own| all(&problems, |problem| attend(own, rig.device, problem))
        )
    }
}

pub(crate) fn attend<D: Decoding>(
    own: &D,
    device: &Device,
    problem: &Problem,
) -> Result<Vec<f32>, AnyError> {
    let output = solve(device, own, problem, [Layout::Packed; 2])?;
    Ok(output.o.into_iter().chain(output.lse).collect())
}
