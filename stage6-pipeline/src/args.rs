//! The command line.

use std::path::PathBuf;

use clap::Parser;
use stage6_pipeline::{Error, Sampling};

/// Tells a story with a GPT-2 model whose every step runs as a CUDA kernel, on an NVIDIA GPU or, without one,
/// on the simulated device.
#[derive(Debug, Parser)]
#[command(version)]
pub struct Args {
    /// What the story begins with
    #[arg(long, default_value = "Once upon a time", allow_hyphen_values = true)]
    pub prompt: String,

    /// Folder with config.json, tokenizer.json and model.safetensors of a GPT-2 (the embedded storyteller if
    /// not given)
    #[arg(long, value_name = "DIR")]
    pub model: Option<PathBuf>,

    /// The most tokens to generate (up to the end of the context if not given)
    #[arg(long, value_name = "N")]
    pub max_tokens: Option<usize>,

    /// Below 1 the likely words gain, above 1 the unlikely; 0 always takes the likeliest token
    #[arg(
        long,
        value_name = "T",
        default_value_t = 0.8,
        allow_negative_numbers = true
    )]
    pub temperature: f32,

    /// Draw from the K likeliest tokens only
    #[arg(long, value_name = "K")]
    pub top_k: Option<usize>,

    /// Draw from the likeliest tokens that together have probability P only
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    pub top_p: Option<f32>,

    /// Number that names the story (random, and printed, if not given)
    #[arg(long)]
    pub seed: Option<u64>,

    /// How many stories to draw, with the seeds SEED, SEED + 1, ...
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub stories: u64,

    /// Write the stories to a file, which appears when all are told
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,

    /// Number of the CUDA device
    #[arg(long, value_name = "ORDINAL", default_value_t = 0)]
    pub device: usize,
}

impl Args {
    /// How tokens are chosen.
    pub fn sampling(&self) -> Sampling {
        Sampling {
            temperature: self.temperature,
            top_k: self.top_k,
            top_p: self.top_p,
        }
    }

    /// The command that draws the same stories again, as a comment line. A shell reads from it what this program read.
    pub fn command(&self, seed: u64) -> String {
        let mut command = format!(
            "# cargo run --release -p stage6-pipeline -- --prompt {} --temperature {} --seed {seed} --stories {}",
            shell_word(&self.prompt),
            self.temperature,
            self.stories,
        );
        let mut add = |name: &str, value: Option<String>| {
            command.extend(value.map(|value| format!(" --{name} {value}")));
        };
        add("top-k", self.top_k.map(|k| k.to_string()));
        add("top-p", self.top_p.map(|p| p.to_string()));
        add("max-tokens", self.max_tokens.map(|n| n.to_string()));
        add(
            "model",
            self.model
                .as_ref()
                .map(|folder| shell_word(&folder.to_string_lossy())),
        );
        add(
            "out",
            self.out
                .as_ref()
                .map(|file| shell_word(&file.to_string_lossy())),
        );
        command + "\n"
    }

    /// Checks what needs no model.
    pub fn validate(&self) -> Result<(), Error> {
        self.sampling().validate()?;
        if self.stories == 0 {
            let (setting, found) = ("stories", "0".to_owned());
            return Err(Error::Setting {
                setting,
                found,
                expected: "at least 1",
            });
        }
        match &self.out {
            Some(path) => crate::output::check(path),
            None => Ok(()),
        }
    }
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
        assert_eq!(Args::parse_from(arguments).command(1), format!("{head}\n"));
    }
}
