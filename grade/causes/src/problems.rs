//! The known mistakes of each problem.

use std::rc::Rc;

use conformance::Dtype;
use conformance::problems::{Problem as _, UNWRITTEN, attention, decode, gemm, softmax};
use ndarray::{Array2, Array3, Array4, Axis, concatenate, s};
use stage1_reference::{Options, Output};

use super::formula::{Answer, Formula, Row, Weigh, Weighed};
use super::written::{self, unless};
use super::{Cause, Explained, Hypothesis, Lazy, forgive_nan};
use super::{
    band, layout, log_sum, masked_row, maximum, product, reduction, rescale, scale, tail,
    tensor_core,
};

/// Keys of a tile of attention: BLOCK_KV of a fused kernel, and what a thread or a warp takes at once.
const TILES: [usize; 18] = [
    1, 4, 8, 16, 24, 32, 40, 48, 56, 64, 72, 80, 88, 96, 104, 112, 120, 128,
];

/// Elements of a vector that a block takes at once.
const WIDE_TILES: [usize; 9] = [1, 4, 16, 32, 64, 128, 256, 512, 1024];

/// All mistakes in the weights of a row.
fn weights(tiles: &[usize]) -> Vec<Hypothesis<Weigh>> {
    let families = [
        maximum::mistakes(tiles),
        rescale::mistakes(tiles),
        tail::mistakes(tiles),
        reduction::mistakes(),
        masked_row::mistakes(),
        log_sum::mistakes(),
    ];
    families.into_iter().flatten().collect()
}

/// All mistakes in the formula of attention.
pub(super) fn formulas() -> Vec<Hypothesis<Formula>> {
    let weights = weights(&TILES).into_iter().map(|hypothesis| {
        hypothesis.map(|weigh| Formula {
            weigh,
            ..Formula::right()
        })
    });
    let families = [scale::mistakes(), band::mistakes(), layout::mistakes()];
    weights.chain(families.into_iter().flatten()).collect()
}

/// The mistake that elements of lse are those of other rows, in places that may leave some unwritten.
fn misplaced<'a>(
    right: impl Fn() -> Answer + Copy + 'a,
    output: &'a Output,
) -> Hypothesis<Lazy<'a, Answer>> {
    Hypothesis::new(Cause::MisplacedLogSum, "", ()).lazily(move |()| {
        let (o, lse) = right();
        let mut known = Vec::from_iter(lse.iter().copied());
        known.sort_by(f64::total_cmp);
        let written = |x: f32| x.to_bits() != UNWRITTEN.to_bits();
        let mut moved = lse.clone();
        if moved.shape() == output.lse.shape() {
            for (place, &own) in moved.iter_mut().zip(&output.lse) {
                *place = match written(own) {
                    true => nearest(&known, own.into()),
                    false => written::POISON,
                };
            }
        }
        let others = moved.iter().zip(&lse).zip(&output.lse);
        // Closer ones are the same but for rounding.
        let others =
            others.filter(|&((moved, right), &own)| written(own) && (moved - right).abs() > 1e-4);
        match others.count() {
            0 => (o, lse), // then all that is wrong is unwritten
            _ => (o, moved),
        }
    })
}

/// The number that is nearest to `x`, of those in ascending order.
fn nearest(sorted: &[f64], x: f64) -> f64 {
    let above = sorted.partition_point(|&y| y < x);
    let neighbours = &sorted[above.saturating_sub(1)..(above + 1).min(sorted.len())];
    let distance = |y: &f64| if *y == x { 0.0 } else { (y - x).abs() };
    let nearest = neighbours.iter().copied();
    let nearest = nearest.min_by(|a, b| distance(a).total_cmp(&distance(b)));
    nearest.unwrap_or(f64::NAN)
}

/// The mistake that elements were not written.
fn unwritten<'a>(
    right: impl Fn() -> Answer + Copy + 'a,
    output: &'a Output,
) -> impl Iterator<Item = Hypothesis<Lazy<'a, Answer>>> {
    written::values().into_iter().map(move |before| {
        before.lazily(move |before| {
            let (o, lse) = right();
            (
                unless(&o, &output.o, *before),
                unless(&lse, &output.lse, *before),
            )
        })
    })
}

