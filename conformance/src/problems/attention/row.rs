//! One problem as its description: a row of the table, its name, and its tensors.

use ndarray::{Array4, s};
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

/// What `q` and `k` look like.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Values {
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
pub(super) enum Sign {
    Plus,
    Minus,
    Both,
}

/// What the additive mask looks like.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Mask {
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
    /// The first keys, more than a tile of them, are hidden.
    LateKeys,
    /// A third of the values is the lowest finite one, which also hides a key where another is seen.
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
    Random {
        per_batch: bool,
        per_head: bool,
    },
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

    pub(super) fn scale(self, scale: f32) -> Self {
        Self {
            scale: Some(scale),
            ..self
        }
    }

    pub(super) fn causal(self) -> Self {
        Self {
            causal: true,
            ..self
        }
    }

    pub(super) fn window(self, left: usize, right: usize) -> Self {
        Self {
            window: Some(Window { left, right }),
            ..self
        }
    }

    pub(super) fn lengths(self) -> Self {
        Self {
            lengths: true,
            ..self
        }
    }

    pub(super) fn blocks(self, blocks: Blocks) -> Self {
        Self {
            blocks: Some(blocks),
            ..self
        }
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
            Mask::LateKeys => "_mask_late_keys",
            Mask::Lowest => "_mask_lowest",
        };
        let blocks = match self.blocks {
            None => "",
            Some(Blocks::All) => "_blocks_all",
            Some(Blocks::None) => "_blocks_none",
            Some(Blocks::Checkerboard) => "_blocks_checkerboard",
            Some(Blocks::Random {
                per_batch,
                per_head,
            }) => match (per_batch, per_head) {
                (false, false) => "_blocks",
                (false, true) => "_blocks_per_head",
                (true, false) => "_blocks_per_batch",
                (true, true) => "_blocks_per_batch_and_head",
            },
        };
        let window = self.window.map_or(String::new(), |Window { left, right }| {
            let side = |keys| {
                if keys == usize::MAX {
                    "all".to_owned()
                } else {
                    format!("{keys}")
                }
            };
            format!("_window_{}_{}", side(left), side(right))
        });
        let lengths = if self.lengths { "_lengths" } else { "" };
        let scale = self
            .scale
            .map_or(String::new(), |scale| format!("_scale{scale}"));
        let causal = if self.causal { "_causal" } else { "" };
        format!(
            "b{batch}_h{heads}{kv}_{n}_d{head_dim}{values}{mask}{blocks}{window}{lengths}{scale}{causal}"
        )
    }

    pub(super) fn problem(self) -> Problem {
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
        let (q, mut k) = match self.values {
            Values::Normal => (tensor(q_shape, 31, normal), tensor(k_shape, 32, normal)),
            Values::Outliers => (tensor(q_shape, 31, outlier), tensor(k_shape, 32, outlier)),
            Values::Huge(sign) => (
                huge(q_shape, 31, 256.0, Sign::Plus),
                huge(k_shape, 32, 320.0, sign),
            ),
            Values::OneHot => (one_hot(q_shape, 31), one_hot(k_shape, 32)),
        };
        // Not centred on 0, so that weights that do not add up to 1 are seen.
        let mut v = tensor(k_shape, 33, |seed, i| 1.0 + normal(seed, i));
        let mut options = Options::default();
        options.scale = self.scale;
        options.causal = self.causal;
        options.window = self.window;
        options.key_lengths = self.lengths.then(|| self.key_lengths());
        options.mask = self.additive_mask();
        options.blocks = self.blocks.map(|blocks| self.block_mask(blocks));
        for (b, &length) in options.key_lengths.iter().flatten().enumerate() {
            k.slice_mut(s![b, .., length.., ..]).fill(f32::NAN);
            v.slice_mut(s![b, .., length.., ..]).fill(f32::NAN);
        }
        Problem {
            name: self.name(),
            q,
            k,
            v,
            options,
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
        let Sizes {
            batch,
            heads,
            nq,
            nk,
            ..
        } = self.sizes;
        let (batch, heads) = match self.mask {
            Mask::None => return None,
            Mask::Random {
                per_batch,
                per_head,
            } => (
                if per_batch { batch } else { 1 },
                if per_head { heads } else { 1 },
            ),
            _ => (1, heads),
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
        Some(tensor((batch, heads, nq, nk), 34, mask))
    }

    fn block_mask(&self, blocks: Blocks) -> Array4<bool> {
        let Sizes {
            batch,
            heads,
            nq,
            nk,
            ..
        } = self.sizes;
        let (batch, heads) = match blocks {
            Blocks::Random {
                per_batch,
                per_head,
            } => (
                if per_batch { batch } else { 1 },
                if per_head { heads } else { 1 },
            ),
            _ => (1, 1),
        };
        let shape = (batch, heads, nq.div_ceil(BLOCK), nk.div_ceil(BLOCK));
        Array4::from_shape_fn(shape, |(b, h, i, j)| match blocks {
            Blocks::All => true,
            Blocks::None => false,
            Blocks::Checkerboard => (i + j).is_multiple_of(2),
            Blocks::Random { .. } => {
                let position = [b, h, i, j].iter().fold(0, |sum, &x| sum * 100 + x as u64);
                hash(36, position).is_multiple_of(2)
            }
        })
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
