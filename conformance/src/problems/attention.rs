//! Problems for attention on `[B, H, N, D]`.

use std::sync::LazyLock;

use ndarray::{Array3, Array4, s};
use stage1_reference::{Dropout, Feature, Options, Output, Sizes};

mod others;
mod random;
mod row;
mod table;

use super::{Extent, Step, UNWRITTEN, compare, half_range, rms, rounded_scores};
use crate::compare::{Comparison, Tolerance};
use crate::inputs::{normal, tensor};
use crate::layout::Layout;
use crate::{Dtype, oracle};

pub(super) use others::{first_alone, small_weight};
pub use others::{in_longer_buffers, low_key, others, scale_0, small_weights};
pub use random::random;
pub(super) use row::{Sign, by_key, huge, late, step};

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
    /// Scale, masks and dropout.
    pub options: Options,
    /// False if the log-sum-exp is not asked for, where a call can say so.
    pub wants_lse: bool,
    /// How q, k, v and o lie in device memory, if a suite does not choose it.
    pub layouts: [Layout; 4],
    dtype: Dtype,
    /// The values of q and k, or the scale, are extreme.
    extreme: bool,
}

/// All attention problems.
pub fn problems() -> Vec<Problem> {
    static PROBLEMS: LazyLock<Vec<Problem>> = LazyLock::new(|| drawn(table::rows()));
    PROBLEMS.clone()
}

/// Problems whose tiles are all whole, if they have 32 queries and keys, or 64 and more.
///
/// They are no part of the table, whose errors are compared with PyTorch's.
pub fn whole() -> Vec<Problem> {
    static PROBLEMS: LazyLock<Vec<Problem>> = LazyLock::new(|| drawn(table::whole()));
    PROBLEMS.clone()
}

/// Problems with dropout, of head dimensions 40, 64 and 128.
///
/// They are no part of the table: PyTorch draws other numbers.
pub fn with_dropout() -> Vec<Problem> {
    static PROBLEMS: LazyLock<Vec<Problem>> = LazyLock::new(|| {
        let rows = table::with_dropout().into_iter();
        rows.map(|(row, dropout)| row.problem().dropped(dropout))
            .collect()
    });
    PROBLEMS.clone()
}

fn drawn(rows: Vec<row::Row>) -> Vec<Problem> {
    rows.into_iter().map(row::Row::problem).collect()
}

/// A thousand keys of the same weight, and values of about 100: their sum is beyond half precision,
/// and their mean is not.
///
/// It is not in the table, because it says nothing about other types.
pub fn equal_keys() -> Problem {
    let q = tensor((1, 1, 17, 16), 31, normal);
    let k = Array4::zeros((1, 1, 1000, 16));
    let v = tensor((1, 1, 1000, 16), 33, |seed, i| 100.0 + normal(seed, i));
    let name = "b1_h1_nq17_nk1000_d16_equal_keys".to_owned();
    Problem {
        extreme: true,
        ..Problem::new(name, q, k, v, Options::default())
    }
}

/// Logits below the lowest number of half precision, and a causal mask.
///
/// It is not in the table, because it says nothing about other types.
pub fn below_half() -> Problem {
    table::below_half().problem()
}

/// Logits that grow by 11.5 from one tile of keys to another, and logits of neighbouring queries
/// that are 30 apart.
///
/// They are not in the table, because they say nothing about other types.
pub fn steps_of_half() -> [Problem; 2] {
    [table::step_11(), table::rows_apart()].map(row::Row::problem)
}

/// The batch of [`many_matrices`].
pub const MANY: usize = 65_538;

/// One query, and `nk` keys, in each of [`MANY`] sequences of one head: more than the y or z
/// dimension of a grid can have. Without keys they take little time.
///
/// It is not in the table: a simulated device takes seconds for so many blocks, and less
/// where options hide the keys.
pub fn many_matrices(nk: usize, head_dim: usize, options: Options) -> Problem {
    let rows_of = |rows, seed| tensor((MANY, 1, rows, head_dim), seed, normal);
    let name = format!("b{MANY}_h1_nq1_nk{nk}_d{head_dim}");
    Problem::new(
        name,
        rows_of(1, 31),
        rows_of(nk, 32),
        rows_of(nk, 33),
        options,
    )
    .with_padding()
}