impl Explained for attention::Problem {
    fn hypotheses<'a>(&'a self, output: &'a Output) -> Vec<Hypothesis<Lazy<'a, Answer>>> {
        let qkv = Rc::new([&self.q, &self.k, &self.v].map(|x| x.mapv(f64::from)));
        let exchanged = qkv.clone();
        let exchanged =
            Hypothesis::new(Cause::KeysForValues, "they are exchanged", ()).lazily(move |()| {
                let [q, k, v] = exchanged.each_ref();
                Formula::right().attend([q, v, k], &self.options)
            });
        let in_half = match self.dtype() {
            Dtype::F32 => Vec::new(),
            Dtype::F16 | Dtype::Bf16 => tensor_core::mistakes(),
        };
        let operands = qkv.clone();
        let in_half = in_half.into_iter().map(move |hypothesis| {
            let operands = operands.clone();
            hypothesis.lazily(move |mistake| mistake.attend(&operands, &self.options))
        });
        let computed = formulas().into_iter().map(move |hypothesis| {
            let qkv = qkv.clone();
            hypothesis.lazily(move |formula| formula.attend(qkv.each_ref(), &self.options))
        });
        computed
            .chain(in_half)
            .chain([exchanged, misplaced(|| self.answer(), output)])
            .chain(unwritten(|| self.answer(), output))
            .collect()
    }

    fn forgive_nan(output: &mut Output, (o, lse): &mut Answer) {
        forgive_nan(&mut output.o, o);
        forgive_nan(&mut output.lse, lse);
    }

    /// In half precision the tolerance of o has no part that grows with it: no mean of values is larger than all of them.
    fn scale_down(&self, output: &mut Output, (o, _): &mut Answer) {
        if self.dtype() == Dtype::F32 || output.o.shape() != o.shape() {
            return;
        }
        let largest = self
            .v
            .iter()
            .fold(0.0, |max: f64, &v| max.max(f64::from(v.abs())));
        for (actual, expected) in output.o.iter_mut().zip(o) {
            let size = expected.abs();
            if size.is_finite() && size > largest {
                *actual = (f64::from(*actual) * largest / size) as f32;
                *expected *= largest / size;
            }
        }
    }
}

impl Explained for softmax::Problem {
    fn hypotheses<'a>(
        &'a self,
        output: &'a softmax::Output,
    ) -> Vec<Hypothesis<Lazy<'a, Self::Answer>>> {
        let computed = weights(&WIDE_TILES)
            .into_iter()
            .map(|hypothesis| hypothesis.lazily(|weigh| rows(&self.x, weigh)));
        let columns = self.x.dim().2;
        let last = "the last element of each row";
        let last = Hypothesis::new(Cause::TailDropped, last, columns.saturating_sub(1));
        let beyond = [32, 64, 128, 256, 512, 1024, 2048, 4096].map(|most| {
            let detail = format!("elements from {most} on");
            Hypothesis::new(Cause::TailDropped, detail, most.min(columns))
        });
        let shortened = std::iter::once(last).chain(beyond);
        let shortened = shortened
            .map(|hypothesis| hypothesis.lazily(|&columns| shortened_to(&self.x, columns)));
        let unwritten = Hypothesis::new(Cause::NotWritten, "", ()).lazily(|()| {
            let (y, lse) = self.answer();
            let y = written::unless_in_place(&y, &output.y, &self.x);
            (y, unless(&lse, &output.lse, UNWRITTEN))
        });
        computed.chain(shortened).chain([unwritten]).collect()
    }

    fn forgive_nan(output: &mut softmax::Output, (y, lse): &mut Self::Answer) {
        forgive_nan(&mut output.y, y);
        forgive_nan(&mut output.lse, lse);
    }
}

