//! Sequences together, with prompts of different lengths, give what each gives alone.

use std::ops::Range;

use crate::common::{Session, Tensors, expected, fixture, generated, tiny};
use rstest::rstest;
use stage6_pipeline::{Error, Finish, Generations, Model, Request, Sampling, SequenceId};

/// Parts of a sequence in the cache. By the rule, their number would depend on the other sequences.
const SPLITS: usize = 2;

fn model() -> Model {
    Model::load(&tiny(), 0)
        .unwrap()
        .with_splits(SPLITS)
        .unwrap()
}

/// Prompts of 1 to 31 tokens of one text.
fn prompts() -> [Vec<u32>; 4] {
    let tokens = expected().tokens;
    [&tokens[..1], &tokens[3..20], &tokens[..31], &tokens[5..12]].map(<[u32]>::to_vec)
}

fn greedy(prompt: Vec<u32>, max_tokens: usize) -> Request {
    Request {
        prompt,
        sampling: Sampling::GREEDY,
        seed: 0,
        max_tokens: Some(max_tokens),
        end: Vec::new(),
    }
}

/// Bits of the logits of each of 5 tokens behind each prompt.
#[test]
fn a_ragged_batch_has_the_bits_of_its_sequences_alone() {
    let (model, prompts) = (model(), prompts());
    let steps = [7_u32, 200, 31, 8, 299];
    let bits = |logits: Vec<f32>| Vec::from_iter(logits.into_iter().map(f32::to_bits));

    let mut batch = model.batch(4, 75).unwrap();
    let sequences = prompts.each_ref().map(|_| batch.create());
    let new = |tokens: &[Vec<u32>; 4]| -> Vec<(SequenceId, Vec<u32>)> {
        sequences.into_iter().zip(tokens.clone()).collect()
    };
    let mut together = Vec::new();
    let mut pass = |new: Vec<(SequenceId, Vec<u32>)>| {
        let new = new
            .iter()
            .map(|(sequence, tokens)| (*sequence, &tokens[..]));
        batch.forward(&Vec::from_iter(new)).unwrap();
        together.push([0, 1, 2, 3].map(|row| bits(batch.logits(row).unwrap())));
    };
    pass(new(&prompts));
    for token in steps {
        pass(new(&[(); 4].map(|()| vec![token])));
    }

    let mut session = Session::new(&model);
    for (row, prompt) in prompts.iter().enumerate() {
        session.clear();
        let passes = std::iter::once(&prompt[..]).chain(steps.chunks(1));
        for (step, tokens) in passes.enumerate() {
            let alone = bits(session.forward(tokens).unwrap());
            assert_eq!(alone, together[step][row], "sequence {row}, step {step}");
        }
    }
}

/// Two places for four requests of different lengths: they join as others leave.
#[rstest]
#[case::one_place(1)]
#[case::two_places(2)]
#[case::more_places_than_requests(7)]
fn requests_join_and_leave(#[case] places: usize) {
    let (model, prompts) = (model(), prompts());
    let requests = Vec::from_iter(prompts.into_iter().zip([9, 2, 5, 1]).map(|(prompt, max)| {
        let mut request = greedy(prompt, max);
        request.sampling.temperature = if max == 5 { 0.9 } else { 0.0 };
        request
    }));
    let mut batch = model.batch(places, 75).unwrap();
    let mut generations = Generations::new(&mut batch);
    for (number, request) in requests.iter().enumerate() {
        assert_eq!(generations.push(request).unwrap(), number);
    }
    let mut texts = vec![Vec::new(); 4];
    while generations
        .step(|request, token| texts[request].push(token))
        .unwrap()
    {}

    for (number, (request, text)) in requests.iter().zip(&texts).enumerate() {
        let (alone, _) = generated(&model, request).unwrap();
        assert_eq!(*text, alone, "request {number}");
        assert_eq!(generations.timing(number).tokens, text.len());
        assert_eq!(generations.finish(number), Some(Finish::MaxTokens));
    }
    assert_eq!(generations.finish(4), None);
    assert!(!generations.step(|_, _| panic!("nothing is left")).unwrap());
}

/// Prefill, and then token after token: the same logits as a prefill of everything, at every fourth
/// of 100 positions. One of them is the first token of the second page.
#[test]
fn every_step_gives_the_logits_of_its_recomputation() {
    let fixture = fixture("llama3");
    let model = Model::load(&fixture.files, 0).unwrap();
    let tokens = fixture.tokens.repeat(4);
    let (mut whole, mut steps) = (Session::new(&model), Session::new(&model));
    steps.forward(&tokens[..3]).unwrap();
    for end in 4..104 {
        let found = steps.forward(&tokens[end - 1..end]).unwrap();
        if end % 4 != 1 {
            continue;
        }
        whole.clear();
        let expected = whole.forward(&tokens[..end]).unwrap();
        let size = (expected.iter().map(|x| x * x).sum::<f32>() / expected.len() as f32).sqrt();
        for (found, expected) in found.iter().zip(&expected) {
            let off = (found - expected).abs() / size;
            assert!(off <= 4e-5, "{end}: {found}, not {expected}");
        }
    }
}

