//! Token after token: prefill, then one decode step for each, with the times that matter to a reader; of one request, or of
//! many at once.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::{Architecture, Batch, Error, Sampler, Sampling, SequenceId, Session};

/// A prompt to continue, and how.
#[derive(Debug, Clone)]
pub struct Request {
    /// The tokens to continue; at least one, and fewer than the context.
    pub prompt: Vec<u32>,
    /// The rule by which tokens are chosen.
    pub sampling: Sampling,
    /// Names the sequence of draws: the same request on the same device gives the same tokens.
    pub seed: u64,
    /// The most tokens to generate; up to the end of the context if `None`.
    pub max_tokens: Option<usize>,
    /// The tokens that end the text. None of them is yielded.
    pub end: Vec<u32>,
}

impl Request {
    /// Checks everything that can be checked without running the model.
    ///
    /// # Errors
    ///
    /// [`Error::EmptyPrompt`], [`Error::PromptTooLong`], [`Error::Setting`].
    pub fn validate(&self, context: usize) -> Result<(), Error> {
        if self.prompt.is_empty() {
            return Err(Error::EmptyPrompt);
        }
        if self.prompt.len() >= context {
            return Err(Error::PromptTooLong {
                tokens: self.prompt.len(),
                context,
            });
        }
        if self.max_tokens == Some(0) {
            let (setting, found) = ("max-tokens", "0".to_owned());
            return Err(Error::Setting {
                setting,
                found,
                expected: "at least 1",
            });
        }
        self.sampling.validate()
    }
}

/// Reason why a generation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finish {
    /// The model chose the end-of-text token.
    EndOfText,
    /// As many tokens as were asked for.
    MaxTokens,
    /// Prompt and continuation fill the context.
    ContextEnd,
}

/// Times of the tokens: wall time of the host, from a request on a loaded model.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Timing {
    /// Tokens chosen, the end-of-text token among them.
    pub tokens: usize,
    /// From the request to the first token (TTFT): the prefill of the prompt.
    pub first: Duration,
    /// From the first token to the last.
    pub rest: Duration,
}

impl Timing {
    /// Mean time between two tokens (TBT); none if there is only one.
    pub fn between(&self) -> Option<Duration> {
        let gaps = u32::try_from(self.tokens.checked_sub(1)?).ok()?;
        self.rest.checked_div(gaps)
    }

    /// Tokens per second over the whole request; 0 before the first token.
    pub fn tokens_per_second(&self) -> f64 {
        let seconds = (self.first + self.rest).as_secs_f64();
        if seconds > 0.0 {
            self.tokens as f64 / seconds
        } else {
            0.0
        }
    }
}

/// A running generation of one request: an iterator over the tokens of the continuation.
///
/// ```no_run
/// use stage6_pipeline::{Generation, Model, ModelFiles, Request, Sampling, Text};
///
/// let files = ModelFiles::storyteller();
/// let model = Model::load(&files, 0)?;
/// let text = Text::load(&files, model.architecture())?;
/// let mut session = model.session()?;
/// let request = Request {
///     prompt: text.encode("Once upon a time")?,
///     sampling: Sampling { temperature: 0.8, ..Sampling::GREEDY },
///     seed: 1,
///     max_tokens: None,
///     end: text.end().to_vec(),
/// };
/// let mut decoder = text.decoder();
/// for token in Generation::new(&mut session, &request)? {
///     print!("{}", decoder.push(token?));
/// }
/// println!("{}", decoder.finish());
/// # Ok::<(), stage6_pipeline::Error>(())
/// ```
#[derive(Debug)]
pub struct Generation<'s, 'm> {
    session: &'s mut Session<'m>,
    state: State,
    timing: Timing,
}

impl<'s, 'm> Generation<'s, 'm> {
    /// Starts over in `session`, whatever it held. Nothing runs until the first token is asked for.
    ///
    /// # Errors
    ///
    /// Those of [`Request::validate`], and [`Error::TokenOutOfRange`].
    pub fn new(session: &'s mut Session<'m>, request: &Request) -> Result<Self, Error> {
        let state = State::new(request, session.model().architecture(), session.tokens())?;
        session.clear();
        Ok(Self {
            session,
            state,
            timing: Timing::default(),
        })
    }

