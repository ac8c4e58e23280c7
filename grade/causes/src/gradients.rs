//! Mistakes of the backward pass: attention's gradients in f64, with parts that a mistake exchanges for its own.

use std::cell::OnceCell;
use std::f64::consts::{LN_2, LOG2_E};
use std::rc::Rc;

use conformance::problems::gradients::Problem;
use conformance::problems::{Problem as _, UNWRITTEN, attention};
use ndarray::{Array2, Array3, Array4, Axis, Zip, s};

use super::explanation::forgive_nan;
use super::written::unless;
use super::{Cause, Explained, Hypothesis, Lazy};

/// Computed dq, dk and dv.
type Gradients = <Problem as conformance::problems::Problem>::Output;

/// Right or predicted dq, dk and dv.
type Answer = [Array4<f64>; 3];

/// Queries and keys of a tile.
const TILES: [i64; 4] = [16, 32, 64, 128];

/// The scores that a kernel takes into account.
type Sees = Rc<dyn Fn(&Pair) -> bool>;

/// A query and a key.
#[derive(Debug, Clone, Copy)]
struct Pair {
    i: i64,
    j: i64,
    nq: i64,
    nk: i64,
    causal: bool,
}

impl Pair {
    /// The last key that the query sees by the causal mask.
    fn last(&self) -> i64 {
        self.i + self.nk - self.nq
    }

    fn is_seen(&self) -> bool {
        !self.causal || self.j <= self.last()
    }
}

/// The parts of the backward pass, for two kernels: one computes dq, and one dk and dv.
struct Formula {
    /// The factor of the scores.
    scale: fn(f64) -> f64,
    /// A weight, from its scaled score and lse.
    p: fn(f64, f64) -> f64,
    /// The gradient of a score, from p, dp and delta.
    ds: fn(f64, f64, f64) -> f64,
    /// What multiplies the rows of k, q and dO, from p and ds.
    factors: [fn(f64, f64) -> f64; 3],
    /// The factors of dq and dk, from the scale.
    scales: [fn(f64) -> f64; 2],
    /// Whether lse and delta are those of the first head.
    of_first: [bool; 2],
    /// The scores of the kernel of queries, and of that of keys.
    sees: [Sees; 2],
}

/// What the gradients are computed from, in f64.
struct Inputs {
    q: Array4<f64>,
    k: Array4<f64>,
    v: Array4<f64>,
    d_o: Array4<f64>,
    lse: Array3<f64>,
    delta: Array3<f64>,
    scale: f64,
    causal: bool,
}

impl Inputs {
    fn of(problem: &Problem) -> Self {
        let attention::Problem {
            q, k, v, options, ..
        } = &problem.forward;
        let (o, lse) = problem.forward.answer();
        let d_o = problem.d_o.mapv(f64::from);
        let default = 1.0 / (q.dim().3 as f64).sqrt();
        Self {
            q: q.mapv(f64::from),
            k: k.mapv(f64::from),
            v: v.mapv(f64::from),
            delta: (&d_o * &o).sum_axis(Axis(3)),
            d_o,
            lse,
            scale: options.scale.map_or(default, f64::from),
            causal: options.causal,
        }
    }
}

impl Formula {
    fn right() -> Self {
        let right: Sees = Rc::new(Pair::is_seen);
        Self {
            scale: |scale| scale,
            p: |score, lse| (score - lse).exp(),
            ds: |p, dp, delta| p * (dp - delta),
            factors: [|_, ds| ds, |_, ds| ds, |p, _| p],
            scales: [|scale| scale; 2],
            of_first: [false; 2],
            sees: [right.clone(), right],
        }
    }

    fn gradients(&self, inputs: &Inputs) -> Answer {
        let Inputs { q, k, v, d_o, .. } = inputs;
        let [mut dq, mut dk, mut dv] = [q, k, v].map(|x| Array4::zeros(x.raw_dim()));
        let (batch, heads, ..) = q.dim();
        for (b, h) in (0..batch).flat_map(|b| (0..heads).map(move |h| (b, h))) {
            let at = s![b, h, .., ..];
            let [of_queries, of_keys] = [0, 1].map(|kernel| self.weights(inputs, b, h, kernel));
            let [of_dq, of_dk] = self.scales.map(|scale| scale(inputs.scale));
            let factors = |weights: &Weights, which: usize| {
                let factor = self.factors[which];
                let pairs = Zip::from(&weights.p).and(&weights.ds);
                pairs.map_collect(|&p, &ds| factor(p, ds))
            };
            let rows = factors(&of_queries, 0).dot(&k.slice(at));
            dq.slice_mut(at).assign(&(rows * of_dq));
            let rows = factors(&of_keys, 1).t().dot(&q.slice(at));
            dk.slice_mut(at).assign(&(rows * of_dk));
            let rows = factors(&of_keys, 2).t().dot(&d_o.slice(at));
            dv.slice_mut(at).assign(&rows);
        }
        // Infinite or NaN: that depends on the order of the operations.
        [dq, dk, dv].map(|x| x.mapv_into(|x| if x.is_finite() { x } else { f64::NAN }))
    }

