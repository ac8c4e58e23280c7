//! A benched problem: sizes and mask of self-attention.

use std::fmt;

use serde::Serialize;
use stage1_reference::Sizes;
use stage4_flash_cuda::{BackwardKernel, Format};

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
    /// True with the causal mask.
    pub causal: bool,
    /// True if q, k, v and o are f16, not f32.
    pub f16: bool,
    /// True if the backward pass follows.
    pub backward: bool,
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
            causal: false,
            f16: false,
            backward: false,
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

    /// The FLOPs of the two products, and of the five of the backward pass, for the scores that are
    /// seen: half of all under the causal mask.
    pub fn flops(&self) -> f64 {
        let n = self.n as f64;
        let seen = if self.causal { n * n / 2.0 } else { n * n };
        let products = if self.backward { 7.0 } else { 2.0 };
        2.0 * products * product([self.batch, self.heads, self.head_dim]) * seen
    }

    /// The mask, as reports name it.
    pub fn mask(&self) -> &'static str {
        if self.causal { "causal" } else { "none" }
    }

    /// Bytes of q, k, v, o and lse; with the backward pass also of their gradients and of delta,
    /// which are as many.
    pub fn bytes(&self) -> f64 {
        let element = if self.f16 { 2.0 } else { 4.0 };
        let tensors = product([self.heads.saturating_add(self.kv_heads), 2, self.head_dim]);
        let forward = product([self.batch, self.n]) * (element * tensors + 4.0 * self.heads as f64);
        if self.backward {
            2.0 * forward
        } else {
            forward
        }
    }

    /// Bytes of the scores that stage 2 keeps; its backward pass keeps four tensors of that size.
    pub fn score_bytes(&self) -> f64 {
        let tensors = if self.backward { 4.0 } else { 1.0 };
        4.0 * tensors * product([self.batch, self.heads, self.n, self.n])
    }

    /// Bytes of the sums of dq that the library's backward pass keeps.
    pub fn sum_bytes(&self) -> f64 {
        let [_, kernel, _] = match self.f16 {
            true => BackwardKernel::tensor_cores(Format::F16),
            false => BackwardKernel::library(None),
        };
        let columns = if self.backward {
            kernel.row_of_sums(self.head_dim)
        } else {
            0
        };
        4.0 * product([self.batch, self.heads, self.n, columns])
    }
}

/// The product as a float, which cannot overflow.
fn product<const N: usize>(factors: [usize; N]) -> f64 {
    factors.into_iter().map(|factor| factor as f64).product()
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
            self.n,
            self.head_dim,
            self.mask()
        )?;
        if self.backward {
            write!(f, ", forward and backward")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_scores_that_are_seen_count() {
        let case = Case::full(2, 3, 10, 8);
        assert_eq!(case.flops(), 19200.0);
        let causal = true;
        assert_eq!(Case { causal, ..case }.flops(), 9600.0);
        let backward = true;
        assert_eq!(Case { backward, ..case }.flops(), 3.5 * 19200.0);
    }

    #[test]
    fn shared_heads_of_k_and_v_count_once() {
        let case = Case::full(2, 6, 10, 8);
        assert_eq!(case.bytes(), 4.0 * 12.0 * 10.0 * 33.0);
        let f16 = true;
        assert_eq!(Case { f16, ..case }.bytes(), 2.0 * 12.0 * 10.0 * 34.0);
        let shared = Case {
            kv_heads: 2,
            ..case
        };
        assert_eq!(case.bytes() - shared.bytes(), 4.0 * 2.0 * 8.0 * 10.0 * 8.0);
        assert_eq!((shared.group(), shared.groups()), (3, 4));
        assert_eq!(shared.score_bytes(), 4.0 * 12.0 * 100.0);
    }
}
