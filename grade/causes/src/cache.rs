//! An update of a cache that writes tokens to the wrong slots.

use conformance::compare::{Comparison, Tolerance};
use conformance::problems::Problem;
use ndarray::{Array4, Zip, s};

use super::written::unless_in_place;
use super::{Cause, Explained, Hypothesis, Lazy};

/// Keys and values of a cache, each `[B, H_kv, max_seq, D]` f32.
pub type Cached<T> = [Array4<T>; 2];

/// New tokens for a cache in f32.
#[derive(Debug, Clone)]
pub struct Update {
    /// The cache before the call.
    pub before: Cached<f32>,
    /// The new keys and values, `[B, H_kv, n, D]`.
    pub rows: [Array4<f32>; 2],
    /// The number of the n rows of each sequence that are tokens.
    pub counts: Vec<usize>,
    /// The length of each sequence, new tokens included.
    pub lengths: Vec<usize>,
    /// True if the cache has other sequences before these, without tokens, of more than 2³² elements.
    pub far: bool,
}

impl Update {
    /// The cache with row `i` of sequence `b` in the slot that `slot(length, count, i)` gives, if that exists.
    fn with(&self, slot: impl Fn(usize, usize, usize) -> Option<usize>) -> Cached<f64> {
        self.entered([0, 1], slot)
    }

    /// As [`Update::with`], with zeros for the rows that are no tokens.
    fn with_zeros(&self, slot: impl Fn(usize, usize, usize) -> Option<usize>) -> Cached<f64> {
        let mut tokens = self.clone();
        for rows in &mut tokens.rows {
            for (b, &count) in self.counts.iter().enumerate() {
                rows.slice_mut(s![b, .., count.., ..]).fill(0.0);
            }
        }
        tokens.with(slot)
    }

    /// The cache with the rows that lie where they would if heads of the new rows had so many.
    fn with_rows_apart(&self, many: usize) -> Cached<f64> {
        let mut other = self.clone();
        for rows in &mut other.rows {
            let (_, heads, _, head_dim) = rows.dim();
            let flat = Vec::from_iter(rows.iter().copied());
            *rows = Array4::from_shape_fn(rows.raw_dim(), |(b, h, i, d)| {
                let row = (b * heads + h) * many + i;
                flat.get(row * head_dim + d).copied().unwrap_or(f32::NAN)
            });
        }
        other.with(right)
    }

    /// As [`Update::with`], with keys and values from these of the rows.
    fn entered(
        &self,
        from: [usize; 2],
        slot: impl Fn(usize, usize, usize) -> Option<usize>,
    ) -> Cached<f64> {
        [0, 1].map(|tensor| {
            let mut cache = self.before[tensor].mapv(f64::from);
            let rows = &self.rows[from[tensor]];
            let (batch, _, n, _) = rows.dim();
            for b in 0..batch {
                for i in 0..n {
                    let slot = slot(self.lengths[b], self.counts[b], i);
                    if let Some(slot) = slot.filter(|&slot| slot < cache.dim().2) {
                        let row = rows.slice(s![b, .., i, ..]).mapv(f64::from);
                        cache.slice_mut(s![b, .., slot, ..]).assign(&row);
                    }
                }
            }
            cache
        })
    }
}

/// The slot of a token: the last `count` of `length`.
fn right(length: usize, count: usize, i: usize) -> Option<usize> {
    (i < count).then(|| length - count + i)
}

impl Problem for Update {
    type Output = Cached<f32>;
    type Answer = Cached<f64>;

    fn name(&self) -> &str {
        match self.far {
            true => "update_of_the_last_of_4097_sequences_of_65544",
            false => "update",
        }
    }

    fn needs_care(&self) -> bool {
        self.far
    }

    fn poisoned(&self) -> Cached<f32> {
        self.before.clone()
    }

    fn answer(&self) -> Cached<f64> {
        self.with(right)
    }

    /// To the last bit; what is NaN must stay so.
    fn compare(
        &self,
        output: &Cached<f32>,
        answer: &Cached<f64>,
    ) -> Result<Vec<Comparison>, String> {
        let exact = Tolerance {
            relative: 0.0,
            absolute: 0.0,
        };
        let compared = [("k", 0), ("v", 1)].map(|(name, tensor)| {
            let (mut actual, mut expected) = (output[tensor].clone(), answer[tensor].clone());
            if actual.shape() != expected.shape() {
                return Err(format!("`{name}` has another shape"));
            }
            Zip::from(&mut actual)
                .and(&mut expected)
                .for_each(|actual, expected| {
                    if actual.is_nan() && expected.is_nan() {
                        (*actual, *expected) = (0.0, 0.0);
                    }
                });
            Ok(Comparison::new(name, actual.view(), expected.view(), exact))
        });
        compared.into_iter().collect()
    }
}

impl Explained for Update {
    fn hypotheses<'a>(&'a self, output: &'a Cached<f32>) -> Vec<Hypothesis<Lazy<'a, Cached<f64>>>> {
        type Slot = fn(usize, usize, usize) -> Option<usize>;
        let slots: [(&str, Slot); 4] = [
            (
                "tokens are written one slot too late",
                |length, count, i| right(length, count, i).map(|slot| slot + 1),
            ),
            (
                "tokens are written one slot too early",
                |length, count, i| right(length, count, i).and_then(|slot| slot.checked_sub(1)),
            ),
            (
                "tokens are written behind the length, which counts them already",
                |length, count, i| (i < count).then_some(length + i),
            ),
            ("tokens are written from slot 0 on", |_, count, i| {
                (i < count).then_some(i)
            }),
        ];
        let slots = slots.map(|(detail, slot)| {
            Hypothesis::new(Cause::StaleCacheSlot, detail, slot).lazily(|slot| self.with(slot))
        });
        let padding: Slot = |length, count, i| Some(length - count + i);
        let padding = Hypothesis::new(Cause::WritesPadding, "", padding);
        let sources = [
            ("keys and values are exchanged", [1, 0]),
            ("keys are written for values", [0, 0]),
            ("values are written for keys", [1, 1]),
        ];
        let sources = sources.map(|(detail, from)| {
            let hypothesis = Hypothesis::new(Cause::KeysForValues, detail, from);
            hypothesis.lazily(|&from| self.entered(from, right))
        });
        let zeros = Hypothesis::new(Cause::WritesPadding, "as zeros", padding.gives);
        let zeros = zeros.lazily(|&slot| self.with_zeros(slot));
        let padding = padding.lazily(|slot| self.with(slot));
        let unwritten = Hypothesis::new(Cause::NotWritten, "", ()).lazily(|()| {
            let right = self.answer();
            [0, 1].map(|x| unless_in_place(&right[x], &output[x], &self.before[x]))
        });
        let used = self.counts.iter().copied().max().unwrap_or(0);
        let apart = Hypothesis::new(Cause::RowStride, "as many as the largest count apart", used);
        let apart = apart.lazily(|&used| self.with_rows_apart(used));
        let others = [padding, zeros, unwritten, apart];
        slots.into_iter().chain(others).chain(sources).collect()
    }

    fn forgive_nan(_: &mut Cached<f32>, _: &mut Cached<f64>) {} // `compare` does
}
