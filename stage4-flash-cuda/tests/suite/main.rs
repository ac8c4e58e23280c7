//! The tests of the stage, in one program: it links once.

use std::io::{self, Write as _};
use std::thread;

use conformance::device::Device;
use stage4_flash_cuda::Mode;

mod backward;
mod backward_library;
mod counted;
mod dropout;
mod errors;
mod judged;
#[cfg(feature = "cli")] // runs the program
mod measured;
mod memory;
mod modes;
mod no_compiler;
#[cfg(feature = "cli")] // runs the program
mod readme;
mod warpgroups;

/// True if the first device runs this mode. If it does not, says so: the test must not look like a
/// pass. The harness keeps what a passed test prints by `println!`, but not what it writes to
/// standard error itself.
fn runs_here(mode: Mode) -> bool {
    let Mode::Rung(rung) = mode else { return true };
    let context = Device::open().stream.context().clone();
    let (major, minor) = context.compute_capability().unwrap();
    let runs = rung.runs_on((major, minor));
    if !runs {
        let thread = thread::current();
        let test = thread.name().unwrap_or("a test");
        let _ = writeln!(
            io::stderr(),
            "{test}: {rung} was not run on compute capability {major}.{minor}"
        );
    }
    runs
}
