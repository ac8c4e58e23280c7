//! The time of a token by kernel, as a bar chart in SVG.

use plotters::prelude::*;

use super::bench::Report;

/// The chart as an SVG document.
pub fn svg(report: &Report) -> anyhow::Result<String> {
    let kernels = &report.kernels;
    let longest = kernels
        .iter()
        .map(|of| of.us_per_token)
        .fold(1e-9, f64::max);
    let mut svg = String::new();
    let height = 90 + 26 * kernels.len() as u32;
    let root = SVGBackend::with_string(&mut svg, (640, height)).into_drawing_area();
    root.fill(&WHITE)?;
    let caption = format!("time of a token by kernel, {}", report.times);
    let mut chart = ChartBuilder::on(&root)
        .caption(caption, ("sans-serif", 15))
        .margin(10)
        .x_label_area_size(35)
        .y_label_area_size(120)
        .build_cartesian_2d(
            0.0..1.05 * longest,
            (0..kernels.len() as i32).into_segmented(),
        )?;
    let name = |at: &SegmentValue<i32>| match at {
        SegmentValue::CenterOf(row) => {
            let kernel = usize::try_from(*row).ok().and_then(|row| kernels.get(row));
            kernel.map_or(String::new(), |of| of.kernel.clone())
        }
        SegmentValue::Exact(_) | SegmentValue::Last => String::new(),
    };
    let mut mesh = chart.configure_mesh();
    mesh.disable_y_mesh()
        .y_labels(kernels.len())
        .y_label_formatter(&name);
    mesh.x_desc("µs").draw()?;
    chart.draw_series((0_i32..).zip(kernels).map(|(row, of)| {
        let (from, to) = (SegmentValue::Exact(row), SegmentValue::Exact(row + 1));
        let mut bar = Rectangle::new(
            [(0.0, from), (of.us_per_token, to)],
            Palette99::pick(0).filled(),
        );
        bar.set_margin(4, 4, 0, 0);
        bar
    }))?;
    drop(chart);
    drop(root);
    Ok(svg)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::bench::{KernelTime, Summary};

    fn chart(kernels: &[&str]) -> String {
        let summary = Summary {
            median: 1.0,
            p95: 1.0,
        };
        let kernel = |name: &&str| KernelTime {
            kernel: (*name).to_owned(),
            launches_per_token: 1.0,
            us_per_token: 1.0,
            share: 0.5,
        };
        svg(&Report {
            device: String::new(),
            times: "modelled (h100)".to_owned(),
            products: String::new(),
            batch: 1,
            prompt_tokens: 1,
            tokens: 2,
            ttft_us: summary,
            tbt_us: summary,
            tokens_per_second: 1.0,
            step_bytes: 1,
            bandwidth: 0.5,
            kernels: kernels.iter().map(kernel).collect(),
        })
        .unwrap()
    }

    #[test]
    fn every_kernel_has_a_name_and_a_bar() {
        let bars = |svg: &str| svg.matches("<rect").count();
        let (none, two) = (chart(&[]), chart(&["gemv", "split"])); // a GPU gives none
        assert_eq!(bars(&two), bars(&none) + 2);
        for part in ["modelled (h100)", "gemv", "split"] {
            assert!(two.contains(part), "{two}");
        }
    }
}
