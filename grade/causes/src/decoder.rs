//! A decoder whose tokens stand elsewhere, see others, or whose blocks lack a part.

use std::rc::Rc;

use conformance::decoder::{Row, activated, add, dot, linear, normed, rotate, rows};
use conformance::problems::Problem as _;
use conformance::problems::decoder::Problem;
use ndarray::Array3;
use stage6_pipeline::{Architecture, Block, Host, Norm, Positions, Weights};

use super::{Cause, Explained, Hypothesis, Lazy};

/// The parts of a forward pass.
#[derive(Debug, Clone, Copy)]
struct Formula {
    /// The position of token `i` of a pass that `before` tokens precede; it is in this row of the pass.
    position: fn(before: usize, i: usize, row: usize) -> usize,
    /// True if queries and keys are rotated.
    rotates: bool,
    /// True if they are before the keys go to the cache.
    caches_rotated: bool,
    /// True if a token sees none behind it.
    causal: bool,
    /// True if the new token of a step sees itself.
    sees_itself: bool,
    /// The head of k and v that head `h` of q reads, of `heads` in groups of `group`.
    kv_head: fn(h: usize, heads: usize, group: usize) -> usize,
    /// True if attention and the MLP add to the stream; else they replace it.
    adds: [bool; 2],
    /// True if rows are normalised in front of attention, of the MLP and of the logits.
    normalises: [bool; 3],
    /// The token of a pass of `n` whose logits are returned.
    returned: fn(n: usize) -> usize,
    /// True if the logits are always products with the embedding.
    ties_head: bool,
    /// The token whose embedding is read.
    token: fn(u32) -> u32,
}

impl Formula {
    const RIGHT: Self = Self {
        position: |before, i, _| before + i,
        rotates: true,
        caches_rotated: true,
        causal: true,
        sees_itself: true,
        kv_head: |h, _, group| h / group,
        adds: [true; 2],
        normalises: [true; 3],
        returned: |n| n - 1,
        ties_head: false,
        token: |token| token,
    };

    /// The logits after the prompt and after each further token of the sequence `b`.
    fn logits(&self, decoder: &Decoder, b: usize, tokens: &[u32], prompt: usize) -> Vec<Row> {
        let Decoder {
            architecture,
            weights,
        } = decoder;
        let embedding = rows(&weights.embedding);
        let learned = weights.positions.as_ref().map(rows);
        let head = weights.head.as_ref().filter(|_| !self.ties_head);
        let head = head.map_or(embedding.clone(), rows);
        let mut caches = vec![Vec::new(); weights.blocks.len()];
        let steps = (prompt..tokens.len()).map(|at| at..at + 1);
        let passes = std::iter::once(0..prompt).chain(steps);
        let pass = |pass: std::ops::Range<usize>| {
            let (before, n) = (pass.start, pass.len());
            let position = |i| (self.position)(before, i, b * n + i);
            let mut x: Vec<Row> = Vec::new();
            for (i, &token) in tokens[pass].iter().enumerate() {
                x.push(embedding[(self.token)(token) as usize].clone());
                if let Some(learned) = &learned {
                    add(&mut x[i..], learned.get(position(i)..).unwrap_or_default());
                }
            }
            for (block, cache) in weights.blocks.iter().zip(&mut caches) {
                let rows = self.normed(0, &x, &block.attention_norm, architecture);
                let update = self.attention(&rows, block, cache, position, architecture);
                self.join(0, &mut x, update);
                let rows = self.normed(1, &x, &block.mlp_norm, architecture);
                let hidden = linear(&rows, &block.up);
                let hidden = hidden.iter().map(|row| activated(row, architecture.mlp));
                self.join(1, &mut x, linear(&hidden.collect::<Vec<_>>(), &block.down));
            }
            let last = [x.swap_remove((self.returned)(n))];
            let last = self.normed(2, &last, &weights.norm, architecture);
            head.iter().map(|row| dot(row, &last[0])).collect()
        };
        passes.map(pass).collect()
    }

    fn normed(
        &self,
        which: usize,
        x: &[Row],
        norm: &Norm<Host>,
        architecture: &Architecture,
    ) -> Vec<Row> {
        match self.normalises[which] {
            true => normed(x, norm, architecture),
            false => x.to_vec(),
        }
    }

    fn join(&self, which: usize, x: &mut Vec<Row>, update: Vec<Row>) {
        match self.adds[which] {
            true => add(x, &update),
            false => *x = update,
        }
    }