#[test]
fn what_does_not_fit_changes_nothing() {
    let model = model();
    let mut batch = model.batch(2, 20).unwrap();
    let [a, b] = [batch.create(), batch.create()];
    batch.forward(&[(a, &[1, 2, 3]), (b, &[4])]).unwrap();
    let before = batch.logits(0).unwrap();

    let c = batch.create();
    let three = batch.forward(&[(a, &[1]), (b, &[1]), (c, &[1])]);
    assert!(matches!(three, Err(Error::BatchFull { found: 3, room: 2 })));
    let twice = batch.forward(&[(a, &[1]), (a, &[1])]);
    assert!(matches!(twice, Err(Error::Sequence(_))));
    let long = batch.forward(&[(b, &[1]), (a, &[1; 18])]);
    assert!(matches!(
        long,
        Err(Error::ContextFull {
            cached: 3,
            new: 18,
            context: 20
        })
    ));
    let outside = batch.forward(&[(b, &[1]), (a, &[300])]);
    assert!(matches!(
        outside,
        Err(Error::TokenOutOfRange { token: 300, .. })
    ));
    let empty = batch.forward(&[(b, &[1]), (a, &[])]);
    assert!(matches!(empty, Err(Error::NoTokens)));
    batch.free(c).unwrap();
    assert!(matches!(
        batch.forward(&[(c, &[1])]),
        Err(Error::Sequence(_))
    ));
    assert!(matches!(batch.free(c), Err(Error::Sequence(_))));

    let d = batch.create(); // a and b have all pages
    let pages = batch.forward(&[(d, &[1]), (a, &[1])]);
    assert!(matches!(pages, Err(Error::Sequence(_))), "{pages:?}");
    assert_eq!(batch.length(d).unwrap(), 0);

    assert_eq!((batch.length(a).unwrap(), batch.length(b).unwrap()), (3, 1));
    assert_eq!(batch.logits(0).unwrap(), before);
    assert!(matches!(
        batch.logits(2),
        Err(Error::NoRow { row: 2, rows: 2 })
    ));
    assert!(matches!(model.batch(1, 76), Err(Error::ContextFull { .. })));
}

/// A model whose last norm gives ones, and whose output matrix has `weight` in the rows of some
/// tokens: greedy or drawn, no token is chosen.
#[rstest]
#[case::infinite(5..6, 3e38, (5, f32::INFINITY))]
#[case::two(7..9, 3e38, (7, f32::INFINITY))]
#[case::nothing_left(0..301, -3e38, (0, f32::NEG_INFINITY))]
fn logits_that_no_token_can_be_drawn_from(
    #[case] tokens: Range<usize>,
    #[case] weight: f32,
    #[case] expected: (usize, f32),
    #[values(0.0, 0.8)] temperature: f32,
) {
    let mut files = fixture("stablelm").files;
    let mut tensors = Tensors::of(&files);
    let mut set = |tensor: &str, elements: Range<usize>, value: f32| {
        let bytes = &mut tensors.entry(tensor).2[4 * elements.start..4 * elements.end];
        bytes.copy_from_slice(&value.to_le_bytes().repeat(elements.len()));
    };
    set("model.norm.weight", 0..24, 0.0);
    set("model.norm.bias", 0..24, 1.0);
    set("lm_head.weight", 24 * tokens.start..24 * tokens.end, weight);
    tensors.write_into(&mut files);
    let model = Model::load(&files, 0).unwrap();
    let mut batch = model.batch(1, 75).unwrap();
    let mut request = greedy(vec![1, 2, 3], 2);
    request.sampling.temperature = temperature;
    let mut generations = Generations::new(&mut batch);
    generations.push(&request).unwrap();
    match generations.step(|_, _| panic!("no token")) {
        Err(Error::Logit { token, found }) => assert_eq!((token, found), expected),
        other => panic!("{other:?}"),
    }
    assert_eq!((generations.left(), generations.finish(0)), (0, None));
}

/// The batch has pages for two sequences, so a third generation has none if
/// the first two keep theirs.
#[test]
fn generations_that_are_dropped_give_their_pages_back() {
    let model = model();
    let mut batch = model.batch(2, 20).unwrap();
    for _ in 0..3 {
        let mut generations = Generations::new(&mut batch);
        for prompt in &prompts()[..2] {
            generations.push(&greedy(prompt.clone(), 3)).unwrap();
        }
        assert!(generations.step(|_, _| ()).unwrap());
    }
}

#[rstest]
#[case::none(0)]
#[case::too_many(129)]
fn parts_that_no_kernel_makes_are_refused(#[case] splits: usize) {
    let refused = Model::load(&tiny(), 0).unwrap().with_splits(splits);
    let Err(Error::Setting { setting, found, .. }) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!((setting, found), ("splits", splits.to_string()));
}

#[test]
fn a_batch_of_no_sequences_does_nothing() {
    let model = model();
    let mut batch = model.batch(0, 75).unwrap();
    batch.forward(&[]).unwrap();
    let refused = Generations::new(&mut batch).push(&greedy(vec![1], 1));
    assert!(matches!(
        refused,
        Err(Error::BatchFull { found: 1, room: 0 })
    ));
    assert!(matches!(
        batch.logits(0),
        Err(Error::NoRow { row: 0, rows: 0 })
    ));
}
