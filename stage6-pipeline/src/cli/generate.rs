//! `generate`: continues a prompt, as the text comes; or draws many texts.

use std::hash::{BuildHasher, RandomState};
use std::io::{self, Read, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Args;
use stage6_pipeline::{
    Config, Error, Finish, Generations, Message, Model, Request, Sampling, Stop, StreamDecoder,
    Text, Timing,
};

use super::{model, note, output, progress};

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

    /// Divide the positive logits of tokens that were there already by X, and
    /// multiply the negative ones
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    repetition_penalty: Option<f32>,

    /// End before this text; can be given several times
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    stop: Vec<String>,

    /// Number that names the text (random, and printed, if not given)
    #[arg(long)]
    seed: Option<u64>,

    /// Number of texts to draw, with the seeds SEED, SEED + 1, ...
    #[arg(long, value_name = "N", default_value_t = 1)]
    stories: u64,

    /// Number of texts to draw at a time. Other numbers may round otherwise
    #[arg(long, value_name = "N", default_value_t = 1)]
    batch: usize,

    /// Write the texts to a file, which appears when all are told; an interrupt leaves it as it was
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
    // The first interrupt sets the flag; the second one ends the program as
    // if there were no handler.
    let signal = signal_hook::consts::SIGINT;
    signal_hook::flag::register_conditional_default(signal, interrupted.clone())?;
    signal_hook::flag::register(signal, interrupted.clone())?;

    let model = arguments.model.load(&files)?;
    let job = Job {
        arguments,
        text: &text,
        given: &given,
        prompt: if arguments.chat { "" } else { &given },
        request: &request,
        interrupted: &interrupted,
    };
    if arguments.out.is_none() && arguments.stories == 1 {
        job.print(&model)?;
        return Ok(exit_code(interrupted.load(Ordering::Relaxed)));
    }
    let texts = job.draw(&model)?;
    let interrupted = interrupted.load(Ordering::Relaxed);
    match &arguments.out {
        None => io::stdout().write_all(texts.as_bytes())?,
        Some(path) if interrupted => {
            note(&format!("interrupted: {} is not written", path.display()));
        }
        Some(path) => output::write_atomically(path, &texts)?,
    }
    Ok(exit_code(interrupted))
}

fn exit_code(interrupted: bool) -> ExitCode {
    match interrupted {
        true => ExitCode::from(INTERRUPTED),
        false => ExitCode::SUCCESS,
    }
}

/// A request, and the text around it.
struct Job<'a> {
    arguments: &'a Arguments,
    text: &'a Text,
    /// The prompt as it was given.
    given: &'a str,
    /// The text that is printed before the continuation: nothing before an answer.
    prompt: &'a str,
    request: &'a Request,
    interrupted: &'a AtomicBool,
}

