//! The files of the corpus, as the tests read them.
#![allow(dead_code)] // Each program uses its own part.

use std::fs;
use std::path::Path;

use gpu_launch::Invocation;

/// The schedules that every kernel is run with: the order of blocks and warps comes from the seed.
pub const SEEDS: std::ops::Range<u64> = 0..20;

/// Those of the short tests.
pub const FEW_SEEDS: std::ops::Range<u64> = 0..5;

/// Instructions that a warp may run: more than any needs, and few enough for endless loops to end
/// soon.
pub const BUDGET: u64 = 1 << 18;

/// A kernel file.
pub struct Kernel {
    /// Its name, like `bug_trap_bad_code.cu`.
    pub file: String,
    /// Its text.
    pub source: String,
    /// Launch, arguments and expectations from its comments.
    pub invocation: Invocation,
}

impl Kernel {
    /// The class of its defect, or `none`.
    pub fn class(&self) -> &str {
        self.invocation.bug.as_deref().unwrap_or("")
    }

    /// Its PTX.
    pub fn ptx(&self) -> String {
        kernel_corpus::KERNELS.ptx(&self.file, &[]).unwrap()
    }
}

/// The files whose names begin with `prefix`, in alphabetical order.
pub fn kernels(prefix: &str) -> Vec<Kernel> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels");
    let names = fs::read_dir(&folder).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names
        .filter(|name| name.starts_with(prefix) && name.ends_with(".cu"))
        .collect();
    names.sort();
    let kernel = |file: String| {
        let source = fs::read_to_string(folder.join(&file)).unwrap();
        let invocation = Invocation::parse(&source, &folder);
        let invocation = invocation.unwrap_or_else(|error| panic!("{file}: {error}"));
        Kernel {
            file,
            source,
            invocation,
        }
    };
    names.into_iter().map(kernel).collect()
}
