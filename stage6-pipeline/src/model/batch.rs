//! Sequences that are generated together.

use stage5_decode::paged::{PageError, PagedCache, PagedShape, SequenceId};
use stage5_decode::{CacheShape, MAX_QUERIES, Workspace};

use super::Model;
use super::buffers::{Buffers, Rows};
use super::inputs::Inputs;
use super::pass::{Pass, Phase};
use super::steps::{Step, Steps};
use crate::Error;
use crate::sampler::unusable;

/// Tokens of a page of the cache.
const PAGE: usize = 64;

/// Sequences on one device: the keys and values of their tokens so far, and the
/// memory that passes work in.
///
/// The cache is paged. So a batch is whatever sequences a call names, in any order; one that has
/// ended gives its pages to the next. A contiguous cache would have a row for each place in the
/// batch, and an empty place would cost as much as a full one.
///
/// ```no_run
/// # use stage6_pipeline::{Error, Model};
/// # fn tokens(model: &Model, prompts: [&[u32]; 2]) -> Result<(), Error> {
/// let mut batch = model.batch(2, 100)?;
/// let [a, b] = [batch.create(), batch.create()];
/// batch.forward(&[(a, prompts[0]), (b, prompts[1])])?; // prefill, of prompts of any lengths
/// for _ in 0..10 {
///     let next = [batch.likeliest(0)?, batch.likeliest(1)?];
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
    /// Of tokens of one sequence. Those of a prompt grow.
    prompt: Buffers,
    prompt_inputs: Inputs,
    /// Of the next token of each sequence. After a call, the tokens are the likeliest next ones.
    step: Buffers,
    inputs: Inputs,
    /// By batch size and number of splits.
    steps: Steps,
    /// Of the last call, `[sequences, V]`.
    logits: Rows,
    /// The row of the logits of each sequence of the last call; none after an error.
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
            prompt: Buffers::new(model, MAX_QUERIES)?,
            prompt_inputs: Inputs::new(stream, MAX_QUERIES)?,
            step: Buffers::new(model, sequences)?,
            inputs: Inputs::new(stream, sequences)?,
            steps: Steps::new(),
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

    /// Passes the next tokens of some sequences through the model. [`Batch::logits`]
    /// and [`Batch::likeliest`] then tell of the token that follows the last one of
    /// each, in the order of `new`.
    ///
    /// There are two phases. *Prefill*: the first tokens of a sequence, its prompt, are one pass,
    /// whose queries attend to the new keys alone. *Decode*: where each sequence has one new token
    /// behind others, all sequences are one pass, whose queries attend to the cache. More tokens
    /// behind others go through the kernels of the second phase, 16 at a time.
    ///
    /// # Errors
    ///
    /// [`Error::NoTokens`], [`Error::TokenOutOfRange`], [`Error::ContextFull`],
    /// [`Error::BatchFull`], [`Error::Sequence`]: no sequence has changed. [`Error::Driver`] if a
    /// kernel fails: the sequences of the call are lost, free them. There are no logits then.
    // ANCHOR: forward
    pub fn forward(&mut self, new: &[(SequenceId, &[u32])]) -> Result<(), Error> {
        self.check(new)?;
        self.rows.clear();
        let (mut decode, mut others) = (Vec::new(), Vec::new());
        for (call, &(sequence, tokens)) in new.iter().enumerate() {
            let cached = self.length(sequence)?;
            match (cached, tokens) {
                (1.., &[token]) => decode.push((call, (sequence, token))),
                _ => others.push((call, (sequence, tokens))),
            }
        }
        // Sequences that are passed together have neighbouring rows.
        let mut rows = vec![0; new.len()];
        let calls = decode.iter().map(|(call, _)| call);
        for (row, &call) in calls.chain(others.iter().map(|(call, _)| call)).enumerate() {
            rows[call] = row;
        }
        for (call, (sequence, tokens)) in others {
            match self.length(sequence)? {
                0 => self.prefill(rows[call], sequence, tokens)?,
                _ => self.extend(rows[call], sequence, tokens)?,
            }
        }
        self.decode(&Vec::from_iter(decode.into_iter().map(|(_, new)| new)))?;
        self.rows = rows;
        Ok(())
    }
    // ANCHOR_END: forward

    /// The logits of one row of the last call, `[V]`: copied to the host.
    ///
    /// # Errors
    ///
    /// [`Error::NoRow`] if the last call had fewer sequences or failed, [`Error::Driver`].
    pub fn logits(&self, row: usize) -> Result<Vec<f32>, Error> {
        let at = self.row(row)?;
        Ok(self.model.stream.clone_dtoh(&self.logits.range(at, 1))?)
    }

    /// The likeliest token of one row of the last call; of several with the same logit, the one
    /// with the smallest id. The first call copies the tokens of all rows to the host, 4 bytes
    /// each; the logits stay where they are.
    ///
    /// # Errors
    ///
    /// Those of [`Batch::logits`]; [`Error::Logit`] if a logit is NaN or positive infinity, or
    /// all are negative infinity.
    pub fn likeliest(&mut self, row: usize) -> Result<u32, Error> {
        let (at, rows) = (self.row(row)?, self.rows.len());
        let tokens = self.inputs.read_tokens(&self.model.stream, rows)?;
        match u32::try_from(tokens[at]) {
            Ok(token) => Ok(token),
            // The kernel found that there is one.
            Err(_) => {
                let (token, found) = unusable(&self.logits(row)?).unwrap_or((0, f32::NAN));
                Err(Error::Logit { token, found })
            }
        }
    }

    /// The place of a row of the last call.
    fn row(&self, row: usize) -> Result<usize, Error> {
        let rows = self.rows.len();
        self.rows
            .get(row)
            .copied()
            .ok_or(Error::NoRow { row, rows })
    }

    fn check(&self, new: &[(SequenceId, &[u32])]) -> Result<(), Error> {
        if new.len() > self.sequences {
            return Err(Error::BatchFull {
                found: new.len(),
                room: self.sequences,
            });
        }
        let mut needed = 0;
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
            needed += (cached + tokens.len()).div_ceil(PAGE) - cached.div_ceil(PAGE);
        }
        let free = self.cache.tables().free_pages();
        if needed > free {
            return Err(PageError::OutOfPages { needed, free }.into());
        }
        Ok(())
    }

    /// All tokens of a sequence that has none.
    // ANCHOR: prefill
    fn prefill(&mut self, row: usize, sequence: SequenceId, tokens: &[u32]) -> Result<(), Error> {
        let (model, n) = (self.model, tokens.len());
        if n > self.prompt.capacity {
            let prompt = Buffers::new(model, n)?;
            self.prompt_inputs = Inputs::new(&model.stream, n)?;
            self.prompt = prompt;
        }
        self.pass_one(row, sequence, tokens, Phase::Prefill)
    }
    // ANCHOR_END: prefill

    /// More tokens of a sequence, in blocks of as many queries as the decode kernels take.
    fn extend(&mut self, row: usize, sequence: SequenceId, tokens: &[u32]) -> Result<(), Error> {
        for block in tokens.chunks(MAX_QUERIES) {
            let longest = self.length(sequence)? + block.len();
            let mut workspace = self.workspace(1, block.len(), longest)?;
            self.pass_one(row, sequence, block, Phase::Decode(&mut workspace))?;
        }
        Ok(())
    }

    /// Tokens of one sequence, which `prompt` has room for.
    fn pass_one(
        &mut self,
        row: usize,
        sequence: SequenceId,
        tokens: &[u32],
        phase: Phase<'_>,
    ) -> Result<(), Error> {
        let (model, n, cached) = (self.model, tokens.len(), self.length(sequence)?);
        let (tokens, positions) = (tokens.iter().map(|&t| t as i32), cached..cached + n);
        let positions = positions.map(|position| position as i32);
        let inputs = &mut self.prompt_inputs;
        inputs.set(&model.stream, tokens.collect(), positions.collect())?;
        self.cache.grow(&model.stream, &[(sequence, n)])?;
        let mut pass = Pass {
            model,
            cache: &mut self.cache,
            buffers: &mut self.prompt,
            inputs,
            batch: 1,
            n,
        };
        pass.run(phase, self.logits.range_mut(row, 1))?;
        self.inputs.forget_tokens();
        let next = self.inputs.tokens.slice_mut(row..=row);
        model.kernels.argmax(next, self.logits.range(row, 1))
    }

    /// One token of each of some sequences. If the last call left the same batch and these are the
    /// likeliest tokens, nothing is copied to the device; from the third step of a batch size and
    /// number of splits on, the launches are one replay of a graph.
    // ANCHOR: decode
    fn decode(&mut self, new: &[(SequenceId, u32)]) -> Result<(), Error> {
        let (model, batch) = (self.model, new.len());
        if batch == 0 {
            return Ok(());
        }
        let (mut tokens, mut positions) = (Vec::new(), Vec::new());
        for &(sequence, token) in new {
            tokens.push(token as i32);
            positions.push(self.length(sequence)? as i32);
        }
        let longest = 1 + positions
            .iter()
            .max()
            .map_or(0, |&position| position as usize);
        self.inputs.set(&model.stream, tokens, positions)?;
        let grown = Vec::from_iter(new.iter().map(|&(sequence, _)| (sequence, 1)));
        self.cache.prepare_advance(&model.stream, &grown)?;

        let key = (batch, self.splits(batch, 1, longest));
        let mut step = match self.steps.take(key) {
            Some(step) => step,
            None => Step::new(self.workspace(batch, 1, longest)?),
        };
        let launch = |workspace: &mut Workspace| self.launch_step(batch, workspace);
        if let Err(error) = step.run(&model.stream, launch) {
            self.inputs.forget();
            return Err(error);
        }
        self.steps.keep(key, step);
        self.inputs.advance(batch);
        self.inputs.forget_tokens();
        Ok(())
    }
    // ANCHOR_END: decode

    /// The launches of a decode step. A graph has them all: they depend on nothing but `batch`
    /// and the number of splits.
    fn launch_step(&mut self, batch: usize, workspace: &mut Workspace) -> Result<(), Error> {
        let model = self.model;
        // SAFETY: `decode` prepares the cache once for each launch or replay of this.
        unsafe { model.decode.advance(&model.stream, self.cache.counts_mut()) }?;
        let mut pass = Pass {
            model,
            cache: &mut self.cache,
            buffers: &mut self.step,
            inputs: &self.inputs,
            batch,
            n: 1,
        };
        pass.run(Phase::Decode(workspace), self.logits.first_mut(batch))?;
        let Inputs {
            tokens, positions, ..
        } = &mut self.inputs;
        model
            .kernels
            .argmax(tokens.slice_mut(..batch), self.logits.first(batch))?;
        model.kernels.increment(positions.slice_mut(..batch))
    }

    /// Room for the parts of the cached tokens.
    fn workspace(&self, batch: usize, n: usize, longest: usize) -> Result<Workspace, Error> {
        let (model, a) = (self.model, &self.model.architecture);
        let (splits, queries) = (self.splits(batch, n, longest), batch * a.heads * n);
        Ok(Workspace::new(&model.stream, splits, queries, a.head_dim)?)
    }

    /// The number of splits of the cached tokens.
    fn splits(&self, batch: usize, n: usize, longest: usize) -> usize {
        let shape = CacheShape {
            batch,
            ..self.cache.layer(0).shape
        };
        let model = self.model;
        model.decode.splits(&shape, &model.queries(n), longest)
    }
}
