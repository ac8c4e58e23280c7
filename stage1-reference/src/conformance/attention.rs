//! Problems for attention on `[B, H, N, D]`.

use ndarray::{Array3, Array4};

use super::{compare, rms};
use crate::compare::{Comparison, Tolerance};
use crate::inputs::{hash, normal, outlier, tensor, uniform};
use crate::{Feature, Options, Output, Sizes, oracle};

/// `softmax(scale · q kᵀ + mask) v`.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Problem {
    name: String,
    /// Queries, `[B, H, nq, D]`.
    pub q: Array4<f32>,
    /// Keys, `[B, H_kv, nk, D]`.
    pub k: Array4<f32>,
    /// Values, `[B, H_kv, nk, D]`.
    pub v: Array4<f32>,
    /// Scale and masks.
    pub options: Options,
}

/// One row of the table.
#[derive(Debug, Clone, Copy)]
struct Row {
    sizes: Sizes,
    values: Values,
    mask: Mask,
    causal: bool,
    scale: Option<f32>,
}

/// What `q` and `k` look like.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Values {
    /// Standard normal.
    Normal,
    /// Logits of about this size, up to the sign; all are exact in f32 and differ by multiples of 1/8.
    Huge(Sign),
    /// Every query and key is 100 times a basis vector: a query sees only the keys with its own.
    OneHot,
    /// Normal with rare values of ten times the size.
    Outliers,
}

/// The sign of huge logits.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Sign {
    Plus,
    Minus,
    Both,
}

/// What the additive mask looks like.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Mask {
    None,
    /// Normal, rounded to eighths, and a third of it −inf; `[B or 1, H or 1, nq, nk]`.
    Random {
        per_batch: bool,
        per_head: bool,
    },
    /// As random, and every third row hides all keys.
    EmptyRows,
    /// Everything is hidden.
    Everything,
}

/// All attention problems.
pub fn problems() -> Vec<Problem> {
    rows().into_iter().map(Row::problem).collect()
}

/// The table.
fn rows() -> Vec<Row> {
    let mut rows = Vec::new();

    // The sizes at which tiles begin, end and overflow.
    for n in [1, 65, 127, 129] {
        rows.extend(Row::new(1, 2, n, n, 64).both());
    }
    rows.extend(Row::new(1, 1, 1000, 1000, 32).both());
    for d in [1, 3, 40, 80, 111, 128, 256] {
        rows.push(Row::new(1, 2, 17, 33, d));
    }

    // nq ≠ nk. With nq > nk the causal mask leaves the first queries without a key.
    for (nq, nk) in [
        (1, 129),
        (1, 1000),
        (65, 129),
        (127, 128),
        (129, 65),
        (129, 1),
        (1000, 65),
    ] {
        rows.extend(Row::new(1, 2, nq, nk, 16).both());
    }

    // Batches and heads; grouped-query and multi-query attention.
    rows.push(Row::new(3, 4, 17, 33, 16));
    for kv_heads in [1, 2, 3] {
        rows.extend(Row::new(2, 6, 33, 65, 16).kv_heads(kv_heads).both());
    }
    rows.push(Row::new(257, 257, 1, 1, 1)); // more heads than the y and z dimensions of a grid reach

    // Nothing to compute, and nothing to see.
    for (batch, heads, nq, nk) in [
        (0, 2, 5, 7),
        (2, 0, 5, 7),
        (2, 2, 0, 7),
        (2, 2, 5, 0),
        (2, 2, 0, 0),
    ] {
        rows.extend(Row::new(batch, heads, nq, nk, 16).both());
    }

    // Additive masks, repeated along every combination of axes.
    for (per_batch, per_head) in [(false, false), (false, true), (true, false), (true, true)] {
        rows.push(Row::new(2, 3, 33, 65, 16).mask(Mask::Random {
            per_batch,
            per_head,
        }));
    }
    rows.extend(
        Row::new(2, 4, 65, 33, 16)
            .kv_heads(2)
            .mask(Mask::EmptyRows)
            .both(),
    );
    rows.push(
        Row::new(1, 2, 129, 127, 16)
            .mask(Mask::Random {
                per_batch: true,
                per_head: true,
            })
            .causal(),
    );
    rows.push(Row::new(1, 2, 17, 33, 16).mask(Mask::Everything));

    // Scales.
    for scale in [0.0, 1.5, -0.5] {
        rows.push(Row::new(1, 2, 17, 65, 16).scale(scale));
    }

    // Inputs that break a careless softmax.
    for sign in [Sign::Plus, Sign::Minus, Sign::Both] {
        rows.extend(
            Row::new(1, 2, 65, 129, 64)
                .values(Values::Huge(sign))
                .both(),
        );
    }
    rows.push(
        Row::new(1, 2, 65, 129, 64)
            .values(Values::Huge(Sign::Plus))
            .mask(Mask::EmptyRows),
    );
    rows.extend(Row::new(1, 2, 65, 129, 64).values(Values::OneHot).both());
    rows.extend(Row::new(1, 2, 129, 127, 64).values(Values::Outliers).both());
    rows
}

