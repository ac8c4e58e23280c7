//! A small SVG writer. Shapes have classes; `figures.css` gives these their colours in light and
//! dark.

use std::fmt::Write;

/// A drawing.
#[derive(Debug, Clone, Default)]
pub struct Canvas {
    body: String,
}

/// Where a text lies about its point.
#[derive(Clone, Copy)]
pub enum At {
    /// It begins there.
    Start,
    /// Its middle is there.
    Middle,
    /// It ends there.
    End,
}

impl Canvas {
    /// An empty drawing.
    pub fn new() -> Self {
        Self {
            body: String::new(),
        }
    }

    /// The drawing as one line of SVG for a page that has `figures.css`, `label` being its
    /// description.
    pub fn svg(&self, width: u32, height: u32, label: &str) -> String {
        format!(
            "<svg class=\"figure\" role=\"img\" aria-label=\"{}\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\">{}</svg>",
            escaped(label),
            self.body
        )
    }

    /// The drawing as a file of its own, in the colours that the reader prefers.
    pub fn file(&self, width: u32, height: u32, label: &str) -> String {
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"figure alone\" role=\"img\" aria-label=\"{}\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\">\n<style>\n{}</style>\n{}\n</svg>\n",
            escaped(label),
            include_str!("figures.css"),
            self.body
        )
    }

    /// A rectangle.
    pub fn rect(&mut self, class: &str, x: f64, y: f64, width: f64, height: f64) {
        self.add(format_args!(
            "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"2\"></rect>"
        ));
    }

    /// A rectangle with a text in its middle.
    pub fn cell(&mut self, class: &str, x: f64, y: f64, width: f64, height: f64, text: &str) {
        self.rect(class, x, y, width, height);
        self.text(At::Middle, x + width / 2.0, y + height / 2.0 + 4.5, text);
    }

    /// A rectangle with lines of text in its middle.
    pub fn card(&mut self, class: &str, x: f64, y: f64, width: f64, height: f64, lines: &[&str]) {
        self.rect(class, x, y, width, height);
        let top = y + height / 2.0 + 4.5 - 9.0 * (lines.len() as f64 - 1.0);
        for (line, text) in lines.iter().enumerate() {
            self.text(At::Middle, x + width / 2.0, top + 18.0 * line as f64, text);
        }
    }

    /// A text of the usual size.
    pub fn text(&mut self, at: At, x: f64, y: f64, text: &str) {
        self.words("", at, x, y, text);
    }

    /// A smaller text.
    pub fn note(&mut self, at: At, x: f64, y: f64, text: &str) {
        self.words("note", at, x, y, text);
    }

    /// A bold text.
    pub fn heading(&mut self, at: At, x: f64, y: f64, text: &str) {
        self.words("heading", at, x, y, text);
    }

    fn words(&mut self, class: &str, at: At, x: f64, y: f64, text: &str) {
        let at = match at {
            At::Start => "start",
            At::Middle => "middle",
            At::End => "end",
        };
        let text = escaped(text);
        self.add(format_args!(
            "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{at}\">{text}</text>"
        ));
    }

    /// A line.
    pub fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        let ((x1, y1), (x2, y2)) = (from, to);
        self.add(format_args!(
            "<line class=\"{class}\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"></line>"
        ));
    }

    /// A line with a head at its end.
    pub fn arrow(&mut self, from: (f64, f64), to: (f64, f64)) {
        let (dx, dy) = (to.0 - from.0, to.1 - from.1);
        let length = dx.hypot(dy).max(1e-9);
        let (ux, uy) = (dx / length, dy / length);
        let base = (to.0 - 7.0 * ux, to.1 - 7.0 * uy);
        self.line("arrow", from, base);
        let (left, right) = (
            (base.0 - 3.5 * uy, base.1 + 3.5 * ux),
            (base.0 + 3.5 * uy, base.1 - 3.5 * ux),
        );
        self.add(format_args!(
            "<path class=\"head\" d=\"M{:.1} {:.1}L{:.1} {:.1}L{:.1} {:.1}Z\"></path>",
            to.0, to.1, left.0, left.1, right.0, right.1
        ));
    }

    /// A chain of lines.
    pub fn chain(&mut self, class: &str, points: &[(f64, f64)]) {
        let points: Vec<String> = points
            .iter()
            .map(|(x, y)| format!("{x:.1},{y:.1}"))
            .collect();
        self.add(format_args!(
            "<polyline class=\"{class}\" points=\"{}\"></polyline>",
            points.join(" ")
        ));
    }

    /// A dot.
    pub fn dot(&mut self, class: &str, x: f64, y: f64) {
        self.add(format_args!(
            "<circle class=\"{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\"></circle>"
        ));
    }

    fn add(&mut self, element: std::fmt::Arguments<'_>) {
        self.body
            .write_fmt(element)
            .expect("a string takes all text");
    }
}

/// Text as HTML has it.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}
