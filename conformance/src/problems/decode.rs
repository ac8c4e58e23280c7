//! Problems for decoding: a few queries of each sequence, on keys and values in a cache.

use std::sync::LazyLock;

use ndarray::{Array3, Array4, Axis, s};
use stage1_reference::{Feature, Options, Output};

use super::attention::{Sign, by_key, first_alone, huge, late, small_weight, step};
use super::{Extent, Step, UNWRITTEN, compare, half_range, rms, rounded_scores};
use crate::compare::{Comparison, Tolerance};
use crate::inputs::{hash, normal, tensor};
use crate::{Dtype, oracle};

/// Attention of the last `nq` tokens of each sequence, with causal mask.
#[derive(Debug, Clone)]
pub struct Problem {
    name: String,
    /// Queries, `[B, H, nq, D]`.
    pub q: Array4<f32>,
    /// Keys as the cache has them, `[B, H_kv, max_seq, D]`; NaN from the
    /// length of each sequence on.
    pub k: Array4<f32>,
    /// Values, as the keys.
    pub v: Array4<f32>,
    /// Tokens of each sequence, `[B]`.
    pub lengths: Vec<usize>,
    /// The factor of the scores, if not `1 / sqrt(D)`.
    pub scale: Option<f32>,
    /// The number of keys before its own that a query sees, if not all.
    pub window: Option<usize>,
    /// The type of the cache, to which keys and values are rounded.
    pub dtype: Dtype,
    /// Tokens of a page, if the cache is paged.
    pub page_size: Option<usize>,
    /// False if the log-sum-exp is not asked for.
    pub wants_lse: bool,
    /// The addresses of keys and values modulo 16.
    pub offsets: [usize; 2],
    /// The scores or the sizes are extreme.
    extreme: bool,
}

/// The description of a problem.
#[derive(Debug, Clone)]
struct Row {
    heads: usize,
    kv_heads: usize,
    nq: usize,
    head_dim: usize,
    lengths: Vec<usize>,
    max_seq: usize,
    scale: Option<f32>,
    window: Option<usize>,
    dtype: Dtype,
    page_size: Option<usize>,
    wants_lse: bool,
    offsets: [usize; 2],
    scores: Scores,
}

/// The scores of a problem.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Scores {
    /// A few units.
    Normal,
    /// About −1e4, and a late key whose scores are a hundred above them.
    Late,
    /// About 85: each exponential is within f32, and the sum of a hundred is not.
    Plus85,
    /// About 0, and 78 from the 257th key on, with values of about 1e4: the exponentials by a
    /// maximum of 0 are within f32, and the sum of their products is not.
    Step78,
}

const DTYPES: [Dtype; 3] = [Dtype::F32, Dtype::F16, Dtype::Bf16];

/// All decoding problems.
pub fn problems() -> Vec<Problem> {
    static PROBLEMS: LazyLock<Vec<Problem>> =
        LazyLock::new(|| rows().into_iter().map(Row::problem).collect());
    PROBLEMS.clone()
}

fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    let ragged = [130, 0, 37];
    for head_dim in [1, 3, 16, 33, 40, 64, 72, 80, 96, 128, 256] {
        for dtype in DTYPES {
            let row = Row::new(4, 2, head_dim, &ragged);
            rows.push(Row { dtype, ..row });
        }
    }
    // Heads of a group and queries: from one row of q for each head of k and v to 192.
    for (i, (heads, kv_heads)) in [(3, 3), (8, 1), (6, 2), (12, 1)].into_iter().enumerate() {
        for (j, nq) in [1, 2, 5, 16].into_iter().enumerate() {
            let dtype = DTYPES[(i + j) % 3];
            let head_dim = [64, 128, 40, 256][(i + j) % 4];
            let row = Row::new(heads, kv_heads, head_dim, &[3, 90]);
            rows.push(Row { nq, dtype, ..row });
        }
    }
    for (i, page_size) in [16, 17, 32, 64, 128, 256].into_iter().enumerate() {
        for head_dim in [33, 64, 128] {
            let row = Row::new(8, 2, head_dim, &[300, 16, 0, 145]);
            rows.push(Row {
                nq: 1 + i % 2,
                dtype: DTYPES[i % 3],
                page_size: Some(page_size),
                ..row
            });
        }
    }
    for window in [0, 7, 100, usize::MAX] {
        for (nq, page_size) in [(1, None), (5, Some(16)), (16, None)] {
            let row = Row::new(4, 1, 64, &[250, 9]);
            rows.push(Row {
                nq,
                page_size,
                window: Some(window),
                ..row
            });
        }
    }
    // Of several queries, so that the mask hides a key whatever the scale.
    for scale in [0.0, 1.5, -0.5] {
        let row = Row::new(2, 1, 16, &[70]);
        rows.push(Row {
            nq: 3,
            scale: Some(scale),
            ..row
        });
    }
    // Scores of up to 1e4: without subtracting the maximum their exponentials overflow. The largest
    // has nearly all the weight. With a negative scale it is that of the least product.
    for scale in [1e3, -1e3] {
        rows.push(Row {
            scale: Some(scale),
            ..Row::new(2, 1, 16, &[70])
        });
    }
    for (scores, lengths) in [(Scores::Plus85, [130, 90]), (Scores::Step78, [400, 300])] {
        rows.push(Row {
            scores,
            ..Row::new(2, 1, 64, &lengths)
        });
    }
    // More keys than a tile has.
    rows.push(Row {
        scores: Scores::Late,
        ..Row::new(4, 2, 64, &[1100, 700])
    });
    // A group of more heads than a tile of tensor cores has rows.
    rows.push(Row {
        scores: Scores::Late,
        dtype: Dtype::F16,
        ..Row::new(40, 2, 64, &[1100, 700])
    });
    // So many blocks that few of them share the keys of a sequence.
    rows.push(Row {
        scores: Scores::Late,
        ..Row::new(66, 2, 16, &[1100])
    });
    // One column less than a whole number of warps, and of vectors, has.
    for head_dim in [31, 63, 127, 255] {
        rows.push(Row::new(2, 2, head_dim, &[5, 0, 2]));
    }
    // More keys than a block has room for scores of.
    rows.push(Row::new(1, 1, 4, &[20_000]));
    // Without lse; of several queries some see no key.
    for nq in [1, 3] {
        rows.push(Row {
            nq,
            wants_lse: false,
            ..Row::new(4, 2, 64, &[130, 0, 37])
        });
    }
    // So few keys that they are not split.
    rows.push(Row {
        wants_lse: false,
        ..Row::new(4, 2, 64, &[20, 7])
    });
    // Between the sizes of one row of threads and of two.
    for head_dim in [130, 191] {
        rows.push(Row::new(4, 2, head_dim, &[40, 3]));
    }
    // Keys and values whose rows would be vectors of four, if they did not begin beside one.
    for offsets in [[0, 4], [8, 0]] {
        rows.push(Row {
            offsets,
            ..Row::new(4, 2, 64, &[130, 37])
        });
    }
    // More heads, and more sequences, than the y or z dimension of a grid can have, without work.
    for row in [
        Row::new(MANY, MANY, 16, &[0]),
        Row::new(1, 1, 16, &[0; MANY]),
    ] {
        rows.push(Row { max_seq: 1, ..row });
    }
    // Nothing at all, no keys, no room for keys, one key, and full caches.
    rows.push(Row::new(4, 2, 16, &[]));
    rows.push(Row::new(0, 0, 16, &[5, 6]));
    rows.push(Row {
        nq: 0,
        ..Row::new(4, 2, 16, &[5, 6])
    });
    rows.push(Row::new(4, 2, 16, &[0, 0]));
    rows.push(Row {
        max_seq: 0,
        ..Row::new(4, 2, 128, &[0])
    });
    rows.push(Row {
        nq: 2,
        ..Row::new(4, 4, 128, &[1, 1])
    });
    rows.push(Row {
        max_seq: 64,
        ..Row::new(4, 2, 64, &[64, 63])
    });
    rows.push(Row {
        max_seq: 1000,
        ..Row::new(1, 1, 128, &[1000])
    });
    // One query for each head, on full caches; then on others.
    for (head_dim, lengths) in [
        (64, vec![128]),
        (128, vec![256; 2]),
        (160, vec![40]),
        (224, vec![40]),
        (256, vec![200]),
    ] {
        rows.push(Row {
            max_seq: lengths[0],
            ..Row::new(3, 3, head_dim, &lengths)
        });
    }
    rows.push(Row {
        max_seq: 640,
        scores: Scores::Late,
        ..Row::new(2, 2, 64, &[640])
    });
    for head_dim in [3, 40, 64, 136, 200, 256] {
        rows.push(Row::new(2, 2, head_dim, &ragged));
    }
    rows.push(Row {
        wants_lse: false,
        ..Row::new(2, 2, 64, &ragged)
    });
    rows.push(Row {
        scores: Scores::Late,
        ..Row::new(2, 2, 64, &[1100, 700])
    });
    rows
}

