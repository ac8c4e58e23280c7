//! `profile`: counts the cost of each source line of a kernel, on the simulator.

mod metrics;
mod ncu;
mod text;

use std::env;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, anyhow, ensure};
use clap::Args;
use cuda_sim::InstallError;
use gpu_launch::report::Report;
use gpu_tool::CudaDevice;

use super::kernel::LaunchArguments;
use super::output::Output;
use text::Order;

/// The variable that chooses the simulated device.
const DEVICE: &str = "CUDA_SIM_DEVICE";

/// The flags of `profile`.
#[derive(Args)]
#[command(after_help = "\
Example:
  cargo gpu profile gpu/kernels/vector_add.cu --sort time

To compare with a GPU, profile the same launch there and pass the file to --ncu:
  ncu --csv --page raw --set full ./program > report.csv")]
pub struct Arguments {
    #[command(flatten)]
    launch: LaunchArguments,

    /// Order of the lines.
    #[arg(long, value_enum, default_value_t = Order::File)]
    sort: Order,

    /// Write the profile as JSON to this file; with `-` to standard output, in place of the text.
    #[arg(long, value_name = "PATH")]
    json: Option<PathBuf>,

    /// Print the metrics of a CSV file from Nsight Compute beside the counted ones.
    #[arg(long, value_name = "REPORT.csv")]
    ncu: Option<PathBuf>,

    /// The device whose time is modelled, such as h100; that of CUDA_SIM_DEVICE, or else h100, if
    /// not given.
    #[arg(long, value_name = "NAME")]
    device: Option<String>,
}

/// Profiles the launches, always on the simulator.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    if let Some(device) = &arguments.device {
        // SAFETY: the program has one thread as yet, so nobody reads the environment meanwhile.
        unsafe { env::set_var(DEVICE, device) };
    }
    gpu::simulate().map_err(|error| naming_flag(arguments, error))?;
    cuda_sim::set_checks(Some(false)); // `check` looks for mistakes
    let mut output = Output::take()?;
    let job = match (&arguments.json, &arguments.ncu) {
        (Some(_), _) => arguments.launch.open_one("--json")?,
        (_, Some(_)) => arguments.launch.open_one("--ncu")?,
        _ => arguments.launch.open()?,
    };
    let device = CudaDevice::new(&gpu::context(0)?);
    let prepared = job.prepare(&device)?;
    job.watch.now("running the kernel");
    let (launched, launches) = gpu::profile::profile(|| prepared.launch())?;
    launched?;
    let measured = match &arguments.ncu {
        None => None,
        Some(path) => {
            let name = || path.display().to_string();
            let csv = fs::read_to_string(path).with_context(name)?;
            let kernel = prepared.kernels().next().unwrap_or_default();
            Some(ncu::find(&csv, kernel).with_context(name)?)
        }
    };
    let stated = prepared.kernels().zip(&job.invocation.launches);
    for (launch, (kernel, stated)) in launches.iter().zip(stated) {
        if let Some(asked) = &arguments.device {
            let modelled = launch.time.device;
            ensure!(
                modelled == asked,
                "the time of {asked:?} is not modelled, only that of {modelled}"
            );
        }
        let title = job.title_of(kernel, stated);
        let sources = &job.compiled.sources;
        let mut report = Report::new(title, launch, &|file| sources.text(file));
        if let Some(kernel) = &measured {
            for figure in &mut report.figures {
                figure.measured = kernel.figure(&figure.key);
            }
        }
        if let Some(path) = &arguments.json {
            let json = format!("{:#}\n", report.json());
            if path.as_os_str() == "-" {
                return output.print(&json);
            }
            fs::write(path, json).with_context(|| path.display().to_string())?;
        }
        output.print(&text::render(&report, arguments.sort, output.ink()))?;
    }
    Ok(())
}

/// The error of starting the simulator. What is wrong with `--device` is not blamed on the variable
/// that it sets.
fn naming_flag(arguments: &Arguments, error: gpu::Error) -> anyhow::Error {
    match error {
        gpu::Error::Simulator(InstallError::Setting { name, value, takes })
            if name == DEVICE && arguments.device.is_some() =>
        {
            anyhow!("--device {value}: it must be {takes}")
        }
        error => error.into(),
    }
}
