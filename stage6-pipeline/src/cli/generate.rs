//! `generate`: continues a prompt, as the text comes; or draws many texts.

use std::hash::{BuildHasher, RandomState};
use std::io::{self, Read, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use stage6_pipeline::{
    Config, Error, Finish, Generation, Generations, Message, Model, Request, Sampling, Session,
    Stop, Text, Timing,
};

use super::{model, note, output};

/// Exit code of a program that an interrupt has ended.
const INTERRUPTED: u8 = 130;

/// Continue a prompt: the default
#[derive(Debug, Args)]
#[group(skip)]
pub struct Arguments {
    /// The beginning of the text; `-` reads it from standard input
    #[arg(long, default_value = "Once upon a time", allow_hyphen_values = true)]
    prompt: String,

    /// Take the prompt as a message of the user, written as the model's chat template says
    #[arg(long)]
    chat: bool,

    #[command(flatten)]
    model: model::Arguments,

    /// The most tokens to generate (up to the end of the context if not given)
    #[arg(long, value_name = "N")]
    max_tokens: Option<usize>,

    /// Below 1 the likely words gain, above 1 the unlikely; 0 always takes the likeliest token
    #[arg(
        long,
        value_name = "T",
        default_value_t = 0.8,
        allow_negative_numbers = true
    )]
    temperature: f32,

    /// Draw from the K likeliest tokens only
    #[arg(long, value_name = "K")]
    top_k: Option<usize>,

    /// Draw from the likeliest tokens that together have probability P only
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    top_p: Option<f32>,

    /// Draw from tokens with at least P times the probability of the likeliest only
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    min_p: Option<f32>,

    /// Divide the positive logits of tokens that were there already by X, and multiply the negative ones
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    repetition_penalty: Option<f32>,

    /// End before this text; can be given several times
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    stop: Vec<String>,

    /// Number that names the text (random, and printed, if not given)
    #[arg(long)]
    seed: Option<u64>,

    /// How many texts to draw, with the seeds SEED, SEED + 1, ...
    #[arg(long, value_name = "N", default_value_t = 1)]
    stories: u64,

    /// How many of them to draw at a time. Other numbers may round otherwise
    #[arg(long, value_name = "N", default_value_t = 1)]
    batch: usize,

    /// Write the texts to a file, which appears when all are told
    #[arg(long, value_name = "FILE")]
    out: Option<std::path::PathBuf>,
}

/// Checks everything that needs no device, then loads the model, then generates.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    arguments.validate()?;
    let files = arguments.model.files()?;
    let architecture = Config::load(&files)?.architecture;
    let text = Text::load(&files, &architecture)?;
    let given = arguments.prompt()?;
    let tokens = match arguments.chat {
        true => text.encode_chat(&[Message {
            role: "user".to_owned(),
            content: given.clone(),
        }])?,
        false => text.encode(&given)?,
    };
    let request = Request {
        prompt: tokens,
        sampling: arguments.sampling(),
        seed: arguments.seed.unwrap_or_else(random_seed),
        max_tokens: arguments.max_tokens,
        end: text.end().to_vec(),
    };
    request.validate(architecture.context)?;

    let interrupted = Arc::new(AtomicBool::new(false));
    // The first interrupt sets the flag; the second one ends the program as if there were no handler.
    let signal = signal_hook::consts::SIGINT;
    signal_hook::flag::register_conditional_default(signal, interrupted.clone())?;
    signal_hook::flag::register(signal, interrupted.clone())?;

    let model = arguments.model.load(&files)?;
    let telling = Telling {
        arguments,
        text: &text,
        given: &given,
        prompt: if arguments.chat { "" } else { &given },
        request: &request,
        interrupted: &interrupted,
    };
    match &arguments.out {
        None if arguments.stories == 1 => telling.tell(&mut model.session()?)?,
        None => io::stdout().write_all(telling.draw(&model)?.as_bytes())?,
        Some(path) => output::write_atomically(path, &telling.draw(&model)?)?,
    }
    Ok(match interrupted.load(Ordering::Relaxed) {
        true => ExitCode::from(INTERRUPTED),
        false => ExitCode::SUCCESS,
    })
}

/// What to generate.
struct Telling<'a> {
    arguments: &'a Arguments,
    text: &'a Text,
    /// The prompt as it was given.
    given: &'a str,
    /// What is printed before the continuation: nothing before an answer.
    prompt: &'a str,
    request: &'a Request,
    interrupted: &'a AtomicBool,
}