/// A few queries and keys in each of 2,100 matrices, whose scores take a mebibyte: more than one
/// piece for an implementation that takes them in pieces.
///
/// It is not in the table, because it says nothing about rounding.
pub fn in_pieces() -> Problem {
    let rows_of = |rows, seed| tensor((3, 700, rows, 4), seed, normal);
    let name = "b3_h700_nq3_nk42_d4".to_owned();
    let [q, k, v] = [rows_of(3, 31), rows_of(42, 32), rows_of(42, 33)];
    Problem::new(name, q, k, v, Options::default())
}

/// Rows that would be vectors of four, if all tensors, or one of them, did not begin beside one.
///
/// They are not in the table: some rungs refuse them.
pub fn at_odd_places() -> Vec<Problem> {
    let rows_of = |rows, seed| tensor((1, 2, rows, 64), seed, normal);
    let [q, k, v] = [rows_of(17, 31), rows_of(33, 32), rows_of(33, 33)];
    let problem = |layouts, which| Problem {
        extreme: true,
        layouts,
        ..Problem::new(
            format!("b1_h2_nq17_nk33_d64{which}"),
            q.clone(),
            k.clone(),
            v.clone(),
            Options::default(),
        )
    };
    let alone = ["q", "k", "v", "o"].map(|name| {
        let layouts = ["q", "k", "v", "o"].map(|other| match other == name {
            true => Layout::Odd,
            false => Layout::Packed,
        });
        problem(layouts, format!("_{name}_at_an_odd_place"))
    });
    let odd = problem([Layout::Odd; 4], "_at_odd_places".to_owned());
    let even = problem([Layout::Even; 4], "_at_even_places".to_owned());
    [odd, even].into_iter().chain(alone).collect()
}

impl Problem {
    /// The problem with queries in the place of keys and values, and keys in that of queries.
    pub fn exchanged(self) -> Self {
        Self {
            name: format!("{}_exchanged", self.name),
            q: self.k,
            v: self.q.clone(),
            k: self.q,
            ..self
        }
    }

    /// A problem in f32.
    pub fn new(
        name: String,
        q: Array4<f32>,
        k: Array4<f32>,
        v: Array4<f32>,
        options: Options,
    ) -> Self {
        Self {
            name,
            q,
            k,
            v,
            options,
            wants_lse: true,
            layouts: [Layout::Packed; 4],
            dtype: Dtype::F32,
            extreme: false,
        }
    }

    /// The problem with NaN in the keys and values beyond the key lengths, which no query may read.
    pub fn with_padding(mut self) -> Self {
        for (b, &length) in self.options.key_lengths.iter().flatten().enumerate() {
            for x in [&mut self.k, &mut self.v] {
                x.slice_mut(s![b, .., length.., ..]).fill(f32::NAN);
            }
        }
        self
    }

    /// The problem with dropout.
    pub fn dropped(self, dropout: Dropout) -> Self {
        let Dropout {
            probability,
            seed,
            offset,
        } = dropout;
        Self {
            name: format!("{}_dropout{probability}_seed{seed}_{offset}", self.name),
            options: self.options.dropout(dropout),
            ..self
        }
    }

    /// The problem with q, k, v and o in another type: inputs are rounded to it, and o may be twice
    /// as far from the right result as one that is computed with every step rounded to it.
    pub fn stored_in(self, dtype: Dtype) -> Self {
        if dtype == self.dtype {
            return self;
        }
        let round = |x: Array4<f32>| x.mapv_into(|x| dtype.round(x));
        Self {
            name: format!("{}_{dtype}", self.name),
            q: round(self.q),
            k: round(self.k),
            v: round(self.v),
            dtype,
            ..self
        }
    }

