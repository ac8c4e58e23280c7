//! The device of a page against the driver: the same reports, results and counters for every kernel
//! of the corpus.

use std::fs;
use std::path::Path;

use cudarc::driver::CudaContext;
use gpu_launch::{Invocation, Position, Values};
use gpu_tool::CudaDevice;
use serde_json::json;

/// Instructions that a warp may run, as in the corpus's own tests.
const BUDGET: u64 = 1 << 18;
const SEED: u64 = 3;

/// What the driver makes of a kernel file.
enum Outcome {
    Fault(Box<cuda_sim::Fault>),
    Refused,
    Results(Vec<(Position, Values)>, Vec<cuda_sim::LaunchProfile>),
}

fn by_driver(device: &CudaDevice, launch: &str, ptx: &str) -> Outcome {
    let invocation = Invocation::parse(launch, Path::new("")).unwrap();
    cuda_sim::take_fault();
    let (outcome, profiles) = cuda_sim::profile(|| invocation.run(device, ptx));
    match (outcome, cuda_sim::take_fault()) {
        (Ok(buffers), _) => Outcome::Results(buffers, profiles),
        (Err(_), Some(fault)) => Outcome::Fault(Box::new(fault)),
        (Err(_), None) => Outcome::Refused,
    }
}

/// Without addresses, numbers of allocations and neighbours of other kernels: in the driver, they
/// go on from kernel to kernel.
fn masked(report: &str) -> String {
    let is_neighbour = |line: &&str| line.starts_with("          ") && line.contains("allocation");
    let lines = report.lines().filter(|line| !is_neighbour(line));
    let report = lines.collect::<Vec<_>>().join("\n");
    let is_inside = |c: char| c.is_ascii_alphanumeric() || c == '#';
    let words = report.split_inclusive(|c| !is_inside(c)).map(|word| {
        let name = word.trim_end_matches(|c| !is_inside(c));
        let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let varies = name.strip_prefix('#').is_some_and(is_number)
            || name.starts_with("0x") && name.len() > "0x12345678".len();
        match varies {
            true => "…",
            false => word,
        }
    });
    words.collect()
}

#[test]
fn a_page_says_what_the_driver_says() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../kernel-corpus/kernels");
    let names = fs::read_dir(&folder).unwrap();
    let mut names: Vec<String> = names
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".cu"))
        .collect();
    names.sort();
    cuda_sim::install().unwrap();
    let device = CudaDevice::new(&CudaContext::new(0).unwrap());
    let mut page = gpu_web::device().unwrap();
    let (mut faults, mut results) = (0, 0);
    for name in &names {
        let launch = fs::read_to_string(folder.join(name)).unwrap();
        let ptx = kernel_corpus::KERNELS.ptx(name, &[]).unwrap();
        let request = json!({"ptx": ptx, "launch": launch, "budget": BUDGET, "seed": SEED, "values": 1 << 20});
        let answer = gpu_web::answer(&mut page, &request.to_string());
        cuda_sim::set_budget(Some(BUDGET));
        cuda_sim::set_seed(Some(SEED));
        match by_driver(&device, &launch, &ptx) {
            Outcome::Fault(fault) => {
                faults += 1;
                let here = answer.fault.unwrap_or_else(|| panic!("{name}: no fault"));
                let there = gpu_launch::readable_report(&fault.to_string(), &fault.kernel);
                assert_eq!(masked(&here.report), masked(&there), "{name}");
                let places: Vec<_> = fault.places().into_iter().cloned().collect();
                assert_eq!(here.places, places, "{name}");
            }
            Outcome::Refused => assert!(answer.error.is_some(), "{name} is not refused"),
            Outcome::Results(buffers, profiles) => {
                results += 1;
                assert!(answer.fault.is_none(), "{name}: {:?}", answer.fault);
                assert_eq!(answer.error, None, "{name}");
                let shown = buffers.iter().map(|(_, values)| {
                    let ty = values.ty();
                    values.bits().map(|bits| ty.show(bits)).collect::<Vec<_>>()
                });
                let here: Vec<_> = answer
                    .buffers
                    .into_iter()
                    .map(|buffer| buffer.values)
                    .collect();
                assert_eq!(here, shown.collect::<Vec<_>>(), "{name}");
                let counted = |key: &str| {
                    let counted = answer.launches.iter();
                    counted
                        .map(|launch| launch["figures"][key]["value"].as_f64())
                        .collect::<Vec<_>>()
                };
                let instructions = profiles
                    .iter()
                    .map(|p| Some(p.total.warp_instructions as f64));
                assert_eq!(
                    counted("warp_instructions"),
                    instructions.collect::<Vec<_>>(),
                    "{name}"
                );
                let times = profiles.iter().map(|profile| Some(profile.time.seconds));
                assert_eq!(counted("time"), times.collect::<Vec<_>>(), "{name}");
            }
        }
    }
    assert!(
        faults > 200 && results > 200,
        "{faults} faults, {results} results"
    );
}
