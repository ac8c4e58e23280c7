//! The pictures: SVG drawn by code, one file per part of the book; in `recorded/`, those of real runs.
//!
//! A picture is set into the page itself, so that it takes the colours of the reader's theme.

mod attention;
mod decode;
mod gpu;
mod measured;
mod model;
mod occupancy;
mod products;
mod recorded;
mod softmax;
mod tiles;
mod timeline;
mod tuning;

use anyhow::{Context, Result};
use gpu_recording::{Canvas, escaped};

use crate::generated;

/// A picture.
struct Figure {
    name: &'static str,
    /// Description for those who do not see it.
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
        measured::FIGURES,
        tuning::FIGURES,
        occupancy::FIGURES,
        timeline::FIGURES,
    ]
    .into_iter()
    .flatten()
}

/// The names of all pictures.
pub fn names() -> impl Iterator<Item = &'static str> {
    let drawn = all().map(|figure| figure.name);
    drawn.chain(recorded::all().map(|figure| figure.name))
}

/// A picture with its caption.
pub fn html(name: &str) -> Result<String> {
    if let Some(figure) = recorded::all().find(|figure| figure.name == name) {
        let recordings = figure.recordings.iter();
        let recordings: Result<Vec<_>> =
            recordings.map(|name| generated::recording(name)).collect();
        let picture = (figure.draw)(&recordings?)?;
        let description = match figure.description {
            "" => &*picture.description,
            description => description,
        };
        return Ok(html_of(
            &picture.canvas,
            picture.size,
            description,
            figure.caption,
        ));
    }
    let figure = all().find(|figure| figure.name == name);
    let figure = figure.with_context(|| format!("there is no figure {name:?}"))?;
    let mut canvas = Canvas::new();
    (figure.draw)(&mut canvas);
    Ok(html_of(
        &canvas,
        figure.size,
        figure.description,
        figure.caption,
    ))
}

/// The generated blocks that pictures are drawn from, by the picture's name.
pub fn recordings() -> impl Iterator<Item = (&'static str, &'static [&'static str])> {
    let recorded = recorded::all().map(|figure| (figure.name, figure.recordings));
    recorded.chain([timeline::DRAWN_FROM])
}

fn html_of(canvas: &Canvas, size: (u32, u32), description: &str, caption: &str) -> String {
    let svg = canvas.svg(size.0, size.1, description);
    let caption = escaped(caption);
    format!(
        "<figure><div class=\"drawing\" tabindex=\"0\">{svg}</div><figcaption>{caption}</figcaption></figure>\n"
    )
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
        for name in names() {
            let html = html(name).unwrap();
            let (_, label) = html.split_once("aria-label=\"").unwrap();
            assert!(label.find('"').is_some_and(|length| length > 40), "{name}");
            assert!(!html.contains("NaN") && html.lines().count() == 1, "{name}");
        }
    }
}
