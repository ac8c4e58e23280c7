//! Sequences that are generated together.

use stage5_decode::paged::{PageError, PagedCache, PagedShape, SequenceId};
use stage5_decode::{CacheShape, MAX_QUERIES, Workspace};

use super::Model;
use super::buffers::{Buffers, Rows};
use super::pass::{Pass, Phase};
use crate::Error;

/// Tokens of a page of the cache.
const PAGE: usize = 64;

/// Sequences on one device: the keys and values of their tokens so far, and the memory that passes work in.
///
/// The cache is paged. So a batch is whatever sequences a call names, in any order; one that has ended gives its pages to the
/// next. A contiguous cache would have a row for each place in the batch, and an empty place would cost as much as a full one.
///
/// ```no_run
/// # use stage6_pipeline::{Error, Model};
/// # fn tokens(
/// #     model: &Model, prompts: [&[u32]; 2], sample: impl Fn(Result<Vec<f32>, Error>) -> u32,
/// # ) -> Result<(), Error> {
/// let mut batch = model.batch(2, 100)?;
/// let [a, b] = [batch.create(), batch.create()];
/// batch.forward(&[(a, prompts[0]), (b, prompts[1])])?; // prefill, of prompts of any lengths
/// for _ in 0..10 {
///     let next = [0, 1].map(|row| sample(batch.logits(row)));
///     batch.forward(&[(a, &next[..1]), (b, &next[1..])])?; // decode, together
/// }
/// batch.free(a)?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Batch<'m> {
    model: &'m Model,
    cache: PagedCache,
    /// The most sequences.
    sequences: usize,
    /// The most tokens of each.
    tokens: usize,
    /// Of a prompt. They grow.
    prompt: Buffers,
    /// Of the next token of each sequence, or of a few tokens of one.
    step: Buffers,
    /// Of the last call, `[sequences, V]`.
    logits: Rows,
    /// Where the logits of each sequence of the last call are.
    rows: Vec<usize>,
}

impl<'m> Batch<'m> {
    pub(super) fn new(model: &'m Model, sequences: usize, tokens: usize) -> Result<Self, Error> {
        let (a, stream) = (&model.architecture, &model.stream);
        if tokens > a.context {
            return Err(Error::ContextFull {
                cached: 0,
                new: tokens,
                context: a.context,
            });
        }
        let shape = PagedShape {
            pages: sequences.saturating_mul(tokens.div_ceil(PAGE)),
            page_size: PAGE,
            kv_heads: a.kv_heads,
            head_dim: a.head_dim,
            dtype: model.cache,
        };
        let mut cache = PagedCache::new(stream, a.layers, shape)?;
        cache.reserve(stream, sequences, tokens)?;
        Ok(Self {
            model,
            cache,
            sequences,
            tokens,
            prompt: Buffers::new(stream, a, 0)?,
            step: Buffers::new(stream, a, sequences.max(MAX_QUERIES))?,
            logits: Rows::new(stream, sequences, a.vocab)?,
            rows: Vec::new(),
        })
    }

    /// A new sequence of no tokens.
    pub fn create(&mut self) -> SequenceId {
        self.cache.create()
    }

    /// Forgets a sequence. Its memory goes to others.
    ///
    /// # Errors
    ///
    /// [`Error::Sequence`] if there is none of this name.
    pub fn free(&mut self, sequence: SequenceId) -> Result<(), Error> {
        Ok(self.cache.free(sequence)?)
    }

    /// Tokens of a sequence.
    ///
    /// # Errors
    ///
    /// [`Error::Sequence`] if there is none of this name.
    pub fn length(&self, sequence: SequenceId) -> Result<usize, Error> {
        Ok(self.cache.tables().length(sequence)?)
    }

