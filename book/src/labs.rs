//! The parts of a page that run kernels: boxes for the scripts in `theme/labs`, and the kernels that these load.
//!
//! `{{lab NAME}}` puts an empty box into a page, with a line for readers whose browser runs no script. [`write_kernels`] makes a
//! script of each kernel's PTX beside the pages, which a page loads when it needs the kernel: a page from a disk may load a script,
//! where it may not fetch a file.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use gpu_recording::escaped;
use serde_json::{Value, json};

use crate::{devices, predict, root};

/// A box of a page.
struct Lab {
    name: &'static str,
    /// Completes "With JavaScript, you can … here."
    purpose: &'static str,
    /// The kernels that its script runs, as paths of PTX files.
    kernels: &'static [&'static str],
}

const LABS: &[Lab] = &[
    Lab {
        name: "sectors",
        purpose: "move the addresses of a load and count its sectors",
        kernels: &["gpu/ptx/lab_memory.ptx"],
    },
    Lab {
        name: "banks",
        purpose: "change the rows of a tile and count the wavefronts of a column",
        kernels: &["gpu/ptx/lab_memory.ptx"],
    },
    Lab {
        name: "barriers",
        purpose: "take barriers out of a kernel and read the simulator's report",
        kernels: &["gpu/ptx/lab_barriers.ptx"],
    },
    Lab {
        name: "threads",
        purpose: "choose a size and a block, and count idle threads and divergent branches",
        kernels: &["gpu/ptx/lab_threads.ptx"],
    },
    Lab {
        name: "product",
        purpose: "run the matrix products of this stage at sizes of your choice",
        kernels: &[
            "stage2-naive-cuda/ptx/1_gemm_plain-TRANSPOSED_0.ptx",
            "stage2-naive-cuda/ptx/1_gemm_plain-TRANSPOSED_1.ptx",
            "stage2-naive-cuda/ptx/2_gemm_tiled-TRANSPOSED_0.ptx",
            "stage2-naive-cuda/ptx/2_gemm_tiled-TRANSPOSED_1.ptx",
            "stage2-naive-cuda/ptx/3_gemm_register_tiled-TRANSPOSED_0.ptx",
            "stage2-naive-cuda/ptx/3_gemm_register_tiled-TRANSPOSED_1.ptx",
        ],
    },
    Lab {
        name: "softmax",
        purpose: "run the softmax kernels of this stage at sizes of your choice",
        kernels: &[
            "stage2-naive-cuda/ptx/1_softmax_tree.ptx",
            "stage2-naive-cuda/ptx/2_softmax_warp.ptx",
        ],
    },
    Lab {
        name: "first-rung",
        purpose: "step through a tile of the fused kernel and see what each lane holds",
        kernels: &[
            "stage4-flash-cuda/ptx/1_flash-BLOCK_KV_32-BLOCK_Q_32-HEAD_DIM_16-THREADS_256.ptx",
        ],
    },
    Lab {
        name: "split",
        purpose: "choose the number of parts and compare the modelled times",
        kernels: &[
            "stage5-decode/ptx/2_split.ptx",
            "stage5-decode/ptx/combine.ptx",
        ],
    },
    Lab {
        name: "playground",
        purpose: "run the kernels of the book, or PTX of your own,",
        kernels: &[],
    },
];

