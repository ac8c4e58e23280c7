//! The program `cuda-sim`: runs programs on the driver, shows reports, and tells by its exit code.

use std::{
    env, fs,
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Output, Stdio},
    time::{Duration, Instant},
};

use cudarc::{
    driver::{CudaContext, LaunchConfig, PushKernelArg},
    nvrtc::Ptx,
};

/// `cuda-sim` with arguments, and without what the environment of the tests says.
fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cuda-sim"));
    command
        .args(arguments)
        .env_remove("LD_LIBRARY_PATH")
        .env_remove("CUDA_SIM_REPORT");
    command
}

fn cuda_sim(arguments: &[&str]) -> Output {
    command(arguments).output().expect("cuda-sim starts")
}

/// The command that runs one of the programs below.
fn program(name: &str) -> Command {
    let this = env::current_exe().expect("this test's path");
    let this = this.to_str().expect("UTF-8");
    command(&["run", this, "--ignored", "--exact", &format!("run::{name}")])
}

/// Runs one of the programs below.
fn run(name: &str) -> (Option<i32>, String) {
    let output = program(name).output().expect("cuda-sim starts");
    (
        output.status.code(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    )
}

#[test]
fn a_program_runs_on_the_driver() {
    assert_eq!(run("good"), (Some(0), String::new()));
}

#[test]
fn a_fault_that_the_program_hides_is_reported_and_fails_the_run() {
    let (code, text) = run("hides_a_fault");
    assert_eq!(code, Some(1), "{text}");
    assert!(
        text.starts_with("cuda-sim: fault: out-of-bounds load of 4 bytes"),
        "{text}"
    );
    assert!(text.contains("kernel  axpy"), "{text}");
    assert_eq!(text.matches("cuda-sim: fault: ").count(), 1, "{text}");
}

#[test]
fn a_run_whose_reports_nobody_reads_ends_as_the_program_does() {
    for (name, code) in [("asks_for_an_array_twice", 0), ("hides_a_fault", 1)] {
        let mut run = program(name)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("cuda-sim starts");
        drop(run.stderr.take());
        let status = run.wait().expect("it ends");
        assert_eq!(status.code(), Some(code), "{name}");
    }
}

#[test]
fn who_cannot_write_beside_the_library_runs_programs_too() {
    let program = Path::new(env!("CARGO_BIN_EXE_cuda-sim"));
    let place = program.with_file_name("installed-by-another-user");
    let (programs, libraries) = (place.join("bin"), place.join("lib/cuda-sim"));
    let _ = fs::remove_dir_all(&place);
    fs::create_dir_all(&programs).expect("a folder");
    fs::create_dir_all(&libraries).expect("a folder");
    fs::copy(program, programs.join("cuda-sim")).expect("a copy");
    let library = program.with_file_name("deps/libcuda.so");
    fs::copy(library, libraries.join("libcuda.so")).expect("a copy");
    // No folder can be made of that name, also by root.
    fs::write(libraries.join("cuda-sim-driver"), "").expect("a file");
    let this = env::current_exe().expect("this test's path");
    let run = || {
        let mut command = Command::new(programs.join("cuda-sim"));
        command.arg("run").arg(&this);
        command.args(["--ignored", "--exact", "run::good"]);
        command
            .env_remove("LD_LIBRARY_PATH")
            .env_remove("XDG_CACHE_HOME")
            .env_remove("HOME");
        command
    };
    for _ in 0..2 {
        let output = run().env("XDG_CACHE_HOME", place.join("cache")).output();
        let output = output.expect("cuda-sim starts");
        assert!(output.status.success(), "{output:?}");
    }
    let output = run().output().expect("cuda-sim starts");
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("cuda-sim-driver"), "{text}");
    fs::remove_dir_all(&place).expect("its own folder");
}

