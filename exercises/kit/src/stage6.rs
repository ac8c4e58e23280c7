//! The calls of stage 6: a decoder's two phases, and greedy generation.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use stage6_pipeline::{Bytes, Dtype, Dummy, Error, Generate, ModelFiles, Room, Source, TensorFile};

use crate::cuda::{Device, Reading};
use crate::frame::{Broken, Tensor, Tensors};
use crate::message::{Outcome, Request};
use crate::serving::{Answer, Requests};

/// A call of `Forward` or [`Generate`]. The program has one decoder and one batch at a time: [`Call::Load`] replaces both,
/// [`Call::Batch`] the batch.
#[derive(Serialize, Deserialize, Debug, Clone)]
pub enum Call {
    /// `Forward::load`. Takes the files of weights, if it is a checkpoint; gives nothing.
    Load(SourceFields),
    /// `Forward::batch`. Gives nothing.
    Batch {
        /// [`Room::sequences`].
        sequences: usize,
        /// [`Room::tokens`].
        tokens: usize,
    },
    /// `Forward::prefill`. Gives the logits.
    Prefill(Vec<Vec<u32>>),
    /// `Forward::decode`. Gives the logits.
    Decode(Vec<u32>),
    /// [`Generate::generate`]. Gives the tokens.
    Generate {
        /// The prompt.
        prompt: Vec<u32>,
        /// The most tokens.
        most: usize,
        /// The tokens that end a text.
        end: Vec<u32>,
    },
}

/// [`Source`], without the weights of a checkpoint.
#[derive(Serialize, Deserialize, Debug, Clone)]
pub enum SourceFields {
    /// The files of a checkpoint.
    Files {
        /// [`ModelFiles::origin`].
        origin: String,
        /// [`ModelFiles::config`].
        config: String,
        /// [`ModelFiles::generation_config`].
        generation_config: Option<String>,
        /// The names of the files of weights. Their bytes are tensors.
        weights: Vec<String>,
    },
    /// A decoder whose parameters are drawn.
    Random {
        /// layers, hidden, heads, vocab, context.
        dummy: [usize; 5],
        /// The name of the type of matrices.
        dtype: String,
        /// The seed.
        seed: u64,
    },
}

impl SourceFields {
    /// A source, and its tensors.
    ///
    /// # Errors
    ///
    /// A file of weights that cannot be read.
    pub fn of(source: &Source) -> Result<(Self, Vec<Tensor>), Error> {
        match source {
            Source::Files(files) => {
                let mut tensors = Vec::new();
                for file in &files.weights {
                    tensors.push(Tensor::of(&file.contents()?));
                }
                let fields = Self::Files {
                    origin: files.origin.clone(),
                    config: files.config.to_string(),
                    generation_config: files.generation_config.clone(),
                    weights: files.weights.iter().map(|file| file.name.clone()).collect(),
                };
                Ok((fields, tensors))
            }
            Source::Random { dummy, dtype, seed } => {
                let d = dummy;
                let fields = Self::Random {
                    dummy: [d.layers, d.hidden, d.heads, d.vocab, d.context],
                    dtype: dtype.name().to_owned(),
                    seed: *seed,
                };
                Ok((fields, Vec::new()))
            }
        }
    }

    /// The source.
    ///
    /// # Errors
    ///
    /// [`Broken::Tensor`].
    pub fn source(self, tensors: &mut Tensors) -> Result<Source, Broken> {
        match self {
            Self::Files {
                origin,
                config,
                generation_config,
                weights,
            } => {
                let mut files = Vec::new();
                for name in weights {
                    let bytes = Bytes::Memory(Cow::Owned(tensors.values()?));
                    files.push(TensorFile { name, bytes });
                }
                Ok(Source::Files(ModelFiles {
                    origin,
                    config: Cow::Owned(config),
                    generation_config,
                    tokenizer: Cow::Borrowed(""), // texts are the grader's
                    tokenizer_config: None,
                    chat_template: None,
                    weights: files,
                }))
            }
            Self::Random { dummy, dtype, seed } => {
                let [layers, hidden, heads, vocab, context] = dummy;
                let all = [Dtype::F32, Dtype::F16, Dtype::Bf16].into_iter();
                let mut named = all.filter(|of| of.name() == dtype);
                Ok(Source::Random {
                    dummy: Dummy {
                        layers,
                        hidden,
                        heads,
                        vocab,
                        context,
                    },
                    dtype: named.next().unwrap_or(Dtype::F32),
                    seed,
                })
            }
        }
    }
}