/// The kernels of the playground, in groups.
const GROUPS: &[(&str, &[&str])] = &[
    (
        "How a GPU runs a kernel",
        &[
            "gpu/ptx/vector_add.ptx",
            "gpu/ptx/divergence.ptx",
            "gpu/ptx/coalescing.ptx",
            "gpu/ptx/vector_loads.ptx",
            "gpu/ptx/bank_conflicts.ptx",
            "gpu/ptx/rounding.ptx",
            "gpu/ptx/rounded_sums.ptx",
            "gpu/ptx/rounded_attention.ptx",
            "gpu/ptx/lab_memory.ptx",
            "gpu/ptx/lab_threads.ptx",
            "gpu/ptx/lab_barriers.ptx",
            "gpu/ptx/lab_swizzle.ptx",
        ],
    ),
    (
        "Stage 2: a kernel for each step",
        &[
            "stage2-naive-cuda/ptx/1_softmax_tree.ptx",
            "stage2-naive-cuda/ptx/2_softmax_warp.ptx",
            "stage2-naive-cuda/ptx/1_gemm_plain-TRANSPOSED_1.ptx",
            "stage2-naive-cuda/ptx/2_gemm_tiled-TRANSPOSED_1.ptx",
            "stage2-naive-cuda/ptx/3_gemm_register_tiled-TRANSPOSED_1.ptx",
            "stage2-naive-cuda/ptx/scale_and_mask.ptx",
        ],
    ),
    (
        "Stage 4: one fused kernel",
        &[
            "stage4-flash-cuda/ptx/1_flash-BLOCK_KV_32-BLOCK_Q_32-HEAD_DIM_64-THREADS_256.ptx",
            "stage4-flash-cuda/ptx/2_register_tiles-BLOCK_KV_32-BLOCK_Q_64-HEAD_DIM_64-THREADS_128.ptx",
            "stage4-flash-cuda/ptx/3_async_copy-BLOCK_KV_32-BLOCK_Q_64-HEAD_DIM_64-THREADS_128.ptx",
            "stage4-flash-cuda/ptx/4_mma-BLOCK_KV_64-BLOCK_Q_64-HEAD_DIM_64-THREADS_128.ptx",
            "stage4-flash-cuda/ptx/5_swizzle-BLOCK_KV_64-BLOCK_Q_64-HEAD_DIM_64-THREADS_128.ptx",
            "stage4-flash-cuda/ptx/6_pipeline-BLOCK_KV_64-BLOCK_Q_64-HEAD_DIM_64-THREADS_128.ptx",
            "stage4-flash-cuda/ptx/7_reuse-BLOCK_KV_64-BLOCK_Q_128-HEAD_DIM_64-THREADS_128.ptx",
            "stage4-flash-cuda/ptx/8_tma-BLOCK_KV_64-BLOCK_Q_128-HEAD_DIM_64-THREADS_160.ptx",
            "stage4-flash-cuda/ptx/9_wgmma-BLOCK_KV_128-BLOCK_Q_128-HEAD_DIM_64-THREADS_288.ptx",
            "stage4-flash-cuda/ptx/10_ping_pong-BLOCK_KV_128-BLOCK_Q_128-HEAD_DIM_64-THREADS_384.ptx",
        ],
    ),
    (
        "Stage 4: gradients",
        &[
            "stage4-flash-cuda/ptx/backward/row_dots.ptx",
            "stage4-flash-cuda/ptx/backward/1_recompute_dk_dv-BLOCK_KV_64-BLOCK_Q_64-HEAD_DIM_64-THREADS_128.ptx",
            "stage4-flash-cuda/ptx/backward/1_recompute_dq-BLOCK_KV_64-BLOCK_Q_64-HEAD_DIM_64-THREADS_128.ptx",
            "stage4-flash-cuda/ptx/backward/2_mma_dk_dv-BLOCK_KV_128-BLOCK_Q_32-HEAD_DIM_64-THREADS_128.ptx",
            "stage4-flash-cuda/ptx/backward/2_mma_dq-BLOCK_KV_64-BLOCK_Q_128-HEAD_DIM_64-THREADS_128.ptx",
            "stage4-flash-cuda/ptx/library/backward-BLOCK_KV_64-BLOCK_Q_64-HEAD_DIM_64-THREADS_128.ptx",
            "stage4-flash-cuda/ptx/library/backward_mma-BLOCK_KV_128-BLOCK_Q_32-ELEMENT_f16-HEAD_DIM_64-THREADS_128.ptx",
        ],
    ),
    (
        "Stage 5: decoding",
        &[
            "stage5-decode/ptx/update_cache.ptx",
            "stage5-decode/ptx/1_decode.ptx",
            "stage5-decode/ptx/2_split.ptx",
            "stage5-decode/ptx/combine.ptx",
            "stage5-decode/ptx/3_grouped.ptx",
            "stage5-decode/ptx/4_mma-HEAD_MAX_64.ptx",
        ],
    ),
    (
        "Planted bugs",
        &[
            "kernel-corpus/ptx/bug_out_of_bounds_ragged_tail.ptx",
            "kernel-corpus/ptx/bug_out_of_bounds_shared_next_array.ptx",
            "kernel-corpus/ptx/bug_out_of_bounds_tensor_box.ptx",
            "kernel-corpus/ptx/bug_misaligned_row.ptx",
            "kernel-corpus/ptx/bug_uninitialised_global_last_element.ptx",
            "kernel-corpus/ptx/bug_uninitialised_shared_halo.ptx",
            "kernel-corpus/ptx/bug_uninitialised_register_accumulator.ptx",
            "kernel-corpus/ptx/bug_shared_race_tree_loop.ptx",
            "kernel-corpus/ptx/bug_shared_race_gemm_before_overwrite.ptx",
            "kernel-corpus/ptx/bug_global_race_histogram.ptx",
            "kernel-corpus/ptx/bug_divergent_barrier_loop_trips.ptx",
            "kernel-corpus/ptx/bug_different_barriers_stops_early.ptx",
            "kernel-corpus/ptx/bug_endless_loop_stride_zero.ptx",
            "kernel-corpus/ptx/bug_copy_in_flight_no_wait.ptx",
            "kernel-corpus/ptx/bug_shared_race_tensor_load_not_waited.ptx",
            "kernel-corpus/ptx/bug_missing_proxy_fence_tensor_store.ptx",
            "kernel-corpus/ptx/bug_deadlock_expect_tx_too_few.ptx",
        ],
    ),
];