    /// The same with so many columns, and with the same scores: behind the problem's own columns
    /// stand zeros, in o too. The scale becomes an option, that of the problem's own columns.
    pub fn in_columns(self, columns: usize) -> Self {
        let wide = |x: Array4<f32>| {
            let (batch, heads, rows, head_dim) = x.dim();
            let mut wide = Array4::zeros((batch, heads, rows, columns));
            wide.slice_mut(s![.., .., .., ..head_dim]).assign(&x);
            wide
        };
        let scale = self.options.scale;
        let scale = scale.unwrap_or_else(|| 1.0 / (self.sizes().head_dim as f32).sqrt());
        Self {
            name: format!("{}_in_{columns}_columns", self.name),
            q: wide(self.q),
            k: wide(self.k),
            v: wide(self.v),
            options: self.options.scale(scale),
            ..self
        }
    }

    /// The type of q, k, v and o.
    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// The problem without the log-sum-exp, which some calls need not give.
    pub fn without_lse(self) -> Self {
        Self {
            name: format!("{}_without_lse", self.name),
            wants_lse: false,
            ..self
        }
    }

    /// The largest error of o where each step is rounded to the problem's type. Extreme scores are
    /// not: a tolerance for 11 digits of 10,000 would let any mean of the values pass.
    fn naive_error(&self) -> f64 {
        let Self {
            q, k, v, options, ..
        } = self;
        let naive = oracle::attention_in(self.dtype, !self.extreme, q, k, v, options);
        let (right, _) = oracle::attention(q, k, v, options);
        let errors = naive.iter().zip(&right).map(|(a, b)| (a - b).abs());
        errors.fold(0.0, f64::max)
    }

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
    /// o and lse.
    type Answer = (Array4<f64>, Array3<f64>);

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

    fn needs_care(&self) -> bool {
        let Sizes { nq, nk, .. } = self.sizes();
        let empty = self.q.is_empty() || self.k.is_empty();
        let masked = self.options.causal && nq > nk;
        empty || masked || self.options.mask.is_some() || self.extreme
    }

    fn step(&self) -> Option<Step> {
        let Sizes {
            nq, nk, head_dim, ..
        } = self.sizes();
        let plain = self.wants_lse && self.options == Options::default();
        let whole = |size: usize| size > 0 && size.is_multiple_of(64);
        Some(match (nq, nk) {
            _ if self.options.causal => Step::Causal,
            _ if !plain || !head_dim.is_multiple_of(32) => Step::Ragged,
            (32, 32) => Step::Tile,
            _ if whole(nq) && whole(nk) => Step::Online,
            _ => Step::Ragged,
        })
    }

