//! An error as a program shows it.

use std::error::Error;

use cudarc::driver::DriverError;

use crate::{bundle, device};

/// The text of an error and of its causes, over several lines. A kernel's fault on the simulator is
/// reported in full, with the source lines that it names if the kernel is of a
/// [`Bundle`](crate::Bundle).
///
/// cudarc's own text has the report in one line, as a quoted string, and so has `Debug`, by which
/// `main` shows an error that it returns.
///
/// ```no_run
/// # fn run() -> Result<(), Box<dyn std::error::Error>> { Ok(()) }
/// fn main() -> std::process::ExitCode {
///     match run() {
///         Ok(()) => std::process::ExitCode::SUCCESS,
///         Err(error) => {
///             eprintln!("{}", gpu::report(&*error));
///             std::process::ExitCode::FAILURE
///         }
///     }
/// }
/// ```
pub fn report(error: &(dyn Error + 'static)) -> String {
    let mut report = String::new();
    let mut next = Some(error);
    while let Some(cause) = next {
        next = cause.source();
        let text = match cause.downcast_ref::<DriverError>() {
            Some(code) => format!("{:?}: {}", code.0, device::explanation(code)),
            None => cause.to_string(),
        };
        // Many errors repeat their cause.
        if !report.contains(&text) {
            let colon = if report.is_empty() { "" } else { ": " };
            report += colon;
            report += &text;
        }
    }
    // The last fault may be another's: its report tells.
    if let Some(fault) = cuda_sim::last_fault()
        && report.contains(&fault.to_string())
    {
        report.push('\n');
        report += &bundle::quotes(&fault);
    }
    report
}