/// Softmax of the rows of `x`, `[batch, rows, columns]`, and its log-sum-exp.
fn rows(x: &Array3<f32>, weigh: &Weigh) -> (Array3<f64>, Array2<f64>) {
    let mut y = x.mapv(f64::from);
    let mut all = Vec::new();
    for mut row in y.rows_mut() {
        let scores = row.to_vec();
        let Weighed {
            weights,
            divisor,
            lse,
        } = weigh(&Row {
            scores: &scores,
            end: usize::MAX,
            query: (0, 0),
            scale: 1.0,
        });
        for (y, weight) in row.iter_mut().zip(weights) {
            *y = if divisor == 0.0 {
                f64::NAN
            } else {
                weight / divisor
            };
        }
        all.push(lse);
    }
    let (batch, rows, _) = x.dim();
    let lse = Array2::from_shape_vec((batch, rows), all).expect("one for each row");
    (y, lse)
}

/// Softmax of the first elements of a row. The others stay as they are.
fn shortened_to(x: &Array3<f32>, shorter: usize) -> (Array3<f64>, Array2<f64>) {
    let part = x.slice(s![.., .., ..shorter]).to_owned();
    let (y_part, lse) = rows(&part, &Formula::right().weigh);
    let mut y = x.mapv(f64::from);
    y.slice_mut(s![.., .., ..shorter]).assign(&y_part);
    (y, lse)
}

impl Explained for gemm::Problem {
    fn hypotheses<'a>(&'a self, output: &'a Array4<f32>) -> Vec<Hypothesis<Lazy<'a, Array4<f64>>>> {
        let computed = product::mistakes().into_iter();
        let computed =
            computed.map(|hypothesis| hypothesis.lazily(|formula| formula.product(self)));
        let unwritten = written::values()
            .map(|before| before.lazily(|before| unless(&self.answer(), output, *before)));
        computed.chain(unwritten).collect()
    }

    fn forgive_nan(output: &mut Array4<f32>, answer: &mut Array4<f64>) {
        forgive_nan(output, answer);
    }
}

impl Explained for decode::Problem {
    fn hypotheses<'a>(&'a self, output: &'a Output) -> Vec<Hypothesis<Lazy<'a, Answer>>> {
        let of_formula = formulas().into_iter().map(|hypothesis| {
            // With one query, the key that it does not see is the newest one.
            let stale =
                hypothesis.cause == Cause::CausalOffByOne && hypothesis.detail.contains("too few");
            let hypothesis = match stale {
                true => {
                    let newest = "the newest key is not read";
                    Hypothesis::new(Cause::StaleCacheSlot, newest, hypothesis.gives)
                }
                false => hypothesis,
            };
            hypothesis.lazily(|formula| sequences(self, &self.lengths, formula))
        });
        let of_parts = rescale::splits().into_iter().map(|hypothesis| {
            hypothesis.lazily(|weigh| {
                let formula = Formula {
                    weigh: weigh.clone(),
                    ..Formula::right()
                };
                sequences(self, &self.lengths, &formula)
            })
        });
        let max_seq = self.k.dim().2;
        let beyond: Vec<usize> = self.lengths.iter().map(|n| (n + 1).min(max_seq)).collect();
        let first = vec![self.lengths.first().copied().unwrap_or(0); self.lengths.len()];
        let of_lengths = [
            Hypothesis::new(
                Cause::StaleCacheSlot,
                "the slot behind the newest key is read",
                beyond,
            ),
            Hypothesis::new(
                Cause::WrongLength,
                "that of the first sequence for all",
                first,
            ),
            Hypothesis::new(
                Cause::WrongLength,
                "that of the cache for all",
                vec![max_seq; self.lengths.len()],
            ),
        ];
        let of_lengths = of_lengths.map(|hypothesis| {
            hypothesis.lazily(|lengths| sequences(self, lengths, &Formula::right()))
        });
        let near = "a length apart";
        let by_length = Hypothesis::new(Cause::CacheStride, near, ())
            .lazily(|()| sequences(&by_length(self), &self.lengths, &Formula::right()));
        of_formula
            .chain(of_parts)
            .chain(of_lengths)
            .chain([by_length, misplaced(|| self.answer(), output)])
            .chain(unused_slots(self))
            .chain(unwritten(|| self.answer(), output))
            .collect()
    }

