//! Contexts, and this program run again for tests that need a process of their own.

use std::{env, error::Error, process::Command, sync::Arc};

use cudarc::driver::{CudaContext, DriverError, sys::CUresult};

/// Result of a test: `?` on everything.
pub type Outcome = Result<(), Box<dyn Error>>;

/// The simulated device's primary context.
pub fn context() -> Result<Arc<CudaContext>, Box<dyn Error>> {
    cuda_sim::install()?;
    Ok(CudaContext::new(0)?)
}

/// A context of the test's own, so that no other test waits for its streams.
pub fn own_context() -> Result<Arc<CudaContext>, Box<dyn Error>> {
    cuda_sim::install()?;
    Ok(CudaContext::new_non_primary(0, 0)?)
}

/// Asserts that `result` is the error `code`, and returns the text that goes with it.
#[track_caller]
pub fn expect_error<T: std::fmt::Debug>(result: Result<T, DriverError>, code: CUresult) -> String {
    let error = result.expect_err("the call must fail");
    assert_eq!(error.0, code, "{error:?}");
    error
        .error_string()
        .expect("a text")
        .to_string_lossy()
        .into_owned()
}

/// Runs one ignored test of this binary with a variable set, and returns what it wrote to stdout
/// and stderr.
#[track_caller]
pub fn run(test: &str, variable: &str, value: &str) -> String {
    let binary = env::current_exe().expect("this test's path");
    run_command(Command::new(binary).env(variable, value), test)
}

/// Runs one ignored test of this binary with `kilobytes` of address space.
#[track_caller]
pub fn run_within(kilobytes: u64, test: &str) -> String {
    let binary = env::current_exe().expect("this test's path");
    let script = format!("ulimit -v {kilobytes} && exec \"$0\" \"$@\"");
    run_command(Command::new("sh").args(["-c", &script]).arg(binary), test)
}

#[track_caller]
fn run_command(command: &mut Command, test: &str) -> String {
    let output = command
        .args(["--ignored", "--exact", "--nocapture", test])
        .output()
        .expect("a child process");
    let text = String::from_utf8_lossy(&output.stdout);
    let all = format!("{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{test}: {}\n{all}",
        output.status,
    );
    all
}
