//! Roofline of the learner's kernels: rate of operations over operations for each byte of DRAM traffic.

use bench_kit::{Chart, Line, Peaks};

use super::name;
use crate::verdict::Grade;

/// The chart as an SVG document; `None` if no kernel with operations was counted.
///
/// # Errors
///
/// A point that cannot be drawn.
pub fn svg(grade: &Grade, peaks: &Peaks) -> anyhow::Result<Option<String>> {
    let kernels = kernels(grade);
    let Some((least, most)) = extent(&kernels, peaks) else {
        return Ok(None);
    };
    let roof = |intensity: f64| (intensity, peaks.at(intensity) / 1e12);
    let mut lines = kernels;
    lines.push(Line {
        name: "roof of the device, f32".to_owned(),
        points: vec![roof(least), roof(peaks.flops / peaks.bytes), roof(most)],
    });
    let chart = Chart {
        title: &format!("roofline, modelled, {}", grade.device),
        x_label: "FLOP for each byte of DRAM traffic",
        x_base: 10.0,
        y_label: "TFLOP/s",
        lines,
    };
    chart.svg().map(Some)
}

/// The chart for a page that is light or dark: no background, and the page's own colour for text and axes.
pub fn without_colours(svg: &str) -> String {
    svg.replace("\"#FFFFFF\"", "\"none\"")
        .replace("\"#000000\"", "\"currentColor\"")
}

/// A line of one point for each launch that computes; one kernel's launches of a task are added.
fn kernels(grade: &Grade) -> Vec<Line> {
    let mut lines = Vec::new();
    for task in &grade.tasks {
        let launches = task.work.iter().flat_map(|work| &work.launches);
        let mut kernels: Vec<(&str, [f64; 3])> = Vec::new();
        for launch in launches {
            let work = [launch.microseconds, launch.flops, launch.dram_bytes];
            match kernels
                .iter_mut()
                .find(|(kernel, _)| *kernel == launch.kernel)
            {
                Some((_, sum)) => *sum = std::array::from_fn(|i| sum[i] + work[i]),
                None => kernels.push((&launch.kernel, work)),
            }
        }
        for (kernel, [microseconds, flops, bytes]) in kernels {
            let point = (flops / bytes, flops / microseconds / 1e6);
            if [point.0, point.1].iter().all(|x| x.is_finite() && *x > 0.0) {
                lines.push(Line {
                    name: format!("{}: {kernel}", name(task)),
                    points: vec![point],
                });
            }
        }
    }
    lines
}

/// Powers of ten around all points and the ridge.
fn extent(kernels: &[Line], peaks: &Peaks) -> Option<(f64, f64)> {
    let ridge = peaks.flops / peaks.bytes;
    let intensities = || {
        kernels
            .iter()
            .flat_map(|line| &line.points)
            .map(|point| point.0)
    };
    intensities().next()?;
    let least = intensities().fold(ridge.min(1.0), f64::min).log10().floor();
    let most = intensities().fold(ridge, f64::max).log10().ceil();
    Some((10f64.powi(least as i32), 10f64.powi(most as i32)))
}

#[cfg(test)]
mod tests {
    use super::super::example;
    use super::*;

    const PEAKS: Peaks = Peaks {
        flops: 6e13,
        bytes: 3e12,
    };

    #[test]
    fn launches_of_a_kernel_are_one_point() {
        let mut grade = example::grade();
        let work = grade.tasks[2].work.as_mut().unwrap();
        work.launches.push(work.launches[0].clone());
        let mut copy = work.launches[0].clone();
        copy.kernel = "copy".to_owned();
        copy.flops = 0.0; // has no place on a logarithmic axis
        work.launches.push(copy);
        let kernels = kernels(&grade);
        assert_eq!(kernels.len(), 1);
        assert_eq!(kernels[0].name, "4/flash: flash");
        // 3e8 FLOP, 1e6 bytes, 30 µs.
        assert_eq!(kernels[0].points, [(300.0, 10.0)]);
        assert_eq!(extent(&kernels, &PEAKS), Some((1.0, 1000.0)));
    }

    #[test]
    fn the_chart_has_the_kernel_and_the_roof() {
        let svg = svg(&example::grade(), &PEAKS).unwrap().unwrap();
        for text in [
            "4/flash: flash",
            "roof of the device, f32",
            "roofline, modelled, cuda-sim (h100)",
        ] {
            assert!(svg.contains(text), "{text}: {svg}");
        }
        let themed = without_colours(&svg);
        assert!(
            !themed.contains("#FFFFFF") && !themed.contains("#000000"),
            "{themed}"
        );

        let mut none = example::grade();
        none.tasks.truncate(2);
        assert_eq!(super::svg(&none, &PEAKS).unwrap(), None);
    }
}
