//! Reports on standard error or in a file: faults, and calls that are not simulated. Many programs
//! do not show the driver's texts.

use std::{
    collections::BTreeSet,
    fs::OpenOptions,
    io::{self, Write as _},
    sync::Mutex,
};

use crate::{
    fault::Fault,
    install,
    settings::{Target, settings},
    sync::lock,
};

/// Destination of reports. If the environment does not say: nowhere if the program uses this crate
/// as a library, which can ask for faults; else standard error.
fn target() -> &'static Target {
    let usual = match install::is_library() {
        true => &Target::Off,
        false => &Target::Stderr,
    };
    settings().report.as_ref().unwrap_or(usual)
}

/// Reports a fault.
pub(crate) fn fault(fault: &Fault) {
    write(&format!("cuda-sim: fault: {fault}\n"));
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
