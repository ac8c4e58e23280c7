//! One problem as its description: a row of the table, its name, and its tensors.

use ndarray::{Array4, ArrayViewMut3, Axis, s};
use stage1_reference::{BLOCK, Options, Sizes, Window};

use super::Problem;
use crate::inputs::{hash, normal, outlier, tensor, uniform};

/// One row of the table.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row {
    sizes: Sizes,
    values: Values,
    mask: Mask,
    causal: bool,
    window: Option<Window>,
    lengths: bool,
    blocks: Option<Blocks>,
    scale: Option<f32>,
}

/// The values of `q` and `k`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Values {
    /// Standard normal.
    Normal,
    /// Logits of about this size, up to the sign; all are exact in f32 and
    /// differ by multiples of 1/8.
    Huge(Sign),
    /// Logits of about −1e4, and a late key whose logits are a hundred above them.
    Late,
    /// Logits of about 85: each exponential is within f32, and the sum of a few hundred is not.
    Plus85,
    /// Logits that grow by 12.3 every 128 keys: a maximum that may lag behind by 20 powers of two
    /// leaves weights that half precision does not hold.
    Rising,
    /// Logits of about 0, and of 78 from the 65th key on, and values of about 1e4: the exponentials
    /// by a maximum of 0 are within f32, and the sum of their products is not.
    Step78,
    /// Logits of about 0, and of 11.5 from the 129th key on: 16.6 powers of two above a maximum of
    /// 0, so that exponentials by it are beyond half precision.
    Step11,
    /// Logits of about 0 and 30, query by query: a maximum that several queries share leaves every
    /// second one weights of e⁻³⁰, which half precision does not hold.
    RowsApart,
    /// Every query and key is 100 times a basis vector: a query sees only the keys with its own.
    OneHot,
    /// Normal with rare values of ten times the size.
    Outliers,
}

/// The sign of huge logits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::problems) enum Sign {
    Plus,
    Minus,
    Both,
    /// Minus in the first half of the rows, plus in the second: with a causal mask, hidden keys
    /// have the largest logits.
    Change,
}

/// The values of the additive mask.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Mask {
    None,
    /// Normal, rounded to eighths, and a third of it −inf.
    Random(Axes),
    /// As random, and every third row hides all keys.
    EmptyRows,
    /// Everything is hidden.
    Everything,
    /// The first keys, more than a tile of them, are hidden.
    LateKeys,
    /// A third of the values is the lowest finite one, which also hides a
    /// key where another is seen.
    Lowest,
}

/// Which blocks are seen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Blocks {
    All,
    None,
    /// Every other one, the first among them.
    Checkerboard,
    /// About half of them.
    Random(Axes),
}

/// The first two axes of a mask: batches and heads, or length 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Axes {
    pub per_batch: bool,
    pub per_head: bool,
}

impl Axes {
    pub(super) const ALL: [Self; 4] = [
        Self::new(false, false),
        Self::new(false, true),
        Self::new(true, false),
        Self::new(true, true),
    ];

    const fn new(per_batch: bool, per_head: bool) -> Self {
        Self {
            per_batch,
            per_head,
        }
    }

    fn name(self) -> &'static str {
        match (self.per_batch, self.per_head) {
            (false, false) => "",
            (false, true) => "_per_head",
            (true, false) => "_per_batch",
            (true, true) => "_per_batch_and_head",
        }
    }

    /// Batches and heads of the mask.
    fn batch_and_heads(self, sizes: &Sizes) -> (usize, usize) {
        let batch = if self.per_batch { sizes.batch } else { 1 };
        (batch, if self.per_head { sizes.heads } else { 1 })
    }
}

