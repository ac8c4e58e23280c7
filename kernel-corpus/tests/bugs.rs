//! Every planted defect is found, as what it is and where it is, whatever the schedule.

use std::ops::Range;

use crate::common::{BUDGET, FEW_SEEDS, Kernel, SEEDS, kernels};
use cuda_sim::{Fault, FaultKind, MissingThreads};
use cudarc::driver::CudaContext;
use gpu_launch::{Position, Values};
use gpu_tool::CudaDevice;

/// Outcome of a run of a kernel.
enum Outcome {
    Fault(Box<Fault>),
    /// The launch was refused, with this error.
    Refused(String),
    /// No fault, and these buffers.
    Results(Vec<(Position, Values)>),
}

#[test]
fn planted_bugs_are_found() {
    are_found(FEW_SEEDS);
}

#[test]
#[ignore = "takes several seconds"]
fn planted_bugs_are_found_under_all_schedules() {
    are_found(SEEDS);
}

fn are_found(seeds: Range<u64>) {
    cuda_sim::install().unwrap();
    let device = CudaDevice::new(&CudaContext::new(0).unwrap());
    let kernels = kernels("bug_");
    assert!(kernels.len() >= 64, "{}", kernels.len());
    let mut misses = Vec::new();
    cuda_sim::set_budget(Some(BUDGET));
    for kernel in &kernels {
        let ptx = kernel.ptx();
        misses.extend(seeds.clone().find_map(|seed| {
            cuda_sim::set_seed(Some(seed));
            let found = run(&device, kernel, &ptx);
            let miss = miss(kernel, &found)?;
            Some(format!(
                "{}, seed {seed}: {} at line {:?} expected, {miss}",
                kernel.file,
                kernel.class(),
                kernel.invocation.marked,
            ))
        }));
    }
    cuda_sim::set_seed(None);
    cuda_sim::set_budget(None);
    assert!(
        misses.is_empty(),
        "{} of {} kernels:\n{}",
        misses.len(),
        kernels.len(),
        misses.join("\n")
    );
}

fn run(device: &CudaDevice, kernel: &Kernel, ptx: &str) -> Outcome {
    cuda_sim::take_fault();
    match (kernel.invocation.run(device, ptx), cuda_sim::take_fault()) {
        (Ok(buffers), _) => Outcome::Results(buffers),
        (Err(_), Some(fault)) => Outcome::Fault(Box::new(fault)),
        (Err(error), None) => Outcome::Refused(error.to_string()),
    }
}

/// The outcome in words if it is not the planted defect; `None` if it is that.
fn miss(kernel: &Kernel, outcome: &Outcome) -> Option<String> {
    match outcome {
        Outcome::Results(buffers) if kernel.class() == "wrong result" => {
            let mut stated = kernel.invocation.expectations.iter();
            let right = stated.all(|expected| expected.compare(buffers).is_ok());
            right.then(|| "the results of a correct kernel".to_owned())
        }
        Outcome::Results(_) => Some("no fault".to_owned()),
        Outcome::Refused(_) if kernel.class() == "launch limit" => None,
        Outcome::Refused(error) => Some(format!("refused: {error}")),
        Outcome::Fault(fault) => {
            let (class, other) = describe(&fault.kind);
            let path = format!("kernel-corpus/kernels/{}", kernel.file);
            let marked = |place: &Option<(String, u32)>| {
                place.as_ref().is_some_and(|(file, line)| {
                    *file == path && kernel.invocation.marked.contains(line)
                })
            };
            let found = class == kernel.class()
                && (marked(&fault.source) || marked(&other))
                && explains(fault.missing.as_ref(), kernel, &path)
                && is_update(&fault.kind) == kernel.source.contains("// UPDATE");
            (!found).then(|| format!("{class}: {fault}"))
        }
    }
}

/// True if the fault names the barrier that not all threads take, or says that threads returned, if
/// and only if the file marks that line.
fn explains(missing: Option<&MissingThreads>, kernel: &Kernel, path: &str) -> bool {
    let line_of = |mark: &str| {
        let at = kernel
            .source
            .lines()
            .position(|line| line.ends_with(mark))?;
        Some(at as u32 + 1)
    };
    let (missed, returned) = (line_of("// MISSED"), line_of("// RETURN"));
    match missing {
        Some(MissingThreads::Past(place)) => {
            missed.is_some() && *place == missed.map(|line| (path.to_owned(), line))
        }
        Some(MissingThreads::Returned(_)) => returned.is_some(),
        None => missed.is_none() && returned.is_none(),
    }
}

/// True if the fault is a race of accesses that load, change and store one place.
fn is_update(kind: &FaultKind) -> bool {
    matches!(kind, FaultKind::Race(race) if race.update)
}

/// A fault's class, and the other place that it names.
fn describe(kind: &FaultKind) -> (String, Option<(String, u32)>) {
    let class = match kind {
        FaultKind::OutOfBounds(_) | FaultKind::TensorOutOfBounds(_) => "out of bounds",
        FaultKind::UseAfterFree(_) => "use after free",
        FaultKind::Misaligned(_) => "misaligned",
        FaultKind::UninitialisedRead(read) => {
            let class = format!("uninitialised {}", read.access.space);
            return (class, read.loaded.clone());
        }
        FaultKind::UninitialisedRegister => "uninitialised register",
        FaultKind::Race(race) => {
            return (
                format!("{} race", race.access.space),
                race.other.source.clone(),
            );
        }
        FaultKind::MissingProxyFence(race) => {
            return ("missing proxy fence".to_owned(), race.other.source.clone());
        }
        FaultKind::UnfinishedBulkCopy => "unfinished bulk copy",
        FaultKind::BadBulkCopy { .. } => "bad bulk copy",
        FaultKind::RegistersExhausted { .. } | FaultKind::BadRegisterCount { .. } => "setmaxnreg",
        FaultKind::BadCluster { .. } => "bad cluster",
        FaultKind::BadDescriptor { .. } => "bad descriptor",
        FaultKind::ProductInFlight(register) => {
            return ("product in flight".to_owned(), register.product.clone());
        }
        FaultKind::MissingProductFence { access, .. } => {
            return ("missing wgmma fence".to_owned(), access.clone());
        }
        FaultKind::WarpgroupOutOfStep { other, .. } => {
            return ("warpgroup out of step".to_owned(), other.clone());
        }
        FaultKind::UnfinishedCopy(copy) => {
            return ("copy in flight".to_owned(), copy.source.clone());
        }
        FaultKind::InactiveLane { .. } => "inactive lane",
        FaultKind::Runaway { .. } => "endless loop",
        FaultKind::UnknownInstruction { .. } => "unknown instruction",
        FaultKind::Trap => "trap",
        FaultKind::Assertion { .. } => "assertion",
        FaultKind::DivergentBarrier { other } => {
            return ("divergent barrier".to_owned(), other.clone());
        }
        FaultKind::DifferentBarriers { other } => {
            return ("different barriers".to_owned(), other.clone());
        }
        FaultKind::MissingLanes { .. } => "missing lanes",
        FaultKind::DifferentMasks { .. } => "different masks",
        FaultKind::Deadlock { .. } => "deadlock",
        FaultKind::GridDeadlock { .. } => "grid deadlock",
        FaultKind::BadBarrier { .. } => "bad barrier",
        FaultKind::BadMbarrier { .. } => "bad mbarrier",
        _ => "of an unknown class",
    };
    (class.to_owned(), None)
}
