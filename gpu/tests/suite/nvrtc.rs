//! Compiling. These tests need NVRTC: run them with `--ignored` where it is installed.

use cudarc::driver::{LaunchConfig, PushKernelArg};
use gpu::compile::PtxFile;
use gpu::nvrtc::Nvrtc;
use gpu::ptx_file;
use gpu::unit::{Folder, Unit};
use gpu::{Bundle, Error, find_nvrtc};

fn nvrtc() -> Nvrtc {
    let path = find_nvrtc::search()
        .unwrap()
        .found
        .expect("NVRTC, which this test needs, is installed");
    Nvrtc::open(&path).unwrap()
}

/// A kernel `a.cu` of package `p`, and its header `b.cuh`.
fn unit(source: &'static str, header: &'static str) -> Unit {
    let read = |_: Folder<'_>, name: &str| {
        Ok(match name {
            "a.cu" => Some(source.to_owned()),
            "b.cuh" => Some(header.to_owned()),
            _ => None,
        })
    };
    Unit::new("p", "a.cu", &[], read).unwrap().unwrap()
}

#[test]
#[ignore = "needs NVRTC"]
fn an_error_names_file_and_line_in_the_workspace() {
    let error = nvrtc()
        .compile(&unit("\n\n__device__ int x = nonsense;\n", ""))
        .unwrap_err();
    let Error::Compile {
        file, log, options, ..
    } = &error
    else {
        panic!("{error}")
    };
    assert_eq!(file, "p/kernels/a.cu");
    assert!(
        log.starts_with("p/kernels/a.cu(3): error: identifier \"nonsense\" is undefined"),
        "{log}"
    );
    assert!(options.contains("compute_75"), "{options}");
    assert!(
        error.to_string().contains("nonsense"),
        "the message carries the log"
    );
}

#[test]
#[ignore = "needs NVRTC"]
fn an_error_in_a_header_names_the_header() {
    let error = nvrtc()
        .compile(&unit(
            "#include \"b.cuh\"\n",
            "#pragma once\n#error broken\n",
        ))
        .unwrap_err();
    assert!(
        matches!(&error, Error::Compile { log, .. } if log.starts_with("p/kernels/b.cuh(2):")),
        "{error}"
    );
}

#[test]
#[ignore = "needs NVRTC"]
fn a_missing_header_is_a_compile_error() {
    let error = nvrtc()
        .compile(&unit("\n#include \"absent.cuh\"\n", ""))
        .unwrap_err();
    assert!(
        matches!(&error, Error::Compile { log, .. } if log.starts_with("p/kernels/a.cu(2):") && log.contains("absent.cuh")),
        "{error}"
    );
}

#[test]
#[ignore = "needs NVRTC"]
fn a_source_with_a_nul_is_refused() {
    let error = nvrtc().compile(&unit("int x;\0", "")).unwrap_err();
    assert!(
        matches!(&error, Error::Nvrtc { file, .. } if file == "p/kernels/a.cu"),
        "{error}"
    );
}

#[test]
#[ignore = "needs NVRTC"]
fn the_declared_architecture_is_compiled_for_and_reported() {
    let source = "// arch: compute_80\nextern \"C\" __global__ void f(float* x) {\n\
                  __shared__ float s[64]; s[threadIdx.x] = x[threadIdx.x]; __syncthreads();\n\
                  x[threadIdx.x] = s[63 - threadIdx.x]; }\n";
    let file = PtxFile::compile(&nvrtc(), &unit(source, "")).unwrap();
    assert!(file.text.contains("\n.target sm_80\n"), "{}", file.text);
    let report = ptx_file::resources(&file.text);
    let shared: Vec<_> = report
        .iter()
        .map(|line| {
            (
                line.architecture.as_str(),
                line.kernel.as_str(),
                line.shared,
            )
        })
        .collect();
    assert_eq!(
        shared,
        [("sm_80", "f", 256), ("sm_90", "f", 256)],
        "{report:?}"
    );
    assert_eq!(file.warnings, "");
}

#[test]
#[ignore = "needs NVRTC"]
fn headers_of_two_packages_may_have_the_same_name() {
    let read = |folder: Folder<'_>, name: &str| {
        let text = match (folder, name) {
            (Folder::Own, "a.cu") => {
                "#include \"size.cuh\"\n#include \"lower/mask.cuh\"\n\
                 extern \"C\" __global__ void a(int* x) { x[0] = OWN_SIZE + masked(); }\n"
            }
            (Folder::Own, "size.cuh") => "#define OWN_SIZE 1000\n",
            (Folder::Package("lower"), "mask.cuh") => {
                "#include \"size.cuh\"\n__device__ int masked() { return LOWER_SIZE; }\n"
            }
            (Folder::Package("lower"), "size.cuh") => "#define LOWER_SIZE 234\n",
            _ => return Ok(None),
        };
        Ok(Some(text.to_owned()))
    };
    let unit = Unit::new("upper", "a.cu", &[], read).unwrap().unwrap();
    let ptx = nvrtc().compile(&unit).unwrap().ptx;
    assert!(ptx.contains("1234"), "{ptx}");
    assert!(ptx.contains("\"/k/upper/kernels/a.cu\""), "{ptx}");
}

/// CUDA's own headers are found where they were installed with the compiler, and nothing else is
/// read there.
#[test]
#[ignore = "needs NVRTC"]
fn headers_of_cuda_are_read_if_they_are_installed() {
    let source = "#include <cuda_fp16.h>\n#include <cooperative_groups.h>\n\
                  extern \"C\" __global__ void a(float* x) { x[0] = __half2float(__float2half(x[1])); }\n";
    let nvrtc = nvrtc();
    let compiled = nvrtc.compile(&unit(source, ""));
    if nvrtc.headers().is_empty() {
        let error = compiled.unwrap_err().to_string();
        assert!(
            error.contains("could not open source file \"cuda_fp16.h\""),
            "{error}"
        );
        assert!(
            error.contains("fetch-nvrtc --headers` installs CUDA's headers"),
            "{error}"
        );
    } else {
        assert!(compiled.unwrap().ptx.contains(".entry a("));
    }
    let outside = unit("#include <../../../../../../../../../../etc/passwd>\n", "");
    let error = nvrtc.compile(&outside).unwrap_err().to_string();
    assert!(
        error.contains("could not open source file") && !error.contains("root:"),
        "{error}"
    );
}

/// A bundle like that of `bundle!` for a package without a folder `ptx/`.
#[test]
#[ignore = "needs NVRTC"]
fn a_bundle_without_committed_ptx_is_compiled_when_it_is_loaded() {
    const KERNEL: &str = "extern \"C\" __global__ void seven(int* x) { x[0] = 7; }\n";
    static BUNDLE: Bundle = Bundle::new("p", &[("seven.cu", KERNEL)], &[], &[]);
    assert!(!BUNDLE.is_committed("seven.cu", &[]).unwrap());
    let ctx = gpu::context(0).unwrap();
    let module = BUNDLE.load(&ctx, "seven.cu", &[]).unwrap();
    let seven = module.load_function("seven").unwrap();
    let stream = ctx.default_stream();
    let mut x = stream.alloc_zeros::<i32>(1).unwrap();
    let mut launch = stream.launch_builder(&seven);
    launch.arg(&mut x);
    // SAFETY: the kernel takes the address of an int.
    unsafe { launch.launch(LaunchConfig::for_num_elems(1)) }.unwrap();
    assert_eq!(stream.clone_dtoh(&x).unwrap(), [7]);
}