impl Row {
    pub(super) fn new(batch: usize, heads: usize, nq: usize, nk: usize, head_dim: usize) -> Self {
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
            window: None,
            lengths: false,
            blocks: None,
            scale: None,
        }
    }

    pub(super) fn kv_heads(mut self, kv_heads: usize) -> Self {
        self.sizes.kv_heads = kv_heads;
        self
    }

    pub(super) fn values(self, values: Values) -> Self {
        Self { values, ..self }
    }

    pub(super) fn mask(self, mask: Mask) -> Self {
        Self { mask, ..self }
    }

    pub(super) fn scale(mut self, scale: f32) -> Self {
        self.scale = Some(scale);
        self
    }

    pub(super) fn causal(mut self) -> Self {
        self.causal = true;
        self
    }

    pub(super) fn window(mut self, left: usize, right: usize) -> Self {
        self.window = Some(Window { left, right });
        self
    }

    pub(super) fn lengths(mut self) -> Self {
        self.lengths = true;
        self
    }

    pub(super) fn blocks(mut self, blocks: Blocks) -> Self {
        self.blocks = Some(blocks);
        self
    }

    /// Without and with the causal mask.
    pub(super) fn both(self) -> [Self; 2] {
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
        let mut name = format!("b{batch}_h{heads}");
        if kv_heads != heads {
            name += &format!("_hkv{kv_heads}");
        }
        name += &match nq == nk {
            true => format!("_n{nq}_d{head_dim}"),
            false => format!("_nq{nq}_nk{nk}_d{head_dim}"),
        };
        name += match self.values {
            Values::Normal => "",
            Values::Huge(Sign::Plus) => "_plus1e4",
            Values::Huge(Sign::Minus) => "_minus1e4",
            Values::Huge(Sign::Both) => "_both1e4",
            Values::Huge(Sign::Change) => "_minus_then_plus1e4",
            Values::Late => "_minus1e4_late_outlier",
            Values::Plus85 => "_plus85",
            Values::Rising => "_rising",
            Values::Step78 => "_step78",
            Values::Step11 => "_step11",
            Values::RowsApart => "_rows_apart",
            Values::OneHot => "_one_hot",
            Values::Outliers => "_outliers",
        };
        name += &match self.mask {
            Mask::None => String::new(),
            Mask::Random(axes) => format!("_mask{}", axes.name()),
            Mask::EmptyRows => "_mask_empty_rows".to_owned(),
            Mask::Everything => "_mask_everything".to_owned(),
            Mask::LateKeys => "_mask_late_keys".to_owned(),
            Mask::Lowest => "_mask_lowest".to_owned(),
        };
        name += &match self.blocks {
            None => String::new(),
            Some(Blocks::All) => "_blocks_all".to_owned(),
            Some(Blocks::None) => "_blocks_none".to_owned(),
            Some(Blocks::Checkerboard) => "_blocks_checkerboard".to_owned(),
            Some(Blocks::Random(axes)) => format!("_blocks{}", axes.name()),
        };
        if let Some(Window { left, right }) = self.window {
            let side = |keys| match keys {
                usize::MAX => "all".to_owned(),
                keys => format!("{keys}"),
            };
            name += &format!("_window_{}_{}", side(left), side(right));
        }
        if self.lengths {
            name += "_lengths";
        }
        if let Some(scale) = self.scale {
            name += &format!("_scale{scale}");
        }
        if self.causal {
            name += "_causal";
        }
        name
    }

    pub(super) fn problem(self) -> Problem {
        let sizes = self.sizes;
        let (batch, d) = (sizes.batch, sizes.head_dim);
        let q_shape = [batch, sizes.heads, sizes.nq, d];
        let k_shape = [batch, sizes.kv_heads, sizes.nk, d];
        let (q, k) = match self.values {
            Values::Normal => (tensor(q_shape, 31, normal), tensor(k_shape, 32, normal)),
            Values::Outliers => (tensor(q_shape, 31, outlier), tensor(k_shape, 32, outlier)),
            Values::Huge(sign) => (
                huge(q_shape, 31, 256.0, Sign::Plus),
                huge(k_shape, 32, 320.0, sign),
            ),
            Values::Late => {
                let mut k = huge(k_shape, 32, 320.0, Sign::Minus);
                for mut of_batch in k.outer_iter_mut() {
                    late(&mut of_batch, sizes.nk);
                }
                (huge(q_shape, 31, 256.0, Sign::Plus), k)
            }
            Values::Plus85 => (
                huge(q_shape, 31, 34.0, Sign::Plus),
                huge(k_shape, 32, 20.0, Sign::Plus),
            ),
            Values::Rising => by_key(q_shape, k_shape, |j| 12.3 * (j / 128) as f32),
            Values::Step78 => by_key(q_shape, k_shape, step),
            Values::Step11 => by_key(q_shape, k_shape, |j| if j < 128 { 0.0 } else { 11.5 }),
            Values::RowsApart => {
                let (mut q, k) = by_key(q_shape, k_shape, |_| 30.0);
                q.slice_mut(s![.., .., ..;2, 0]).fill(0.0);
                (q, k)
            }
            Values::OneHot => (one_hot(q_shape, 31), one_hot(k_shape, 32)),
        };
        // Not centred on 0, so that weights that do not add up to 1 are seen.
        let size = if self.values == Values::Step78 {
            1e4
        } else {
            1.0
        };
        let v = tensor(k_shape, 33, |seed, i| size * (1.0 + normal(seed, i)));
        let mut options = Options::default();
        options.scale = self.scale;
        options.causal = self.causal;
        options.window = self.window;
        options.key_lengths = self.lengths.then(|| self.key_lengths());
        options.mask = self.additive_mask();
        options.blocks = self.blocks.map(|blocks| self.block_mask(blocks));
        let extreme = self.values != Values::Normal || self.scale == Some(0.0);
        Problem {
            extreme,
            ..Problem::new(self.name(), q, k, v, options).with_padding()
        }
    }

    /// nk, 0, 1, and lengths around those of tiles and blocks.
    fn key_lengths(&self) -> Vec<usize> {
        let nk = self.sizes.nk;
        let lengths = [nk, 0, 65, 1, 64, nk.saturating_sub(1), 63];
        let lengths = lengths.into_iter().cycle().map(|length| length.min(nk));
        lengths.take(self.sizes.batch).collect()
    }

    fn additive_mask(&self) -> Option<Array4<f32>> {
        let nk = self.sizes.nk;
        let (batch, heads) = match self.mask {
            Mask::None => return None,
            Mask::Random(axes) => axes.batch_and_heads(&self.sizes),
            _ => (1, self.sizes.heads),
        };
        let mask = |seed, i: u64| {
            let (row, column) = (i / nk as u64, i % nk as u64);
            let hidden = uniform(seed + 1, i) < -0.33;
            match self.mask {
                Mask::Lowest if hidden => f32::MIN,
                Mask::Everything => f32::NEG_INFINITY,
                Mask::EmptyRows if row.is_multiple_of(3) => f32::NEG_INFINITY,
                Mask::LateKeys if column < 131 => f32::NEG_INFINITY,
                _ if hidden => f32::NEG_INFINITY,
                // Multiples of 1/8, so that adding them to huge logits stays exact.
                _ => (8.0 * normal(seed, i)).round() / 8.0,
            }
        };
        Some(tensor((batch, heads, self.sizes.nq, nk), 34, mask))
    }

    fn block_mask(&self, blocks: Blocks) -> Array4<bool> {
        let (batch, heads) = match blocks {
            Blocks::Random(axes) => axes.batch_and_heads(&self.sizes),
            _ => (1, 1),
        };
        let [rows, columns] = [self.sizes.nq, self.sizes.nk].map(|n| n.div_ceil(BLOCK));
        let shape = (batch, heads, rows, columns);
        Array4::from_shape_fn(shape, |(b, h, i, j)| match blocks {
            Blocks::All => true,
            Blocks::None => false,
            Blocks::Checkerboard => (i + j).is_multiple_of(2),
            Blocks::Random(_) => {
                let position = [b, h, i, j].iter().fold(0, |sum, &x| sum * 100 + x as u64);
                hash(36, position).is_multiple_of(2)
            }
        })
    }
}

