//! The multi-head layer: weights, biases, and the split into heads.

use std::rc::Rc;

use conformance::problems::Problem as _;
use conformance::problems::multi_head::Problem;
use ndarray::{Array1, Array2, Array3, Array4};
use stage1_reference::Linear;

use super::formula::Formula;
use super::written::unless;
use super::{Cause, Explained, Hypothesis, Lazy};

type Answer = <Problem as conformance::problems::Problem>::Answer;

/// A projection in f64.
#[derive(Debug, Clone)]
struct Projection {
    weight: Array2<f64>,
    bias: Option<Array1<f64>>,
}

/// The map from `[B, N, hidden]` to `[B, H, N, D]`, or back.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Split {
    /// A head has D neighbouring columns.
    Right,
    /// A head has every H-th column.
    Interleaved,
    /// The memory is read as if it had the other shape.
    Reshaped,
}

/// The layer with everything that it is made of.
struct Layer<'a> {
    problem: &'a Problem,
    /// The input, `[B, N, hidden]`.
    x: Array3<f64>,
    /// Of q, k, v and o.
    projections: [Projection; 4],
    split: Split,
    merge: Split,
}

impl<'a> Layer<'a> {
    fn right(problem: &'a Problem) -> Self {
        let layer = &problem.layer;
        Self {
            problem,
            x: problem.x.mapv(f64::from),
            projections: [&layer.w_q, &layer.w_k, &layer.w_v, &layer.w_o].map(Projection::new),
            split: Split::Right,
            merge: Split::Right,
        }
    }

    /// q, k and v, `[B, H, N, D]`.
    fn heads(&self) -> [Array4<f64>; 3] {
        [0, 1, 2].map(|i| {
            split(
                &self.projections[i].apply(&self.x),
                self.problem.layer.heads,
                self.split,
            )
        })
    }

    fn output(&self, [q, k, v]: [&Array4<f64>; 3], formula: &Formula) -> Answer {
        let (o, _) = formula.attend([q, k, v], &self.problem.options);
        self.problem
            .parts(&self.projections[3].apply(&merge(&o, self.merge)))
    }

    fn answer(&self) -> Answer {
        let [q, k, v] = self.heads();
        self.output([&q, &k, &v], &Formula::right())
    }
}

impl Explained for Problem {
    fn hypotheses<'a>(&'a self, output: &'a Array3<f32>) -> Vec<Hypothesis<Lazy<'a, Answer>>> {
        let layer = Rc::new(Layer::right(self));
        let heads = Rc::new(layer.heads());
        let of_attention = super::problems::formulas()
            .into_iter()
            .map(move |hypothesis| {
                let (layer, heads) = (layer.clone(), heads.clone());
                hypothesis.lazily(move |formula| layer.output(heads.each_ref(), formula))
            });
        let of_layer = mistakes(self).into_iter();
        let of_layer = of_layer.map(|hypothesis| hypothesis.lazily(Layer::answer));
        let unwritten = Hypothesis::new(Cause::NotWritten, "they are still 0", 0.0);
        let unwritten = unwritten.lazily(|&before| {
            let ([rows, sums], [own_rows, own_sums]) = (self.answer(), self.parts(output));
            [
                unless(&rows, &own_rows, before),
                unless(&sums, &own_sums, before),
            ]
        });
        of_attention.chain(of_layer).chain([unwritten]).collect()
    }

    fn forgive_nan(_: &mut Array3<f32>, _: &mut Answer) {} // no mistake gives NaN
}