/// A random problem: a function of the seed.
pub fn random(seed: u64) -> Problem {
    let mut draws = 0;
    // A number below `end`.
    let mut draw = |end: usize| {
        draws += 1;
        (hash(seed, draws) % end as u64) as usize
    };
    let kv_heads = 1 + draw(2);
    let max_seq = 1 + draw(200);
    let batch = 1 + draw(3);
    let row = Row {
        heads: kv_heads * (1 + draw(5)),
        kv_heads,
        nq: [1, 1 + draw(16)][draw(2)],
        head_dim: [1 + draw(256), 8 * (1 + draw(32))][draw(2)],
        lengths: (0..batch).map(|_| draw(max_seq + 1)).collect(),
        max_seq,
        scale: (draw(3) == 0).then(|| draw(9) as f32 / 8.0 - 0.5),
        window: (draw(3) == 0).then(|| draw(max_seq + 10)),
        dtype: DTYPES[draw(3)],
        page_size: (draw(2) == 0).then(|| 16 + draw(49)),
        wants_lse: true,
        offsets: [0; 2],
        scores: Scores::Normal,
    };
    let mut problem = row.problem();
    problem.name = format!("seed {seed}: {}", problem.name);
    problem
}

/// One sequence with a full cache, whose traffic is counted.
pub fn counted(
    heads: usize,
    kv_heads: usize,
    head_dim: usize,
    max_seq: usize,
    dtype: Dtype,
) -> Problem {
    let row = Row::new(heads, kv_heads, head_dim, &[max_seq]);
    let row = Row {
        max_seq,
        dtype,
        ..row
    };
    row.problem()
}

/// Sequences of these lengths.
pub fn ragged(heads: usize, head_dim: usize, lengths: &[usize]) -> Problem {
    Row::new(heads, heads, head_dim, lengths).problem()
}

/// A problem whose rows of q and o would be vectors of four, if they did not begin beside one.
pub fn at_odd_places() -> Problem {
    let problem = ragged(2, 64, &[37, 90]);
    Problem {
        name: format!("{}_q_and_o_at_odd_places", problem.name),
        extreme: true,
        ..problem
    }
}

/// Thousands of keys that have weight together alone, as in [`super::attention::small_weights`];
/// and as many of which the last but one is a hundred above the others: by the maximum of an
/// earlier part, f32 does not hold its exponential.
pub fn far_apart() -> Problem {
    const LENGTHS: [usize; 2] = [9000, 8999];
    let mut problem = ragged(1, 4, &LENGTHS);
    problem.q.mapv_inplace(|_| 0.0);
    problem.q.slice_mut(s![.., .., .., 0]).fill(2.0);
    for (key, mut of_key) in problem.k.axis_iter_mut(Axis(2)).enumerate() {
        if key < LENGTHS[0] {
            of_key[[0, 0, 0]] = small_weight(key);
        }
        if key + 2 == LENGTHS[1] {
            of_key[[1, 0, 0]] = 100.0;
        }
    }
    problem.v.slice_mut(s![0, .., 0, ..]).fill(-1.0);
    Problem {
        name: format!("{}_far_apart", problem.name),
        extreme: true,
        ..problem
    }
}

/// One key, whose score looks like none, and no key, with q and o in longer buffers.
pub fn in_longer_buffers() -> [Problem; 2] {
    [1, 0].map(|length| {
        let mut problem = ragged(2, 16, &[length, 0]);
        let size = 2f32.powi(21); // of a score of −2^40
        let alone = |problem: ((_, _, _, usize), &mut f32), size| {
            let ((.., column), x) = problem;
            *x = first_alone(column, size);
        };
        problem.q.indexed_iter_mut().for_each(|x| alone(x, size));
        let mut keys = problem.k.slice_mut(s![.., .., ..length, ..]);
        keys.indexed_iter_mut().for_each(|x| alone(x, -size));
        Problem {
            name: format!("{}_in_longer_buffers", problem.name),
            extreme: true,
            ..problem
        }
    })
}

