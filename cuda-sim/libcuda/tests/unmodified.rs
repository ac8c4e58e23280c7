//! The library on disk: what it exports, and a program that knows nothing of the simulator.

use std::{env, path::PathBuf, process::Command};

use cudarc::{
    driver::{CudaContext, LaunchConfig, PushKernelArg},
    nvrtc::Ptx,
};

/// The `libcuda.so` that cargo built together with this test.
fn library() -> PathBuf {
    let test = env::current_exe().expect("this test's path");
    let folder = test.parent().expect("a folder");
    let library = folder.join("libcuda.so");
    assert!(library.is_file(), "{} is missing", library.display());
    library
}

#[test]
fn every_listed_name_is_exported_by_the_library() {
    // SAFETY: the library's only initialisers are those of Rust's standard library.
    let library = unsafe { libloading::Library::new(library()) }.expect("the library loads");
    for name in include_str!("../../symbols.txt").lines() {
        // SAFETY: only looked up, not called.
        let found = unsafe { library.get::<*const ()>(name) };
        assert!(found.is_ok(), "{name} is not exported");
    }
}

#[test]
fn an_unmodified_program_runs_on_the_library() {
    let library = library();
    let output = Command::new(env::current_exe().expect("this test's path"))
        .args(["--ignored", "--exact", "unmodified::program"])
        .env("LD_LIBRARY_PATH", library.parent().expect("a folder"))
        .output()
        .expect("a child process");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{}\n{text}{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Speaks to whatever `libcuda.so` the dynamic loader finds.
#[test]
#[ignore = "run by the test above, which says where the library is"]
fn program() -> Result<(), Box<dyn std::error::Error>> {
    let context = CudaContext::new(0)?;
    assert_eq!(context.name()?, "cuda-sim (h100)");
    let stream = context.default_stream();
    let axpy = context
        .load_module(Ptx::from_src(include_str!("../../ptx/driver.ptx")))?
        .load_function("axpy")?;
    let x = stream.clone_htod(&[1.0f32, 2.0, 3.0])?;
    let mut y = stream.clone_htod(&[10.0f32, 20.0, 30.0])?;
    let mut launch = stream.launch_builder(&axpy);
    launch.arg(&mut y).arg(&x).arg(&2.0f32).arg(&3i32);
    // SAFETY: the arguments are those of the kernel in cuda-sim/kernels/driver.cu.
    unsafe { launch.launch(LaunchConfig::for_num_elems(3)) }?;
    assert_eq!(stream.clone_dtoh(&y)?, [12.0, 24.0, 36.0]);
    Ok(())
}