    fn extent(&self) -> Extent {
        let Sizes {
            batch,
            heads,
            nq,
            nk,
            ..
        } = self.sizes();
        Extent {
            matrices: if nk == 0 { 0 } else { batch * heads },
            length: (nq * nk).isqrt(),
        }
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
            o: Array4::from_elem((batch, heads, nq, head_dim), UNWRITTEN),
            lse: Array3::from_elem((batch, heads, nq), UNWRITTEN),
        }
    }

    fn answer(&self) -> Self::Answer {
        oracle::attention(&self.q, &self.k, &self.v, &self.options)
    }

    fn compare(&self, output: &Output, (o, lse): &Self::Answer) -> Result<Vec<Comparison>, String> {
        let Sizes { nk, head_dim, .. } = self.sizes();
        // A sum over D for the score, and one over nk for the output.
        let tolerance = Tolerance::of_sum(f32::EPSILON.into(), head_dim + nk);
        let of_o = match self.dtype {
            Dtype::F32 => tolerance.floor(rms(&self.v)),
            dtype => Tolerance {
                // The naive weight of one key is exactly 1. Weights of another size are rounded.
                relative: if nk == 1 { dtype.epsilon() / 2.0 } else { 0.0 },
                absolute: 2.0 * self.naive_error() + dtype.epsilon() * rms(&self.v),
            },
        };
        // In f16, too: where one key has all the weight, the naive form makes no error, and scores
        // in base 2 are rounded all the same.
        let of_scores = match nk {
            0 | 1 => 0.0, // the weight of one key is 1, whatever its score
            _ => rounded_scores(lse),
        };
        let of_o = of_o.and(of_scores * half_range(&self.v));
        // The rounding of the scores, which are a few units where they are not exact,
        // and of the result itself.
        let log_sum = Tolerance {
            relative: 4.0 * f64::from(f32::EPSILON),
            ..tolerance.floor(2.0)
        };
        let mut compared = vec![compare("o", &output.o, o, of_o)?];
        if self.wants_lse {
            compared.push(compare("lse", &output.lse, lse, log_sum)?);
        }
        Ok(compared)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_are_unique() {
        let problems = problems();
        let all = [problems, with_dropout()].concat();
        let names: HashSet<&str> = all.iter().map(|problem| &*problem.name).collect();
        assert_eq!(names.len(), all.len());
        assert!(names.contains("b1_h2_n65_d64_causal"));
    }

    #[test]
    fn no_two_operands_are_alike() {
        for problem in problems() {
            let Problem { name, q, k, v, .. } = &problem;
            assert!(q.is_empty() || k.is_empty() || k != v, "{name}");
            assert!(q.is_empty() || q != k, "{name}");
        }
    }

    /// Whatever the weights are, their mean of the values is no further from another than the
    /// values are from each other: a tolerance of that size would judge nothing.
    #[test]
    fn no_tolerance_lets_the_plain_mean_of_the_values_pass() {
        use super::super::Problem as _;
        let huge = |problem: &Problem| problem.name.contains("1e4");
        for problem in problems().into_iter().filter(huge) {
            for dtype in [Dtype::F32, Dtype::F16, Dtype::Bf16] {
                let problem = problem.clone().stored_in(dtype);
                let (o, lse) = problem.answer();
                let seen = lse.iter().any(|lse| lse.is_finite());
                let mean = problem.v.mean().filter(|_| seen && problem.sizes().nk > 1);
                let Some(mean) = mean else { continue };
                let output = Output {
                    o: o.mapv(|_| mean),
                    lse: lse.mapv(|x| x as f32),
                };
                let compared = problem.compare(&output, &(o, lse)).unwrap();
                assert!(!compared[0].passed(), "{}", problem.name);
                assert!(compared[1].passed(), "{}", problem.name);
            }
        }
    }

    #[test]
    fn a_tile_and_whole_tiles_come_before_other_sizes_and_masks() {
        use super::super::Problem as _;
        let all = problems().into_iter().chain(whole());
        let named = |name: &str| all.clone().find(|problem| problem.name == name).unwrap();
        for (name, step) in [
            ("b2_h3_n32_d64", Step::Tile),
            ("b1_h2_n32_d64_both1e4", Step::Tile),
            ("b1_h2_nq64_nk384_d64_rising", Step::Online),
            ("b1_h1_n128_d16", Step::Ragged),
            ("b1_h2_n65_d64", Step::Ragged),
            ("b2_h2_nq5_nk0_d16", Step::Ragged),
            ("b1_h2_nq17_nk65_d16_scale1.5", Step::Ragged),
            ("b1_h1_n128_d16_causal", Step::Causal),
        ] {
            assert_eq!(named(name).step(), Some(step), "{name}");
        }
        let steps = whole().into_iter().map(|problem| problem.step());
        assert!(
            steps
                .into_iter()
                .all(|step| [Some(Step::Tile), Some(Step::Online)].contains(&step))
        );
        let without_lse = named("b2_h3_n32_d64").without_lse();
        assert_eq!(without_lse.step(), Some(Step::Ragged));
    }

    #[test]
    fn every_option_is_asked_for_and_every_shape_fits() {
        let mut counts = std::collections::BTreeMap::new();
        for problem in problems().into_iter().chain(with_dropout()) {
            let sizes = problem.sizes();
            assert_eq!(
                problem.options.check("table", &sizes),
                Ok(()),
                "{}",
                problem.name
            );
            for feature in super::super::Problem::needs(&problem) {
                *counts.entry(feature).or_insert(0) += 1;
            }
        }
        assert_eq!(counts.len(), 8, "{counts:?}");
        assert!(counts.values().all(|&count| count >= 3), "{counts:?}");
    }
}