/// Rows whose products with each other are ±81,920, of sizes 256 and 320, and a small integer:
/// every partial sum is exact in f32 (and every element in bf16), so that any order of summation
/// gives the same logits, about ±10,240 at D = 64.
pub(in crate::problems) fn huge(
    [b, h, n, d]: [usize; 4],
    seed: u64,
    size: f32,
    sign: Sign,
) -> Array4<f32> {
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
            Sign::Change if i < n / 2 => -size,
            Sign::Change => size,
        }
    })
}

/// Raises the logits of the last but one of `n` keys of a sequence, `[H, N, D]`, whose keys are
/// [`huge`]: a loop over tiles of keys finds its maximum late.
pub(in crate::problems) fn late(k: &mut ArrayViewMut3<'_, f32>, n: usize) {
    k.slice_mut(s![.., n - 2, 0]).mapv_inplace(|x| x + 4.0);
}

/// A logit that is 0 for 64 keys, and 78 for all behind them.
pub(in crate::problems) fn step(key: usize) -> f32 {
    if key < 64 { 0.0 } else { 78.0 }
}

/// Queries and keys whose logits are about `logit` of the key's number.
pub(in crate::problems) fn by_key(
    q_shape: [usize; 4],
    k_shape: [usize; 4],
    logit: impl Fn(usize) -> f32,
) -> (Array4<f32>, Array4<f32>) {
    let half = |seed, i| 0.5 * normal(seed, i);
    let (mut q, mut k) = (tensor(q_shape, 31, half), tensor(k_shape, 32, half));
    q.slice_mut(s![.., .., .., 0])
        .fill((q_shape[3] as f32).sqrt());
    for (j, mut of_key) in k.axis_iter_mut(Axis(2)).enumerate() {
        of_key.slice_mut(s![.., .., 0]).fill(logit(j));
    }
    (q, k)
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

#[cfg(test)]
mod tests {
    use super::*;

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
