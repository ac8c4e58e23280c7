//! `bench`: latency, throughput, traffic, memory and speed-up of the modes, over sequence lengths.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, ensure};
use clap::Args;
use gpu::arguments::MAX_SIZE;
use stage1_reference::Error::Unsupported;
use stage4_flash_cuda::{Attention, Error, Format, Mode, Shape};

use super::case::Case;
use super::estimate::Estimator;
use super::problem::{Passes, verify};
use super::report::Report;

/// Bench the modes: measured on a GPU, modelled without one.
#[derive(Args)]
#[command(after_help = "\
Examples:
  cargo run -p stage4-flash-cuda -- bench --seq 512,1024,2048,4096 --dim 64 --causal
  cargo run -p stage4-flash-cuda -- bench --seq 4096 --modes library --kv-heads 8
  cargo run -p stage4-flash-cuda -- bench --f16 --seq 4096 --modes mma,swizzle,pipeline,reuse,tma,wgmma,ping_pong,library
  cargo run -p stage4-flash-cuda -- bench --backward --modes naive,library
  cargo run -p stage4-flash-cuda -- bench --assignment

No mode is timed before its result agrees with stage 1's on a small problem of the same kind; gradients are judged by the
tests. A mode without grouped heads is
left out where they are asked for. Without a GPU, times are modelled from counted work. The work is extrapolated from smaller
problems beyond N = 768, and where k and v have more than one head: it is a polynomial in N. The report says which times are
modelled and which are extrapolated.")]
pub struct Arguments {
    /// Sequences in the batch.
    #[arg(long, default_value_t = 4)]
    batch: usize,

    /// Heads.
    #[arg(long, default_value_t = 32)]
    heads: usize,

    /// Heads of k and v, if not as many.
    #[arg(long)]
    kv_heads: Option<usize>,

    /// Sequence lengths.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "128,256,512,1024,2048,4096,8192,16384"
    )]
    seq: Vec<usize>,

    /// Head dimension.
    #[arg(long, default_value_t = 128)]
    dim: usize,

    /// With the causal mask.
    #[arg(long)]
    causal: bool,

    /// Tensors in f16, on tensor cores. The share of the roofline, whose peak is in f32, is left
    /// out.
    #[arg(long)]
    f16: bool,

    /// The forward pass and the backward pass, in place of the forward pass alone. In f32 naive,
    /// library and register_tiles have one, in f16 library and reuse.
    #[arg(long, conflicts_with = "assignment")]
    backward: bool,

    /// Modes: library, padded, or a rung of the ladder. In f32 also naive and tiled, and the
    /// rungs are flash, register_tiles, async_copy; in f16 they are mma, swizzle, pipeline, reuse,
    /// tma, wgmma, ping_pong.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "naive,tiled,library",
        default_value_ifs([("f16", "true", "library"), ("backward", "true", "naive,library")])
    )]
    modes: Vec<Mode>,

    /// Timed runs on a GPU, of which the median counts.
    #[arg(long, default_value_t = 10)]
    runs: usize,

    /// The assignment's four cases instead: (B, N) = (4, 128) and (64, 4096), hidden 4096, 32
    /// heads, with and without the causal mask.
    #[arg(long, conflicts_with = "f16")]
    assignment: bool,

    /// Write all figures as JSON to this file.
    #[arg(long, value_name = "PATH")]
    json: Option<PathBuf>,

    /// Write plots as SVG to this folder.
    #[arg(long, value_name = "FOLDER")]
    plots: Option<PathBuf>,
}

/// Benches and reports.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let context = gpu::context(0)?;
    let stream = context.default_stream();
    let mut estimator = Estimator::new(&stream);
    let mut report = Report::new(&context)?;
    let cases = arguments.cases();
    for case in &cases {
        case.sizes().check("bench")?;
        ensure!(case.bytes() > 0.0, "there is nothing to compute in {case}");
        let largest = case.batch.max(case.heads).max(case.n);
        ensure!(largest <= MAX_SIZE, "{largest} is above {MAX_SIZE}");
    }
    report.print_head();
    for case in cases {
        for &mode in &arguments.modes {
            let attention = Attention::new(&context)?.with_mode(mode);
            if mode == Mode::Library {
                let variant = match case.f16 {
                    false => attention.variant(case.head_dim)?,
                    true => attention.half_variant(Format::F16, &Shape::packed(case.sizes()))?,
                };
                if variant.head_dim > case.head_dim {
                    println!(
                        "library: D = {} is padded to {}",
                        case.head_dim, variant.head_dim
                    );
                }
            }
            let passes = match case.backward {
                true => Passes::both(&context, attention)?,
                false => Passes::forward(attention),
            };
            let estimate = verify(&stream, &passes, case)
                .and_then(|()| estimator.estimate(&passes, case, arguments.runs));
            match estimate {
                Ok(estimate) => report.add(mode, case, estimate),
                Err(error) if lacks(&error) => println!("{mode}: {error}"),
                Err(error) => return Err(error.context(format!("{mode} at {case}"))),
            }
        }
        report.print(&case);
    }
    report.print_foot(arguments.assignment);
    if let Some(path) = &arguments.json {
        let json = serde_json::to_string_pretty(&report)? + "\n";
        fs::write(path, json).with_context(|| path.display().to_string())?;
    }
    if let Some(folder) = &arguments.plots {
        report.plot(folder)?;
    }
    Ok(())
}

impl Arguments {
    fn cases(&self) -> Vec<Case> {
        if self.assignment {
            let both = [false, true];
            let cases = [(4, 128), (64, 4096)].into_iter();
            let cases = cases.flat_map(|(batch, n)| both.map(|causal| (batch, n, causal)));
            return Vec::from_iter(cases.map(|(batch, n, causal)| Case {
                causal,
                ..Case::full(batch, 32, n, 4096 / 32)
            }));
        }
        let case = |&n| Case {
            kv_heads: self.kv_heads.unwrap_or(self.heads),
            causal: self.causal,
            f16: self.f16,
            backward: self.backward,
            ..Case::full(self.batch, self.heads, n, self.dim)
        };
        self.seq.iter().map(case).collect()
    }
}

/// True if a mode lacks an option of the case.
fn lacks(error: &anyhow::Error) -> bool {
    matches!(
        error.downcast_ref(),
        Some(Error::Attention(Unsupported { .. }))
    )
}