/// The box of a lab.
pub fn html(name: &str) -> Result<String> {
    let lab = LABS.iter().find(|lab| lab.name == name);
    let lab = lab.with_context(|| format!("there is no lab {name:?}"))?;
    let [flops, bandwidth] = [devices::flops("h100")?, devices::bandwidth("h100")?];
    let sms = devices::number("h100", "multiprocessors")?;
    let device = json!({ "flops": flops, "bandwidth": bandwidth, "sms": sms });
    let groups = GROUPS.iter().map(|(name, kernels)| {
        json!({ "name": name, "kernels": Vec::from_iter(kernels.iter().map(|path| stem(path))) })
    });
    let facts = match name {
        "playground" => json!({ "groups": Vec::from_iter(groups) }),
        _ => json!({ "device": device }),
    };
    Ok(format!(
        "<div class=\"stepper lab\" data-lab=\"{name}\" data-facts=\"{}\">With JavaScript, you can {} here.</div>\n",
        escaped(&facts.to_string()),
        lab.purpose
    ))
}

/// Writes a script for each kernel into `theme/kernels` beside the pages.
pub fn write_kernels(html: &Path) -> Result<()> {
    let folder = html.join("theme/kernels");
    fs::create_dir_all(&folder)?;
    let mut seen = BTreeMap::new();
    for path in &kernels()? {
        let name = stem(path);
        let other = seen.insert(name, path);
        ensure!(
            other.is_none(),
            "two kernels have the name {name}: {path}, {other:?}"
        );
        let kernel = kernel(path)?;
        let script = format!("(globalThis.kernels ??= {{}})[\"{name}\"] = {kernel};\n");
        fs::write(folder.join(format!("{name}.js")), script)?;
    }
    Ok(())
}

/// The PTX files of all labs and predictions, each once.
fn kernels() -> Result<BTreeSet<String>> {
    let of_labs = LABS.iter().flat_map(|lab| lab.kernels);
    let of_groups = GROUPS.iter().flat_map(|(_, kernels)| *kernels);
    let named = of_labs.chain(of_groups).map(|&path| path.to_owned());
    Ok(named.chain(predict::kernels()?).collect())
}

/// The file name of a kernel without its ending.
pub fn stem(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.trim_end_matches(".ptx")
}

/// A kernel: its PTX, the comments that state its launch, and the sources that the PTX names.
fn kernel(path: &str) -> Result<Value> {
    let text = fs::read_to_string(root().join(path)).with_context(|| path.to_owned())?;
    let ptx: Vec<&str> = text.lines().map(str::trim_end).filter(needed).collect();
    let mut sources = BTreeMap::new();
    for file in files(&text) {
        let source = fs::read_to_string(root().join(file)).with_context(|| file.to_owned())?;
        sources.insert(file, source);
    }
    let stated = files(&text).next().map_or("", |main| &*sources[main]);
    Ok(json!({ "ptx": ptx.join("\n") + "\n", "launch": launch(stated), "sources": sources }))
}

/// The source file that a kernel's PTX was made from: its name and its text.
pub fn source(path: &str) -> Result<(String, String)> {
    let ptx = fs::read_to_string(root().join(path)).with_context(|| path.to_owned())?;
    let file = files(&ptx).next().context("it names no source")?;
    let text = fs::read_to_string(root().join(file)).with_context(|| file.to_owned())?;
    Ok((file.to_owned(), text))
}

/// True if a line of PTX is code, or says how many registers the assembler takes.
fn needed(line: &&str) -> bool {
    let comment = line.trim_start().starts_with("//");
    !line.is_empty() && (!comment || line.starts_with("// sm_"))
}

/// The source files that PTX names, the kernel's own first.
fn files(ptx: &str) -> impl Iterator<Item = &str> {
    let main = ptx.lines().find_map(|line| line.strip_prefix("// file: "));
    let named = ptx
        .lines()
        .filter_map(|line| line.trim().strip_prefix(".file"));
    let named = named.filter_map(|line| line.split('"').nth(1));
    let mut seen = BTreeSet::new();
    main.into_iter()
        .chain(named)
        .filter_map(|file| file.strip_prefix("/k/"))
        .filter(move |file| seen.insert(*file))
}

/// The comments of a kernel file that state its launch.
fn launch(source: &str) -> String {
    let kept = |line: &&str| {
        let words = ["launch:", "args:", "expect "];
        line.strip_prefix("// ")
            .is_some_and(|line| words.iter().any(|word| line.starts_with(word)))
    };
    source.lines().filter(kept).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_has_its_launch_and_its_sources() {
        let kernel = kernel("stage2-naive-cuda/ptx/1_softmax_tree.ptx").unwrap();
        assert_eq!(
            kernel["launch"],
            "// launch: grid=20 block=128\n// args: f32[6000]=random f32[20]=uninit i32=300"
        );
        let sources = kernel["sources"].as_object().unwrap();
        assert!(sources.contains_key("stage2-naive-cuda/kernels/block_reduce.cuh"));
        assert!(!kernel["ptx"].as_str().unwrap().contains("\n\n"));
    }

    #[test]
    fn every_lab_has_its_kernels() {
        for path in kernels().unwrap() {
            assert!(root().join(&path).exists(), "{path}");
        }
        assert!(html("no_such_lab").is_err());
    }
}