impl Row {
    fn new(batch: usize, heads: usize, nq: usize, nk: usize, head_dim: usize) -> Self {
        let sizes = Sizes {
            batch,
            heads,
            kv_heads: heads,
            nq,
            nk,
            head_dim,
        };
        Self {
            sizes,
            values: Values::Normal,
            mask: Mask::None,
            causal: false,
            scale: None,
        }
    }

    fn kv_heads(mut self, kv_heads: usize) -> Self {
        self.sizes.kv_heads = kv_heads;
        self
    }

    fn values(self, values: Values) -> Self {
        Self { values, ..self }
    }

    fn mask(self, mask: Mask) -> Self {
        Self { mask, ..self }
    }

    fn scale(self, scale: f32) -> Self {
        Self {
            scale: Some(scale),
            ..self
        }
    }

    fn causal(self) -> Self {
        Self {
            causal: true,
            ..self
        }
    }

    /// Without and with the causal mask.
    fn both(self) -> [Self; 2] {
        [self, self.causal()]
    }

    fn name(&self) -> String {
        let Sizes {
            batch,
            heads,
            kv_heads,
            nq,
            nk,
            head_dim,
        } = self.sizes;
        let kv = if kv_heads == heads {
            String::new()
        } else {
            format!("_hkv{kv_heads}")
        };
        let n = if nq == nk {
            format!("n{nq}")
        } else {
            format!("nq{nq}_nk{nk}")
        };
        let values = match self.values {
            Values::Normal => "",
            Values::Huge(Sign::Plus) => "_plus1e4",
            Values::Huge(Sign::Minus) => "_minus1e4",
            Values::Huge(Sign::Both) => "_both1e4",
            Values::OneHot => "_one_hot",
            Values::Outliers => "_outliers",
        };
        let mask = match self.mask {
            Mask::None => "",
            Mask::Random {
                per_batch: false,
                per_head: false,
            } => "_mask",
            Mask::Random {
                per_batch: false,
                per_head: true,
            } => "_mask_per_head",
            Mask::Random {
                per_batch: true,
                per_head: false,
            } => "_mask_per_batch",
            Mask::Random {
                per_batch: true,
                per_head: true,
            } => "_mask_per_batch_and_head",
            Mask::EmptyRows => "_mask_empty_rows",
            Mask::Everything => "_mask_everything",
        };
        let scale = self
            .scale
            .map_or(String::new(), |scale| format!("_scale{scale}"));
        let causal = if self.causal { "_causal" } else { "" };
        format!("b{batch}_h{heads}{kv}_{n}_d{head_dim}{values}{mask}{scale}{causal}")
    }

    fn problem(self) -> Problem {
        let Sizes {
            batch,
            heads,
            kv_heads,
            nq,
            nk,
            head_dim,
        } = self.sizes;
        let (q_shape, k_shape) = (
            [batch, heads, nq, head_dim],
            [batch, kv_heads, nk, head_dim],
        );
        let (q, k) = match self.values {
            Values::Normal => (tensor(q_shape, 31, normal), tensor(k_shape, 32, normal)),
            Values::Outliers => (tensor(q_shape, 31, outlier), tensor(k_shape, 32, outlier)),
            Values::Huge(sign) => (
                huge(q_shape, 31, 256.0, Sign::Plus),
                huge(k_shape, 32, 320.0, sign),
            ),
            Values::OneHot => (one_hot(q_shape, 31), one_hot(k_shape, 32)),
        };
        // Not centred on 0, so that weights that do not add up to 1 are seen.
        let v = tensor(k_shape, 33, |seed, i| 1.0 + normal(seed, i));
        let mask = match self.mask {
            Mask::None => None,
            Mask::Random {
                per_batch,
                per_head,
            } => Some((
                if per_batch { batch } else { 1 },
                if per_head { heads } else { 1 },
            )),
            Mask::EmptyRows | Mask::Everything => Some((1, heads)),
        };
        let mask = mask.map(|(batch, heads)| {
            let row = |i: u64| i / nk as u64;
            tensor((batch, heads, nq, nk), 34, |seed, i| match self.mask {
                Mask::Everything => f32::NEG_INFINITY,
                Mask::EmptyRows if row(i).is_multiple_of(3) => f32::NEG_INFINITY,
                _ if uniform(seed + 1, i) < -0.33 => f32::NEG_INFINITY,
                // Multiples of 1/8, so that adding them to huge logits stays exact.
                _ => (8.0 * normal(seed, i)).round() / 8.0,
            })
        });
        let options = Options {
            scale: self.scale,
            causal: self.causal,
            mask,
            ..Options::default()
        };
        Problem {
            name: self.name(),
            q,
            k,
            v,
            options,
        }
    }
}