/// Answers calls of the stage's interface.
pub fn serve<G: Generate<Error = Error>>(own: G) -> ! {
    let mut requests = Requests::open();
    let device = match Device::open() {
        Ok(device) => device,
        Err(text) => loop {
            next(&mut requests);
            let text = text.clone();
            requests.reply(Ok(Answer::on_host(Outcome::Failed { text }, Vec::new())));
        },
    };
    let reading = Reading {
        argument_of: G::argument_of,
        of_loading: |error| match error {
            Error::Gpu(error) => Some(error),
            _ => None,
        },
    };
    let mut received = next(&mut requests);
    loop {
        let (request, tensors) = received;
        let (model, answer) = load(&device, &own, &reading, request, tensors);
        requests.reply(answer);
        let Some(model) = model else {
            received = next(&mut requests);
            continue;
        };
        // A decoder stays until the next one is loaded.
        let mut batch = None;
        received = loop {
            let (request, tensors) = next(&mut requests);
            if let Call::Load(_) = request.call {
                break (request, tensors);
            }
            let called = call(&device, &own, &reading, &model, &mut batch, request);
            requests.reply(Ok(called));
        };
    }
}

/// The next call. Not generic over the learner's type, so it is compiled with the kit.
fn next(requests: &mut Requests) -> (Request<Call>, Tensors) {
    requests.next()
}

/// The decoder that a request loads; none if it loads none.
fn load<G: Generate<Error = Error>>(
    device: &Device,
    own: &G,
    reading: &Reading<Error>,
    request: Request<Call>,
    mut tensors: Tensors,
) -> (Option<G::Model>, Result<Answer, Broken>) {
    let Call::Load(source) = request.call else {
        let text = "no decoder is loaded".to_owned();
        return (
            None,
            Ok(Answer::on_host(Outcome::Failed { text }, Vec::new())),
        );
    };
    let source = match source.source(&mut tensors) {
        Ok(source) => source,
        Err(broken) => return (None, Err(broken)),
    };
    let mut model = None;
    let (outcome, launches) = device.call(request.run, reading, || {
        model = Some(own.load(&source)?);
        Ok(())
    });
    let answer = Answer {
        outcome,
        tensors: Vec::new(),
        launches,
        device_bytes: device.in_use(),
    };
    (model, Ok(answer))
}

/// Makes any other call.
fn call<'m, G: Generate<Error = Error>>(
    device: &Device,
    own: &G,
    reading: &Reading<Error>,
    model: &'m G::Model,
    batch: &mut Option<G::Batch<'m>>,
    Request { call, run }: Request<Call>,
) -> Answer {
    let mut outputs = Vec::new();
    let (outcome, launches) = device.call(run, reading, || {
        match (call, batch) {
            (Call::Batch { sequences, tokens }, batch) => {
                *batch = None;
                *batch = Some(own.batch(model, Room { sequences, tokens })?);
            }
            (Call::Prefill(tokens), Some(batch)) => {
                let tokens = Vec::from_iter(tokens.iter().map(Vec::as_slice));
                outputs.push(Tensor::of(&own.prefill(batch, &tokens)?));
            }
            (Call::Decode(tokens), Some(batch)) => {
                outputs.push(Tensor::of(&own.decode(batch, &tokens)?));
            }
            (Call::Generate { prompt, most, end }, Some(batch)) => {
                outputs.push(Tensor::of(&own.generate(batch, &prompt, most, &end)?));
            }
            // The grader makes a batch before it uses it.
            (Call::Load(_) | Call::Prefill(_) | Call::Decode(_) | Call::Generate { .. }, _) => {}
        }
        Ok(())
    });
    Answer {
        outcome,
        tensors: outputs,
        launches,
        device_bytes: device.in_use(),
    }
}
