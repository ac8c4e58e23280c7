//! Line charts as SVG, with logarithmic axes.

use std::fmt::Write as _;

/// A chart.
pub struct Chart<'a> {
    pub title: &'a str,
    pub x_label: &'a str,
    /// Where the x axis has numbers.
    pub x_ticks: Vec<f64>,
    pub y_label: &'a str,
    pub lines: Vec<Line>,
}

/// A line of a chart: its name, and points with positive coordinates. Each has a mark.
pub struct Line {
    pub name: String,
    pub points: Vec<(f64, f64)>,
}

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 400.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 150.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 50.0;
const COLOURS: [&str; 7] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000",
];

impl Chart<'_> {
    /// The chart as an SVG document.
    pub fn svg(&self) -> String {
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let ticks = self.x_ticks.iter().copied();
        let (x_from, x_to) = range(points().map(|point| point.0).chain(ticks).map(f64::log2));
        let (y_from, y_to) = range(points().map(|point| point.1.log10()));
        let (y_from, y_to) = (y_from.floor(), y_to.ceil().max(y_from.floor() + 1.0));
        let x_of = |x: f64| LEFT + (x.log2() - x_from) / (x_to - x_from) * (WIDTH - LEFT - RIGHT);
        let y_of = |y: f64| {
            HEIGHT - BOTTOM - (y.log10() - y_from) / (y_to - y_from) * (HEIGHT - TOP - BOTTOM)
        };
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" font-size=\"12\">\n\
             <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>\n"
        );
        let mut text = |x: f64, y: f64, anchor: &str, words: &str| {
            let words = words.replace('&', "&amp;").replace('<', "&lt;");
            let _ = writeln!(
                svg,
                "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{words}</text>"
            );
        };
        text(LEFT + 30.0, 16.0, "start", self.title);
        text(
            (LEFT + WIDTH - RIGHT) / 2.0,
            HEIGHT - 12.0,
            "middle",
            self.x_label,
        );
        text(8.0, TOP - 16.0, "start", self.y_label);
        for &x in &self.x_ticks {
            text(x_of(x), HEIGHT - BOTTOM + 18.0, "middle", &format!("{x}"));
        }
        for power in y_from as i32..=y_to as i32 {
            text(
                LEFT - 6.0,
                y_of(10f64.powi(power)) + 4.0,
                "end",
                &match power {
                    -3..=4 => format!("{}", 10f64.powi(power)),
                    _ => format!("1e{power}"),
                },
            );
        }
        for (i, line) in self.lines.iter().enumerate() {
            text(
                WIDTH - RIGHT + 34.0,
                TOP + 18.0 * i as f64 + 4.0,
                "start",
                &line.name,
            );
        }
        for power in y_from as i32..=y_to as i32 {
            let (y, right) = (y_of(10f64.powi(power)), WIDTH - RIGHT);
            let _ = writeln!(svg, "<path d=\"M{LEFT} {y:.1}H{right}\" stroke=\"#ccc\"/>");
        }
        for (i, line) in self.lines.iter().enumerate() {
            let colour = COLOURS[i % COLOURS.len()];
            // Of two lines that coincide, the later one is dashed and shows the other.
            let dashes = if i % 2 == 1 {
                " stroke-dasharray=\"6 5\""
            } else {
                ""
            };
            let stroke = format!("fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"{dashes}");
            let (x, y) = (WIDTH - RIGHT + 10.0, TOP + 18.0 * i as f64);
            let _ = writeln!(svg, "<path d=\"M{x} {y}h20\" {stroke}/>");
            let places = line.points.iter().map(|&(x, y)| (x_of(x), y_of(y)));
            let corners: Vec<String> = places
                .clone()
                .map(|(x, y)| format!("{x:.1},{y:.1}"))
                .collect();
            let _ = writeln!(svg, "<polyline points=\"{}\" {stroke}/>", corners.join(" "));
            for (x, y) in places {
                let _ = writeln!(
                    svg,
                    "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>"
                );
            }
        }
        svg + "</svg>\n"
    }
}

/// The smallest and the largest value, apart from each other.
fn range(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (from, to) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(from, to), x| {
        (from.min(x), to.max(x))
    });
    match from.is_finite() {
        true if from < to => (from, to),
        true => (from, from + 1.0),
        false => (0.0, 1.0),
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
            x_ticks: vec![128.0, 512.0],
            y_label: "ms",
            lines: vec![
                line("rising", &[(128.0, 1.0), (256.0, 10.0), (512.0, 100.0)]),
                line("single", &[(256.0, 10.0)]),
            ],
        };
        let svg = chart.svg();
        // 128 to 512 on a logarithmic axis: 256 is in the middle.
        assert!(
            svg.contains("points=\"70.0,350.0 280.0,195.0 490.0,40.0\""),
            "{svg}"
        );
        // A line of one point is seen by its mark.
        assert!(svg.contains("<circle cx=\"280.0\" cy=\"195.0\""), "{svg}");
        assert!(svg.contains(">512</text>"), "{svg}");
        assert!(svg.contains("a &lt; b"), "{svg}");
    }
}