    /// The reason why it ended; none while it runs, or after an error.
    pub fn finish(&self) -> Option<Finish> {
        self.state.finish
    }

    /// The times so far.
    pub fn timing(&self) -> Timing {
        self.timing
    }

    fn step(&mut self) -> Result<Option<u32>, Error> {
        let start = Instant::now();
        let (batch, sequence) = self.session.parts();
        batch.forward(&[(sequence, self.state.unseen())])?;
        let token = self.state.choose(batch, 0)?;
        let passed = start.elapsed();
        match self.timing.tokens {
            0 => self.timing.first = passed,
            _ => self.timing.rest += passed,
        }
        self.timing.tokens += 1;
        Ok(token)
    }
}

impl Iterator for Generation<'_, '_> {
    type Item = Result<u32, Error>;

    /// The next token; none after the end-of-text token, after the last token asked for, at the end of the
    /// context, and after an error.
    fn next(&mut self) -> Option<Self::Item> {
        if self.state.left == 0 {
            return None;
        }
        let token = self.step();
        if token.is_err() {
            self.state.left = 0;
        }
        token.transpose()
    }
}

/// Requests that are generated together, by continuous batching: each step makes one token of every running request. One that
/// has ended leaves the batch, and the next that waits takes its place.
///
/// ```no_run
/// # use stage6_pipeline::{Error, Generations, Model, Request};
/// # fn texts(model: &Model, requests: Vec<Request>) -> Result<Vec<Vec<u32>>, Error> {
/// let mut batch = model.batch(8, 256)?; // 8 at a time
/// let mut generations = Generations::new(&mut batch);
/// let mut texts = Vec::new();
/// for request in &requests {
///     generations.push(request)?;
///     texts.push(Vec::new());
/// }
/// while generations.step(|request, token| texts[request].push(token))? {}
/// # Ok(texts)
/// # }
/// ```
#[derive(Debug)]
pub struct Generations<'b, 'm> {
    batch: &'b mut Batch<'m>,
    /// With their numbers.
    waiting: VecDeque<(usize, State)>,
    running: Vec<Running>,
    /// By number.
    finish: Vec<Option<Finish>>,
}

/// A request with a sequence in the batch.
#[derive(Debug)]
struct Running {
    number: usize,
    sequence: SequenceId,
    state: State,
}

impl<'b, 'm> Generations<'b, 'm> {
    /// No requests yet.
    pub fn new(batch: &'b mut Batch<'m>) -> Self {
        Self {
            batch,
            waiting: VecDeque::new(),
            running: Vec::new(),
            finish: Vec::new(),
        }
    }

    /// Adds a request, at any time. They are numbered from 0 on.
    ///
    /// # Errors
    ///
    /// Those of [`Request::validate`], and [`Error::TokenOutOfRange`]; [`Error::BatchFull`] if the batch has no room for any
    /// sequence.
    pub fn push(&mut self, request: &Request) -> Result<usize, Error> {
        let room = self.batch.sequences();
        if room == 0 {
            return Err(Error::BatchFull { found: 1, room });
        }
        let architecture = self.batch.model().architecture();
        let state = State::new(request, architecture, self.batch.tokens())?;
        let number = self.finish.len();
        self.waiting.push_back((number, state));
        self.finish.push(None);
        Ok(number)
    }

    /// The reason why a request ended; none while it waits or runs.
    pub fn finish(&self, request: usize) -> Option<Finish> {
        self.finish.get(request).copied().flatten()
    }

    /// Requests that wait or run.
    pub fn left(&self) -> usize {
        self.waiting.len() + self.running.len()
    }

    /// Ends a request that waits or runs; its place goes to another.
    ///
    /// # Errors
    ///
    /// None that a correct batch can have.
    pub fn cancel(&mut self, request: usize) -> Result<(), Error> {
        self.waiting.retain(|(number, _)| *number != request);
        for ended in self.running.extract_if(.., |of| of.number == request) {
            self.batch.free(ended.sequence)?;
        }
        Ok(())
    }

