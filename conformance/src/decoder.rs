//! A decoder's forward pass in f64, written to be read: what the loaded
//! architecture and weights mean.

use half::{bf16, f16};
use stage6_pipeline::{
    Architecture, Block, Dtype, Host, Linear, Matrix, Mlp, Norm, Positions, Rope, Weights,
};

/// Elements of a row.
pub type Row = Vec<f64>;

/// The logits `[n][V]` after each of `tokens`.
///
/// # Panics
///
/// If the weights do not fit the architecture, or a token has no row.
pub fn logits(architecture: &Architecture, weights: &Weights<Host>, tokens: &[u32]) -> Vec<Row> {
    logits_rounded(architecture, weights, tokens, &|x| x)
}

/// The same where `round` rounds what the blocks multiply: the rows that enter a linear layer,
/// queries, keys and values.
///
/// # Panics
///
/// As [`logits`].
pub fn logits_rounded(
    architecture: &Architecture,
    weights: &Weights<Host>,
    tokens: &[u32],
    round: &dyn Fn(f64) -> f64,
) -> Vec<Row> {
    let embedding = rows(&weights.embedding);
    let mut x: Vec<Row> = tokens
        .iter()
        .map(|&token| embedding[token as usize].clone())
        .collect();
    if let Some(positions) = &weights.positions {
        add(&mut x, &rows(positions));
    }
    for (block, window) in weights.blocks.iter().zip(&architecture.windows) {
        let normed = rounded(normed(&x, &block.attention_norm, architecture), round);
        add(
            &mut x,
            &attention(&normed, block, *window, architecture, round),
        );

        let normed = rounded(self::normed(&x, &block.mlp_norm, architecture), round);
        let hidden = linear(&normed, &block.up)
            .iter()
            .map(|row| activated(row, architecture.mlp))
            .collect();
        add(&mut x, &linear(&rounded(hidden, round), &block.down));
    }
    let head = weights.head.as_ref().map_or(embedding, rows);
    product(&normed(&x, &weights.norm, architecture), &head)
}

fn attention(
    x: &[Row],
    block: &Block<Host>,
    window: Option<usize>,
    architecture: &Architecture,
    round: &dyn Fn(f64) -> f64,
) -> Vec<Row> {
    let Architecture {
        heads,
        kv_heads,
        head_dim: d,
        ..
    } = *architecture;
    let mut qkv = linear(x, &block.qkv);
    if let Positions::Rope(rope) = &architecture.positions {
        for (position, row) in qkv.iter_mut().enumerate() {
            let rotated = row[..(heads + kv_heads) * d].chunks_mut(d);
            rotated.for_each(|head| rotate(head, position, rope));
        }
    }
    let qkv = rounded(qkv, round);
    let attend = |(i, row): (usize, &Row)| -> Row {
        let first = window.map_or(0, |window| (i + 1).saturating_sub(window));
        let head = |h: usize| -> Row {
            let (k, v) = (
                heads + h * kv_heads / heads,
                heads + kv_heads + h * kv_heads / heads,
            );
            let part = |j: usize, head: usize| &qkv[j][head * d..][..d];
            let scores: Row = (first..=i)
                .map(|j| dot(&row[h * d..][..d], part(j, k)) / (d as f64).sqrt())
                .collect();
            let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let exps: Row = scores.iter().map(|score| (score - largest).exp()).collect();
            let sum: f64 = exps.iter().sum();
            let weighted = |e: usize| {
                exps.iter()
                    .zip(first..=i)
                    .map(|(p, j)| p / sum * part(j, v)[e])
                    .sum()
            };
            (0..d).map(weighted).collect()
        };
        (0..heads).flat_map(head).collect()
    };
    let attended = qkv.iter().enumerate().map(attend).collect();
    linear(&rounded(attended, round), &block.out)
}

fn rounded(mut rows: Vec<Row>, round: &dyn Fn(f64) -> f64) -> Vec<Row> {
    for value in rows.iter_mut().flatten() {
        *value = round(*value);
    }
    rows
}

