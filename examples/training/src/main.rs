//! Trains a small decoder on stories, and compares every loss with PyTorch's.
//!
//! Read `model.rs` first, the decoder; then `matrix.rs`, its weights; then `device.rs`, the
//! launches. `kernels/` has what stages 2 and 4 lack for training.

mod device;
mod matrix;
mod model;
mod text;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, ensure};
use clap::Parser;
use plotters::prelude::*;

use model::Model;
use text::Text;

/// What `reference.py` wrote: lines of step and loss.
const REFERENCE: &str = include_str!("../reference.csv");

/// The largest relative difference from PyTorch's loss; sums in another order make 3e-7.
const TOLERANCE: f64 = 1e-5;

/// Trains a small decoder beside PyTorch.
#[derive(Parser)]
struct Arguments {
    /// Draw both losses in this folder, as loss.svg
    #[arg(long, value_name = "FOLDER")]
    plot: Option<PathBuf>,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}", gpu::report(error.as_ref())); // of a fault, also its source line
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<()> {
    let (context, text) = (gpu::context(0)?, Text::new());
    let mut model = Model::new(&context.default_stream(), text.vocabulary)?;
    let device = gpu::device_label(&context)?;
    println!("step    loss  PyTorch  relative difference");
    let mut losses = [("PyTorch on the CPU", vec![]), (&device, vec![])];
    let mut largest: f64 = 0.0;
    for (step, expected) in reference().enumerate() {
        let (tokens, targets) = text.batch(step);
        let loss = model.step(&tokens, &targets)?;
        let difference = (loss / expected - 1.0).abs();
        println!("{step:4} {loss:7.4}  {expected:7.4}  {difference:.1e}");
        ensure!(difference <= TOLERANCE, "the losses differ too much"); // as NaN does
        largest = largest.max(difference);
        losses[0].1.push(expected);
        losses[1].1.push(loss);
    }
    println!("{device}: at most {largest:.1e} from PyTorch's losses");
    if let Some(folder) = &arguments.plot {
        draw(&folder.join("loss.svg"), &losses)?;
    }
    Ok(())
}

/// Draws the curves of named losses.
fn draw(path: &Path, curves: &[(&str, Vec<f64>)]) -> Result<()> {
    let losses = curves.iter().flat_map(|(_, losses)| losses);
    let highest = losses.copied().fold(0.0, f64::max);
    let root = SVGBackend::new(path, (640, 320)).into_drawing_area();
    root.fill(&WHITE)?;
    let mut builder = ChartBuilder::on(&root);
    builder
        .margin(10)
        .x_label_area_size(40)
        .y_label_area_size(40);
    let steps = curves[0].1.len() as f64;
    let mut chart = builder.build_cartesian_2d(0.0..steps, 0.0..highest)?;
    let mut mesh = chart.configure_mesh();
    mesh.max_light_lines(0)
        .x_desc("step")
        .y_desc("loss, nats per character")
        .draw()?;
    for (i, (name, losses)) in curves.iter().enumerate() {
        let style = Palette99::pick(i).stroke_width(5 - 3 * i as u32); // the second on the first
        let points = (0..).map(f64::from).zip(losses.iter().copied());
        let line = chart.draw_series(LineSeries::new(points, style))?;
        line.label(*name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], style));
    }
    let mut names = chart.configure_series_labels();
    names.position(SeriesLabelPosition::LowerLeft).draw()?;
    Ok(())
}

/// PyTorch's loss of each step.
fn reference() -> impl Iterator<Item = f64> {
    let pairs = REFERENCE.lines().filter_map(|line| line.split_once(','));
    pairs.filter_map(|(_, loss)| loss.parse().ok())
}
