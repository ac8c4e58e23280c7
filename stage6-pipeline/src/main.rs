//! Tells stories: `cargo run --release -p stage6-pipeline -- --prompt "Once upon a time"`.

mod args;
mod output;

use std::hash::{BuildHasher, RandomState};
use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use stage6_pipeline::{
    Config, Error, Finish, Generation, Gpt2, ModelFiles, Request, Session, Text, Timing,
};

use crate::args::Args;

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS, // The reader, say `head`, has had enough.
        Err(error) => {
            note(&format!("error: {}", message(&error)));
            ExitCode::FAILURE
        }
    }
}

/// Checks everything that needs no device, then loads the model, then tells the stories.
fn run(args: &Args) -> anyhow::Result<()> {
    args.validate()?;
    let files = match &args.model {
        Some(model) => ModelFiles::find(model)?,
        None => ModelFiles::storyteller(),
    };
    let architecture = Config::load(&files)?.architecture;
    let text = Text::load(&files, &architecture)?;
    let seed = args.seed.unwrap_or_else(random_seed);
    let request = Request {
        prompt: text.encode(&args.prompt)?,
        sampling: args.sampling(),
        seed,
        max_tokens: args.max_tokens,
        end: text.end().to_vec(),
    };
    request.validate(architecture.context)?;

    let model = Gpt2::load(&files, args.device)?;
    let mut session = model.session()?;
    match &args.out {
        None if args.stories == 1 => tell(&mut session, &text, &args.prompt, &request),
        None => {
            let stories = draw(&mut session, &text, args, &request)?;
            Ok(io::stdout().write_all(stories.as_bytes())?)
        }
        Some(path) => {
            let stories = draw(&mut session, &text, args, &request)?;
            Ok(output::write_atomically(path, &stories)?)
        }
    }
}

/// One story on standard output, as it comes, and the figures on standard error.
fn tell(
    session: &mut Session<'_>,
    text: &Text,
    prompt: &str,
    request: &Request,
) -> anyhow::Result<()> {
    let model = session.model();
    let mut out = io::stdout().lock();
    write!(out, "{prompt}")?;
    out.flush()?;

    let mut decoder = text.decoder();
    let mut generation = Generation::new(session, request)?;
    let mut failure = None;
    for token in generation.by_ref() {
        match token {
            Ok(token) => write!(out, "{}", decoder.push(token))?,
            Err(error) => failure = Some(error),
        }
        out.flush()?;
    }
    // The line of the story ends before an error begins.
    writeln!(out, "{}", decoder.finish())?;
    out.flush()?;
    if let Some(error) = failure {
        return Err(error.into());
    }

    note(&format!("\n{}", report(model, request, &generation)?));
    Ok(())
}

/// As many stories as asked for, with seeds that count up from the request's, one after the other.
fn draw(
    session: &mut Session<'_>,
    text: &Text,
    args: &Args,
    request: &Request,
) -> Result<String, Error> {
    let style =
        ProgressStyle::with_template("{bar:30} {pos}/{len} stories, {elapsed} passed, {eta} left");
    let progress =
        ProgressBar::new(args.stories).with_style(style.unwrap_or(ProgressStyle::default_bar()));
    let mut stories = args.command(request.seed);
    for index in 0..args.stories {
        let request = Request {
            seed: request.seed.wrapping_add(index),
            ..request.clone()
        };
        let mut decoder = text.decoder();
        let mut story = args.prompt.clone();
        for token in Generation::new(session, &request)? {
            story.push_str(&decoder.push(token?));
        }
        story.push_str(&decoder.finish());
        output::append_story(&mut stories, &story);
        progress.inc(1);
    }
    progress.finish();
    Ok(stories)
}

/// What ran where, and how fast.
fn report(
    model: &Gpt2,
    request: &Request,
    generation: &Generation<'_, '_>,
) -> Result<String, Error> {
    let timing = generation.timing();
    let end = match generation.finish() {
        Some(Finish::EndOfText) => "end of text",
        Some(Finish::MaxTokens) => "--max-tokens",
        Some(Finish::ContextEnd) | None => "end of the context",
    };
    let device = gpu::device_label(model.stream().context())?;
    let simulated = match gpu::backend()? {
        gpu::Backend::Cuda => "",
        gpu::Backend::Simulator => "\n        simulated: wall time of the simulator, not of a GPU",
    };
    let seed = if request.sampling.temperature == 0.0 {
        "none is needed at temperature 0".to_owned()
    } else {
        format!("{0} (--seed {0} tells this story again)", request.seed)
    };
    let Timing { tokens, first, .. } = timing;
    let speed = timing.tokens_per_second();
    let ttft = first.as_secs_f64() * 1e3;
    let tbt = timing.between().map_or("none".to_owned(), |t| {
        format!("{:.1} ms", t.as_secs_f64() * 1e3)
    });
    Ok(format!(
        "device  {device}\n\
         seed    {seed}\n\
         tokens  {tokens}, then {end}; {speed:.1} tokens/s after start-up\n\
         time    to first token (TTFT) {ttft:.1} ms, between tokens (TBT) {tbt} on average{simulated}",
    ))
}

/// A seed short enough to type, from the randomness that the standard library takes from the system.
fn random_seed() -> u64 {
    RandomState::new().hash_one(std::process::id()) % 1_000_000
}

/// An error and its causes, without those that the text before them quotes already.
fn message(error: &anyhow::Error) -> String {
    let mut message = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if message.is_empty() {
            message = cause;
        } else if !message.contains(&cause) {
            message = format!("{message}: {cause}");
        }
    }
    message
}

/// Writes to standard error; nobody reading it is no reason to stop.
fn note(message: &str) {
    let _ = writeln!(io::stderr(), "{message}");
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let cause = error.downcast_ref::<io::Error>();
    cause.is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
}
