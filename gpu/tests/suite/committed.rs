//! Committed PTX is found without a compiler, and is free of the machine that made it.

use gpu::{Bundle, Error, KERNELS, ptx_file};

#[test]
fn a_committed_variant_needs_no_compiler() {
    let ptx = KERNELS.ptx("vector_add.cu", &[("BLOCK", "64")]).unwrap();
    assert!(ptx.contains(
        "// options: --generate-line-info --gpu-architecture=compute_75 --std=c++17 -DBLOCK=64\n"
    ));
    assert!(ptx.contains(".entry vector_add("));
    assert_ne!(ptx, KERNELS.ptx("vector_add.cu", &[]).unwrap());
}

#[test]
fn committed_ptx_names_only_virtual_files() {
    let mut files = 0;
    for (name, text) in KERNELS.committed() {
        for line in text
            .lines()
            .filter(|line| line.trim_start().starts_with(".file"))
        {
            assert!(line.contains("\"/k/gpu/kernels/"), "{name}: {line}");
            files += 1;
        }
    }
    assert!(
        files >= 5,
        "vector_add twice, the others and prelude once: {files}"
    );
}

#[test]
fn committed_ptx_reports_the_resources_of_each_architecture() {
    for (name, text) in KERNELS.committed() {
        let report = ptx_file::resources(text);
        let mut architectures: Vec<&str> = report
            .iter()
            .map(|line| line.architecture.as_str())
            .collect();
        architectures.dedup(); // a line for each kernel
        let needed = text.contains(".target sm_80"); // by a kernel's `// arch:`
        let expected = &["sm_75", "sm_80", "sm_90"][usize::from(needed)..];
        assert_eq!(architectures, expected, "{name}");
        assert!(
            report
                .iter()
                .all(|line| line.registers > 0 && line.spill_stores == 0),
            "{name}: {report:?}"
        );
    }
}

#[test]
fn an_unknown_kernel_is_refused_with_the_list_of_those_there_are() {
    for name in ["nothing.cu", "../Cargo.toml", "", "prelude"] {
        let error = KERNELS.ptx(name, &[]).unwrap_err();
        assert!(
            matches!(&error, Error::NoSuchKernel { file, available, .. }
            if file == name && *available == [
                "bank_conflicts.cu",
                "coalescing.cu",
                "divergence.cu",
                "lab_barriers.cu",
                "lab_memory.cu",
                "lab_swizzle.cu",
                "lab_threads.cu",
                "parameters_check.cu",
                "prelude_check.cu",
                "rounded_attention.cu",
                "rounded_sums.cu",
                "rounding.cu",
                "vector_add.cu",
                "vector_loads.cu",
            ]),
            "{error}"
        );
    }
}

#[test]
fn a_constant_that_is_no_constant_is_refused() {
    let bad: [&[(&str, &str)]; 5] = [
        &[("", "1")],
        &[("A B", "1")],
        &[("1A", "1")],
        &[("A", "1\n")],
        &[("A", "1"), ("A", "1")],
    ];
    for constants in bad {
        let error = KERNELS.ptx("vector_add.cu", constants).unwrap_err();
        assert!(
            matches!(&error, Error::BadConstant { file, .. } if file == "gpu/kernels/vector_add.cu"),
            "{error}"
        );
    }
}

/// A bundle finds the headers of the packages below it, and a committed file counts as stale when
/// one is edited.
#[test]
fn a_bundle_has_the_headers_of_the_bundles_below_it() {
    use gpu::unit::{Folder, Unit};

    const KERNEL: &str = "#include \"lower/mask.cuh\"\nextern \"C\" __global__ void a(int* x) { x[0] = masked(); }\n";
    const HEADER: &str = "__device__ int masked() { return 7; }\n";
    let of_key = |header: &'static str| {
        let read = |folder: Folder<'_>, name: &str| match (folder, name) {
            (Folder::Own, "a.cu") => Ok(Some(KERNEL.to_owned())),
            (Folder::Package("lower"), "mask.cuh") => Ok(Some(header.to_owned())),
            _ => Ok(None),
        };
        let unit = Unit::new("upper", "a.cu", &[], read).unwrap().unwrap();
        format!("// key: {}\n", unit.key())
    };
    let lower: &Bundle = Box::leak(Box::new(Bundle::new(
        "lower",
        file("mask.cuh", HEADER),
        &[],
        &[],
    )));
    let middle: &Bundle = Box::leak(Box::new(Bundle::new(
        "middle",
        &[],
        &[],
        vec![lower].leak(),
    )));
    let upper = |ptx: String, below: Vec<&'static Bundle>| {
        let kernels = file("a.cu", KERNEL);
        Bundle::new("upper", kernels, file("a.ptx", ptx.leak()), below.leak())
    };
    let current = of_key(HEADER);
    for below in [lower, middle] {
        let ptx = upper(current.clone(), vec![below]).ptx("a.cu", &[]);
        assert_eq!(ptx.unwrap(), current);
    }
    // cudarc would panic at a zero byte.
    let cut = upper(format!("{current}\n\0"), vec![lower]);
    let error = cut
        .load(&gpu::context(0).unwrap(), "a.cu", &[])
        .unwrap_err();
    assert!(
        matches!(&error, Error::ZeroByteInPtx { file, line: 3 } if file == "upper/kernels/a.cu"),
        "{error}"
    );
    // Made from another text of the header: it is not taken.
    let stale = of_key("__device__ int masked() { return 8; }\n");
    assert_ne!(stale, current);
    let error = upper(current.clone(), vec![]).ptx("a.cu", &[]).unwrap_err();
    assert!(
        matches!(&error, Error::NoSuchHeader { header, .. } if header == "lower/mask.cuh"),
        "{error}"
    );
    assert!(
        error
            .to_string()
            .contains("gpu::bundle!(other_package::KERNELS)"),
        "{error}"
    );
}

/// Files of one name and text, as a bundle holds them.
fn file(name: &'static str, text: &'static str) -> &'static [(&'static str, &'static str)] {
    vec![(name, text)].leak()
}
