//! A story by the learner's decoder, with the attention of his own stages 4 and 5. It gives no points.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use exercise_kit::message::{Outcome, Run};
use stage6_pipeline::{Config, Forward, Generate, ModelFiles, Room, Source, Stage6, Text};

use crate::child::{BuildError, Child, Limits, build_story};
use crate::places::Places;
use crate::remote::{self, Remote};
use crate::tasks::{TASKS, Task};
use crate::verdict::Subject;

/// The tasks whose code tells a story, by the last of their steps.
const TELLING: [&str; 5] = [
    "4/flash/causal",
    "5/update_cache",
    "5/decode/groups",
    "6/forward",
    "6/demo",
];

/// Time of the program: a learner waits for a story, and sees it grow.
const PATIENCE: Duration = Duration::from_secs(600);

/// The tasks whose code tells a story.
pub fn tasks() -> Vec<&'static Task> {
    let telling = |task: &&Task| TELLING.contains(&&*task.name());
    TASKS.iter().filter(telling).collect()
}

/// What is told.
#[derive(Debug, Clone)]
pub struct Request<'a> {
    /// The folders, and whose code it is.
    pub places: Places,
    /// The tasks that are not written: the solution's files take their place.
    pub unwritten: Vec<&'static Task>,
    /// The text that the story continues.
    pub prompt: &'a str,
    /// The most tokens that are told; as many as the model has room for if `None`.
    pub most: Option<usize>,
}

/// A story that was told.
#[derive(Debug, Clone, PartialEq)]
pub struct Story {
    /// Whose files they were, apart from those of unwritten tasks.
    pub subject: Subject,
    /// The tasks that are not written.
    pub unwritten: Vec<&'static Task>,
    /// Its tokens as they were heard, without those of the prompt.
    pub tokens: Vec<u32>,
    /// Those of them that were heard before the program ended.
    pub streamed: usize,
    /// The first place where the course's own decoder chooses another token, or ends and this story does not; `None` if there is none.
    pub differs: Option<usize>,
    /// The launches by the kernel's file: `exercises/stage4/kernels/flash.cu`.
    pub launches: BTreeMap<String, usize>,
}

/// Why no story was told to its end.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The learner's code, or the course's, is not built.
    #[error("there is no program")]
    Build(#[from] BuildError),
    /// The program cannot be started.
    #[error("the program cannot be started")]
    Start(#[from] io::Error),
    /// The simulated device.
    #[error(transparent)]
    Device(#[from] gpu::Error),
    /// The model or the prompt.
    #[error(transparent)]
    Model(#[from] stage6_pipeline::Error),
    /// The learner's code.
    #[error("{0}")]
    Own(remote::Error),
}

/// Tells a story. Its text is `heard` as it comes, the prompt first.
///
/// # Errors
///
/// [`Error`].
pub fn tell(request: &Request<'_>, heard: &mut dyn FnMut(&str)) -> Result<Story, Error> {
    gpu::simulate()?;
    let files = ModelFiles::storyteller();
    let architecture = Config::load(&files)?.architecture;
    let text = Text::load(&files, &architecture)?;
    let prompt = text.encode(request.prompt)?;
    let room = (architecture.context + 1).saturating_sub(prompt.len());
    if room == 0 {
        return Err(Error::Model(stage6_pipeline::Error::PromptTooLong {
            tokens: prompt.len(),
            context: architecture.context,
        }));
    }
    let most = request.most.unwrap_or(room).min(room);
    let source = Source::Files(files);
    let room = Room {
        sequences: 1,
        tokens: prompt.len() + most.saturating_sub(1),
    };

    let limits = Limits {
        call: PATIENCE,
        task: PATIENCE,
        clock: PATIENCE,
        cpu_seconds: PATIENCE.as_secs(),
        memory: 4 << 30, // counters of ten thousand launches
        ..Limits::default()
    };
    let program = build_story(&request.places, &tasks(), &request.unwritten, &limits)?;
    let remote = Remote::new(Child::start(&program, &limits, false)?, &limits, None);
    remote.set_run(Run {
        profile: true,
        ..Run::default()
    });
    heard(request.prompt);
    let (mut decoder, mut tokens) = (text.decoder(), Vec::new());
    let returned = (|| {
        remote.load(&source)?;
        remote.batch(&(), room)?;
        remote.tell(&prompt, most, text.end(), &mut |passed| {
            for &token in &passed[..passed.len().min(most - tokens.len())] {
                heard(&decoder.push(token));
                tokens.push(token);
            }
        })
    })()
    .map_err(Error::Own)?;
    let streamed = tokens.len();
    for &token in &returned[streamed.min(returned.len())..] {
        heard(&decoder.push(token));
        tokens.push(token);
    }
    heard(&decoder.finish());

    let model = Stage6.load(&source)?;
    let mut batch = Stage6.batch(&model, room)?;
    let expected = Stage6.generate(&mut batch, &prompt, most, text.end())?;
    let mut pairs = tokens.iter().zip(&expected);
    let differs = pairs.position(|(token, expected)| token != expected);
    let ends = tokens.len().min(expected.len());
    let mut launches = BTreeMap::new();
    for launch in remote.take_calls().iter().flat_map(|call| &call.launches) {
        // Its first instructions may be those of a header.
        if let Some(file) = launch.files.iter().find(|file| file.ends_with(".cu")) {
            *launches.entry(file.clone()).or_default() += 1;
        }
    }
    Ok(Story {
        subject: request.places.subject,
        unwritten: request.unwritten.clone(),
        differs: (tokens != expected).then_some(differs.unwrap_or(ends)),
        launches,
        tokens,
        streamed,
    })
}

impl Error {
    /// True if a panic of `todo!` ended it: a task is begun, and not written to its end.
    pub fn is_to_do(&self) -> bool {
        matches!(
            self,
            Self::Own(remote::Error::Ended(Outcome::Panicked { to_do: true, .. }))
        )
    }
}
