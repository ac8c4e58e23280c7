use serde::{Deserialize, Serialize};

use crate::Error;

/// The sizes of one attention problem, checked against each other.
///
/// `q` and `o` are `[batch, heads, nq, head_dim]`, `k` and `v` are
/// `[batch, kv_heads, nk, head_dim]`. Any of `batch`, `heads`, `nq` and `nk` may be 0; `head_dim`
/// is 1 to [`Sizes::MAX_HEAD_DIM`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Sizes {
    /// Sequences in the batch, `B`.
    pub batch: usize,
    /// Heads of `q` and `o`, `H`.
    pub heads: usize,
    /// Heads of `k` and `v`, `H_kv`; divides `heads`. Query head `h` reads
    /// key/value head `h / (H / H_kv)`.
    pub kv_heads: usize,
    /// Rows of `q` and `o`.
    pub nq: usize,
    /// Rows of `k` and `v`.
    pub nk: usize,
    /// Elements of a row, `D`, 1 to 256.
    pub head_dim: usize,
}

impl Sizes {
    /// The largest head dimension.
    pub const MAX_HEAD_DIM: usize = 256;

    /// Reads the sizes off the shapes of `q`, `k` and `v`, each `[B, H, N, D]`.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] names the first of `q`, `k`, `v` that does not fit; [`Error::HeadGroups`]
    /// says that the heads do not divide. `operation` is the caller's name, for the message.
    pub fn of(
        operation: &'static str,
        q: (usize, usize, usize, usize),
        k: (usize, usize, usize, usize),
        v: (usize, usize, usize, usize),
    ) -> Result<Self, Error> {
        let list = |(b, h, n, d)| [b, h, n, d];
        let (batch, heads, nq, head_dim) = q;
        let (_, kv_heads, nk, _) = k;
        if (k.0, k.3) != (batch, head_dim) {
            let expected = format!("[{batch}, H_kv, nk, {head_dim}] to fit `q`");
            return Err(Error::shape(operation, "k", &list(k), expected));
        }
        if v != k {
            let expected = format!("the shape {:?} of `k`", list(k));
            return Err(Error::shape(operation, "v", &list(v), expected));
        }
        let sizes = Self {
            batch,
            heads,
            kv_heads,
            nq,
            nk,
            head_dim,
        };
        sizes.check(operation)?;
        Ok(sizes)
    }

    /// Checks sizes that were filled in by hand: `kv_heads` divides `heads`,
    /// and `head_dim` is 1 to 256.
    ///
    /// # Errors
    ///
    /// [`Error::HeadGroups`] or [`Error::Shape`]. `operation` is the
    /// caller's name, for the message.
    pub fn check(&self, operation: &'static str) -> Result<(), Error> {
        let (heads, kv_heads, head_dim) = (self.heads, self.kv_heads, self.head_dim);
        // No heads at all is an empty problem, not a wrong one.
        if heads != 0 && (kv_heads == 0 || !heads.is_multiple_of(kv_heads)) {
            return Err(Error::HeadGroups {
                operation,
                heads,
                kv_heads,
            });
        }
        if !(1..=Self::MAX_HEAD_DIM).contains(&head_dim) {
            let actual = [self.batch, heads, self.nq, head_dim];
            let expected = format!("a head dimension of 1 to {}", Self::MAX_HEAD_DIM);
            return Err(Error::shape(operation, "q", &actual, expected));
        }
        Ok(())
    }

    /// Number of query heads that share one key/value head, `H / H_kv` (1 if there are no heads).
    pub fn group(&self) -> usize {
        self.heads.checked_div(self.kv_heads).unwrap_or(1).max(1)
    }

    /// `1 / sqrt(D)`, the scale used where none is given.
    pub fn default_scale(&self) -> f32 {
        1.0 / (self.head_dim as f32).sqrt()
    }
}
