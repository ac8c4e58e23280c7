//! No clean kernel is accused, whatever the schedule, and each gives the results that its file
//! states.
//!
//! A program of its own: it runs on a GPU if there is one, and then this process has NVIDIA's
//! driver, not the simulated one.

mod common;

use common::{BUDGET, FEW_SEEDS, Kernel, SEEDS, kernels};
use gpu::architecture::Architecture;
use gpu_tool::CudaDevice;
use std::ops::Range;

#[test]
fn clean_kernels_run_and_give_the_stated_results() {
    give_the_stated_results(FEW_SEEDS);
}

#[test]
#[ignore = "takes several seconds"]
fn clean_kernels_give_the_stated_results_under_all_schedules() {
    give_the_stated_results(SEEDS);
}

fn give_the_stated_results(seeds: Range<u64>) {
    let ctx = gpu::context(0).unwrap();
    let capability = ctx.compute_capability().unwrap();
    let device = CudaDevice::new(&ctx);
    let kernels = kernels("clean_");
    assert!(kernels.len() >= 64, "{}", kernels.len());
    let mut wrong = Vec::new();
    cuda_sim::set_budget(Some(BUDGET));
    for kernel in &kernels {
        assert_eq!(kernel.class(), "none", "{}", kernel.file);
        assert!(
            !kernel.invocation.expectations.is_empty(),
            "{} states no results",
            kernel.file
        );
        let needed = Architecture::declared_by(&kernel.file, &kernel.source).unwrap();
        if !needed.runs_on(capability) {
            println!("{} needs {needed}", kernel.file);
            continue;
        }
        wrong.extend(first_wrong_run(&device, kernel, seeds.clone()));
    }
    cuda_sim::set_seed(None);
    cuda_sim::set_budget(None);
    assert!(
        wrong.is_empty(),
        "{} of {} kernels:\n{}",
        wrong.len(),
        kernels.len(),
        wrong.join("\n")
    );
}

/// The first seed with a fault or a wrong result, and what it was.
fn first_wrong_run(device: &CudaDevice, kernel: &Kernel, mut seeds: Range<u64>) -> Option<String> {
    let ptx = kernel.ptx();
    seeds.find_map(|seed| {
        cuda_sim::set_seed(Some(seed));
        let outcome = kernel.invocation.run(device, &ptx);
        let complaint = match outcome {
            Err(error) => error.to_string(),
            Ok(buffers) => {
                let mut stated = kernel.invocation.expectations.iter();
                stated
                    .find_map(|expected| expected.compare(&buffers).err())?
                    .to_string()
            }
        };
        Some(format!("{}, seed {seed}: {complaint}", kernel.file))
    })
}
