//! Token after token: prefill, then one decode step for each, with the times that matter to a reader.

use std::time::{Duration, Instant};

use crate::{Error, Sampler, Sampling, Session};

/// What to generate.
#[derive(Debug, Clone)]
pub struct Request {
    /// The tokens to continue; at least one, and fewer than the context.
    pub prompt: Vec<u32>,
    /// How tokens are chosen.
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

/// Why a generation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finish {
    /// The model chose the end-of-text token.
    EndOfText,
    /// As many tokens as were asked for.
    MaxTokens,
    /// Prompt and continuation fill the context.
    ContextEnd,
}

/// When the tokens came. Times are wall time of the host, from a request on a loaded model.
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

/// A running generation: an iterator over the tokens of the continuation.
#[derive(Debug)]
pub struct Generation<'s, 'm> {
    session: &'s mut Session<'m>,
    sampler: Sampler,
    /// The tokens that the session has not seen yet: the prompt, then the last token chosen.
    unseen: Vec<u32>,
    /// How many more tokens may be yielded.
    left: usize,
    /// What it means when none is left.
    limit: Finish,
    end: Vec<u32>,
    finish: Option<Finish>,
    timing: Timing,
}

impl<'s, 'm> Generation<'s, 'm> {
    /// Starts over in `session`, whatever it held. Nothing runs until the first token is asked for.
    ///
    /// # Errors
    ///
    /// Those of [`Request::validate`], and [`Error::TokenOutOfRange`].
    pub fn new(session: &'s mut Session<'m>, request: &Request) -> Result<Self, Error> {
        let architecture = session.model().architecture();
        request.validate(architecture.context)?;
        let vocab_size = architecture.vocab;
        if let Some(index) = request
            .prompt
            .iter()
            .position(|&id| id as usize >= vocab_size)
        {
            return Err(Error::TokenOutOfRange {
                token: request.prompt[index],
                index,
                vocab_size,
            });
        }

        let room = architecture.context - request.prompt.len();
        let (left, limit) = match request.max_tokens {
            Some(asked) if asked <= room => (asked, Finish::MaxTokens),
            _ => (room, Finish::ContextEnd),
        };
        session.clear();
        Ok(Self {
            session,
            sampler: Sampler::new(request.sampling, request.seed)?,
            unseen: request.prompt.clone(),
            left,
            limit,
            end: request.end.clone(),
            finish: None,
            timing: Timing::default(),
        })
    }

    /// Why it ended; none while it runs, or after an error.
    pub fn finish(&self) -> Option<Finish> {
        self.finish
    }

    /// The times so far.
    pub fn timing(&self) -> Timing {
        self.timing
    }

    fn step(&mut self) -> Result<u32, Error> {
        let start = Instant::now();
        let logits = self.session.forward(&self.unseen)?;
        let token = self.sampler.sample(&logits)?;
        self.unseen.clear();
        self.unseen.push(token);

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
        if self.left == 0 {
            return None;
        }
        let token = match self.step() {
            Ok(token) => token,
            Err(error) => {
                self.left = 0;
                return Some(Err(error));
            }
        };
        if self.end.contains(&token) {
            self.left = 0;
            self.finish = Some(Finish::EndOfText);
            return None;
        }
        self.left -= 1;
        if self.left == 0 {
            self.finish = Some(self.limit);
        }
        Some(Ok(token))
    }
}
