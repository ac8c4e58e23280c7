//! The oracle of the backward pass beside torch.autograd, which `fixtures/torch_gradients.py` ran
//! in f64 on every problem of the table.

use std::collections::HashMap;

use conformance::inputs::uniform;
use conformance::problems::{Problem as _, gradients};
use ndarray::Array4;

static TORCH: &str = include_str!("../../fixtures/torch_gradients.json");

/// The largest absolute element, and the projection of all elements.
fn figures(gradient: &Array4<f64>) -> [f64; 2] {
    let largest = gradient.iter().fold(0.0, |max: f64, x| max.max(x.abs()));
    let weight = |i| f64::from(uniform(99, i as u64));
    let terms = gradient.iter().enumerate().map(|(i, x)| x * weight(i));
    [largest, terms.sum()]
}

#[test]
fn they_are_those_of_torch_autograd() {
    let mut torch: HashMap<&str, [[f64; 2]; 3]> = serde_json::from_str(TORCH).unwrap();
    for problem in gradients::problems() {
        let name = problem.name();
        let expected = torch.remove(name);
        let expected =
            expected.unwrap_or_else(|| panic!("{name}: run fixtures/torch_gradients.py"));
        let answer = problem.answer();
        for ((gradient, x), expected) in ["dq", "dk", "dv"].iter().zip(&answer).zip(expected) {
            // In f64, by two orders of summation.
            let tolerance = 1e-11 * expected[0] * (x.len() as f64).sqrt() + 1e-12;
            let actual = figures(x);
            for (actual, expected) in actual.iter().zip(expected) {
                assert!(
                    (actual - expected).abs() <= tolerance,
                    "{name}: {gradient} has {actual}, torch {expected}, within {tolerance:.1e}"
                );
            }
        }
    }
    assert!(torch.is_empty(), "no problems any more: {:?}", torch.keys());
}
