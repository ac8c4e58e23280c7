//! Line charts as SVG, with logarithmic axes.

use std::fs;
use std::ops::Range;
use std::path::Path;

use anyhow::Context;
use plotters::prelude::*;

/// A chart.
#[derive(Debug, Clone, PartialEq)]
pub struct Chart<'a> {
    /// Above the chart: what is shown, whether it was measured, and on which device.
    pub title: &'a str,
    /// The quantity of the x axis, with its unit.
    pub x_label: &'a str,
    /// The x axis has numbers at powers of this.
    pub x_base: f64,
    /// The quantity of the y axis, with its unit.
    pub y_label: &'a str,
    /// The lines, in the order of their legend.
    pub lines: Vec<Line>,
}

/// A line of a chart.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// Its name in the legend.
    pub name: String,
    /// Points with positive coordinates. Each has a mark.
    pub points: Vec<(f64, f64)>,
}

impl Chart<'_> {
    /// Writes the chart to `name.svg` in a folder, which is made if it is not there.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub fn write(&self, folder: &Path, name: &str) -> anyhow::Result<()> {
        fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        let path = folder.join(format!("{name}.svg"));
        fs::write(&path, self.svg()?).with_context(|| path.display().to_string())
    }

    /// The chart as an SVG document.
    ///
    /// # Errors
    ///
    /// A point that cannot be drawn.
    pub fn svg(&self) -> anyhow::Result<String> {
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let x = range(points().map(|point| point.0)).log_scale();
        let y = range(points().map(|point| point.1)).log_scale();
        let mut svg = String::new();
        let root = SVGBackend::with_string(&mut svg, (640, 400)).into_drawing_area();
        root.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(&root)
            .caption(self.title, ("sans-serif", 15))
            .margin(10)
            .x_label_area_size(40)
            .y_label_area_size(60)
            .build_cartesian_2d(x.base(self.x_base), y)?;
        let mut mesh = chart.configure_mesh();
        let number = &|x: &f64| format!("{x}");
        mesh.x_label_formatter(number).y_label_formatter(number);
        mesh.max_light_lines(0);
        mesh.x_desc(self.x_label).y_desc(self.y_label).draw()?;
        for (i, line) in self.lines.iter().enumerate() {
            // Of two lines that coincide, the later one is thinner and shows the other.
            let width = if i % 2 == 0 { 4 } else { 2 };
            let style = Palette99::pick(i).stroke_width(width).filled();
            let series = LineSeries::new(line.points.iter().copied(), style).point_size(3);
            chart
                .draw_series(series)?
                .label(&line.name)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], style));
        }
        let mut names = chart.configure_series_labels();
        names.position(SeriesLabelPosition::UpperLeft);
        names.background_style(WHITE.mix(0.8)).draw()?;
        drop(chart);
        drop(root);
        Ok(svg)
    }
}

/// From the smallest to the largest value, which are apart from each other.
fn range(values: impl Iterator<Item = f64>) -> Range<f64> {
    let (from, to) = values.fold((f64::INFINITY, 0.0), |(from, to), x: f64| {
        (x.min(from), x.max(to))
    });
    match from.is_finite() {
        true if from < to => from..to,
        true => from..2.0 * from,
        false => 1.0..2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_has_its_points_between_the_axes() {
        let line = |name: &str, points: &[(f64, f64)]| Line {
            name: name.to_owned(),
            points: points.to_vec(),
        };
        let chart = Chart {
            title: "a < b",
            x_label: "N",
            x_base: 2.0,
            y_label: "ms",
            lines: vec![
                line("rising", &[(128.0, 1.0), (256.0, 10.0), (512.0, 100.0)]),
                line("single", &[(256.0, 10.0)]),
            ],
        };
        let svg = chart.svg().unwrap();
        // 128 to 512 on a logarithmic axis: 256 is in the middle. A line of one
        // point is seen by its mark.
        let circles = svg.lines().filter(|line| line.starts_with("<circle"));
        let circles = Vec::from_iter(circles.filter_map(|line| line.split_once(" r=")));
        assert_eq!(circles.len(), 4, "{svg}");
        assert_eq!(circles[1].0, circles[3].0, "{svg}");
        for text in ["512", "rising", "single", "a &lt; b"] {
            let found = svg.lines().any(|line| line.trim() == text);
            assert!(found, "{text}: {svg}");
        }
    }
}
