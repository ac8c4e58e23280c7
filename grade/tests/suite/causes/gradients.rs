//! The gradients of attention, by a loop over queries and keys for dq, and another for dk and dv.

use conformance::problems::gradients::Problem;
use conformance::problems::{Problem as _, attention};
use grade::cause::{Cause, probes};
use ndarray::{Array1, Axis, s};
use stage4_flash_cuda::Rung;

use super::{Mistake, named};

type Gradients = <Problem as conformance::problems::Problem>::Output;

/// A query and a key.
#[derive(Debug, Clone, Copy)]
struct Pair {
    i: isize,
    j: isize,
    nq: isize,
    nk: isize,
    causal: bool,
}

impl Pair {
    fn own(self) -> isize {
        self.i + self.nk - self.nq
    }

    fn is_seen(self) -> bool {
        !self.causal || self.j <= self.own()
    }
}

/// Batch and head, from the right ones.
type Head = fn(usize, usize) -> (usize, usize);

#[derive(Debug, Clone, Copy)]
struct Naive {
    /// Of the scores.
    scale: fn(f32) -> f32,
    /// From a score and lse.
    p: fn(f32, f32) -> f32,
    /// From p, dp and delta.
    ds: fn(f32, f32, f32) -> f32,
    /// The scores of which the loop for dq has a part, and those of the loop for dk and dv.
    by_query: fn(Pair) -> bool,
    by_key: fn(Pair) -> bool,
    /// The weight of a score that is left out, from its lse.
    hidden: fn(f32) -> f32,
    /// What multiplies rows of q and dO, from p and ds.
    dk_of: fn(f32, f32) -> f32,
    dv_of: fn(f32, f32) -> f32,
    /// Of dq and dk.
    scales: [fn(f32) -> f32; 2],
    /// The batch and head whose lse and delta are read.
    of: [Head; 2],
    /// Rows of dq that are written.
    rows: fn(usize) -> usize,
    exchanged: bool,
}

const RIGHT: Naive = Naive {
    scale: |scale| scale,
    p: |score, lse| (score - lse).exp(),
    ds: |p, dp, delta| p * (dp - delta),
    by_query: Pair::is_seen,
    by_key: Pair::is_seen,
    hidden: |_| 0.0,
    dk_of: |_, ds| ds,
    dv_of: |p, _| p,
    scales: [|scale| scale; 2],
    of: [|b, h| (b, h); 2],
    rows: |nq| nq,
    exchanged: false,
};

fn naive(problem: &Problem, how: &Naive) -> Gradients {
    let mut gradients = problem.poisoned();
    let attention::Problem {
        q, k, v, options, ..
    } = &problem.forward;
    let (o, lse) = problem.forward.answer();
    let delta = (o.mapv(|x| x as f32) * &problem.d_o).sum_axis(Axis(3));
    let (batch, heads, nq, d) = q.dim();
    let nk = k.dim().2;
    let given = options.scale.unwrap_or(1.0 / (d as f32).sqrt());
    for (b, h) in (0..batch).flat_map(|b| (0..heads).map(move |h| (b, h))) {
        let at = s![b, h, .., ..];
        let [q, k, v, d_o] = [q, k, v, &problem.d_o].map(|x| x.slice(at));
        let [of_lse, of_delta] = how.of.map(|of| of(b, h));
        let weights = |i: usize, j: usize, counts: fn(Pair) -> bool| {
            let lse = lse[[of_lse.0, of_lse.1, i]] as f32;
            let delta = delta[[of_delta.0, of_delta.1, i]];
            let pair = Pair {
                i: i as isize,
                j: j as isize,
                nq: nq as isize,
                nk: nk as isize,
                causal: options.causal,
            };
            let p = match counts(pair) {
                true => (how.p)(q.row(i).dot(&k.row(j)) * (how.scale)(given), lse),
                false => (how.hidden)(lse),
            };
            (p, (how.ds)(p, d_o.row(i).dot(&v.row(j)), delta))
        };
        for i in 0..(how.rows)(nq) {
            let mut sum = Array1::zeros(d);
            for j in 0..nk {
                let (_, ds) = weights(i, j, how.by_query);
                sum.scaled_add(ds, &k.row(j));
            }
            let dq = sum * (how.scales[0])(given);
            gradients.dq.slice_mut(s![b, h, i, ..]).assign(&dq);
        }
        for j in 0..nk {
            let (mut dk, mut dv) = (Array1::zeros(d), Array1::zeros(d));
            for i in 0..nq {
                let (p, ds) = weights(i, j, how.by_key);
                dk.scaled_add((how.dk_of)(p, ds), &q.row(i));
                dv.scaled_add((how.dv_of)(p, ds), &d_o.row(i));
            }
            dk *= (how.scales[1])(given);
            let (dk, dv) = if how.exchanged { (dv, dk) } else { (dk, dv) };
            gradients.dk.slice_mut(s![b, h, j, ..]).assign(&dk);
            gradients.dv.slice_mut(s![b, h, j, ..]).assign(&dv);
        }
    }
    gradients
}

