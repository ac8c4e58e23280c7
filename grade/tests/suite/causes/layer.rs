//! The multi-head layer.

use conformance::problems::multi_head;
use grade::cause::{Cause, probes};
use ndarray::Array3;

use super::attention::{Softmax, soften};
use super::{Mistake, causes, named};

/// The layer in f32, one element at a time.
#[derive(Clone, Copy)]
struct Layer {
    transposed: [bool; 4],
    biases: [bool; 4],
    column: fn(h: usize, c: usize, heads: usize, d: usize) -> usize,
    scale: fn(d: usize, hidden: usize) -> f32,
    last: fn(usize) -> usize,
}

const LAYER: Layer = Layer {
    transposed: [false; 4],
    biases: [true; 4],
    column: |h, c, _, d| h * d + c,
    scale: |d, _| 1.0 / (d as f32).sqrt(),
    last: |i| i,
};

fn layer(problem: &multi_head::Problem, how: &Layer) -> Array3<f32> {
    let (batch, n, hidden) = problem.x.dim();
    let layer = &problem.layer;
    let (heads, d) = (layer.heads, hidden / layer.heads);
    let linears = [&layer.w_q, &layer.w_k, &layer.w_v, &layer.w_o];
    let apply = |which: usize, x: &Array3<f32>| {
        Array3::from_shape_fn((batch, n, hidden), |(b, i, out)| {
            let weight = |p| match how.transposed[which] {
                true => linears[which].weight[[out, p]],
                false => linears[which].weight[[p, out]],
            };
            let bias = linears[which].bias.as_ref().filter(|_| how.biases[which]);
            (0..hidden).map(|p| x[[b, i, p]] * weight(p)).sum::<f32>()
                + bias.map_or(0.0, |bias| bias[out])
        })
    };
    let [q, k, v] = [0, 1, 2].map(|which| apply(which, &problem.x));
    let mut merged = Array3::zeros((batch, n, hidden));
    for b in 0..batch {
        for h in 0..heads {
            let at = |c| (how.column)(h, c, heads, d);
            for i in 0..n {
                let mut row: Vec<f32> = (0..n)
                    .map(|j| {
                        let score: f32 = (0..d).map(|c| q[[b, i, at(c)]] * k[[b, j, at(c)]]).sum();
                        match problem.options.causal && j > (how.last)(i) {
                            true => f32::NEG_INFINITY,
                            false => score * (how.scale)(d, hidden),
                        }
                    })
                    .collect();
                soften(&mut row, Softmax::Right);
                for c in 0..d {
                    merged[[b, i, at(c)]] = (0..n).map(|j| row[j] * v[[b, j, at(c)]]).sum();
                }
            }
        }
    }
    apply(3, &merged)
}

#[test]
fn mistakes_in_the_layer_are_named() {
    let mistakes: [Mistake<Layer>; 9] = [
        (Cause::TransposedWeight, |it| {
            it.transposed = [false, true, false, false]
        }),
        (Cause::TransposedWeight, |it| it.transposed = [true; 4]),
        (Cause::MissingBias, |it| {
            it.biases = [true, true, true, false]
        }),
        (Cause::MissingBias, |it| it.biases = [false; 4]),
        (Cause::HeadsMixed, |it| {
            it.column = |h, c, heads, _| c * heads + h
        }),
        (Cause::MissingScale, |it| it.scale = |_, _| 1.0),
        (Cause::WrongScale, |it| {
            it.scale = |_, hidden| 1.0 / (hidden as f32).sqrt()
        }),
        (Cause::CausalOffByOne, |it| it.last = |i| i + 1),
        (Cause::CausalIgnored, |it| it.last = |_| usize::MAX),
    ];
    named(probes::multi_head(), layer, LAYER, mistakes);
    let zeros = |problem: &multi_head::Problem| problem.x.mapv(|_| 0.0);
    assert_eq!(causes(probes::multi_head(), zeros), [Cause::NotWritten]);
}
