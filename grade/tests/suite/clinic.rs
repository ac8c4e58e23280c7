//! The clinic: each kernel is wrong as it lies there, and the solution's is not.

use std::path::{Path, PathBuf};

use grade::clinic::{Diagnosis, PATIENTS};

fn kernels(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../exercises")
        .join(folder)
        .join("clinic/kernels")
}

#[test]
fn every_kernel_is_wrong_and_its_mistake_is_found() {
    gpu::simulate().unwrap();
    assert_eq!(PATIENTS.len(), 10);
    let expected = [
        ("causal_mean", "argument 1"),
        ("copy_rows", "misaligned"),
        ("histogram", "nobody wrote"),
        ("neighbours", "out-of-bounds"),
        ("online_sum", "argument 2"),
        ("prefix_sum", "race"),
        ("reverse", "divergent barrier"),
        ("ring", "argument 0"),
        ("row_sum", "warp_smem"),
        ("warp_total", "shuffle"),
    ];
    for (patient, (name, words)) in PATIENTS.iter().zip(expected) {
        assert_eq!(patient.name, name);
        let text = match patient.diagnose(&kernels("")) {
            Diagnosis::Fault(text) | Diagnosis::Wrong(text) => text,
            other => panic!("{name}: {other:?}"),
        };
        assert!(text.contains(words), "{name}: {text}");
    }
}

#[test]
fn every_kernel_of_the_solution_is_mended() {
    gpu::simulate().unwrap();
    for patient in PATIENTS {
        let diagnosis = patient.diagnose(&kernels("solutions"));
        assert_eq!(diagnosis, Diagnosis::Mended, "{}", patient.name);
    }
}
