//! Writes a request a line for each kernel of the corpus, with some seeds.
//!
//!     cargo run -p gpu-web --example requests

use std::fs;
use std::path::Path;

use serde_json::json;

/// Orders of blocks and warps; 0 is no seed.
const SEEDS: [u64; 2] = [0, 7];
/// Instructions that a warp may run, as in the corpus's own tests.
const BUDGET: u64 = 1 << 18;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../kernel-corpus/kernels");
    let names = fs::read_dir(&folder)?.map(|entry| Ok(entry?.file_name().into_string()));
    let mut names: Vec<String> = names
        .collect::<std::io::Result<Result<_, _>>>()?
        .map_err(|name| format!("{name:?}"))?;
    names.retain(|name| name.ends_with(".cu"));
    names.sort();
    for name in names {
        let launch = fs::read_to_string(folder.join(&name))?;
        let ptx = kernel_corpus::KERNELS.ptx(&name, &[])?;
        for seed in SEEDS {
            let seed = (seed > 0).then_some(seed);
            let request = json!({
                "name": name, "ptx": ptx, "launch": launch, "budget": BUDGET, "seed": seed, "values": 1 << 20,
            });
            println!("{request}");
        }
    }
    Ok(())
}