#[test]
fn a_program_ends_when_cuda_sim_is_killed() {
    let mut run = command(&["run", "sh", "-c", "echo $$; exec sleep 60"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("cuda-sim starts");
    let mut line = String::new();
    BufReader::new(run.stdout.as_mut().expect("a pipe"))
        .read_line(&mut line)
        .expect("the shell's process");
    run.kill().expect("it runs");
    run.wait().expect("it ends");
    // A process that has ended is gone, or waits for whoever has inherited it (state Z).
    let stat = format!("/proc/{}/stat", line.trim());
    let has_ended = || match fs::read_to_string(&stat) {
        Ok(text) => text.contains(") Z "),
        Err(_) => true,
    };
    let start = Instant::now();
    while !has_ended() {
        assert!(start.elapsed() < Duration::from_secs(20), "{stat}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_function_that_is_not_simulated_is_reported_once_and_is_no_fault() {
    let (code, text) = run("asks_for_an_array_twice");
    assert_eq!(code, Some(0), "{text}");
    assert_eq!(
        text.matches("does not support cuArrayCreate_v2").count(),
        1,
        "{text}"
    );
}

#[test]
fn the_exit_code_is_that_of_the_program() {
    for (script, code) in [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137)] {
        for run in [&["run"][..], &["run", "--"]] {
            let output = cuda_sim(&[run, &["sh", "-c", script]].concat());
            assert_eq!(output.status.code(), Some(code), "{script}");
        }
    }
    assert_eq!(
        cuda_sim(&["run", "no-such-program"]).status.code(),
        Some(127)
    );
    for usage in [&[][..], &["fly"], &["run"], &["run", "--"]] {
        let output = cuda_sim(usage);
        assert_eq!(output.status.code(), Some(2), "{usage:?}");
        assert!(output.stderr.starts_with(b"Runs programs"), "{usage:?}");
    }
    assert_eq!(cuda_sim(&["--help"]).status.code(), Some(0));
}

#[test]
fn the_variables_for_a_shell_make_the_loader_find_both_names() {
    let exports = String::from_utf8(cuda_sim(&["env"]).stdout).expect("UTF-8");
    let script = format!("LD_LIBRARY_PATH=/nowhere\n{exports}\nprintf %s \"$LD_LIBRARY_PATH\"");
    let output = Command::new("sh")
        .args(["-c", &script])
        .output()
        .expect("a shell");
    let folder = String::from_utf8(output.stdout).expect("UTF-8");
    for name in ["libcuda.so", "libcuda.so.1"] {
        let path = Path::new(&folder).join(name);
        // SAFETY: the library's only initialisers are those of Rust's standard library.
        let library = unsafe { libloading::Library::new(&path) }.expect("it loads");
        // SAFETY: only looked up, not called.
        let found = unsafe { library.get::<*const ()>(b"cuInit") };
        assert!(found.is_ok(), "{}", path.display());
    }
}

#[test]
#[ignore = "run by a test above"]
fn good() {
    launch(3, 3).expect("no fault");
}

#[test]
#[ignore = "run by a test above"]
fn hides_a_fault() {
    assert!(launch(3, 100).is_err());
}

#[test]
#[ignore = "run by a test above"]
fn asks_for_an_array_twice() {
    let _keeper = CudaContext::new(0).expect("a context");
    for _ in 0..2 {
        let mut array = std::ptr::null_mut();
        let shape = cudarc::driver::sys::CUDA_ARRAY_DESCRIPTOR_st {
            Width: 1,
            Height: 1,
            Format: cudarc::driver::sys::CUarray_format_enum::CU_AD_FORMAT_FLOAT,
            NumChannels: 1,
        };
        // SAFETY: a place for the result, and a description.
        let code = unsafe { cudarc::driver::sys::cuArrayCreate_v2(&mut array, &shape) };
        assert!(code.result().is_err());
    }
}

/// Adds vectors of `length` elements, and tells the kernel that there are `told`.
fn launch(length: usize, told: i32) -> Result<(), cudarc::driver::DriverError> {
    let stream = CudaContext::new(0)?.default_stream();
    let ptx = Ptx::from_src(include_str!("../../ptx/driver.ptx"));
    let axpy = stream.context().load_module(ptx)?.load_function("axpy")?;
    let x = stream.clone_htod(&vec![1.0f32; 200])?;
    let mut y = stream.clone_htod(&vec![10.0f32; length])?;
    let mut launch = stream.launch_builder(&axpy);
    launch.arg(&mut y).arg(&x).arg(&2.0f32).arg(&told);
    // SAFETY: the arguments are those of the kernel in cuda-sim/kernels/driver.cu; the driver
    // checks its accesses.
    unsafe { launch.launch(LaunchConfig::for_num_elems(told as u32)) }?;
    stream.synchronize()
}
