//! The worked example of README.md is what the crate computes.

use ndarray::{Array4, array};
use stage1_reference::{Options, attention};

const README: &str = include_str!("../README.md");

#[test]
fn the_worked_example_is_what_the_crate_computes() {
    let q = array![
        [2.0, 0.0, 0.0, 0.0],
        [0.0, 2.0, 0.0, 0.0],
        [2.0, 0.0, 2.0, 0.0]
    ];
    let k = array![
        [1.0, 0.0, 0.0, 0.0],
        [0.0, 1.0, 0.0, 0.0],
        [1.0, 0.0, 1.0, 0.0]
    ];
    let v = array![
        [1.0, 0.0, 0.0, 0.0],
        [0.0, 1.0, 0.0, 0.0],
        [0.0, 0.0, 1.0, 0.0]
    ];
    let heads = |rows: &ndarray::Array2<f32>| -> Array4<f32> {
        rows.clone().into_shape_with_order((1, 1, 3, 4)).unwrap()
    };
    let options = Options::default().causal();
    let output = attention(
        heads(&q).view(),
        heads(&k).view(),
        heads(&v).view(),
        &options,
    )
    .unwrap();

    let numbers = |row: &[f32], digits: usize| {
        let words: Vec<String> = row.iter().map(|x| format!("{x:.digits$}")).collect();
        words.join(" ")
    };
    for i in 0..3 {
        let [q, k, v] = [&q, &k, &v].map(|rows| numbers(&rows.row(i).to_vec(), 0));
        let row = format!("| {i} | {q} | {k} | {v} |");
        assert!(README.contains(&row), "{row}");
    }
    for i in 0..3 {
        let scores: Vec<f32> = (0..=i).map(|j| q.row(i).dot(&k.row(j)) / 2.0).collect();
        let max = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let exp: Vec<f32> = scores.iter().map(|score| (score - max).exp()).collect();
        let sum: f32 = exp.iter().sum();
        let weights: Vec<f32> = exp.iter().map(|e| e / sum).collect();
        let row = format!(
            "| {i} | {} | {} | {sum:.3} | {} | {} | {:.3} |",
            numbers(&scores, 0),
            numbers(&exp, 3),
            numbers(&weights, 3),
            numbers(
                output.o.slice(ndarray::s![0, 0, i, ..]).to_slice().unwrap(),
                3
            ),
            output.lse[[0, 0, i]],
        );
        assert!(README.contains(&row), "{row}");
    }
}
