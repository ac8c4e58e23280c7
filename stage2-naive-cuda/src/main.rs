//! The table of the ladder: `cargo run -p stage2-naive-cuda -- ladder` prints counters and modelled
//! times of each rung.

use std::env;
use std::process::{Command, ExitCode};
use std::sync::Arc;

use cudarc::driver::CudaStream;
use gpu::profile::LaunchProfile;
use stage2_naive_cuda::{
    Call, Error, Gemm, GemmRung, Ladder, Product, ScaleAndMask, Softmax, SoftmaxRung, Steps,
};

/// Modelled devices.
const DEVICES: [&str; 4] = ["h100", "a100", "rtx4090", "t4"];

/// Heads of all sequences. One is counted, because blocks of the others do the same.
const HEADS: u64 = 32;

/// Queries, and keys; head dimension.
const N: usize = 256;
const D: usize = 64;

type Failure = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    let result = match &*Vec::from_iter(env::args().skip(1)) {
        [word] if word == "ladder" => ladder(),
        [word] if word == "lines" => lines().map(|lines| println!("{}", lines.join("\n"))),
        _ => Err("usage: ladder, the table of README.md; lines, its lines for one device".into()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Prints the table as Markdown. The device is that of a process, so there is one for each.
fn ladder() -> Result<(), Failure> {
    println!(
        "| kernel | step | sectors loaded | shared wavefronts | barriers | instructions | {} |",
        DEVICES.map(|device| format!("{device}, µs")).join(" | ")
    );
    println!("|---|---|{}", "---|".repeat(4 + DEVICES.len()));
    let mut table: Vec<String> = Vec::new();
    for device in DEVICES {
        let mut command = Command::new(env::current_exe()?);
        command
            .arg("lines")
            .env("GPU", "sim")
            .env("CUDA_SIM_DEVICE", device);
        let output = command.output()?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into());
        }
        let text = String::from_utf8(output.stdout)?;
        table.resize(text.lines().count(), String::new());
        for (row, line) in table.iter_mut().zip(text.lines()) {
            // The counters are the same on all devices; the time is the last column.
            let (counters, time) = line.rsplit_once('|').ok_or("a line without a time")?;
            if row.is_empty() {
                *row = format!("{counters}|");
            }
            *row += &format!("{time} |");
        }
    }
    table.iter().for_each(|row| println!("{row}"));
    Ok(())
}

/// The lines of the table for the device of this process. Counters are in thousands.
fn lines() -> Result<Vec<String>, Failure> {
    gpu::simulate()?; // a GPU's counters are Nsight Compute's to read
    let stream = gpu::context(0)?.default_stream();
    let mut lines = Vec::new();
    for rung in GemmRung::ALL {
        for (step, product, n, k) in [("q kᵀ", Product::Nt, N, D), ("p v", Product::Nn, D, N)] {
            let launch = profile(&stream, rung, SoftmaxRung::Tree, |own| {
                let [a, b] = [N * k, n * k].map(|length| stream.alloc_zeros(length));
                let mut c = stream.alloc_zeros(N * n)?;
                own.run(Call::Gemm {
                    a: a?.as_view(),
                    b: b?.as_view(),
                    c: c.as_view_mut(),
                    shape: Gemm {
                        product,
                        batch: 1,
                        m: N,
                        n,
                        k,
                    },
                })
            })?;
            lines.push(line(rung.file(), step, &launch));
        }
    }
    let launch = profile(&stream, GemmRung::Plain, SoftmaxRung::Tree, |own| {
        own.run(Call::ScaleAndMask {
            scores: stream.alloc_zeros(N * N)?.as_view_mut(),
            shape: ScaleAndMask {
                batch: 1,
                nq: N,
                nk: N,
                scale: 0.125,
                causal: true,
            },
        })
    })?;
    lines.push(line("scale_and_mask.cu", "scale, mask", &launch));
    for rung in SoftmaxRung::ALL {
        let launch = profile(&stream, GemmRung::Plain, rung, |own| {
            own.run(Call::Softmax {
                x: stream.alloc_zeros(N * N)?.as_view_mut(),
                lse: stream.alloc_zeros(N)?.as_view_mut(),
                shape: Softmax {
                    rows: N,
                    columns: N,
                },
            })
        })?;
        lines.push(line(rung.file(), "softmax", &launch));
    }
    Ok(lines)
}

/// The launch that `work` makes by these rungs.
fn profile(
    stream: &Arc<CudaStream>,
    gemm: GemmRung,
    softmax: SoftmaxRung,
    work: impl FnOnce(&Ladder) -> Result<(), Error>,
) -> Result<LaunchProfile, Failure> {
    let stream = stream.clone();
    let own = Ladder {
        stream,
        gemm,
        softmax,
    };
    let (result, launches) = gpu::profile::profile(|| {
        work(&own)?;
        Ok::<_, Error>(own.stream.synchronize()?)
    })?;
    result?;
    launches
        .into_iter()
        .next()
        .ok_or_else(|| "no launch".into())
}

fn line(file: &str, step: &str, launch: &LaunchProfile) -> String {
    let total = &launch.total;
    let counters = [
        total.global_loads.sectors,
        total.shared().wavefronts,
        total.barriers,
        total.warp_instructions,
    ];
    let counters = counters.map(|count| format!("{:.0}", (HEADS * count) as f64 / 1e3));
    format!(
        "| [`{file}`](kernels/{file}) | {step} | {} | {:.1}",
        counters.join(" | "),
        1e6 * launch.repeated(HEADS).seconds,
    )
}
