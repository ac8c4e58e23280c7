//! Colour on a terminal, none in a file.

/// The choice of coloured text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ink(pub bool);

impl Ink {
    /// For what goes to standard output: colour on a terminal, unless `NO_COLOR` is set or `TERM` is `dumb`
    /// (<https://no-color.org>).
    pub fn stdout() -> Self {
        Self(console::colors_enabled())
    }

    /// Colours a text by the share of the points that it tells of: all, some or none.
    pub fn by_share(self, share: f64, text: &str) -> String {
        let styled = console::style(text).force_styling(self.0);
        let styled = if share >= 1.0 {
            styled.green()
        } else if share > 0.0 {
            styled.yellow()
        } else {
            styled.red()
        };
        styled.to_string()
    }

    /// For headings.
    pub fn bold(self, text: &str) -> String {
        console::style(text)
            .force_styling(self.0)
            .bold()
            .to_string()
    }

    /// For what matters less.
    pub fn dim(self, text: &str) -> String {
        console::style(text).force_styling(self.0).dim().to_string()
    }
}