impl Job<'_> {
    /// One text on standard output, as it comes, and the figures on standard error.
    fn print(&self, model: &Model) -> anyhow::Result<()> {
        let mut batch = model.batch(1, self.tokens(model))?;
        let mut generations = Generations::new(&mut batch);
        let request = generations.push(self.request)?;
        let mut out = io::stdout().lock();
        write!(out, "{}", self.prompt)?;
        out.flush()?;

        let mut story = self.story();
        let (mut failure, mut end) = (None, None);
        while end.is_none() && failure.is_none() && generations.left() > 0 {
            let mut piece = String::new();
            let step = generations.step(|_, token| piece = story.push(token));
            failure = step.err();
            write!(out, "{piece}")?;
            out.flush()?;
            if story.stopped {
                end = Some("--stop");
            } else if generations.left() > 0 && self.interrupted.load(Ordering::Relaxed) {
                end = Some("interrupt");
            }
        }
        // The line of the text ends before an error begins.
        writeln!(out, "{}", story.finish())?;
        out.flush()?;
        if let Some(error) = failure {
            return Err(error.into());
        }
        let end = end.unwrap_or(match generations.finish(request) {
            Some(Finish::EndOfText) => "end of text",
            Some(Finish::MaxTokens) => "--max-tokens",
            Some(Finish::ContextEnd) | None => "end of the context",
        });
        note(&format!(
            "\n{}",
            self.report(model, end, generations.timing(request))?
        ));
        Ok(())
    }

    /// As many texts as asked for, with seeds that count up from the request's. An interrupt ends
    /// those that are running, and no other begins.
    fn draw(&self, model: &Model) -> Result<String, Error> {
        let count = self.arguments.stories;
        let progress = progress(count, "stories");
        let places = usize::try_from(count).unwrap_or(usize::MAX);
        let places = self.arguments.batch.min(places);
        let mut batch = model.batch(places, self.tokens(model))?;
        let mut generations = Generations::new(&mut batch);
        let mut seeds = (0..count).map(|index| self.request.seed.wrapping_add(index));
        let mut drawn = Vec::new();
        while !self.interrupted.load(Ordering::Relaxed) {
            for seed in seeds.by_ref().take(places - generations.left()) {
                let request = self.request.clone();
                generations.push(&Request { seed, ..request })?;
                drawn.push((self.story(), self.prompt.to_owned()));
            }
            if generations.left() == 0 {
                break;
            }
            let mut stopped = Vec::new();
            generations.step(|number, token| {
                let (story, text) = &mut drawn[number];
                text.push_str(&story.push(token));
                if story.stopped {
                    stopped.push(number);
                }
            })?;
            for number in stopped {
                generations.cancel(number)?;
            }
            progress.set_position((drawn.len() - generations.left()) as u64);
        }
        progress.finish();
        let mut texts = self.arguments.command(self.given, self.request.seed);
        for (story, text) in drawn {
            output::append_story(&mut texts, &(text + &story.finish()));
        }
        Ok(texts)
    }

    /// The most tokens of a text, prompt and continuation together.
    fn tokens(&self, model: &Model) -> usize {
        let asked = self.request.max_tokens.unwrap_or(usize::MAX);
        let tokens = self.request.prompt.len().saturating_add(asked);
        tokens.min(model.architecture().context)
    }

    /// A continuation without tokens.
    fn story(&self) -> Story<'_> {
        Story {
            decoder: self.text.decoder(),
            stop: Stop::new(self.arguments.stop.clone()),
            stopped: false,
        }
    }

    /// The device, the seed and the times, as they are printed.
    fn report(&self, model: &Model, end: &str, timing: Timing) -> Result<String, Error> {
        let device = gpu::device_label(model.context())?;
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
        // One token has no time to the next.
        let tbt = timing.between().map_or(String::new(), |t| {
            let ms = t.as_secs_f64() * 1e3;
            format!(", between tokens (TBT) {ms:.1} ms on average")
        });
        Ok(format!(
            "device  {device}\n\
             seed    {seed}\n\
             tokens  {tokens}, then {end}; {speed:.1} tokens/s after start-up\n\
             time    to first token (TTFT) {ttft:.1} ms{tbt}{simulated}",
        ))
    }
}

/// The text of a continuation, as its tokens come.
struct Story<'t> {
    decoder: StreamDecoder<'t>,
    stop: Stop,
    /// True after a string of `--stop`.
    stopped: bool,
}

impl Story<'_> {
    /// The text that `token` makes certain.
    fn push(&mut self, token: u32) -> String {
        let (piece, stopped) = self.stop.push(&self.decoder.push(token));
        self.stopped |= stopped;
        piece
    }

    /// The text held back: nothing behind a string of `--stop`.
    fn finish(mut self) -> String {
        if self.stopped {
            return String::new();
        }
        let (piece, _) = self.stop.push(&self.decoder.finish());
        piece + &self.stop.finish()
    }
}

impl Arguments {
    /// The rule by which tokens are chosen.
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

    /// The command that draws the same texts again, as a comment line. A shell reads from
    /// it what this program read.
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

/// A seed short enough to type, from the randomness that the standard
/// library takes from the system.
fn random_seed() -> u64 {
    RandomState::new().hash_one(std::process::id()) % 1_000_000
}

/// Writes `text` on one line so that a shell reads it as one word: in single quotes if it must be,
/// and in `$'…'`, which bash and zsh know, if it holds control characters such as newlines.
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

    /// Tokens of "a!", and of the first byte of a character behind it.
    #[rstest]
    #[case::held_text_is_flushed("!x", "a!\u{FFFD}", false)]
    #[case::nothing_behind_a_stop("!", "a", true)]
    fn a_story_ends_with_what_was_held_back(
        #[case] stop: &str,
        #[case] expected: &str,
        #[case] stopped: bool,
    ) {
        let files = stage6_pipeline::ModelFiles::storyteller();
        let architecture = Config::load(&files).unwrap().architecture;
        let text = Text::load(&files, &architecture).unwrap();
        let mut story = Story {
            decoder: text.decoder(),
            stop: Stop::new([stop.to_owned()]),
            stopped: false,
        };
        let mut tokens = text.encode("a!").unwrap();
        // A token without a whole character: the first of an emoji that the
        // vocabulary has in parts.
        let emoji = text.encode("🦊").unwrap();
        assert!(emoji.len() > 1);
        tokens.push(emoji[0]);
        let mut found = String::new();
        for token in tokens {
            found += &story.push(token);
        }
        assert_eq!(story.stopped, stopped);
        assert_eq!(found + &story.finish(), expected);
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