/// More heads or sequences than the y or z dimension of a grid can have.
const MANY: usize = 66_000;

/// A sequence with few tokens, in a cache that has room for many: with 4,096 more before it, it
/// begins behind 2³² elements, or behind 2³² rows.
pub fn far() -> Vec<Problem> {
    static PROBLEMS: LazyLock<Vec<Problem>> = LazyLock::new(|| {
        let of = |(head_dim, max_seq)| {
            let row = Row {
                max_seq,
                ..Row::new(2, 1, head_dim, &[40])
            };
            Problem {
                name: format!("the_last_of_4097_sequences_of_{max_seq}"),
                extreme: true,
                ..row.problem()
            }
        };
        FAR.into_iter().map(of).collect()
    });
    PROBLEMS.clone()
}

/// Head dimensions of [`far`], and the tokens that its cache has room for.
pub const FAR: [(usize, usize); 2] = [(16, (1 << 16) + 8), (1, (1 << 20) + 8)];

impl Row {
    fn new(heads: usize, kv_heads: usize, head_dim: usize, lengths: &[usize]) -> Self {
        Self {
            heads,
            kv_heads,
            nq: 1,
            head_dim,
            lengths: lengths.to_vec(),
            max_seq: lengths.iter().max().map_or(8, |longest| longest + 3),
            scale: None,
            window: None,
            dtype: Dtype::F32,
            page_size: None,
            wants_lse: true,
            offsets: [0; 2],
            scores: Scores::Normal,
        }
    }

    fn name(&self) -> String {
        let lengths = match &*self.lengths {
            [first, .., last] if self.lengths.len() == MANY => format!("{first}+…+{last}"),
            lengths => Vec::from_iter(lengths.iter().map(usize::to_string)).join("+"),
        };
        let mut name = format!(
            "b{}_h{}_kv{}_nq{}_n{}of{}_d{}_{}",
            self.lengths.len(),
            self.heads,
            self.kv_heads,
            self.nq,
            lengths,
            self.max_seq,
            self.head_dim,
            self.dtype
        );
        for (option, value) in [("page", self.page_size), ("window", self.window)] {
            if let Some(value) = value {
                name += &format!("_{option}{value}");
            }
        }
        if let Some(scale) = self.scale {
            name += &format!("_scale{scale:e}");
        }
        name += match self.scores {
            Scores::Normal => "",
            Scores::Late => "_minus1e4_late_outlier",
            Scores::Plus85 => "_plus85",
            Scores::Step78 => "_step78",
        };
        if !self.wants_lse {
            name += "_without_lse";
        }
        if let [k, v] = self.offsets
            && k + v > 0
        {
            name += &format!("_k_at_{k}_v_at_{v}");
        }
        name
    }

