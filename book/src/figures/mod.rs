//! The pictures: SVG drawn by code, one file per part of the book.
//!
//! A picture is set into the page itself, so that it takes the colours of the reader's theme.

mod attention;
mod canvas;
mod decode;
mod gpu;
mod model;
mod products;
mod softmax;
mod tiles;

use anyhow::{Context, Result};
use canvas::{Canvas, escaped};

/// A picture.
struct Figure {
    name: &'static str,
    /// What it shows, for those who do not see it.
    description: &'static str,
    caption: &'static str,
    size: (u32, u32),
    draw: fn(&mut Canvas),
}

fn all() -> impl Iterator<Item = &'static Figure> {
    [
        gpu::FIGURES,
        attention::FIGURES,
        softmax::FIGURES,
        products::FIGURES,
        tiles::FIGURES,
        decode::FIGURES,
        model::FIGURES,
    ]
    .into_iter()
    .flatten()
}

/// The names of all pictures.
pub fn names() -> impl Iterator<Item = &'static str> {
    all().map(|figure| figure.name)
}

/// A picture with its caption.
pub fn html(name: &str) -> Result<String> {
    let figure = all().find(|figure| figure.name == name);
    let figure = figure.with_context(|| format!("there is no figure {name:?}"))?;
    let mut canvas = Canvas::new();
    (figure.draw)(&mut canvas);
    let svg = canvas.svg(figure.size.0, figure.size.1, figure.description);
    let caption = escaped(figure.caption);
    Ok(format!(
        "<figure><div class=\"drawing\" tabindex=\"0\">{svg}</div><figcaption>{caption}</figcaption></figure>\n"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_has_a_name_of_its_own_and_a_description() {
        let mut seen: Vec<&str> = names().collect();
        seen.sort_unstable();
        assert!(
            seen.len() >= 16 && seen.windows(2).all(|pair| pair[0] != pair[1]),
            "{seen:?}"
        );
        for figure in all() {
            assert!(figure.description.len() > 40, "{}", figure.name);
            let html = html(figure.name).unwrap();
            assert!(
                !html.contains("NaN") && html.lines().count() == 1,
                "{}",
                figure.name
            );
        }
    }
}