    fn forgive_nan(output: &mut Output, answer: &mut Answer) {
        attention::Problem::forgive_nan(output, answer);
    }
}

/// Slots of the cache without a token are read, and hold NaN: with a weight of 0, or as the one key of a query that sees none.
fn unused_slots(problem: &decode::Problem) -> impl Iterator<Item = Hypothesis<Lazy<'_, Answer>>> {
    let (nq, max_seq) = (problem.q.dim().2, problem.k.dim().2);
    let whole = [max_seq.max(1)];
    let tiles = TILES.into_iter().chain(whole).filter(|&tile| tile > 1);
    // Whether a query that sees so many keys reads others.
    let of_tiles = tiles.map(move |tile| {
        let detail = format!("with a weight of 0, in tiles of {tile}");
        let reads = move |keys: usize| keys > 0 && keys < keys.next_multiple_of(tile).min(max_seq);
        let hypothesis = Hypothesis::new(Cause::UnusedSlots, detail, ());
        hypothesis.lazily(move |()| with_nan(problem, nq, &reads, false))
    });
    let first = Hypothesis::new(Cause::AtLeastOneKey, "", ())
        .lazily(move |()| with_nan(problem, nq, &|keys| keys == 0 && max_seq > 0, true));
    of_tiles.chain([first])
}

/// The right answer, but NaN for queries of which `reads` is true of the number of keys that they see.
fn with_nan(
    problem: &decode::Problem,
    nq: usize,
    reads: &dyn Fn(usize) -> bool,
    and_lse: bool,
) -> Answer {
    let (mut o, mut lse) = problem.answer();
    for (b, &length) in problem.lengths.iter().enumerate() {
        for i in 0..nq {
            if reads((length + i + 1).saturating_sub(nq)) {
                o.slice_mut(s![b, .., i, ..]).fill(f64::NAN);
                if and_lse {
                    lse.slice_mut(s![b, .., i]).fill(f64::NAN);
                }
            }
        }
    }
    (o, lse)
}

/// The problem with the keys and values that lie where they would if each head had as many rows as its sequence has tokens.
fn by_length(problem: &decode::Problem) -> decode::Problem {
    let moved = |x: &Array4<f32>| {
        let (_, kv_heads, _, head_dim) = x.dim();
        let flat: Vec<f32> = x.iter().copied().collect();
        Array4::from_shape_fn(x.raw_dim(), |(b, h, j, d)| {
            let row = (b * kv_heads + h) * problem.lengths[b] + j;
            flat.get(row * head_dim + d).copied().unwrap_or(f32::NAN)
        })
    };
    let mut other = problem.clone();
    (other.k, other.v) = (moved(&problem.k), moved(&problem.v));
    other
}

/// One sequence at a time, with these lengths: each is aligned bottom-right by its own.
fn sequences(problem: &decode::Problem, lengths: &[usize], formula: &Formula) -> Answer {
    let (_, heads, nq, head_dim) = problem.q.dim();
    let mut o = Array4::zeros((0, heads, nq, head_dim));
    let mut lse = Array3::zeros((0, heads, nq));
    let mut options = Options::default().causal();
    options.scale = problem.scale;
    if let Some(window) = problem.window {
        options = options.window(window, usize::MAX);
    }
    for (b, &length) in lengths.iter().enumerate() {
        let q = problem.q.slice(s![b..=b, .., .., ..]).mapv(f64::from);
        let [k, v] =
            [&problem.k, &problem.v].map(|x| x.slice(s![b..=b, .., ..length, ..]).mapv(f64::from));
        let (of_o, of_lse) = formula.attend([&q, &k, &v], &options);
        let fits = "the sequences have the same shape";
        o = concatenate(Axis(0), &[o.view(), of_o.view()]).expect(fits);
        lse = concatenate(Axis(0), &[lse.view(), of_lse.view()]).expect(fits);
    }
    (o, lse)
}