    /// Makes one token of every request that has a place, and gives it to `token` with the number of the request. Returns
    /// whether requests are left.
    ///
    /// # Errors
    ///
    /// Those of [`Batch::forward`] and [`Sampler::sample`]. The running requests are lost then; those that wait are not.
    pub fn step(&mut self, token: impl FnMut(usize, u32)) -> Result<bool, Error> {
        let result = self.step_running(token);
        if result.is_err() {
            self.forget_running();
        }
        result
    }

    fn step_running(&mut self, mut token: impl FnMut(usize, u32)) -> Result<bool, Error> {
        // Those that have a prompt only go first, each in a pass of its own; the others go together.
        while self.running.len() < self.batch.sequences()
            && let Some((number, state)) = self.waiting.pop_front()
        {
            let sequence = self.batch.create();
            self.running.push(Running {
                number,
                sequence,
                state,
            });
        }
        let new = self.running.iter();
        let new = new.map(|of| (of.sequence, of.state.unseen()));
        self.batch.forward(&Vec::from_iter(new))?;
        for (row, of) in self.running.iter_mut().enumerate() {
            if let Some(chosen) = of.state.choose(self.batch, row)? {
                token(of.number, chosen);
            }
        }
        for ended in self.running.extract_if(.., |of| of.state.left == 0) {
            self.finish[ended.number] = ended.state.finish;
            self.batch.free(ended.sequence)?;
        }
        Ok(!(self.running.is_empty() && self.waiting.is_empty()))
    }

    /// Gives the pages of running requests back to the batch.
    fn forget_running(&mut self) {
        for of in self.running.drain(..) {
            // The batch has it, because it was made here, and is freed once.
            let _ = self.batch.free(of.sequence);
        }
    }
}

impl Drop for Generations<'_, '_> {
    fn drop(&mut self) {
        self.forget_running();
    }
}

/// Progress of a request.
#[derive(Debug)]
struct State {
    sampler: Sampler,
    /// Prompt and continuation.
    history: Vec<u32>,
    /// Number of tokens of `history` that the model has seen.
    seen: usize,
    /// Number of tokens that may still be yielded.
    left: usize,
    /// The reason of the end when none is left.
    limit: Finish,
    end: Vec<u32>,
    finish: Option<Finish>,
}

impl State {
    /// Of a request to a model, in a sequence of up to `tokens` tokens.
    fn new(request: &Request, architecture: &Architecture, tokens: usize) -> Result<Self, Error> {
        request.validate(tokens)?;
        let vocab_size = architecture.vocab;
        let outside = |&id: &u32| id as usize >= vocab_size;
        if let Some(index) = request.prompt.iter().position(outside) {
            return Err(Error::TokenOutOfRange {
                token: request.prompt[index],
                index,
                vocab_size,
            });
        }
        let room = tokens - request.prompt.len();
        let (left, limit) = match request.max_tokens {
            Some(asked) if asked <= room => (asked, Finish::MaxTokens),
            _ => (room, Finish::ContextEnd),
        };
        Ok(Self {
            sampler: Sampler::new(request.sampling, request.seed)?,
            history: request.prompt.clone(),
            seen: 0,
            left,
            limit,
            end: request.end.clone(),
            finish: None,
        })
    }

    /// The tokens that the model has not seen yet: the prompt, then the last token chosen.
    fn unseen(&self) -> &[u32] {
        &self.history[self.seen..]
    }

    /// Chooses the next token by row `row` of the last call of `batch`. None at the end of the text.
    fn choose(&mut self, batch: &mut Batch<'_>, row: usize) -> Result<Option<u32>, Error> {
        let token = if self.sampler.sampling().is_greedy() {
            batch.likeliest(row)?
        } else {
            self.sampler
                .sample(&mut batch.logits(row)?, &self.history)?
        };
        self.seen = self.history.len();
        if self.end.contains(&token) {
            self.left = 0;
            self.finish = Some(Finish::EndOfText);
            return Ok(None);
        }
        self.history.push(token);
        self.left -= 1;
        if self.left == 0 {
            self.finish = Some(self.limit);
        }
        Ok(Some(token))
    }
}
