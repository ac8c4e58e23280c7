//! Tells cargo that files may be added to these folders, which `gpu::bundle!` embeds.

use std::path::Path;

fn main() {
    for folder in ["kernels", "ptx"] {
        // Cargo would run this at every build for one that is not there.
        if Path::new(folder).is_dir() {
            println!("cargo:rerun-if-changed={folder}");
        }
    }
}