/// Rows whose products with each other are ±81,920 and a small integer: every partial sum is exact in f32 (and every
/// element in bf16), so that any order of summation gives the same logits, about ±10,240 at D = 64.
fn huge([b, h, n, d]: [usize; 4], seed: u64, size: f32, sign: Sign) -> Array4<f32> {
    Array4::from_shape_fn((b, h, n, d), |(z, y, i, x)| {
        let row = ((z * h + y) * n + i) as u64;
        if x > 0 {
            return (hash(seed, row * d as u64 + x as u64) % 3) as f32 - 1.0;
        }
        match sign {
            Sign::Plus => size,
            Sign::Minus => -size,
            Sign::Both if hash(seed + 1, row).is_multiple_of(2) => size,
            Sign::Both => -size,
        }
    })
}

/// Rows that are 100 in one element and 0 elsewhere.
fn one_hot([b, h, n, d]: [usize; 4], seed: u64) -> Array4<f32> {
    Array4::from_shape_fn((b, h, n, d), |(z, y, i, x)| {
        let row = ((z * h + y) * n + i) as u64;
        if hash(seed, row) % d as u64 == x as u64 {
            100.0
        } else {
            0.0
        }
    })
}

impl Problem {
    /// The sizes.
    pub fn sizes(&self) -> Sizes {
        let (batch, heads, nq, head_dim) = self.q.dim();
        let (_, kv_heads, nk, _) = self.k.dim();
        Sizes {
            batch,
            heads,
            kv_heads,
            nq,
            nk,
            head_dim,
        }
    }
}

impl super::Problem for Problem {
    type Output = Output;

    fn name(&self) -> &str {
        &self.name
    }

    fn needs(&self) -> Vec<Feature> {
        let mut features = self.options.features();
        let Sizes {
            heads, kv_heads, ..
        } = self.sizes();
        if heads != kv_heads {
            features.push(Feature::GroupedHeads);
        }
        features
    }

    fn poisoned(&self) -> Output {
        let Sizes {
            batch,
            heads,
            nq,
            head_dim,
            ..
        } = self.sizes();
        Output {
            o: Array4::from_elem((batch, heads, nq, head_dim), f32::NAN),
            lse: Array3::from_elem((batch, heads, nq), f32::NAN),
        }
    }

    fn judge(&self, output: &Output) -> Result<Vec<Comparison>, String> {
        let (o, lse) = oracle::attention(&self.q, &self.k, &self.v, &self.options);
        let Sizes { nk, head_dim, .. } = self.sizes();
        // A sum over D for the score, and one over nk for the output.
        let tolerance = Tolerance::of_sum(f32::EPSILON.into(), head_dim + nk);
        // The rounding of the scores, which are a few units where they are not exact, and of the result itself.
        let log_sum = Tolerance {
            relative: 4.0 * f64::from(f32::EPSILON),
            ..tolerance.floor(2.0)
        };
        Ok(vec![
            compare("o", &output.o, &o, tolerance.floor(rms(&self.v)))?,
            compare("lse", &output.lse, &lse, log_sum)?,
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::s;
    use std::collections::HashSet;

    #[test]
    fn names_are_unique() {
        let rows = rows();
        let names: HashSet<String> = rows.iter().map(Row::name).collect();
        assert_eq!(names.len(), rows.len());
        assert!(names.contains("b1_h2_n65_d64_causal"));
    }

    #[test]
    fn no_two_operands_are_alike() {
        for problem in problems() {
            assert!(
                problem.q.is_empty() || problem.k.is_empty() || problem.k != problem.v,
                "{}",
                problem.name
            );
            assert!(
                problem.q.is_empty() || problem.q != problem.k,
                "{}",
                problem.name
            );
        }
    }

    #[test]
    fn huge_logits_are_huge_and_exact() {
        let problem = Row::new(1, 2, 5, 7, 64)
            .values(Values::Huge(Sign::Both))
            .problem();
        let (q, k) = (
            problem.q.slice(s![0, 1, 2, ..]),
            problem.k.slice(s![0, 1, 3, ..]),
        );
        let exact: f64 = q
            .iter()
            .zip(k)
            .map(|(&q, &k)| f64::from(q) * f64::from(k))
            .sum();
        let backwards: f32 = q.iter().rev().zip(k.iter().rev()).map(|(q, k)| q * k).sum();
        assert_eq!(f64::from(backwards), exact);
        assert!((exact / 8.0).abs() > 1e4);
    }
}