fn mistakes(problem: &Problem) -> Vec<Hypothesis<Layer<'_>>> {
    let mut mistakes = Vec::new();
    let mut with = |cause, detail: String, spoil: &dyn Fn(&mut Layer<'_>)| {
        let mut layer = Layer::right(problem);
        spoil(&mut layer);
        mistakes.push(Hypothesis::new(cause, detail, layer));
    };
    let transpose = |projection: &mut Projection| {
        projection.weight = projection.weight.t().to_owned();
    };
    for (i, name) in ["w_q", "w_k", "w_v", "w_o"].into_iter().enumerate() {
        with(Cause::TransposedWeight, name.to_owned(), &|layer| {
            transpose(&mut layer.projections[i])
        });
        with(Cause::MissingBias, name.to_owned(), &|layer| {
            layer.projections[i].bias = None
        });
    }
    with(Cause::TransposedWeight, "all four".to_owned(), &|layer| {
        layer.projections.iter_mut().for_each(transpose);
    });
    with(Cause::MissingBias, "all four".to_owned(), &|layer| {
        layer
            .projections
            .iter_mut()
            .for_each(|projection| projection.bias = None);
    });
    let splits = [Split::Right, Split::Interleaved, Split::Reshaped];
    for (split, what) in
        splits
            .into_iter()
            .zip(["", "every H-th column", "a reshape without a transposition"])
    {
        if split != Split::Right {
            with(
                Cause::HeadsMixed,
                format!("{what}, to split and to merge"),
                &|layer| {
                    (layer.split, layer.merge) = (split, split);
                },
            );
            with(Cause::HeadsMixed, format!("{what}, to split"), &|layer| {
                layer.split = split
            });
            with(Cause::HeadsMixed, format!("{what}, to merge"), &|layer| {
                layer.merge = split
            });
        }
    }
    with(Cause::MemoryOrder, "x".to_owned(), &|layer| {
        layer.x = in_memory_order(&layer.x);
    });
    with(
        Cause::MissingProjection,
        "the output is not projected".to_owned(),
        &|layer| {
            let hidden = layer.projections[3].weight.nrows();
            layer.projections[3] = Projection {
                weight: Array2::eye(hidden),
                bias: None,
            };
        },
    );
    mistakes
}

impl Projection {
    fn new(linear: &Linear) -> Self {
        Self {
            weight: linear.weight.mapv(f64::from),
            bias: linear.bias.as_ref().map(|bias| bias.mapv(f64::from)),
        }
    }

    /// `x · weight + bias`.
    fn apply(&self, x: &Array3<f64>) -> Array3<f64> {
        let (batch, n, width) = x.dim();
        let fits = "the layer of a problem fits its input";
        let rows = x.to_shape((batch * n, width)).expect(fits);
        let mut y = rows.dot(&self.weight);
        if let Some(bias) = &self.bias {
            y += bias;
        }
        y.into_shape_clone((batch, n, self.weight.ncols()))
            .expect(fits)
    }
}

/// The elements as they lie in memory, taken to be row-major.
fn in_memory_order(x: &Array3<f64>) -> Array3<f64> {
    let elements = x.as_slice_memory_order().map(<[f64]>::to_vec);
    let elements = elements.unwrap_or_else(|| x.iter().copied().collect());
    Array3::from_shape_vec(x.raw_dim(), elements).expect("as many elements")
}

fn split(x: &Array3<f64>, heads: usize, how: Split) -> Array4<f64> {
    let (batch, n, hidden) = x.dim();
    let d = hidden / heads;
    let flat: Vec<f64> = x.iter().copied().collect();
    Array4::from_shape_fn((batch, heads, n, d), |(b, h, i, c)| match how {
        Split::Right => x[[b, i, h * d + c]],
        Split::Interleaved => x[[b, i, c * heads + h]],
        Split::Reshaped => flat[((b * heads + h) * n + i) * d + c],
    })
}

fn merge(o: &Array4<f64>, how: Split) -> Array3<f64> {
    let (batch, heads, n, d) = o.dim();
    let flat: Vec<f64> = o.iter().copied().collect();
    let hidden = heads * d;
    Array3::from_shape_fn((batch, n, hidden), |(b, i, c)| match how {
        Split::Right => o[[b, c / d, i, c % d]],
        Split::Interleaved => o[[b, c % heads, i, c / heads]],
        Split::Reshaped => flat[(b * n + i) * hidden + c],
    })
}
