//! Modelled times of the ladders on an H200 against times that were measured on one.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// A ladder of one element type and head dimension: modes and measured seconds.
type Ladder = Vec<(String, f64)>;

fn ladder(element: &str, dim: &str) -> Ladder {
    let measured: Value =
        serde_json::from_str(include_str!("../../../hardware/h200.json")).unwrap();
    let rows = measured["forward"].as_array().unwrap().iter();
    let dim: u64 = dim.parse().unwrap();
    let rows = rows.filter(|row| row["dtype"] == element && row["d"] == dim);
    let rows = rows.filter(|row| row["n"] == 4096 && row["causal"] == false);
    let ladder = Vec::from_iter(rows.map(|row| {
        let mode = row["kernel"].as_str().unwrap().to_owned();
        (mode, row["ms"].as_f64().unwrap() / 1e3)
    }));
    assert!(ladder.len() >= 5, "{element}, D = {dim}");
    ladder
}

/// The mode of this program that has a measured kernel: in f16 the library was `attention_mma.cu`,
/// which `padded` is on every device.
fn mode<'a>(element: &str, measured: &'a str) -> &'a str {
    match (element, measured) {
        ("f16", "library") => "padded",
        _ => measured,
    }
}

/// Modelled seconds of the same rungs.
fn modelled(element: &str, dim: &str, ladder: &Ladder) -> Vec<f64> {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("h200_{element}_{dim}.json"));
    let modes = ladder.iter().map(|rung| mode(element, &rung.0));
    let modes = Vec::from_iter(modes).join(",");
    let ran = Command::new(env!("CARGO_BIN_EXE_stage4-flash-cuda"))
        .args(["bench", "--seq", "4096", "--dim", dim, "--modes", &modes])
        .args((element == "f16").then_some("--f16"))
        .arg("--json")
        .arg(&file)
        .envs([
            ("GPU", "sim"),
            ("CUDA_SIM_CHECK", "off"),
            ("CUDA_SIM_DEVICE", "h200"),
        ])
        .output()
        .unwrap();
    assert!(
        ran.status.success(),
        "{}",
        String::from_utf8_lossy(&ran.stderr)
    );
    let results: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    let rows = results["rows"].as_array().unwrap();
    let seconds = ladder.iter().map(|rung| {
        let mode = mode(element, &rung.0);
        let row = rows.iter().find(|row| row["mode"] == mode).unwrap();
        row["seconds"].as_f64().unwrap()
    });
    seconds.collect()
}

/// The rungs, the fastest first.
fn order(seconds: &[f64]) -> Vec<usize> {
    let mut order = Vec::from_iter(0..seconds.len());
    order.sort_by(|&i, &j| seconds[i].total_cmp(&seconds[j]));
    order
}

/// The order of the rungs is that of the measured times, and `MODEL.md` has the ratios.
#[test]
#[ignore = "takes ten seconds"]
fn the_model_ranks_the_ladders_of_an_h200() {
    let page = include_str!("../../../cuda-sim/MODEL.md");
    for (element, band) in [("f32", 0.7..1.05), ("f16", 0.55..1.0)] {
        let ladders = ["64", "128"].map(|dim| {
            let ladder = ladder(element, dim);
            let modelled = modelled(element, dim, &ladder);
            let measured = Vec::from_iter(ladder.iter().map(|rung| rung.1));
            let both = [&modelled, &measured].map(|seconds| order(seconds));
            assert_eq!(both[0], both[1], "{element}, D = {dim}: {modelled:?}");
            let ratios = modelled.iter().zip(&measured).map(|(a, b)| a / b);
            let modes = ladder.iter().map(|rung| rung.0.clone());
            modes.zip(ratios).collect::<Vec<_>>()
        });
        for ((mode, small), (_, large)) in ladders[0].iter().zip(&ladders[1]) {
            assert!(
                band.contains(small) && band.contains(large),
                "{mode}: {small}, {large}"
            );
            let row = format!("| {element} | `{mode}` | {small:.2} | {large:.2} |");
            assert!(page.contains(&row), "MODEL.md should have\n{row}");
        }
    }
}
