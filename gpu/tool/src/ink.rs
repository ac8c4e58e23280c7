//! Colour on a terminal, none in a file.

use std::env;
use std::io::{self, IsTerminal};

/// Colours of text: true for colour, false for none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ink(pub bool);

impl Ink {
    /// For what goes to this stream: colour on a terminal, unless `NO_COLOR` is set
    /// (<https://no-color.org>).
    pub fn for_stream(stream: &impl IsTerminal) -> Ink {
        let refused = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let dumb = env::var_os("TERM").is_some_and(|value| value == "dumb");
        Ink(stream.is_terminal() && !refused && !dumb)
    }

    /// For what goes to standard output.
    pub fn stdout() -> Ink {
        Ink::for_stream(&io::stdout())
    }

    /// Colours a text by the share of the points that it tells of: all, some or none.
    pub fn by_share(self, share: f64, text: &str) -> String {
        if share >= 1.0 {
            self.with("32", text)
        } else if share > 0.0 {
            self.with("33", text)
        } else {
            self.red(text)
        }
    }

    /// For what stands out.
    pub fn bold(self, text: &str) -> String {
        self.with("1", text)
    }

    /// For what is wrong or slow.
    pub fn red(self, text: &str) -> String {
        self.with("31", text)
    }

    /// For what matters less.
    pub fn dim(self, text: &str) -> String {
        self.with("2", text)
    }

    fn with(self, code: &str, text: &str) -> String {
        if self.0 {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }
}
