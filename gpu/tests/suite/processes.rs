//! Decisions that a process takes once, by its environment: each test runs itself again in a
//! process of its own.

use std::path::Path;
use std::process::Command;
use std::{env, fs};

use gpu::nvrtc::Nvrtc;
use gpu::unit::{Folder, Unit};
use gpu::{Backend, Error, KERNELS, cache, find_nvrtc};

use crate::child::{folder, in_child};

#[test]
fn the_simulator_can_be_asked_for() {
    if in_child(
        "processes::the_simulator_can_be_asked_for",
        &[("GPU", "sim")],
    ) {
        let ctx = gpu::context(0).unwrap();
        assert_eq!(gpu::backend().unwrap(), Backend::Simulator);
        assert!(gpu::device_label(&ctx).unwrap().contains("cuda-sim"));
    }
}

#[test]
fn without_a_gpu_there_is_none_to_ask_for() {
    if in_child(
        "processes::without_a_gpu_there_is_none_to_ask_for",
        &[("GPU", "cuda")],
    ) {
        match gpu::context(0) {
            Ok(_) => assert_eq!(gpu::backend().unwrap(), Backend::Cuda),
            Err(Error::NoGpu { reason }) => {
                assert!(reason.contains("libcuda.so.1"), "{reason}");
            }
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn a_device_of_another_kind_is_refused() {
    if in_child(
        "processes::a_device_of_another_kind_is_refused",
        &[("GPU", "nonsense")],
    ) {
        let error = gpu::context(0).unwrap_err();
        assert!(
            matches!(&error, Error::UnknownBackend { value } if value == "nonsense"),
            "{error}"
        );
        assert!(error.to_string().contains("GPU=sim"), "{error}");
    }
}

#[test]
fn a_simulator_in_the_place_of_nvidias_driver_is_no_gpu() {
    let name = "processes::a_simulator_in_the_place_of_nvidias_driver_is_no_gpu";
    if env::var_os("STAND_IN").is_none() {
        let folder = folder("simulator-as-driver");
        let (source, library) = (folder.join("driver.c"), folder.join("libcuda.so.1"));
        let driver = r#"
            int cuInit(unsigned flags) { return 0; }
            int cuDeviceGetCount(int* count) { *count = 1; return 0; }
            int cuDeviceGetName(char* name, int size, int device) {
                __builtin_strcpy(name, "cuda-sim (h100)");
                return 0;
            }
        "#;
        library_of(driver, &source, &library);
        let path = folder.to_str().unwrap();
        let variables = [("GPU", "cuda"), ("STAND_IN", ""), ("LD_LIBRARY_PATH", path)];
        in_child(name, &variables);
        fs::remove_dir_all(folder).unwrap();
        return;
    }
    let error = gpu::context(0).unwrap_err();
    let simulator =
        matches!(&error, Error::NoGpu { reason } if reason == "libcuda.so.1 is the simulator");
    assert!(simulator, "{error}");
}

/// Compiles a library with the C compiler that Rust links with.
fn library_of(text: &str, source: &Path, library: &Path) {
    fs::write(source, text).unwrap();
    let soname = library.file_name().unwrap().to_str().unwrap();
    let compiler = Command::new("cc")
        .args(["-shared", &format!("-Wl,-soname,{soname}"), "-o"])
        .args([library, source])
        .status();
    assert!(compiler.unwrap().success(), "cc, which Rust links with");
}

#[test]
fn a_driver_that_was_there_first_is_told_from_the_simulator() {
    let name = "processes::a_driver_that_was_there_first_is_told_from_the_simulator";
    if env::var_os("OTHER").is_none() {
        let folder = folder("another-driver");
        let (source, library) = (folder.join("empty.c"), folder.join("libcuda.so"));
        library_of("", &source, &library);
        let library = library.to_str().unwrap();
        in_child(name, &[("GPU", "sim"), ("OTHER", library)]);
        fs::remove_dir_all(folder).unwrap();
        return;
    }
    // SAFETY: an empty library.
    let other = unsafe { libloading::Library::new(env::var_os("OTHER").unwrap()) }.unwrap();
    let error = gpu::context(0).unwrap_err();
    assert!(
        matches!(
            error,
            Error::WrongDriver {
                expected: "the simulator"
            }
        ),
        "{error}"
    );
    assert!(
        error.to_string().contains("call gpu::context before"),
        "{error}"
    );
    drop(other);
}

#[test]
fn an_uncommitted_variant_without_a_compiler_tells_the_command() {
    let name = "processes::an_uncommitted_variant_without_a_compiler_tells_the_command";
    if !in_child(name, &[("GPU_CACHE_DIR", "cache"), ("NVRTC_PATH", "none")]) {
        return;
    }
    let error = KERNELS
        .ptx("vector_add.cu", &[("BLOCK", "32")])
        .unwrap_err();
    assert!(matches!(error, Error::NvrtcMissing { .. }), "{error}");
    let text = error.to_string();
    assert!(
        text.starts_with("gpu/kernels/vector_add.cu -DBLOCK=32 is not among the committed PTX"),
        "{text}"
    );
    // The working folder is outside of the workspace.
    let command = format!(
        "\n    cargo run --manifest-path {}/tool/Cargo.toml -- fetch-nvrtc\n",
        env!("CARGO_MANIFEST_DIR")
    );
    assert!(text.contains(&command), "{text}");
}

/// The unit that `KERNELS` makes of `vector_add.cu` with blocks of 32.
fn vector_add_32() -> Unit {
    let read = |_: Folder<'_>, name: &str| {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels");
        Ok(fs::read_to_string(folder.join(name)).ok())
    };
    Unit::new("gpu", "vector_add.cu", &[("BLOCK", "32")], read)
        .unwrap()
        .unwrap()
}

#[test]
#[ignore = "needs NVRTC"]
fn an_uncommitted_variant_is_compiled_once_and_then_read_from_the_cache() {
    let name = "processes::an_uncommitted_variant_is_compiled_once_and_then_read_from_the_cache";
    let nvrtc = find_nvrtc::search().unwrap().found;
    let nvrtc = nvrtc.expect("NVRTC, which this test needs, is installed");
    let variables = [
        ("GPU_CACHE_DIR", "cache"),
        ("NVRTC_PATH", nvrtc.to_str().unwrap()),
    ];
    if !in_child(name, &variables) {
        return;
    }
    let ptx = || KERNELS.ptx("vector_add.cu", &[("BLOCK", "32")]).unwrap();
    let compiled = ptx();
    assert!(compiled.contains(".entry vector_add("), "{compiled}");

    let folder = Path::new("cache");
    let file = cache::file_name(&vector_add_32(), &Nvrtc::open(&nvrtc).unwrap());
    assert!(folder.join(&file).is_file(), "{file}");
    assert_eq!(fs::read_dir(folder).unwrap().count(), 1);

    // Other text under that name shows that the next call reads it.
    fs::remove_file(folder.join(&file)).unwrap();
    cache::read_or(folder, &file, || Ok::<_, ()>("cached".to_owned())).unwrap();
    assert_eq!(ptx(), "cached");
}
