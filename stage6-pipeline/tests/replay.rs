//! Decode steps that a CUDA graph replays give the bits of steps that are launched, and launch the same kernels.

mod common;

use common::{expected, tiny};
use stage6_pipeline::{Batch, Model, SequenceId};

const STEPS: usize = 60; // from position 9 to 69: over the end of a page of 64 tokens

fn model() -> Model {
    Model::load(&tiny(), 0).unwrap().with_splits(2)
}

fn bits(batch: &Batch<'_>) -> Vec<u32> {
    let logits = batch.logits(0).unwrap();
    logits.into_iter().map(f32::to_bits).collect()
}

/// A sequence alone replays from its third step on. In the other batch, no two steps have the same number of sequences before
/// the ninth, so all of them are launched.
#[test]
fn a_replayed_step_has_the_bits_of_a_launched_one() {
    let (model, prompt) = (model(), &expected().tokens[..9]);
    let tokens = |step: usize| [(step * 37 % 300) as u32];
    let mut alone = model.batch(1, 75).unwrap();
    let a = alone.create();
    alone.forward(&[(a, prompt)]).unwrap();

    let places = 8; // products of up to 8 rows have the same bits
    let mut launched = model.batch(places, 75).unwrap();
    let b = launched.create();
    let others = Vec::from_iter((1..places).map(|_| launched.create()));
    launched.forward(&[(b, prompt)]).unwrap();
    for &other in &others {
        launched.forward(&[(other, &prompt[..1])]).unwrap();
    }
    for step in 0..places {
        let tokens = tokens(step);
        alone.forward(&[(a, &tokens)]).unwrap();
        let with: Vec<(SequenceId, &[u32])> = others[..step]
            .iter()
            .map(|&other| (other, &tokens[..]))
            .collect();
        launched
            .forward(&[&[(b, &tokens[..])], &with[..]].concat())
            .unwrap();
        assert_eq!(bits(&alone), bits(&launched), "step {step}");
        let captured = |batch: &Batch<'_>| format!("{batch:?}").contains("Captured");
        assert_eq!(
            (captured(&alone), captured(&launched)),
            (step > 0, false),
            "step {step}"
        );
    }
}

/// Tokens that the host chooses, and those that the last step left on the device; a sequence that leaves and another that joins
/// between replays; a page that a step takes.
#[test]
fn replays_follow_what_the_host_does_between_them() {
    let (model, prompt) = (model(), &expected().tokens[..9]);
    let mut batch = model.batch(2, 75).unwrap();
    let [a, mut b] = [batch.create(), batch.create()];
    batch.forward(&[(a, prompt), (b, &prompt[..3])]).unwrap();
    let mut text = prompt.to_vec();
    for step in 0..STEPS {
        let next = match step % 3 {
            0 => (step * 11 % 300) as u32,
            _ => batch.likeliest(0).unwrap(),
        };
        if step % 20 == 19 {
            batch.free(b).unwrap();
            b = batch.create();
            batch.forward(&[(b, &prompt[..5])]).unwrap();
        }
        text.push(next);
        batch.forward(&[(a, &[next]), (b, &[7])]).unwrap();
    }
    let found = bits(&batch);

    // The same tokens, of a sequence by itself, all given by the host.
    let mut again = model.batch(1, 75).unwrap();
    let c = again.create();
    again.forward(&[(c, prompt)]).unwrap();
    for token in &text[9..] {
        again.forward(&[(c, &[*token])]).unwrap();
    }
    assert_eq!(found, bits(&again));
}

/// On the simulated device. A copy or an allocation is no launch, but a step that launched less would have moved work there.
#[test]
fn a_replay_launches_the_kernels_of_the_step() {
    let (model, prompt) = (model(), &expected().tokens[..9]);
    let mut batch = model.batch(1, 75).unwrap();
    let sequence = batch.create();
    batch.forward(&[(sequence, prompt)]).unwrap();
    let mut kernels = Vec::new();
    for _ in 0..4 {
        let next = [batch.likeliest(0).unwrap()];
        let step = gpu::profile::profile(|| batch.forward(&[(sequence, &next)]).unwrap());
        let Ok(((), launches)) = step else {
            assert_eq!(gpu::backend().unwrap(), gpu::Backend::Cuda);
            return; // a GPU does not count launches
        };
        kernels.push(Vec::from_iter(
            launches.into_iter().map(|launch| launch.kernel),
        ));
    }
    assert_eq!(kernels[0].first().unwrap(), "advance");
    assert_eq!(
        kernels[0]
            .iter()
            .filter(|kernel| *kernel == "update_cache")
            .count(),
        2
    );
    assert!(kernels.iter().all(|of| *of == kernels[0]), "{kernels:?}");
}