    fn problem(self) -> Problem {
        let (batch, seed) = (self.lengths.len(), self.head_dim as u64);
        let of_q = [batch, self.heads, self.nq, self.head_dim];
        let of_k = [batch, self.kv_heads, self.max_seq, self.head_dim];
        let cached = |mut x: Array4<f32>| {
            for (b, &length) in self.lengths.iter().enumerate() {
                x.slice_mut(s![b, .., length.., ..]).fill(f32::NAN);
            }
            x
        };
        let drawn = |seed, mean: f32, size: f32| {
            let drawn = tensor(of_k, seed, normal);
            cached(drawn.mapv_into(|x| self.dtype.round(size * (mean + x))))
        };
        let (q, k) = match self.scores {
            Scores::Normal => (tensor(of_q, seed + 1, normal), drawn(seed + 2, 0.0, 1.0)),
            Scores::Plus85 => (
                huge(of_q, seed + 1, 34.0, Sign::Plus),
                cached(huge(of_k, seed + 2, 20.0, Sign::Plus)),
            ),
            Scores::Step78 => {
                let (q, k) = by_key(of_q, of_k, |j| step(j / 4));
                (q, cached(k))
            }
            Scores::Late => {
                let mut k = huge(of_k, seed + 2, 320.0, Sign::Minus);
                for (mut of_sequence, &length) in k.outer_iter_mut().zip(&self.lengths) {
                    late(&mut of_sequence, length);
                }
                (huge(of_q, seed + 1, 256.0, Sign::Plus), cached(k))
            }
        };
        let size = if self.scores == Scores::Step78 {
            1e4
        } else {
            1.0
        };
        Problem {
            name: self.name(),
            extreme: self.scores != Scores::Normal
                || self.heads.max(batch) == MANY
                || self.scale.is_some_and(|scale| scale.abs() > 100.0),
            q,
            k,
            v: drawn(seed + 3, 1.0, size),
            lengths: self.lengths,
            scale: self.scale,
            window: self.window,
            dtype: self.dtype,
            page_size: self.page_size,
            wants_lse: self.wants_lse,
            offsets: self.offsets,
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
        let needs = [
            (self.scale.is_some(), Feature::Scale),
            (self.window.is_some(), Feature::Window),
            (self.q.dim().1 != self.k.dim().1, Feature::GroupedHeads),
        ];
        let needs = needs.into_iter().filter(|(needed, _)| *needed);
        needs.map(|(_, feature)| feature).collect()
    }

    fn needs_care(&self) -> bool {
        self.extreme || self.q.is_empty()
    }

    fn step(&self) -> Option<Step> {
        let (_, heads, nq, head_dim) = self.q.dim();
        let (_, kv_heads, max_seq, _) = self.k.dim();
        let plain = self.wants_lse && self.scale.is_none() && self.offsets == [0; 2];
        let full = self.lengths.iter().all(|&length| length == max_seq);
        let whole = plain && full && max_seq > 0 && head_dim.is_multiple_of(32);
        Some(if heads != kv_heads || nq != 1 {
            Step::Groups
        } else if whole {
            Step::Query
        } else {
            Step::Lengths
        })
    }

    fn extent(&self) -> Extent {
        let (batch, heads, _, _) = self.q.dim();
        Extent {
            matrices: batch * heads,
            length: 0,
        }
    }

    fn poisoned(&self) -> Output {
        let (batch, heads, nq, _) = self.q.dim();
        Output {
            o: Array4::from_elem(self.q.dim(), UNWRITTEN),
            lse: Array3::from_elem((batch, heads, nq), UNWRITTEN),
        }
    }

    fn answer(&self) -> Self::Answer {
        let (batch, heads, nq, _) = self.q.dim();
        let mut o = Array4::zeros(self.q.dim());
        let mut lse = Array3::zeros((batch, heads, nq));
        let window = self.window.unwrap_or(usize::MAX);
        let mut options = Options::default().causal().window(window, 0);
        options.scale = self.scale;
        // One sequence at a time: each is aligned bottom-right by its own length.
        for (b, &length) in self.lengths.iter().enumerate() {
            let q = self.q.slice(s![b..=b, .., .., ..]).to_owned();
            let [k, v] =
                [&self.k, &self.v].map(|x| x.slice(s![b..=b, .., ..length, ..]).to_owned());
            let (of_o, of_lse) = oracle::attention(&q, &k, &v, &options);
            o.slice_mut(s![b..=b, .., .., ..]).assign(&of_o);
            lse.slice_mut(s![b..=b, .., ..]).assign(&of_lse);
        }
        (o, lse)
    }

    fn compare(&self, output: &Output, (o, lse): &Self::Answer) -> Result<Vec<Comparison>, String> {
        let head_dim = self.q.dim().3;
        let longest = self.lengths.iter().max().unwrap_or(&0);
        // A sum over D for the score, and one over the keys for the output. All
        // sums are f32, and so is o.
        let tolerance = Tolerance::of_sum(f32::EPSILON.into(), head_dim + longest);
        let log_sum = Tolerance {
            relative: 4.0 * f64::from(f32::EPSILON),
            ..tolerance.floor(2.0)
        };
        let of_o = tolerance.floor(rms(&self.v));
        let of_scores = match longest {
            0 | 1 => 0.0, // the weight of one key is 1, whatever its score
            _ => rounded_scores(lse),
        };
        let of_o = of_o.and(of_scores * half_range(&self.v));
        let mut compared = vec![compare("o", &output.o, o, of_o)?];
        if self.wants_lse {
            compared.push(compare("lse", &output.lse, lse, log_sum)?);
        }
        Ok(compared)
    }
}

#[cfg(test)]
mod tests;