/// Rotates a head `[D]` of queries or keys, in place.
pub fn rotate(head: &mut [f64], position: usize, rope: &Rope) {
    let half = head.len() / 2;
    let factor = f64::from(rope.attention_factor);
    for i in 0..half {
        // transformers rounds the angle to f32: at position 31 that is an error of 1e-6 radians.
        let angle = position as f32 * rope.inverse_frequencies[i];
        let (sin, cos) = f64::from(angle).sin_cos();
        let (a, b) = (head[i], head[i + half]);
        head[i] = (a * cos - b * sin) * factor;
        head[i + half] = (b * cos + a * sin) * factor;
    }
}

/// The hidden layer of an MLP after its activation.
pub fn activated(row: &Row, mlp: Mlp) -> Row {
    let gelu = |v: f64| {
        0.5 * v * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (v + 0.044715 * v.powi(3))).tanh())
    };
    match mlp {
        Mlp::Gelu => row.iter().map(|&v| gelu(v)).collect(),
        Mlp::SwiGlu => {
            let (gate, up) = row.split_at(row.len() / 2);
            gate.iter()
                .zip(up)
                .map(|(gate, up)| gate / (1.0 + (-gate).exp()) * up)
                .collect()
        }
    }
}

/// Rows, normalised.
pub fn normed(x: &[Row], norm: &Norm<Host>, architecture: &Architecture) -> Vec<Row> {
    let row = |x: &Row| -> Row {
        let mean = |values: &Row| values.iter().sum::<f64>() / values.len() as f64;
        let center = if norm.bias.is_some() { mean(x) } else { 0.0 };
        let moved: Row = x.iter().map(|v| v - center).collect();
        let square = mean(&moved.iter().map(|v| v * v).collect());
        let scale = 1.0 / (square + f64::from(architecture.norm_epsilon)).sqrt();
        let mut row: Row = moved
            .iter()
            .zip(&norm.weight)
            .map(|(v, &w)| v * scale * f64::from(w))
            .collect();
        add_bias(&mut row, norm.bias.as_ref());
        row
    };
    x.iter().map(row).collect()
}

/// `x · weightᵀ + bias` of each row.
///
/// # Panics
///
/// If the layer does not fit the rows.
pub fn linear(x: &[Row], layer: &Linear<Host>) -> Vec<Row> {
    let mut y = product(x, &rows(&layer.weight));
    y.iter_mut()
        .for_each(|row| add_bias(row, layer.bias.as_ref()));
    y
}

/// `x · weightᵀ`.
fn product(x: &[Row], weight: &[Row]) -> Vec<Row> {
    let row = |x| weight.iter().map(|weight| dot(weight, x)).collect();
    x.iter().map(|x| row(x)).collect()
}

fn add_bias(row: &mut Row, bias: Option<&Vec<f32>>) {
    if let Some(bias) = bias {
        assert_eq!(row.len(), bias.len());
        row.iter_mut()
            .zip(bias)
            .for_each(|(v, &b)| *v += f64::from(b));
    }
}

/// Adds to each row of `x` the row of `y` in its place.
///
/// # Panics
///
/// If `y` has fewer rows, or rows of another length.
pub fn add(x: &mut [Row], y: &[Row]) {
    assert!(x.len() <= y.len()); // a table has more
    for (x, y) in x.iter_mut().zip(y) {
        assert_eq!(x.len(), y.len());
        x.iter_mut().zip(y).for_each(|(x, y)| *x += y);
    }
}

/// `a · b`.
///
/// # Panics
///
/// If they have other lengths.
pub fn dot(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

const WHOLE: &str = "a matrix holds whole elements";

/// The rows of a matrix.
///
/// # Panics
///
/// If its bytes are not whole rows.
pub fn rows(matrix: &Matrix<Vec<u8>>) -> Vec<Row> {
    let element = |bytes: &[u8]| match matrix.dtype {
        Dtype::F32 => f32::from_le_bytes(bytes.try_into().expect(WHOLE)),
        Dtype::F16 => f16::from_le_bytes(bytes.try_into().expect(WHOLE)).to_f32(),
        Dtype::Bf16 => bf16::from_le_bytes(bytes.try_into().expect(WHOLE)).to_f32(),
    };
    let row = |bytes: &[u8]| {
        bytes
            .chunks(matrix.dtype.bytes())
            .map(|e| f64::from(element(e)))
            .collect()
    };
    let rows: Vec<Row> = matrix
        .bytes
        .chunks(matrix.columns * matrix.dtype.bytes())
        .map(row)
        .collect();
    assert_eq!(rows.len(), matrix.rows);
    rows
}