    /// The model.
    pub fn model(&self) -> &'m Model {
        self.model
    }

    /// The most sequences of a call.
    pub fn sequences(&self) -> usize {
        self.sequences
    }

    /// The most tokens of a sequence.
    pub fn tokens(&self) -> usize {
        self.tokens
    }

    /// Passes the next tokens of some sequences through the model. [`Batch::logits`] then tells of the
    /// token that follows the last one of each, in the order of `new`.
    ///
    /// There are two phases. *Prefill*: the first tokens of a sequence, its prompt, are one pass, whose queries attend to the new
    /// keys alone. *Decode*: where each sequence has one new token behind others, all sequences are one pass, whose queries attend
    /// to the cache. More tokens behind others go through the kernels of the second phase, 16 at a time.
    ///
    /// # Errors
    ///
    /// [`Error::NoTokens`], [`Error::TokenOutOfRange`], [`Error::ContextFull`], [`Error::BatchFull`], [`Error::Sequence`]: no
    /// sequence has changed. [`Error::Driver`] if a kernel fails: the sequences of the call are lost, free them.
    // ANCHOR: forward
    pub fn forward(&mut self, new: &[(SequenceId, &[u32])]) -> Result<(), Error> {
        self.check(new)?;
        let (mut decode, mut others) = (Vec::new(), Vec::new());
        for (call, &(sequence, tokens)) in new.iter().enumerate() {
            let cached = self.length(sequence)?;
            match (cached, tokens) {
                (1.., &[token]) => decode.push((call, (sequence, token))),
                _ => others.push((call, (sequence, tokens))),
            }
        }
        // Sequences that are passed together have neighbouring rows.
        self.rows = vec![0; new.len()];
        let calls = decode.iter().map(|(call, _)| call);
        for (row, &call) in calls.chain(others.iter().map(|(call, _)| call)).enumerate() {
            self.rows[call] = row;
        }
        for (call, (sequence, tokens)) in others {
            match self.length(sequence)? {
                0 => self.prefill(self.rows[call], sequence, tokens)?,
                _ => self.extend(self.rows[call], sequence, tokens)?,
            }
        }
        self.decode(&Vec::from_iter(decode.into_iter().map(|(_, new)| new)))
    }
    // ANCHOR_END: forward

    /// The logits of one row of the last call, `[V]`: copied to the host.
    ///
    /// # Errors
    ///
    /// [`Error::NoRow`] if the last call had fewer sequences, [`Error::Driver`].
    pub fn logits(&self, row: usize) -> Result<Vec<f32>, Error> {
        let Some(&at) = self.rows.get(row) else {
            let rows = self.rows.len();
            return Err(Error::NoRow { row, rows });
        };
        Ok(self.model.stream.clone_dtoh(&self.logits.range(at, 1))?)
    }

    /// The likeliest token of one row of the last call; of several with the same logit, the one with the smallest id.
    ///
    /// # Errors
    ///
    /// Those of [`Batch::logits`]; [`Error::Logit`] if a logit is NaN.
    pub fn likeliest(&mut self, row: usize) -> Result<u32, Error> {
        let distribution = crate::Sampling::GREEDY.distribution(&self.logits(row)?)?;
        Ok(distribution.first().map_or(0, |&(token, _)| token))
    }

    fn check(&self, new: &[(SequenceId, &[u32])]) -> Result<(), Error> {
        if new.len() > self.sequences {
            return Err(Error::BatchFull {
                found: new.len(),
                room: self.sequences,
            });
        }
        for (row, &(sequence, tokens)) in new.iter().enumerate() {
            let cached = self.length(sequence)?;
            if new[..row].iter().any(|&(other, _)| other == sequence) {
                return Err(PageError::RepeatedSequence { sequence }.into());
            }
            if tokens.is_empty() {
                return Err(Error::NoTokens);
            }
            if tokens.len() > self.tokens.saturating_sub(cached) {
                return Err(Error::ContextFull {
                    cached,
                    new: tokens.len(),
                    context: self.tokens,
                });
            }
            let vocab_size = self.model.architecture.vocab;
            let outside = |&token: &u32| token as usize >= vocab_size;
            if let Some(index) = tokens.iter().position(outside) {
                return Err(Error::TokenOutOfRange {
                    token: tokens[index],
                    index,
                    vocab_size,
                });
            }
        }
        Ok(())
    }

    /// All tokens of a sequence that has none.
    // ANCHOR: prefill
    fn prefill(&mut self, row: usize, sequence: SequenceId, tokens: &[u32]) -> Result<(), Error> {
        let (model, n) = (self.model, tokens.len());
        if n > self.prompt.capacity {
            self.prompt = Buffers::new(&model.stream, &model.architecture, n)?;
        }
        self.cache.grow(&model.stream, &[(sequence, n)])?;
        model.embed(self.prompt.x.first_mut(n), tokens, 0)?;
        let mut pass = Pass {
            model,
            cache: &mut self.cache,
            buffers: &mut self.prompt,
            batch: 1,
            n,
        };
        pass.run(Phase::Prefill, self.logits.range_mut(row, 1))
    }
    // ANCHOR_END: prefill

    /// More tokens of a sequence, in blocks of as many queries as the decode kernels take.
    fn extend(&mut self, row: usize, sequence: SequenceId, tokens: &[u32]) -> Result<(), Error> {
        let model = self.model;
        for block in tokens.chunks(MAX_QUERIES) {
            let (n, cached) = (block.len(), self.length(sequence)?);
            self.cache.grow(&model.stream, &[(sequence, n)])?;
            model.embed(self.step.x.first_mut(n), block, cached)?;
            let mut workspace = self.workspace(1, n, cached + n)?;
            let mut pass = Pass {
                model,
                cache: &mut self.cache,
                buffers: &mut self.step,
                batch: 1,
                n,
            };
            pass.run(Phase::Decode(&mut workspace), self.logits.range_mut(row, 1))?;
        }
        Ok(())
    }

    /// One token of each of some sequences.
    // ANCHOR: decode
    fn decode(&mut self, new: &[(SequenceId, u32)]) -> Result<(), Error> {
        let (model, batch) = (self.model, new.len());
        if batch == 0 {
            return Ok(());
        }
        let mut longest = 0;
        for (row, &(sequence, token)) in new.iter().enumerate() {
            let cached = self.length(sequence)?;
            model.embed(self.step.x.range_mut(row, 1), &[token], cached)?;
            longest = longest.max(cached + 1);
        }
        let grown = Vec::from_iter(new.iter().map(|&(sequence, _)| (sequence, 1)));
        self.cache.grow(&model.stream, &grown)?;
        let mut workspace = self.workspace(batch, 1, longest)?;
        let mut pass = Pass {
            model,
            cache: &mut self.cache,
            buffers: &mut self.step,
            batch,
            n: 1,
        };
        pass.run(Phase::Decode(&mut workspace), self.logits.first_mut(batch))
    }
    // ANCHOR_END: decode

    /// Room for the parts of the cached tokens, into as many as the rule says.
    fn workspace(&self, batch: usize, n: usize, longest: usize) -> Result<Workspace, Error> {
        let (model, a) = (self.model, &self.model.architecture);
        let shape = CacheShape {
            batch,
            ..self.cache.layer(0).shape
        };
        let splits = model.decode.splits(&shape, &model.queries(n), longest);
        let queries = batch * a.heads * n;
        Ok(Workspace::new(&model.stream, splits, queries, a.head_dim)?)
    }
}
