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
    let layers = model.layers.iter().flatten();
    let matrices = [&model.embedding].into_iter().chain(layers);
    let matrices = Vec::from_iter(matrices.chain([&model.head]));
    let expected = Vec::from_iter(GRADIENTS.lines().skip(2));
    assert_eq!(expected.len(), matrices.len());

    // From the head on, as the backward pass: the first that is wrong is next to the mistake.
    let mut wrong = Vec::new();
    for (line, matrix) in expected.into_iter().zip(matrices).rev() {
        let (name, numbers) = line.split_once(',').unwrap();
        let numbers = numbers.split(',').map(|number| number.parse().unwrap());
        let numbers: Vec<f64> = numbers.collect();
        let gradient = model.device.stream.clone_dtoh(&matrix.gradient).unwrap();
        let gradient = Vec::from_iter(gradient.into_iter().map(f64::from));
        let norm = gradient.iter().map(|x| x * x).sum::<f64>().sqrt();
        let typical = norm / (gradient.len() as f64).sqrt(); // size of an element
        let [first, middle, last] =
            [0, gradient.len() / 2, gradient.len() - 1].map(|at| gradient[at]);
        let actual = [norm, first, middle, last];
        assert_eq!(numbers.len(), actual.len());
        let agree = |(actual, expected): (&f64, &f64)| {
            (actual - expected).abs() <= TOLERANCE * (expected.abs() + typical)
        };
        if !actual.iter().zip(&numbers).all(agree) {
            wrong.push(format!("{name}: {actual:?} for {numbers:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
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