impl Telling<'_> {
    /// One text on standard output, as it comes, and the figures on standard error.
    fn tell(&self, session: &mut Session<'_>) -> anyhow::Result<()> {
        let model = session.model();
        let mut out = io::stdout().lock();
        write!(out, "{}", self.prompt)?;
        out.flush()?;

        let mut decoder = self.text.decoder();
        let mut stop = Stop::new(self.arguments.stop.clone());
        let mut generation = Generation::new(session, self.request)?;
        let (mut failure, mut end) = (None, None);
        for token in generation.by_ref() {
            let piece = match token {
                Ok(token) => decoder.push(token),
                Err(error) => {
                    failure = Some(error);
                    break;
                }
            };
            let (piece, stopped) = stop.push(&piece);
            write!(out, "{piece}")?;
            out.flush()?;
            if stopped {
                end = Some("--stop");
                break;
            }
            if self.interrupted.load(Ordering::Relaxed) {
                end = Some("interrupt");
                break;
            }
        }
        // The line of the text ends before an error begins.
        if end != Some("--stop") {
            let (piece, _) = stop.push(&decoder.finish());
            write!(out, "{piece}{}", stop.finish())?;
        }
        writeln!(out)?;
        out.flush()?;
        if let Some(error) = failure {
            return Err(error.into());
        }
        let end = end.unwrap_or(match generation.finish() {
            Some(Finish::EndOfText) => "end of text",
            Some(Finish::MaxTokens) => "--max-tokens",
            Some(Finish::ContextEnd) | None => "end of the context",
        });
        note(&format!(
            "\n{}",
            self.report(model, end, generation.timing())?
        ));
        Ok(())
    }

    /// As many texts as asked for, with seeds that count up from the request's. An interrupt ends those that are running.
    fn draw(&self, model: &Model) -> Result<String, Error> {
        let style = ProgressStyle::with_template(
            "{bar:30} {pos}/{len} stories, {elapsed} passed, {eta} left",
        );
        let count = self.arguments.stories;
        let progress =
            ProgressBar::new(count).with_style(style.unwrap_or(ProgressStyle::default_bar()));
        let mut batch = model.batch(self.arguments.batch, model.architecture().context)?;
        let mut generations = Generations::new(&mut batch);
        let mut drawn = Vec::new();
        for index in 0..count {
            generations.push(&Request {
                seed: self.request.seed.wrapping_add(index),
                ..self.request.clone()
            })?;
            let stop = Stop::new(self.arguments.stop.clone());
            drawn.push((self.text.decoder(), stop, self.prompt.to_owned()));
        }
        let mut left = true;
        while left && !self.interrupted.load(Ordering::Relaxed) {
            let mut stopped = Vec::new();
            left = generations.step(|number, token| {
                let (decoder, stop, text) = &mut drawn[number];
                let (piece, found) = stop.push(&decoder.push(token));
                text.push_str(&piece);
                if found {
                    stopped.push(number);
                }
            })?;
            for number in stopped {
                generations.cancel(number)?;
            }
            progress.set_position(count - generations.left() as u64);
        }
        progress.finish();
        let mut texts = self.arguments.command(self.given, self.request.seed);
        for (number, (decoder, mut stop, mut text)) in drawn.into_iter().enumerate() {
            if generations.finish(number).is_some() {
                let (piece, _) = stop.push(&decoder.finish());
                text = text + &piece + &stop.finish();
            }
            output::append_story(&mut texts, &text);
        }
        Ok(texts)
    }

    /// What ran where, and how fast.
    fn report(&self, model: &Model, end: &str, timing: Timing) -> Result<String, Error> {
        let device = gpu::device_label(model.stream().context())?;
        let simulated = match gpu::backend()? {
            gpu::Backend::Cuda => "",
            gpu::Backend::Simulator => {
                "\n        simulated: wall time of the simulator, not of a GPU"
            }
        };
        let seed = if self.request.sampling.temperature == 0.0 {
            "none is needed at temperature 0".to_owned()
        } else {
            format!("{0} (--seed {0} tells this story again)", self.request.seed)
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
}

impl Arguments {
    /// How tokens are chosen.
    fn sampling(&self) -> Sampling {
        Sampling {
            temperature: self.temperature,
            top_k: self.top_k,
            top_p: self.top_p,
            min_p: self.min_p,
            repetition_penalty: self.repetition_penalty,
        }
    }

    /// The prompt, or what standard input has.
    fn prompt(&self) -> anyhow::Result<String> {
        let mut prompt = self.prompt.clone();
        if prompt == "-" {
            prompt.clear();
            io::stdin().read_to_string(&mut prompt)?;
        }
        Ok(prompt)
    }

    /// The command that draws the same texts again, as a comment line. A shell reads from it what this program read.
    fn command(&self, prompt: &str, seed: u64) -> String {
        let mut command = format!(
            "# cargo run --release -p stage6-pipeline -- --prompt {} --temperature {} --seed {seed} --stories {}",
            shell_word(prompt),
            self.temperature,
            self.stories,
        );
        let path = |path: &std::path::PathBuf| shell_word(&path.to_string_lossy());
        if self.chat {
            command += " --chat";
        }
        let mut add = |name: &str, value: Option<String>| {
            command.extend(value.map(|value| format!(" --{name} {value}")));
        };
        add("top-k", self.top_k.map(|k| k.to_string()));
        add("top-p", self.top_p.map(|p| p.to_string()));
        add("min-p", self.min_p.map(|p| p.to_string()));
        let penalty = self.repetition_penalty;
        add("repetition-penalty", penalty.map(|x| x.to_string()));
        for stop in &self.stop {
            add("stop", Some(shell_word(stop)));
        }
        add("max-tokens", self.max_tokens.map(|n| n.to_string()));
        add("batch", (self.batch != 1).then(|| self.batch.to_string()));
        add("cache", self.model.cache.map(|dtype| dtype.to_string()));
        add("splits", self.model.splits.map(|n| n.to_string()));
        add("model", self.model.model.as_ref().map(path));
        add("out", self.out.as_ref().map(path));
        command + "\n"
    }

    /// Checks what needs no model.
    fn validate(&self) -> Result<(), Error> {
        self.sampling().validate()?;
        let counts = [("stories", self.stories == 0), ("batch", self.batch == 0)];
        if let Some((setting, _)) = counts.into_iter().find(|(_, is_zero)| *is_zero) {
            let found = "0".to_owned();
            return Err(Error::Setting {
                setting,
                found,
                expected: "at least 1",
            });
        }
        match &self.out {
            Some(path) => output::check(path),
            None => Ok(()),
        }
    }
}

/// A seed short enough to type, from the randomness that the standard library takes from the system.
fn random_seed() -> u64 {
    RandomState::new().hash_one(std::process::id()) % 1_000_000
}

/// Writes `text` on one line so that a shell reads it as one word: in single quotes if it must be, and in `$'…'`, which
/// bash and zsh know, if it holds control characters such as newlines.
fn shell_word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
    if text.contains(|c: char| c.is_ascii_control()) {
        let escaped = text.chars().map(|c| match c {
            '\\' | '\'' => format!("\\{c}"),
            c if c.is_ascii_control() => format!("\\{:03o}", c as u32),
            c => c.to_string(),
        });
        format!("$'{}'", escaped.collect::<String>())
    } else if text.is_empty() || !text.chars().all(plain) {
        format!("'{}'", text.replace('\'', r"'\''"))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::plain("models/tiny-gpt2_1.0", "models/tiny-gpt2_1.0")]
    #[case::empty("", "''")]
    #[case::space("The owl", "'The owl'")]
    #[case::variable("a $HOME", "'a $HOME'")]
    #[case::command("`id` $(id) \"!\" \\", "'`id` $(id) \"!\" \\'")]
    #[case::tilde("~", "'~'")]
    #[case::quote("the owl's", r"'the owl'\''s'")]
    #[case::letters("Zoë 🦊", "'Zoë 🦊'")]
    #[case::newline("a\n1 \\ owl's\t$x", r"$'a\0121 \\ owl\'s\011$x'")]
    fn a_shell_reads_one_word(#[case] text: &str, #[case] word: &str) {
        assert_eq!(shell_word(text), word);
    }

    #[test]
    fn the_committed_samples_tell_their_command() {
        let path = "models/storyteller/samples/temperature-0.8.txt";
        let arguments = ["stage6-pipeline", "--stories", "50", "--out", path];
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
        let samples = std::fs::read_to_string(format!("{root}/{path}")).unwrap();
        let head = samples.lines().next().unwrap();
        let parsed = crate::cli::Arguments::parse_from(arguments).generate;
        assert_eq!(parsed.command("Once upon a time", 1), format!("{head}\n"));
    }
}
