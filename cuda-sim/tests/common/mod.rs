//! What the tests of the driver share.
#![allow(dead_code)] // Each test file uses its own part.

use std::{error::Error, sync::Arc};

use cudarc::driver::{CudaContext, DriverError, sys::CUresult};

/// What a test returns: `?` on everything.
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
