//! `gpu profile`, as a user runs it: on a kernel whose counts can be derived by hand.

use std::fs;

use crate::common::{Run, folder, gpu, root, write};
use serde_json::Value;

/// 1000 elements in 32 warps, the last of which has 8 of them.
const VECTOR_ADD: &str = "profile gpu/kernels/vector_add.cu";

fn profile(flags: &str) -> Run {
    let run = gpu(root(), &format!("{VECTOR_ADD} {flags}"));
    run.succeeds();
    run
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value}"))
}

#[test]
fn counts_are_those_that_the_kernel_implies() {
    let json: Value = serde_json::from_str(&profile("--json -").text).unwrap();
    assert_eq!(
        json["title"],
        "vector_add of gpu/kernels/vector_add.cu, grid (4, 1, 1), block (256, 1, 1)"
    );
    let expected = [
        ("lane_instructions", None),
        ("flops_f32", Some(1000.0)),
        ("global_load_requests", Some(64.0)), // two loads in each warp
        ("global_load_sectors", Some(250.0)), // 31 warps of 4 sectors, one of 1
        ("global_load_bytes", Some(8000.0)),
        ("global_load_coalescing", Some(1.0)),
        ("global_store_requests", Some(32.0)),
        ("global_store_sectors", Some(125.0)),
        ("cache_lines", Some(96.0)), // one in each request
        ("dram_read", Some(8000.0)),
        ("dram_write", Some(4000.0)),
        ("branches", Some(32.0)),
        ("divergent_branches", Some(1.0)),
        ("barriers", Some(0.0)),
    ];
    let figures = &json["figures"];
    for (key, value) in expected {
        let counted = number(&figures[key]["value"]);
        assert!(
            value.is_none_or(|value| value == counted),
            "{key}: {counted}"
        );
        assert!(figures[key]["ncu"].is_null(), "{key}");
    }
    assert!(
        figures["shared_load_requests"].is_null(),
        "memory that is not touched has no figure"
    );

    let parts = json["parts"].as_object().unwrap();
    let bound = number(&parts[json["bound"].as_str().unwrap()]);
    assert!(
        bound > 0.0 && parts.values().all(|part| number(part) <= bound),
        "{parts:?}"
    );

    let lines = json["lines"].as_array().unwrap();
    let sum = |key: &str| lines.iter().map(|line| number(&line[key])).sum::<f64>();
    assert_eq!(
        sum("warp_instructions"),
        number(&figures["warp_instructions"]["value"])
    );
    assert!((sum("issue_share") - 1.0).abs() < 1e-9);
    assert_eq!(sum("cache_lines"), 96.0);
    let classes = json["classes"].as_object().unwrap();
    assert_eq!(
        (&classes["global"], &classes["f32"]),
        (&96.into(), &32.into())
    );
    assert!(!classes.contains_key("tensor"), "{classes:?}");
    for (class, count) in classes {
        let of_line = |line: &Value| line["classes"].get(class).map_or(0.0, number);
        let of_lines: f64 = lines.iter().map(of_line).sum();
        assert_eq!(of_lines, number(count), "{class}");
    }
    let counted: f64 = classes.values().map(number).sum();
    assert_eq!(counted, sum("warp_instructions"));
    let source = "    if (i < n) c[i] = a[i] + b[i];";
    let line = lines.iter().find(|line| line["source"] == source).unwrap();
    assert_eq!(line["global_loads"]["sectors"], 250);
    assert_eq!(
        (&line["branches"], &line["divergent_branches"]),
        (&32.into(), &1.into())
    );
}

#[test]
fn a_kernel_with_barriers_and_shared_memory_is_counted() {
    let softmax = gpu(
        root(),
        "profile stage2-naive-cuda/kernels/1_softmax_tree.cu --grid 64 --block 128 --json - \
             --arg f32[8192]=random --arg f32[64]=uninit --arg i32=128",
    );
    softmax.succeeds();
    let json: Value = serde_json::from_str(&softmax.text).unwrap();
    // 64 blocks of 4 warps. Three passes read the vector, two of them write it; one thread of each
    // block writes lse. Each of two reductions has 9 barriers: one before, one after, and one at
    // each of 7 steps. All 4 warps store their values before and load the result after; 2 warps are
    // active in the first step, and 1 in each of the other 6, with two loads and a store.
    let expected = [
        ("global_load_requests", 3.0 * 4.0 * 64.0),
        ("global_load_sectors", 3.0 * 4.0 * 4.0 * 64.0),
        ("global_store_requests", 2.0 * 4.0 * 64.0 + 64.0),
        ("dram_read", 32768.0),
        ("dram_write", 32768.0 + 256.0),
        ("barriers", 2.0 * 9.0 * 4.0 * 64.0),
        ("shared_load_conflicts", 0.0),
        ("shared_store_requests", 2.0 * (4.0 + 2.0 + 6.0) * 64.0),
        (
            "shared_load_requests",
            2.0 * (2.0 * (2.0 + 6.0) + 4.0) * 64.0,
        ),
    ];
    for (key, value) in expected {
        assert_eq!(number(&json["figures"][key]["value"]), value, "{key}");
    }
}

