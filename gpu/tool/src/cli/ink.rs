//! Colour on a terminal, none in a file.

use std::env;
use std::io::IsTerminal;

/// Colours of text, or none.
#[derive(Clone, Copy)]
pub struct Ink(bool);

impl Ink {
    /// For what goes to this stream: colour on a terminal, unless `NO_COLOR` is set
    /// (<https://no-color.org>).
    pub fn for_stream(stream: &impl IsTerminal) -> Ink {
        let refused = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let dumb = env::var_os("TERM").is_some_and(|value| value == "dumb");
        Ink(stream.is_terminal() && !refused && !dumb)
    }

    /// Never any.
    #[cfg(test)]
    pub fn none() -> Ink {
        Ink(false)
    }

    /// Always.
    #[cfg(test)]
    pub fn always() -> Ink {
        Ink(true)
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