    /// Attention of new tokens to the cache, which has their rows of q, k and v afterwards.
    fn attention(
        &self,
        x: &[Row],
        block: &Block<Host>,
        cache: &mut Vec<Row>,
        position: impl Fn(usize) -> usize,
        architecture: &Architecture,
    ) -> Vec<Row> {
        let Architecture {
            heads,
            kv_heads,
            head_dim: d,
            ..
        } = *architecture;
        let mut new = linear(x, &block.qkv);
        let not_rotated = new.clone();
        if let Positions::Rope(rope) = &architecture.positions
            && self.rotates
        {
            for (i, row) in new.iter_mut().enumerate() {
                let rotated = row[..(heads + kv_heads) * d].chunks_mut(d);
                rotated.for_each(|head| rotate(head, position(i), rope));
            }
        }
        let before = cache.len();
        let rows = match self.caches_rotated {
            true => &new,
            false => &not_rotated,
        };
        cache.extend(rows.iter().cloned());
        // Tokens of a prompt attend to each other, not to the cache.
        let rows = if before == 0 { &new } else { &*cache };
        let attend = |(i, row): (usize, &Row)| -> Row {
            let keys = match (self.causal, before) {
                (false, _) => rows.len(),
                (true, 1..) if !self.sees_itself => before + i,
                (true, _) => before + i + 1,
            };
            let head = |h: usize| -> Row {
                let h_kv = (self.kv_head)(h, kv_heads, heads / kv_heads);
                let part = |j: usize, head: usize| &rows[j][head * d..][..d];
                let q = &row[h * d..][..d];
                let scores = (0..keys).map(|j| dot(q, part(j, heads + h_kv)) / (d as f64).sqrt());
                let scores: Row = scores.collect();
                let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let weights: Row = scores.iter().map(|score| (score - largest).exp()).collect();
                let sum: f64 = weights.iter().sum();
                let value = |e: usize| {
                    let terms = weights.iter().enumerate();
                    terms
                        .map(|(j, p)| p / sum * part(j, heads + kv_heads + h_kv)[e])
                        .sum()
                };
                (0..d).map(value).collect()
            };
            (0..heads).flat_map(head).collect()
        };
        let attended: Vec<Row> = new.iter().enumerate().map(attend).collect();
        linear(&attended, &block.out)
    }
}

/// A decoder that was loaded.
struct Decoder {
    architecture: Architecture,
    weights: Weights<Host>,
}

impl Explained for Problem {
    fn hypotheses<'a>(&'a self, _: &'a Array3<f32>) -> Vec<Hypothesis<Lazy<'a, Array3<f64>>>> {
        let Ok((architecture, weights)) = self.source.load(&Host) else {
            return Vec::new(); // the problem has been solved, so that it can be loaded
        };
        let decoder = Rc::new(Decoder {
            architecture,
            weights,
        });
        let lazily = |hypothesis: Hypothesis<Formula>| {
            let decoder = decoder.clone();
            hypothesis.lazily(move |formula| answer(self, &decoder, formula))
        };
        mistakes().into_iter().map(lazily).collect()
    }

    fn forgive_nan(_: &mut Array3<f32>, _: &mut Array3<f64>) {} // no mistake gives NaN
}

fn answer(problem: &Problem, decoder: &Decoder, formula: &Formula) -> Array3<f64> {
    let mut answer = Array3::zeros(problem.poisoned().dim());
    for (b, tokens) in problem.tokens.iter().enumerate() {
        let logits = formula.logits(decoder, b, tokens, problem.prompt);
        for (step, row) in logits.iter().enumerate() {
            for (token, &logit) in row.iter().enumerate() {
                answer[[step, b, token]] = logit;
            }
        }
    }
    answer
}

fn mistakes() -> Vec<Hypothesis<Formula>> {
    let with = |cause, detail, change: fn(&mut Formula)| {
        Hypothesis::changed(cause, detail, Formula::RIGHT, change)
    };
    vec![
        with(Cause::NotRotated, "", |it| it.rotates = false),
        with(
            Cause::NotRotated,
            "keys go to the cache before they are rotated",
            |it| it.caches_rotated = false,
        ),
        with(
            Cause::WrongPosition,
            "every pass begins at position 0",
            |it| it.position = |_, i, _| i,
        ),
        with(
            Cause::WrongPosition,
            "all tokens of a pass have the first one's",
            |it| it.position = |before, _, _| before,
        ),
        with(Cause::WrongPosition, "positions begin at 1", |it| {
            it.position = |before, i, _| before + i + 1
        }),
        with(
            Cause::WrongPosition,
            "the rows of all sequences are counted",
            |it| it.position = |before, _, row| before + row,
        ),
        with(Cause::TiedHead, "", |it| it.ties_head = true),
        with(Cause::NarrowToken, "", |it| {
            it.token = |token| token % (1 << 16)
        }),
        with(
            Cause::CausalIgnored,
            "tokens of a prompt see those behind them",
            |it| it.causal = false,
        ),
        with(
            Cause::StaleCacheSlot,
            "a new token does not see itself",
            |it| it.sees_itself = false,
        ),
        with(Cause::WrongHead, "head h of q reads head h % H_kv", |it| {
            it.kv_head = |h, kv_heads, _| h % kv_heads
        }),
        with(Cause::WrongHead, "all heads read head 0 of k and v", |it| {
            it.kv_head = |_, _, _| 0
        }),
        with(Cause::MissingResidual, "of attention", |it| {
            it.adds = [false, true]
        }),
        with(Cause::MissingResidual, "of the MLP", |it| {
            it.adds = [true, false]
        }),
        with(Cause::MissingResidual, "of both", |it| it.adds = [false; 2]),
        with(Cause::MissingNorm, "in front of attention", |it| {
            it.normalises = [false, true, true]
        }),
        with(Cause::MissingNorm, "in front of the MLP", |it| {
            it.normalises = [true, false, true]
        }),
        with(Cause::MissingNorm, "in front of the logits", |it| {
            it.normalises = [true, true, false]
        }),
        with(
            Cause::LogitsOfAnotherToken,
            "of the first of a pass",
            |it| it.returned = |_| 0,
        ),
        with(
            Cause::LogitsOfAnotherToken,
            "of the one before the last of a pass",
            |it| it.returned = |n| n.saturating_sub(2),
        ),
    ]
}
