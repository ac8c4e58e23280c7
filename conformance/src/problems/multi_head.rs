//! Problems for the multi-head layer, whose answers are those of `torch.nn.MultiheadAttention`: see
//! `fixtures/multi_head.py`.

use std::iter::Sum;

use ndarray::{Array2, Array3, Axis};
use safetensors::SafeTensors;
use stage1_reference::{Feature, Linear, MultiHeadAttention, Options};

use super::{UNWRITTEN, compare};
use crate::compare::{Comparison, Tolerance};
use crate::inputs::{hash, tensor, uniform};
use crate::oracle;

static FIXTURE: &[u8] = include_bytes!("../../fixtures/multi_head.safetensors");

/// Projections, attention in every head, projection.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Problem {
    name: String,
    /// The weights.
    pub layer: MultiHeadAttention,
    /// The input, `[B, N, hidden]`.
    pub x: Array3<f32>,
    /// Scale and masks.
    pub options: Options,
    answer: Answer,
}

/// Where the expected output comes from.
#[derive(Debug, Clone, Copy)]
enum Answer {
    /// The fixture, which has every so many rows of the output.
    Fixture {
        /// The stride.
        stride: usize,
    },
    /// The oracle.
    Oracle,
}

/// The named problems. `fixtures/multi_head.py` has those of the table that are not empty;
/// PyTorch's layer takes no scale.
pub fn problems() -> Vec<Problem> {
    let table = [
        ("assignment_b4_n10", [128, 8, 4, 10], false, false, 1),
        ("assignment_b4_n10_causal", [128, 8, 4, 10], false, true, 1),
        ("assignment_b16_n100", [128, 8, 16, 100], true, false, 7),
        (
            "assignment_b16_n100_causal",
            [128, 8, 16, 100],
            true,
            true,
            7,
        ),
        ("one_token", [8, 1, 1, 1], true, true, 1),
        ("narrow_heads_b3_n7", [48, 6, 3, 7], true, false, 1),
        ("one_head_b2_n65_causal", [40, 1, 2, 65], true, true, 5),
        ("heads_of_one_b1_n33", [16, 16, 1, 33], false, true, 1),
        ("no_batch", [16, 4, 0, 5], true, true, 1),
        ("no_token", [16, 4, 3, 0], true, true, 1),
        ("nothing", [16, 4, 0, 0], true, true, 1),
    ];
    let problem = |(name, sizes, biases, causal, stride): (&str, _, _, _, _)| {
        let [hidden, heads, batch, n]: [usize; 4] = sizes;
        let mut options = Options::default();
        options.causal = causal;
        Problem {
            name: name.to_owned(),
            layer: layer(hidden, heads, biases),
            x: input(batch, n, hidden),
            options,
            answer: Answer::Fixture { stride },
        }
    };
    let scaled = Problem {
        name: "scale_0.7_b2_n9_causal".to_owned(),
        layer: layer(16, 4, true),
        x: input(2, 9, 16),
        options: Options::default().causal().scale(0.7),
        answer: Answer::Oracle,
    };
    // In memory, x is [N, B, hidden], or [hidden, N], and so are the weights.
    let sequence_first = Problem {
        name: "sequence_first_b3_n7".to_owned(),
        layer: layer(16, 4, true),
        x: input(7, 3, 16).permuted_axes([1, 0, 2]),
        options: Options::default(),
        answer: Answer::Oracle,
    };
    let mut by_columns = Problem {
        name: "by_columns_b1_n9".to_owned(),
        x: input(16, 1, 9).permuted_axes([1, 2, 0]),
        ..sequence_first.clone()
    };
    let MultiHeadAttention {
        w_q, w_k, w_v, w_o, ..
    } = &mut by_columns.layer;
    for linear in [w_q, w_k, w_v, w_o] {
        linear.weight = linear
            .weight
            .t()
            .as_standard_layout()
            .into_owned()
            .reversed_axes();
    }
    let others = [scaled, sequence_first, by_columns];
    table.map(problem).into_iter().chain(others).collect()
}

/// A random problem, as a function of the seed. In memory, every second x is `[N, B, hidden]`.
pub fn random(seed: u64) -> Problem {
    let draw = |i, end| (hash(seed, i) % end) as usize;
    let (heads, head_dim) = (1 + draw(0, 4), 1 + draw(1, 24));
    let (batch, n, hidden) = (1 + draw(2, 3), 1 + draw(3, 40), heads * head_dim);
    let mut options = Options::default();
    options.causal = draw(4, 2) == 0;
    if draw(5, 3) == 0 {
        options = options.scale([-0.5, 0.3, 1.5][draw(6, 3)]);
    }
    let linear = |i: u64| Linear {
        weight: tensor((hidden, hidden), hash(seed, 10 + i), |seed, i| {
            uniform(seed, i) / (hidden as f32).sqrt()
        }),
        bias: (draw(20 + i, 2) == 0).then(|| tensor(hidden, hash(seed, 30 + i), uniform)),
    };
    let layer = MultiHeadAttention {
        w_q: linear(0),
        w_k: linear(1),
        w_v: linear(2),
        w_o: linear(3),
        heads,
    };
    let scale = options.scale.map(|scale| format!("_scale{scale}"));
    let end = scale.unwrap_or_default() + if options.causal { "_causal" } else { "" };
    Problem {
        name: format!("seed {seed}: layer_b{batch}_h{heads}_n{n}_hidden{hidden}{end}"),
        layer,
        x: match draw(41, 2) {
            0 => tensor((batch, n, hidden), hash(seed, 40), uniform),
            _ => tensor((n, batch, hidden), hash(seed, 40), uniform).permuted_axes([1, 0, 2]),
        },
        options,
        answer: Answer::Oracle,
    }
}

