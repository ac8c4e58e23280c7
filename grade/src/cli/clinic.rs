//! `clinic`: judges the kernels that are wrong, to be mended.

use std::process::ExitCode;

use anyhow::bail;
use clap::Args;
use gpu_tool::ink::Ink;
use grade::clinic::{Diagnosis, PATIENTS, Patient};

use super::compiler::offer_compiler;
use super::{exercises, print};

/// The flags of `clinic`.
#[derive(Args)]
pub struct Arguments {
    /// The kernel, such as row_sum; all if not given.
    kernel: Option<String>,

    /// Judge the mended kernels of the solution.
    #[arg(long)]
    solution: bool,

    /// Do not ask before the compiler of edited kernels is fetched.
    #[arg(long)]
    yes: bool,
}

/// Prints what is wrong with each kernel; of one alone, the whole report. The exit status tells whether all are mended.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let patients = named(arguments.kernel.as_deref())?;
    let folder = match arguments.solution {
        true => exercises().join("solutions/clinic/kernels"),
        false => exercises().join("clinic/kernels"),
    };
    gpu::simulate()?;
    let edited = |patient: &&&Patient| {
        let ptx = patient.compiled(&folder);
        matches!(
            ptx,
            Err(gpu_tool::Error::Gpu(gpu::Error::NvrtcMissing { .. }))
        )
    };
    let edited = patients.iter().filter(edited);
    let edited: Vec<String> = edited
        .map(|patient| format!("{}.cu", patient.name))
        .collect();
    offer_compiler(&edited, arguments.yes)?;

    let ink = Ink::stdout();
    let mut mended = 0;
    for patient in &patients {
        let diagnosis = patient.diagnose(&folder);
        mended += usize::from(diagnosis == Diagnosis::Mended);
        print(&line(patient, &diagnosis, patients.len() == 1, ink))?;
    }
    print(&format!("{mended} of {} mended\n", patients.len()))?;
    Ok(match mended == patients.len() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

fn named(name: Option<&str>) -> anyhow::Result<Vec<&'static Patient>> {
    let is_named = |patient: &&Patient| name.is_none_or(|name| patient.name == name);
    let patients: Vec<&Patient> = PATIENTS.iter().filter(is_named).collect();
    if patients.is_empty() {
        let names: Vec<&str> = PATIENTS.iter().map(|patient| patient.name).collect();
        let name = name.unwrap_or_default();
        bail!(
            "the clinic has no kernel `{name}`; it has {}",
            names.join(", ")
        );
    }
    Ok(patients)
}

/// A row of the table; with the lines behind the first one, if there is room.
fn line(patient: &Patient, diagnosis: &Diagnosis, whole: bool, ink: Ink) -> String {
    let (share, text) = match diagnosis {
        Diagnosis::Mended => (1.0, "mended"),
        Diagnosis::NotCompiled(text) | Diagnosis::Fault(text) | Diagnosis::Wrong(text) => {
            (0.0, &**text)
        }
    };
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    let first = lines.next().unwrap_or_default();
    let mut row = format!("{:12} {}\n", patient.name, ink.by_share(share, first));
    if whole {
        lines.for_each(|line| row += &format!("{line}\n"));
    }
    row
}