    /// The weights of a head in one of the kernels.
    fn weights(&self, inputs: &Inputs, b: usize, h: usize, kernel: usize) -> Weights {
        let at = s![b, h, .., ..];
        let [lse, delta] = self
            .of_first
            .map(|first| if first { (0, 0) } else { (b, h) });
        let [lse, delta] =
            [(&inputs.lse, lse), (&inputs.delta, delta)].map(|(x, (b, h))| x.slice(s![b, h, ..]));
        let mut p = inputs.q.slice(at).dot(&inputs.k.slice(at).t());
        let mut ds = inputs.d_o.slice(at).dot(&inputs.v.slice(at).t());
        let (nq, nk) = (p.nrows() as i64, p.ncols() as i64);
        let scale = (self.scale)(inputs.scale);
        for (((i, j), p), ds) in p.indexed_iter_mut().zip(&mut ds) {
            let causal = inputs.causal;
            let (row, i, j) = (i, i as i64, j as i64);
            let pair = Pair {
                i,
                j,
                nq,
                nk,
                causal,
            };
            let weight = match (self.sees[kernel])(&pair) {
                true => (self.p)(*p * scale, lse[row]),
                false => 0.0,
            };
            *p = f64::from(weight as f32); // which may be infinite
            *ds = (self.ds)(*p, *ds, delta[row]);
        }
        Weights { p, ds }
    }
}

/// The weights of a head, and the gradients of its scores, `[nq, nk]`.
struct Weights {
    p: Array2<f64>,
    ds: Array2<f64>,
}

/// What a mistake computes, and which of dq, dk and dv it concerns.
struct Mistake {
    formula: Rc<Formula>,
    /// The formula's gradients, once they are computed: several mistakes have it.
    computed: Rc<OnceCell<Answer>>,
    of: [bool; 3],
}

impl Mistake {
    fn gradients(&self, inputs: &Inputs, right: &Answer) -> Answer {
        let wrong = self.computed.get_or_init(|| self.formula.gradients(inputs));
        [0, 1, 2].map(|i| if self.of[i] { &wrong[i] } else { &right[i] }.clone())
    }
}

/// Both kernels, either of them, or one of the gradients of that of keys.
const OF: [(&str, [bool; 3]); 5] = [
    ("in dq, dk and dv", [true, true, true]),
    ("in dq", [true, false, false]),
    ("in dk and dv", [false, true, true]),
    ("in dk", [false, true, false]),
    ("in dv", [false, false, true]),
];

