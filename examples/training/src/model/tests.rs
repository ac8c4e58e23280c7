//! The gradient of every matrix, and the first losses, beside PyTorch's.

use super::Model;
use crate::text::Text;
use crate::{TOLERANCE, reference};

/// Of each matrix: its name, the norm of its gradient at step 0, and three elements.
const GRADIENTS: &str = include_str!("../../gradients.csv");

fn new_model() -> (Model, Text) {
    let text = Text::new();
    let stream = gpu::context(0).unwrap().default_stream();
    (Model::new(&stream, text.vocabulary).unwrap(), text)
}

#[test]
fn every_gradient_is_that_of_pytorch() {
    let (mut model, text) = new_model();
    let (tokens, targets) = text.batch(0);
    model.step(&tokens, &targets).unwrap();
    let expected = Vec::from_iter(GRADIENTS.lines().skip(2));
    let layers = model.layers.iter().flatten();
    let matrices = [&model.embedding].into_iter().chain(layers);
    let matrices = Vec::from_iter(matrices.chain([&model.head]));
    assert_eq!(expected.len(), matrices.len());
    for (line, matrix) in expected.into_iter().zip(matrices) {
        let (name, numbers) = line.split_once(',').unwrap();
        let numbers = numbers.split(',').map(|number| number.parse().unwrap());
        let numbers: Vec<f64> = numbers.collect();
        let gradient = model.device.stream.clone_dtoh(&matrix.gradient).unwrap();
        let element = |at: usize| f64::from(gradient[at]);
        let count = gradient.len();
        let norm = (0..count).map(|at| element(at).powi(2)).sum::<f64>().sqrt();
        let actual = [norm, element(0), element(count / 2), element(count - 1)];
        // An element is a sum of terms as large as the others.
        let typical = norm / (count as f64).sqrt();
        for (actual, expected) in actual.into_iter().zip(numbers) {
            let difference = (actual - expected).abs() / (expected.abs() + typical);
            assert!(difference <= TOLERANCE, "{name}: {actual} for {expected}");
        }
    }
}

#[test]
fn the_first_losses_are_those_of_pytorch_and_fall() {
    let (mut model, text) = new_model();
    let expected = Vec::from_iter(reference().take(4));
    let losses = expected.iter().enumerate().map(|(step, expected)| {
        let (tokens, targets) = text.batch(step);
        let loss = model.step(&tokens, &targets).unwrap();
        let difference = (loss / expected - 1.0).abs();
        assert!(difference <= TOLERANCE, "{step}: {loss} for {expected}");
        loss
    });
    let losses = Vec::from_iter(losses);
    assert!(losses[3] < losses[0] - 0.5, "{losses:?}");
}