#[test]
fn mistakes_in_the_formulas_are_named() {
    let mistakes: [Mistake<Naive>; 20] = [
        (Cause::MissingDelta, |it| it.ds = |p, dp, _| p * dp),
        (Cause::MissingDelta, |it| {
            it.ds = |p, dp, delta| p * (dp + delta)
        }),
        (Cause::GradientScale, |it| it.scales[0] = |_| 1.0),
        (Cause::GradientScale, |it| it.scales[1] = |_| 1.0),
        (Cause::GradientScale, |it| {
            it.scales = [|scale| scale * scale; 2]
        }),
        (Cause::MissingScale, |it| it.scale = |_| 1.0),
        (Cause::NotNormalised, |it| it.p = |score, _| score.exp()),
        (Cause::NoMaxSubtraction, |it| {
            it.p = |score, lse| score.exp() / lse.exp()
        }),
        (Cause::LogSumBase, |it| {
            it.p = |score, lse| (score - lse).exp2()
        }),
        (Cause::LogSumBase, |it| {
            it.p = |score, lse| (score * std::f32::consts::LOG2_E - lse).exp2()
        }),
        (Cause::LogSumBase, |it| {
            it.p = |score, lse| (score - lse * std::f32::consts::LN_2).exp()
        }),
        (Cause::StaleWeights, |it| it.dk_of = |p, _| p),
        (Cause::StaleWeights, |it| it.dv_of = |_, ds| ds),
        (Cause::WrongHead, |it| it.of = [|_, _| (0, 0); 2]),
        (Cause::WrongHead, |it| it.of[0] = |_, _| (0, 0)),
        (Cause::WrongHead, |it| it.of[1] = |_, _| (0, 0)),
        (Cause::KeysForValues, |it| it.exchanged = true),
        (Cause::NotWritten, |it| it.rows = |nq| nq / 16 * 16),
        // The score of a key that is not seen is −inf.
        (Cause::NanFromMaskedRow, |it| {
            it.hidden = |lse| (f32::NEG_INFINITY - lse).exp()
        }),
        (Cause::NanFromMaskedRow, |it| {
            it.by_key = |it| it.is_seen() || it.own() < 0;
            it.p = |score, lse| match lse {
                f32::NEG_INFINITY => f32::NAN,
                _ => (score - lse).exp(),
            };
        }),
    ];
    named(probes::gradients(&Rung::LACKS), naive, RIGHT, mistakes);
}

/// The first query that sees the first key of a tile of 64.
fn start(it: Pair) -> isize {
    (it.j / 64 * 64 - (it.nk - it.nq)).max(0)
}

/// The end of the keys of a tile of 64 queries.
fn end(it: Pair) -> isize {
    let end = it.i / 64 * 64 + 64 + it.nk - it.nq;
    (end + 63).div_euclid(64) * 64
}

#[test]
fn mistakes_in_masks_and_tiles_are_named() {
    let mistakes: [Mistake<Naive>; 15] = [
        (Cause::CausalIgnored, |it| {
            (it.by_query, it.by_key) = (|_| true, |_| true)
        }),
        (Cause::CausalIgnored, |it| {
            it.by_query = |it| !it.causal || it.j < end(it);
            it.by_key = |it| !it.causal || it.i >= start(it);
        }),
        (Cause::CausalIgnored, |it| {
            it.by_key = |it| !it.causal || it.i >= start(it) / 64 * 64;
        }),
        (Cause::CausalTopLeft, |it| {
            it.by_query = |it| !it.causal || it.j <= it.i && it.j < end(it);
            it.by_key = |it| !it.causal || it.j <= it.i && it.i >= start(it);
        }),
        (Cause::CausalTopLeft, |it| {
            it.by_key = |it| it.is_seen() && (!it.causal || it.i >= it.j / 64 * 64);
        }),
        (Cause::CausalOffByOne, |it| {
            it.by_query = |it| !it.causal || it.j < it.own();
            it.by_key = it.by_query;
        }),
        (Cause::CausalOffByOne, |it| {
            it.by_query = |it| !it.causal || it.j <= it.own() + 1 && it.j < end(it);
        }),
        (Cause::CausalTransposed, |it| {
            it.by_key = |it| !it.causal || it.i <= it.j + it.nk - it.nq && it.i >= start(it);
        }),
        (Cause::CausalEndsEarly, |it| {
            it.by_query = |it| {
                let end = it.i / 64 * 64 + it.nk - it.nq;
                it.is_seen() && (!it.causal || it.j < (end + 63).div_euclid(64) * 64)
            };
        }),
        (Cause::CausalStartsLate, |it| {
            it.by_key =
                |it| it.is_seen() && (!it.causal || it.i >= it.j / 64 * 64 + 63 - it.nk + it.nq);
        }),
        (Cause::TailDropped, |it| {
            it.by_query = |it| it.is_seen() && it.j < it.nk / 64 * 64
        }),
        (Cause::TailDropped, |it| {
            it.by_key = |it| it.is_seen() && it.i < it.nq / 32 * 32
        }),
        (Cause::OneTileOnly, |it| {
            it.by_query = |it| it.is_seen() && it.j < 64
        }),
        (Cause::FirstTileSkipped, |it| {
            it.by_query = |it| it.is_seen() && it.j >= 64
        }),
        (Cause::FirstTileSkipped, |it| {
            it.by_key = |it| it.is_seen() && it.i >= if it.causal { start(it) + 64 } else { 64 };
        }),
    ];
    named(probes::gradients(&Rung::LACKS), naive, RIGHT, mistakes);
}