/// A mistake in a part: its name, its form, and the change of what is right.
type Change = (Cause, &'static str, fn(&mut Formula));

/// The same in the causal mask, with what it lets through.
type Mask = (Cause, &'static str, fn(&Pair) -> bool);

fn mistakes() -> Vec<Hypothesis<Mistake>> {
    let mut mistakes = Vec::new();
    let mut known = |cause, detail: &str, formula: Formula, places: &[(&str, [bool; 3])]| {
        let (formula, computed) = (Rc::new(formula), Rc::default());
        for &(place, of) in places {
            let parts = [detail, place].into_iter().filter(|part| !part.is_empty());
            let detail = parts.collect::<Vec<_>>().join(", ");
            let mistake = Mistake {
                formula: formula.clone(),
                computed: Rc::clone(&computed),
                of,
            };
            mistakes.push(Hypothesis::new(cause, detail, mistake));
        }
    };
    let with = |change: fn(&mut Formula)| {
        let mut formula = Formula::right();
        change(&mut formula);
        formula
    };
    // Where a gradient is made of the weights.
    let sums: [Change; 8] = [
        (Cause::GradientScale, "dq is not scaled", |it| {
            it.scales[0] = |_| 1.0
        }),
        (Cause::GradientScale, "dk is not scaled", |it| {
            it.scales[1] = |_| 1.0
        }),
        (Cause::GradientScale, "neither is scaled", |it| {
            it.scales = [|_| 1.0; 2]
        }),
        (Cause::GradientScale, "dq is scaled twice", |it| {
            it.scales[0] = |scale| scale * scale
        }),
        (Cause::GradientScale, "dk is scaled twice", |it| {
            it.scales[1] = |scale| scale * scale
        }),
        (Cause::GradientScale, "both are scaled twice", |it| {
            it.scales = [|scale| scale * scale; 2]
        }),
        (Cause::StaleWeights, "dk is a sum of p q", |it| {
            it.factors[1] = |p, _| p
        }),
        (Cause::StaleWeights, "dv is a sum of ds dO", |it| {
            it.factors[2] = |_, ds| ds
        }),
    ];
    for (cause, detail, change) in sums {
        known(cause, detail, with(change), &[("", [true; 3])]);
    }
    let weights: [Change; 11] = [
        (Cause::MissingDelta, "ds is p · dp", |it| {
            it.ds = |p, dp, _| p * dp
        }),
        (Cause::MissingDelta, "it is added", |it| {
            it.ds = |p, dp, delta| p * (dp + delta)
        }),
        (Cause::MissingScale, "", |it| it.scale = |_| 1.0),
        (Cause::NotNormalised, "lse is not subtracted", |it| {
            it.p = |score, _| score.exp()
        }),
        (Cause::NoMaxSubtraction, "exp(s) / exp(lse)", |it| {
            it.p = |score, lse| {
                let [numerator, sum] = [score, lse].map(|x| f64::from(x.exp() as f32));
                numerator / sum
            }
        }),
        (Cause::LogSumBase, "exp2(s − lse)", |it| {
            it.p = |score, lse| (score - lse).exp2()
        }),
        (Cause::LogSumBase, "exp2(s · log2(e) − lse)", |it| {
            it.p = |score, lse| (score * LOG2_E - lse).exp2()
        }),
        (Cause::LogSumBase, "exp(s − lse · ln 2)", |it| {
            it.p = |score, lse| (score - lse * LN_2).exp()
        }),
        (Cause::WrongHead, "lse is that of the first head", |it| {
            it.of_first[0] = true
        }),
        (Cause::WrongHead, "delta is that of the first head", |it| {
            it.of_first[1] = true
        }),
        (Cause::WrongHead, "both are those of the first head", |it| {
            it.of_first = [true; 2]
        }),
    ];
    for (cause, detail, change) in weights {
        known(cause, detail, with(change), &OF);
    }
    for (cause, detail, sees) in bands().into_iter().chain(tiles()) {
        let right = Formula::right();
        known(cause, &detail, Formula { sees, ..right }, &OF);
    }
    mistakes
}

/// A mistake in the scores that count: its name, its form, and what both kernels see.
type Band = (Cause, String, [Sees; 2]);

/// What the loops over tiles of these many queries and keys let through with a causal mask: those over keys end at whole tiles, and
/// those over queries begin at the first that sees a key of the tile, or at a whole tile.
fn bounds(queries: i64, keys: i64, whole: bool) -> [Sees; 2] {
    let end = move |it: &Pair| {
        let end = it.i / queries * queries + queries + it.nk - it.nq;
        it.j < (end + keys - 1).div_euclid(keys) * keys
    };
    let start = move |it: &Pair| {
        let start = (it.j / keys * keys - (it.nk - it.nq)).max(0);
        let down = if whole { start % queries } else { 0 };
        it.i >= start - down
    };
    [
        Rc::new(move |it| !it.causal || end(it)),
        Rc::new(move |it| !it.causal || start(it)),
    ]
}

/// The causal mask lets other keys through than the right ones.
fn bands() -> Vec<Band> {
    let mut all: Vec<[Sees; 2]> = vec![[Rc::new(|_: &Pair| true), Rc::new(|_: &Pair| true)]];
    for queries in TILES {
        for keys in TILES {
            all.extend([false, true].map(|whole| bounds(queries, keys, whole)));
        }
    }
    let few = "one key too few: a query does not see its own";
    let many = "one key too many: a query sees the next one";
    let masks: [Mask; 5] = [
        (Cause::CausalIgnored, "", |_| true),
        (Cause::CausalTopLeft, "", |it| it.j <= it.i),
        (Cause::CausalOffByOne, many, |it| it.j <= it.last() + 1),
        (Cause::CausalOffByOne, few, |it| it.j < it.last()),
        (Cause::CausalTransposed, "", |it| {
            it.i <= it.j + it.nk - it.nq
        }),
    ];
    let mut bands = Vec::new();
    for (cause, detail, mask) in masks {
        for within in &all {
            let sees = within.clone().map(|within| -> Sees {
                Rc::new(move |it| within(it) && (!it.causal || mask(it)))
            });
            bands.push((cause, detail.to_owned(), sees));
        }
    }
    bands
}

/// Tiles are left out.
fn tiles() -> Vec<Band> {
    let mut tiles: Vec<Band> = Vec::new();
    let mut both = |cause, detail: String, key: Sees, query: Sees| {
        tiles.push((cause, detail, [key, query]));
    };
    fn sees(rule: impl Fn(&Pair) -> bool + 'static) -> Sees {
        Rc::new(move |it| it.is_seen() && rule(it))
    }
    for size in TILES {
        let detail = format!("tiles of {size}");
        let dropped = move |x: i64, n: i64| x < n / size * size;
        both(
            Cause::TailDropped,
            detail.clone(),
            sees(move |it| dropped(it.j, it.nk)),
            sees(move |it| dropped(it.i, it.nq)),
        );
        for keys in TILES {
            let start = move |it: &Pair, keys: i64| match it.causal {
                true => (it.j / keys * keys - (it.nk - it.nq)).max(0),
                false => 0,
            };
            both(
                Cause::FirstTileSkipped,
                detail.clone(),
                sees(move |it| it.j >= keys),
                sees(move |it| it.i >= start(it, keys) + size),
            );
            both(
                Cause::OneTileOnly,
                format!("the first of the {detail}"),
                sees(move |it| it.j < keys),
                sees(move |it| it.i < start(it, keys) + size),
            );
            let end = move |it: &Pair, end: i64| {
                !it.causal || it.j < (end + keys - 1).div_euclid(keys) * keys
            };
            let first = move |it: &Pair| it.i / size * size;
            both(
                Cause::CausalTopLeft,
                "in the bounds of a loop".to_owned(),
                sees(move |it| end(it, first(it) + size)),
                sees(move |it| !it.causal || it.i >= it.j / keys * keys),
            );
            both(
                Cause::CausalEndsEarly,
                "its end is that of the first query of a tile".to_owned(),
                sees(move |it| end(it, first(it) + it.nk - it.nq)),
                sees(|_| true),
            );
            both(
                Cause::CausalEndsEarly,
                "its end is that of the first query of a tile".to_owned(),
                sees(move |it| end(it, first(it) + it.nk - it.nq + 1)),
                sees(|_| true),
            );
            for last in [keys - 1, keys] {
                both(
                    Cause::CausalStartsLate,
                    "its start is that of the last key of a tile".to_owned(),
                    sees(|_| true),
                    sees(move |it| {
                        !it.causal || it.i >= it.j / keys * keys + last - (it.nk - it.nq)
                    }),
                );
            }
        }
    }
    tiles
}

/// The right answer, but for NaN where a query that sees no key takes part: in its own dq, and in dk and dv of its head.
fn from_masked_rows(problem: &Problem, right: &Answer, output: &Gradients) -> Answer {
    let [mut dq, mut dk, mut dv] = right.clone();
    let (nq, nk) = (dq.dim().2, dk.dim().2);
    if problem.forward.options.causal && nq > nk {
        let masked = s![.., .., ..nq - nk, ..];
        let not_finite = |answer: &mut f64, output: &f32| {
            if !output.is_finite() {
                *answer = f64::NAN;
            }
        };
        Zip::from(dq.slice_mut(masked))
            .and(output.dq.slice(masked))
            .for_each(not_finite);
        Zip::from(&mut dk).and(&output.dk).for_each(not_finite);
        Zip::from(&mut dv).and(&output.dv).for_each(not_finite);
    }
    [dq, dk, dv]
}

impl Explained for Problem {
    fn hypotheses<'a>(&'a self, output: &'a Gradients) -> Vec<Hypothesis<Lazy<'a, Answer>>> {
        let inputs = Rc::new(Inputs::of(self));
        let right = Rc::new(self.answer());
        let mut all = Vec::new();
        for mistake in mistakes() {
            let (inputs, right) = (inputs.clone(), right.clone());
            all.push(mistake.lazily(move |mistake| mistake.gradients(&inputs, &right)));
        }
        let exchanged = right.clone();
        all.push(
            Hypothesis::new(Cause::KeysForValues, "dk and dv are exchanged", ()).lazily(
                move |()| {
                    let [dq, dk, dv] = (*exchanged).clone();
                    [dq, dv, dk]
                },
            ),
        );
        let masked = right.clone();
        all.push(
            Hypothesis::new(Cause::NanFromMaskedRow, "", ())
                .lazily(move |()| from_masked_rows(self, &masked, output)),
        );
        all.push(
            Hypothesis::new(Cause::NotWritten, "", ()).lazily(move |()| {
                let [dq, dk, dv] = &*right;
                [
                    unless(dq, &output.dq, UNWRITTEN),
                    unless(dk, &output.dk, UNWRITTEN),
                    unless(dv, &output.dv, UNWRITTEN),
                ]
            }),
        );
        all
    }

    fn forgive_nan(output: &mut Gradients, [dq, dk, dv]: &mut Answer) {
        forgive_nan(&mut output.dq, dq);
        forgive_nan(&mut output.dk, dk);
        forgive_nan(&mut output.dv, dv);
    }
}
