//! The calls of stage 6: a decoder's two phases, and greedy generation.

use std::borrow::Cow;
use std::rc::Rc;

use serde::{Deserialize, Serialize};
use stage6_pipeline::{Bytes, Dtype, Dummy, Error, Generate, ModelFiles, Room, Source, TensorFile};

use crate::cuda::{Device, Reading};
use crate::frame::{Broken, Tensor};
use crate::given::{Given, Makers};
use crate::message::{Outcome, Request};
use crate::serving::{Answer, Requests};

/// A call of `Forward` or [`Generate`]. The program has one decoder and one batch at a time:
/// [`Call::Load`] replaces both, [`Call::Batch`] the batch.
#[derive(Serialize, Deserialize, Debug, Clone)]
pub enum Call {
    /// `Forward::load`. Gives nothing.
    Load(SourceFields),
    /// `Forward::batch`. Gives nothing.
    Batch(Room),
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

/// [`Source`] in a message. Files on disk travel as bytes, and nothing that
/// a decoder does not need.
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
        /// The files of weights: name and bytes.
        weights: Vec<(String, Tensor)>,
    },
    /// [`Source::Random`].
    Random {
        /// The sizes.
        dummy: Dummy,
        /// The type of matrices.
        dtype: Dtype,
        /// The seed.
        seed: u64,
    },
}

impl SourceFields {
    /// The message of a source.
    ///
    /// # Errors
    ///
    /// A file of weights that cannot be read.
    pub fn new(source: &Source) -> Result<Self, Error> {
        Ok(match source {
            Source::Files(files) => {
                let weights = files.weights.iter().map(|file| {
                    let bytes = Tensor::vector(&file.contents()?);
                    Ok((file.name.clone(), bytes))
                });
                Self::Files {
                    origin: files.origin.clone(),
                    config: files.config.to_string(),
                    generation_config: files.generation_config.clone(),
                    weights: weights.collect::<Result<_, Error>>()?,
                }
            }
            &Source::Random { dummy, dtype, seed } => Self::Random { dummy, dtype, seed },
        })
    }

    /// The source.
    ///
    /// # Errors
    ///
    /// [`Broken::Tensor`].
    pub fn source(self) -> Result<Source, Broken> {
        Ok(match self {
            Self::Files {
                origin,
                config,
                generation_config,
                weights,
            } => {
                let weights = weights.into_iter().map(|(name, bytes)| {
                    let bytes = Bytes::Memory(Cow::Owned(bytes.values()?));
                    Ok(TensorFile { name, bytes })
                });
                Source::Files(ModelFiles {
                    origin,
                    config: Cow::Owned(config),
                    generation_config,
                    tokenizer: Cow::Borrowed(""), // texts are the grader's
                    tokenizer_config: None,
                    chat_template: None,
                    weights: weights.collect::<Result<_, Broken>>()?,
                })
            }
            Self::Random { dummy, dtype, seed } => Source::Random { dummy, dtype, seed },
        })
    }
}

/// Answers calls of the stage's interface.
pub fn serve<G: Generate<Error = Error>>(own: G) -> ! {
    serve_on(&Requests::open(), own)
}

/// The same, with the attention of a learner's own stages 4 and 5. The tokens of a generation are
/// sent while it goes on.
pub fn serve_story<G: Generate<Error = Error>>(decoder: impl FnOnce(Given) -> G, own: Makers) -> ! {
    let requests = Rc::new(Requests::open());
    let replies = requests.clone();
    let given = Given {
        own: Some(own),
        listener: Some(Rc::new(move |tokens| {
            replies.goes_on(vec![Tensor::vector(tokens)]);
        })),
    };
    serve_on(&requests, decoder(given))
}

fn serve_on<G: Generate<Error = Error>>(requests: &Requests, own: G) -> ! {
    let device = match Device::open() {
        Ok(device) => device,
        Err(text) => loop {
            next(requests);
            let text = text.clone();
            requests.reply(Ok(Answer::on_host(Outcome::Failed { text }, Vec::new())));
        },
    };
    let reading = Reading {
        argument: G::argument_of,
        loading: |error| match error {
            Error::Gpu(error) => Some(error),
            _ => None,
        },
    };
    let mut received = next(requests);
    loop {
        let (model, answer) = load(&device, &own, &reading, received);
        requests.reply(answer);
        let Some(model) = model else {
            received = next(requests);
            continue;
        };
        // A decoder stays until the next one is loaded.
        let mut batch = None;
        received = loop {
            let request = next(requests);
            if let Call::Load(_) = request.call {
                break request;
            }
            let called = call(&device, &own, &reading, &model, &mut batch, request);
            requests.reply(Ok(called));
        };
    }
}

/// The next call. Not generic over the learner's type, so it is compiled with the kit.
fn next(requests: &Requests) -> Request<Call> {
    requests.next()
}

/// The decoder that a request loads; none if it loads none.
fn load<G: Generate<Error = Error>>(
    device: &Device,
    own: &G,
    reading: &Reading<Error>,
    request: Request<Call>,
) -> (Option<G::Model>, Result<Answer, Broken>) {
    let Call::Load(source) = request.call else {
        let text = "no decoder is loaded".to_owned();
        return (
            None,
            Ok(Answer::on_host(Outcome::Failed { text }, Vec::new())),
        );
    };
    let source = match source.source() {
        Ok(source) => source,
        Err(broken) => return (None, Err(broken)),
    };
    let mut model = None;
    let called = device.call(request.run, reading, || {
        model = Some(own.load(&source)?);
        Ok(())
    });
    let answer = Answer {
        device_bytes: device.in_use(),
        ..called.answer(Vec::new())
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
    let called = device.call(run, reading, || {
        match (call, batch) {
            (Call::Batch(room), batch) => {
                *batch = None;
                *batch = Some(own.batch(model, room)?);
            }
            (Call::Prefill(tokens), Some(batch)) => {
                let tokens = Vec::from_iter(tokens.iter().map(Vec::as_slice));
                outputs.push(Tensor::vector(&own.prefill(batch, &tokens)?));
            }
            (Call::Decode(tokens), Some(batch)) => {
                outputs.push(Tensor::vector(&own.decode(batch, &tokens)?));
            }
            (Call::Generate { prompt, most, end }, Some(batch)) => {
                outputs.push(Tensor::vector(&own.generate(batch, &prompt, most, &end)?));
            }
            // The grader makes a batch before it uses it.
            (Call::Load(_) | Call::Prefill(_) | Call::Decode(_) | Call::Generate { .. }, _) => {}
        }
        Ok(())
    });
    Answer {
        device_bytes: device.in_use(),
        ..called.answer(outputs)
    }
}
