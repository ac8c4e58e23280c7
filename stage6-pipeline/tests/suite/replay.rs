//! Decode steps that a CUDA graph replays give the bits of steps that are launched, launch the same
//! kernels, and neither allocate nor copy.

use crate::common::{expected, tiny};
use conformance::device::alone;
use gpu::profile::{MemoryOperations, Total};
use stage6_pipeline::{Batch, Error, Model, SequenceId};

const STEPS: usize = 60; // from position 9 to 69: over the end of a page of 64 tokens

fn model() -> Model {
    Model::load(&tiny(), 0).unwrap().with_splits(2).unwrap()
}

fn bits(batch: &Batch<'_>) -> Vec<u32> {
    let logits = batch.logits(0).unwrap();
    logits.into_iter().map(f32::to_bits).collect()
}

/// A sequence alone replays from its third step on. In the other batch, no two steps have the same
/// number of sequences before the ninth, so all of them are launched.
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

/// Tokens that the host chooses, and those that the last step left on the device; a sequence that
/// leaves and another that joins between replays; a page that a step takes.
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

/// The allocations and copies of `work`; none on a GPU, which does not count them.
fn counted(work: impl FnOnce()) -> Option<MemoryOperations> {
    match gpu::profile::record(work) {
        Ok(((), recording)) => Some(recording.memory),
        Err(error) => {
            assert_eq!(gpu::backend().unwrap(), gpu::Backend::Cuda, "{error}");
            println!("not counted: this is a GPU");
            None
        }
    }
}

fn once(bytes: usize) -> Total {
    let (count, bytes) = (1, bytes as u64);
    Total { count, bytes }
}

#[test]
fn a_greedy_step_copies_nothing_but_its_tokens() {
    let (model, prompt) = (model(), &expected().tokens[..9]);
    for sequences in [1, 3] {
        let mut batch = model.batch(sequences, 75).unwrap();
        let sequences = Vec::from_iter((0..sequences).map(|_| batch.create()));
        let next_of_each =
            |tokens: &[u32]| Vec::from_iter(sequences.iter().copied().zip(tokens.iter().copied()));
        let prompts = sequences.iter().map(|&sequence| (sequence, prompt));
        batch.forward(&Vec::from_iter(prompts)).unwrap();
        for position in prompt.len()..prompt.len() + STEPS {
            let step = || {
                let rows = 0..sequences.len();
                let next = Vec::from_iter(rows.map(|row| batch.likeliest(row).unwrap()));
                let new = next_of_each(&next);
                let new = new
                    .iter()
                    .map(|(sequence, token)| (*sequence, std::slice::from_ref(token)));
                batch.forward(&Vec::from_iter(new)).unwrap();
            };
            let Some(found) = counted(step) else {
                return;
            };
            if position == prompt.len() {
                // Room for the parts of the cache, and positions: what is counted
                // below is not always nothing.
                assert!(
                    found.allocations.count > 0 && found.to_device.count > 0,
                    "{found:?}"
                );
                continue;
            }
            let page_tables = 4 * 2 * sequences.len(); // of two pages each
            let expected = MemoryOperations {
                to_host: once(4 * sequences.len()),
                to_device: match position % 64 {
                    0 => once(page_tables), // a step that takes pages
                    _ => Total::default(),
                },
                ..MemoryOperations::default()
            };
            assert_eq!(
                found,
                expected,
                "{} sequences, position {position}",
                sequences.len()
            );
        }
    }
}

#[test]
fn a_step_whose_token_the_host_draws_copies_logits_and_token() {
    let (model, prompt) = (model(), &expected().tokens[..9]);
    let mut batch = model.batch(1, 75).unwrap();
    let sequence = batch.create();
    batch.forward(&[(sequence, prompt)]).unwrap();
    for token in 0..9 {
        let step = || {
            assert_eq!(batch.logits(0).unwrap().len(), 300);
            batch.forward(&[(sequence, &[token])]).unwrap();
        };
        let Some(found) = counted(step) else {
            return;
        };
        let expected = MemoryOperations {
            to_host: once(4 * 300),
            to_device: once(4),
            ..MemoryOperations::default()
        };
        if token > 0 {
            assert_eq!(found, expected, "token {token}");
        }
    }
}

/// On the simulated device.
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
    assert!(
        kernels.iter().all(|names| *names == kernels[0]),
        "{kernels:?}"
    );
}

/// On the simulated device: stage 4's kernels attend to a prompt, stage 5's to the cache.
/// Both phases write the cache.
#[test]
fn a_prompt_and_a_step_attend_by_different_kernels() {
    let (model, prompt) = (model(), &expected().tokens[..9]);
    let mut batch = model.batch(1, 75).unwrap();
    let sequence = batch.create();
    let prefill = ["attention"];
    let decode = ["split", "grouped"];
    for (tokens, expected) in [(prompt, [2, 0, 2]), (&[7], [0, 2, 2])] {
        let call = gpu::profile::profile(|| batch.forward(&[(sequence, tokens)]).unwrap());
        let Ok(((), launches)) = call else {
            assert_eq!(gpu::backend().unwrap(), gpu::Backend::Cuda);
            return; // a GPU does not count launches
        };
        let count = |names: &[&str]| {
            let kernels = launches.iter().map(|launch| &*launch.kernel);
            kernels.filter(|kernel| names.contains(kernel)).count()
        };
        let found = [count(&prefill), count(&decode), count(&["update_cache"])];
        assert_eq!(found, expected, "{launches:?}");
    }
}

/// In a process whose launches may run 80,000 instructions. Attention of a sequence to one page of
/// its cache takes 12,000, so a step of four sequences runs, and one of nine does not.
#[test]
fn a_failed_step_leaves_no_logits_and_a_batch_that_goes_on() {
    let variables = [("GPU", "sim"), ("CUDA_SIM_LAUNCH_BUDGET", "80000")];
    if alone(
        "replay::a_failed_step_leaves_no_logits_and_a_batch_that_goes_on",
        &variables,
    )
    .is_some()
    {
        return;
    }
    let model = model();
    let mut batch = model.batch(9, 75).unwrap();
    let sequences = [(); 9].map(|()| batch.create());
    let step = |batch: &mut Batch<'_>, count: usize, token: u32| {
        let new = sequences[..count]
            .iter()
            .map(|&sequence| (sequence, [token]));
        let new = Vec::from_iter(new);
        let new = new.iter().map(|(sequence, token)| (*sequence, &token[..]));
        batch.forward(&Vec::from_iter(new))
    };
    step(&mut batch, 9, 1).unwrap();
    step(&mut batch, 4, 2).unwrap();
    assert!(batch.likeliest(3).is_ok());
    let failed = step(&mut batch, 9, 3);
    assert!(matches!(failed, Err(Error::Driver(_))), "{failed:?}");
    assert!(matches!(
        batch.likeliest(0),
        Err(Error::NoRow { row: 0, rows: 0 })
    ));
    assert!(matches!(
        batch.logits(0),
        Err(Error::NoRow { row: 0, rows: 0 })
    ));
    for sequence in sequences {
        batch.free(sequence).unwrap();
    }

    let go_on = |batch: &mut Batch<'_>| {
        let sequence = batch.create();
        for token in 3..9 {
            batch.forward(&[(sequence, &[token])]).unwrap();
        }
        bits(batch)
    };
    assert_eq!(go_on(&mut batch), go_on(&mut model.batch(1, 75).unwrap()));
}
