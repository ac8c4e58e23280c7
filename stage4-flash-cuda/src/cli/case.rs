//! A benched problem: sizes and masks of self-attention.

use std::fmt;

use serde::Serialize;
use stage1_reference::{BLOCK, Sizes};

/// Self-attention, `[B, H, N, D]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub struct Case {
    /// Batch, `B`.
    pub batch: usize,
    /// Heads, `H`.
    pub heads: usize,
    /// Heads of k and v; divides `heads`.
    pub kv_heads: usize,
    /// Queries and keys, `N`.
    pub n: usize,
    /// Head dimension, `D`.
    pub head_dim: usize,
    /// The masks.
    #[serde(flatten)]
    pub masks: Masks,
}

/// The scores that a query sees: all, unless something is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize)]
pub struct Masks {
    /// True with the causal mask.
    pub causal: bool,
    /// With the causal mask: how many keys before its own a query sees.
    pub window: Option<usize>,
    /// One block of 64 × 64 scores in so many is seen.
    pub one_block_in: Option<usize>,
}

impl Case {
    /// As many heads of k and v as of q, and no mask.
    pub fn full(batch: usize, heads: usize, n: usize, head_dim: usize) -> Self {
        Self {
            batch,
            heads,
            kv_heads: heads,
            n,
            head_dim,
            masks: Masks::default(),
        }
    }

    /// The sizes of its tensors.
    pub fn sizes(&self) -> Sizes {
        Sizes {
            batch: self.batch,
            heads: self.heads,
            kv_heads: self.kv_heads,
            nq: self.n,
            nk: self.n,
            head_dim: self.head_dim,
        }
    }

    /// Heads that share a head of k and v.
    pub fn group(&self) -> usize {
        self.heads / self.kv_heads
    }

    /// Groups of matrices of scores that share k and v.
    pub fn groups(&self) -> usize {
        self.batch * self.kv_heads
    }

    /// One of its groups.
    pub fn one_group(&self) -> Self {
        Self {
            batch: 1,
            heads: self.group(),
            kv_heads: 1,
            ..*self
        }
    }

    /// The FLOPs of the two products, for the scores that are seen: half of all under the causal mask.
    pub fn flops(&self) -> f64 {
        let n = self.n as f64;
        // Rows and columns of the triangle beyond the window.
        let unseen = (n - 1.0 - self.masks.window.map_or(n, |left| left as f64)).max(0.0);
        let scores = match self.masks.causal {
            true => (n * n - unseen * (unseen + 1.0)) / 2.0,
            false => n * n,
        };
        let seen = scores / self.masks.one_block_in.unwrap_or(1) as f64;
        4.0 * product([self.batch, self.heads, self.head_dim]) * seen
    }

    /// Bytes of q, k, v, o and lse.
    pub fn bytes(&self) -> f64 {
        let tensors = product([self.heads.saturating_add(self.kv_heads), 2, self.head_dim]);
        4.0 * product([self.batch, self.n]) * (tensors + self.heads as f64)
    }

    /// Bytes of the scores that stage 2 keeps.
    pub fn score_bytes(&self) -> f64 {
        4.0 * product([self.batch, self.heads, self.n, self.n])
    }
}

/// The product as a float, which cannot overflow.
fn product<const N: usize>(factors: [usize; N]) -> f64 {
    factors.into_iter().map(|factor| factor as f64).product()
}

impl Masks {
    /// True if block (row, column) of the block mask is seen. The same share of each row and of each column is.
    pub fn block_is_seen(one_in: usize, row: usize, column: usize) -> bool {
        (row + column).is_multiple_of(one_in)
    }

    /// Blocks of a row or column of the block mask.
    pub fn blocks(n: usize) -> usize {
        n.div_ceil(BLOCK)
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (heads, kv_heads) = (self.heads, self.kv_heads);
        write!(f, "B = {}, H = {heads}, ", self.batch)?;
        if kv_heads != heads {
            write!(f, "{kv_heads} of them for k and v, ")?;
        }
        write!(
            f,
            "N = {}, D = {}, mask {}",
            self.n, self.head_dim, self.masks
        )
    }
}

impl fmt::Display for Masks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let band = match (self.causal, self.window) {
            (_, Some(left)) => Some(format!("window {left}")),
            (true, None) => Some("causal".to_owned()),
            (false, None) => None,
        };
        let blocks = self.one_block_in.map(|one_in| format!("1/{one_in}"));
        let masks: Vec<String> = band.into_iter().chain(blocks).collect();
        match masks.is_empty() {
            true => f.pad("none"),
            false => f.pad(&masks.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_scores_that_are_seen_count() {
        let case = Case::full(2, 3, 10, 8);
        assert_eq!(case.flops(), 19200.0);
        let flops = |causal, window, one_block_in| {
            let masks = Masks {
                causal,
                window,
                one_block_in,
            };
            Case { masks, ..case }.flops()
        };
        assert_eq!(flops(true, None, None), 9600.0);
        assert_eq!(flops(true, Some(10), None), 9600.0);
        assert_eq!(flops(true, Some(99), None), 9600.0);
        // 5 keys of each query, but for the triangle that the first ones have not, and half of the diagonal as above.
        assert_eq!(flops(true, Some(4), None), 4.0 * 48.0 * (50.0 - 10.0 - 5.0));
        assert_eq!(flops(true, Some(0), None), 4.0 * 48.0 * 5.0);
        assert_eq!(flops(false, None, Some(4)), 4800.0);
    }

    #[test]
    fn shared_heads_of_k_and_v_count_once() {
        let case = Case::full(2, 6, 10, 8);
        assert_eq!(case.bytes(), 4.0 * 12.0 * 10.0 * 33.0);
        let shared = Case {
            kv_heads: 2,
            ..case
        };
        assert_eq!(case.bytes() - shared.bytes(), 4.0 * 2.0 * 8.0 * 10.0 * 8.0);
        assert_eq!((shared.group(), shared.groups()), (3, 4));
        assert_eq!(shared.score_bytes(), 4.0 * 12.0 * 100.0);
    }
}