/// A layer with seeded weights, and biases if there are any.
pub fn layer(hidden: usize, heads: usize, biases: bool) -> MultiHeadAttention {
    let linear = |seed| Linear {
        weight: tensor((hidden, hidden), seed, |seed, i| uniform(seed, i) / 4.0),
        bias: biases.then(|| tensor(hidden, seed + 4, uniform)),
    };
    MultiHeadAttention {
        w_q: linear(1),
        w_k: linear(2),
        w_v: linear(3),
        w_o: linear(4),
        heads,
    }
}

/// A seeded input, `[batch, n, hidden]`.
pub fn input(batch: usize, n: usize, hidden: usize) -> Array3<f32> {
    tensor((batch, n, hidden), 9, uniform)
}

impl Problem {
    /// The parts of an output that are compared: some rows, and of every row the
    /// sums over eighths of it.
    pub fn parts<T: Copy + Sum<T>>(&self, output: &Array3<T>) -> [Array2<T>; 2] {
        let (batch, n, hidden) = output.dim();
        let rows = output
            .to_shape((batch * n, hidden))
            .expect("as many elements");
        let stride = match self.answer {
            Answer::Fixture { stride } => stride,
            Answer::Oracle => 1,
        };
        let stored: Vec<usize> = (0..batch * n).step_by(stride).collect();
        let eighth = hidden / 8;
        let sums = Array2::from_shape_fn((batch * n, 8), |(i, j)| {
            rows.row(i)
                .iter()
                .skip(j * eighth)
                .take(eighth)
                .copied()
                .sum()
        });
        [rows.select(Axis(0), &stored), sums]
    }
}

impl super::Problem for Problem {
    type Output = Array3<f32>;
    /// Some rows of the output, and of every row the sums over eighths of it.
    type Answer = [Array2<f64>; 2];

    fn name(&self) -> &str {
        &self.name
    }

    fn needs(&self) -> Vec<Feature> {
        self.options.features()
    }

    fn needs_care(&self) -> bool {
        self.x.is_empty()
    }

    fn poisoned(&self) -> Array3<f32> {
        self.x.mapv(|_| UNWRITTEN)
    }

    fn answer(&self) -> Self::Answer {
        if self.x.is_empty() {
            return [Array2::zeros((0, 0)), Array2::zeros((0, 0))]; // which the fixture does not have
        }
        match self.answer {
            Answer::Fixture { .. } => {
                ["rows", "sums"].map(|part| fixture(&format!("{}.{part}", self.name)))
            }
            Answer::Oracle => {
                let y = oracle::multi_head(&self.layer, &self.x, &self.options);
                self.parts(&y)
            }
        }
    }

    fn compare(
        &self,
        output: &Array3<f32>,
        [rows, sums]: &Self::Answer,
    ) -> Result<Vec<Comparison>, String> {
        let (_, n, hidden) = self.x.dim();
        if output.dim() != self.x.dim() {
            let (actual, expected) = (output.shape(), self.x.shape());
            return Err(format!("the output has shape {actual:?}, not {expected:?}"));
        }
        if output.is_empty() {
            return Ok(Vec::new());
        }
        let [own_rows, own_sums] = self.parts(output);
        // Four chained sums: projection, scores, weighted values, projection.
        let tolerance = Tolerance::of_sum(f32::EPSILON.into(), 3 * hidden + n);
        Ok(vec![
            compare("rows", &own_rows, rows, tolerance.floor(1.0))?,
            compare(
                "sums",
                &own_sums,
                sums,
                tolerance.floor((hidden / 8) as f64),
            )?,
        ])
    }
}

fn fixture(name: &str) -> Array2<f64> {
    let file = SafeTensors::deserialize(FIXTURE).expect("the fixture is a safetensors file");
    let tensor = file.tensor(name).expect("the fixture has the tensor");
    let (floats, _) = tensor.data().as_chunks::<4>();
    let values = floats.iter().map(|bytes| f32::from_le_bytes(*bytes).into());
    let shape = (tensor.shape()[0], tensor.shape()[1]);
    Array2::from_shape_vec(shape, values.collect()).expect("the fixture's shape")
}