#[test]
fn operations_of_tensor_cores_and_of_16_bit_floats_have_figures_of_their_own() {
    for (case, key, other, value) in [
        // 16 × 8 sums of 16 products each of f16 and bf16, and of 8 of tf32.
        (
            "mma",
            "flops_tensor",
            "flops_half",
            2 * 16 * 8 * (16 + 16 + 8),
        ),
        (
            "mma",
            "flops_tensor_tf32",
            "ops_tensor_int8",
            2 * 16 * 8 * 8,
        ),
        // Of f16: 15 additions and the like, 4 fused ones, 6 minima and maxima; as many of pairs.
        (
            "half",
            "flops_half",
            "flops_tensor",
            3 * 32 * (15 + 2 * 4 + 6),
        ),
    ] {
        let command = format!("profile gpu/tool/cases/{case}.ptx --json -");
        let run = gpu(root(), &command);
        run.succeeds();
        let json: Value = serde_json::from_str(&run.text).unwrap();
        let figures = &json["figures"];
        assert_eq!(number(&figures[key]["value"]), f64::from(value), "{case}");
        assert!(figures[other].is_null() && figures["flops_f32"].is_null());
        let lines = json["lines"].as_array().unwrap();
        let of_lines: f64 = lines.iter().map(|line| number(&line[key])).sum();
        assert_eq!(of_lines, f64::from(value), "{case}");
    }
}

/// A product of bytes, and one of f64.
#[test]
fn operations_on_bytes_and_on_f64_have_figures() {
    let folder = folder("profile_tensor");
    let ptx = "// launch: grid=1 block=32\n// args:\n\
        .version 7.0\n.target sm_80\n.address_size 64\n.visible .entry products()\n{\n\
        .reg .b32 %r<9>;\n.reg .f64 %d<5>;\n\
        mov.b32 %r1, 0;\nmov.f64 %d1, 0d0000000000000000;\n\
        mma.sync.aligned.m16n8k32.row.col.s32.s8.u8.s32 {%r2, %r3, %r4, %r5}, {%r1, %r1, %r1, %r1}, {%r1, %r1}, {%r1, %r1, %r1, %r1};\n\
        mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%d2, %d3}, {%d1}, {%d1}, {%d1, %d1};\nret;\n}\n";
    write(&folder, "products.ptx", ptx);
    let run = gpu(&folder, "profile products.ptx --json -");
    run.succeeds();
    let json: Value = serde_json::from_str(&run.text).unwrap();
    for (key, value) in [
        ("ops_tensor_int8", 2 * 16 * 8 * 32),
        ("flops_tensor", 2 * 8 * 8 * 4),
        ("flops_tensor_f64", 2 * 8 * 8 * 4),
    ] {
        assert_eq!(
            number(&json["figures"][key]["value"]),
            f64::from(value),
            "{key}"
        );
        let lines = json["lines"].as_array().unwrap();
        let of_lines: f64 = lines.iter().map(|line| number(&line[key])).sum();
        assert_eq!(of_lines, f64::from(value), "{key}");
    }
    assert!(json["figures"]["flops_tensor_tf32"].is_null());
}

#[test]
fn the_text_shows_the_source_with_its_costs() {
    let text = profile("").text;
    let line = text
        .lines()
        .find(|line| line.contains("c[i] = a[i] + b[i];"))
        .unwrap();
    // 96 requests, 375 sectors, 12,000 bytes
    assert!(
        line.starts_with("   18 ") && line.contains(" 3.9/3.9 "),
        "{line}"
    );
    for row in [
        "  f32 operations                            1,000",
        "  global loads                                 64",
        "    sectors                                   250",
        "    coalescing                             100.0%",
        "  DRAM bytes written, at least            4,000 B",
    ] {
        assert!(text.lines().any(|line| line == row), "{row}\n{text}");
    }
    assert!(
        text.contains("modelled time (h100)") && text.contains("\n  bound by "),
        "{text}"
    );
    assert!(!text.contains('\u{1b}'), "no colour in a file");
    assert!(
        text.lines().all(|line| line.chars().count() <= 100),
        "{text}"
    );

    let sorted = profile("--sort sectors").text;
    let first = sorted
        .split(" split\n")
        .nth(1)
        .unwrap()
        .lines()
        .next()
        .unwrap();
    assert!(first.contains("c[i] = a[i] + b[i];"), "{sorted}");
}

#[test]
fn a_report_of_nsight_compute_stands_beside_it() {
    let folder = folder("command_profile");
    let csv = folder.join("report.csv");
    fs::write(
        &csv,
        "\"ID\",\"Kernel Name\",\"l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum\"\n\"\",\"\",\"sector\"\n\
         \"0\",\"vector_add(const float *, const float *, float *, int)\",\"500\"\n",
    )
    .unwrap();
    let json = folder.join("profile.json");
    let text = profile(&format!(
        "--ncu {} --json {}",
        csv.display(),
        json.display()
    ))
    .text;
    let row = "    sectors                                   250                500     0.50";
    assert!(text.lines().any(|line| line == row), "{text}");
    let json: Value = serde_json::from_str(&fs::read_to_string(&json).unwrap()).unwrap();
    assert_eq!(json["figures"]["global_load_sectors"]["ncu"], 500.0);

    for (content, reason) in [
        ("", "no column"),
        (
            "Kernel Name,x\nother,1\n",
            "it has no launch of vector_add, only of other",
        ),
    ] {
        fs::write(&csv, content).unwrap();
        let refused = gpu(root(), &format!("{VECTOR_ADD} --ncu {}", csv.display()));
        refused.fails().says(reason);
    }
}

#[test]
fn what_cannot_be_profiled_is_an_error() {
    let fault = gpu(
        root(),
        &format!(
            "{VECTOR_ADD} --arg f32[1]=iota --arg f32[1]=ones --arg f32[1]=uninit --arg i32=9"
        ),
    );
    fault.fails().says("error: launching kernel vector_add");
    let device = gpu(root(), &format!("{VECTOR_ADD} --device abacus"));
    device
        .fails()
        .says("error: --device abacus: it must be one of h100, ")
        .omits("CUDA_SIM_DEVICE");
}
