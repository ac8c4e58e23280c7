//! Reports on standard error or in a file: faults, memory that was not freed, and calls that are
//! not simulated. Many programs do not show the driver's texts.

use std::{
    collections::BTreeSet,
    fs::OpenOptions,
    io::{self, Write as _},
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use crate::{
    driver::leaks::Leaks,
    fault::Fault,
    settings::{Target, settings},
    sync::lock,
};

/// True if the program uses this crate as a library; if not, it has found a `libcuda.so` on disk.
static IS_LIBRARY: AtomicBool = AtomicBool::new(false);

/// Leaves it to the program to ask for faults and leaks, unless the environment says otherwise.
pub(crate) fn leave_to_program() {
    IS_LIBRARY.store(true, Relaxed);
}

/// Destination of reports. If the environment does not say: nowhere if the program uses this crate
/// as a library; else standard error.
fn target() -> &'static Target {
    let usual = match IS_LIBRARY.load(Relaxed) {
        true => &Target::Off,
        false => &Target::Stderr,
    };
    settings().report.as_ref().unwrap_or(usual)
}

/// Reports a fault.
pub(crate) fn fault(fault: &Fault) {
    write(&format!("cuda-sim: fault: {fault}\n"));
}

/// Reports memory that a context has left behind.
pub(crate) fn leaks(leaks: &Leaks) {
    write(&format!("cuda-sim: {leaks}\n"));
}

/// Reports a call of a function, or with an argument, that is not simulated; the same text once in
/// a process.
pub(crate) fn unsupported(text: &str) {
    static REPORTED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    if lock(&REPORTED).insert(text.to_owned()) {
        write(&format!("cuda-sim: {text}\n"));
    }
}

fn write(text: &str) {
    let written = match target() {
        Target::Off => Ok(()),
        Target::Stderr => io::stderr().write_all(text.as_bytes()),
        Target::File(path) => {
            let file = OpenOptions::new().append(true).create(true).open(path);
            file.and_then(|mut file| file.write_all(text.as_bytes()))
        }
    };
    // The call's own code tells the program; without a place for the text, nothing is left to do.
    drop(written);
}
