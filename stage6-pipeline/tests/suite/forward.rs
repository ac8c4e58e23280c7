//! Sequences and generations: where they begin and end, and what they refuse.

use crate::common::{Session, expected, generated, tiny};
use stage6_pipeline::{Error, Finish, Model, Request, Sampling};

fn model() -> Model {
    Model::load(&tiny(), 0).unwrap()
}

fn greedy(tokens: Vec<u32>) -> Request {
    Request {
        prompt: tokens,
        sampling: Sampling::GREEDY,
        seed: 0,
        max_tokens: None,
        end: vec![],
    }
}

#[test]
fn a_session_starts_over() {
    let (model, tokens) = (model(), expected().tokens);
    let mut session = Session::new(&model);
    let first = session.forward(&tokens[..9]).unwrap();
    session.forward(&tokens[9..20]).unwrap();
    session.clear();
    assert_eq!(session.forward(&tokens[..9]).unwrap(), first);
}

#[test]
fn bad_tokens_leave_a_session_as_it_was() {
    let (model, tokens) = (model(), expected().tokens);
    let mut session = Session::new(&model);
    session.forward(&tokens[..20]).unwrap();
    let expected = session.forward(&tokens[20..]).unwrap();
    session.clear();
    session.forward(&tokens[..20]).unwrap();

    let error = session.forward(&[5, 300]).unwrap_err();
    assert!(
        matches!(
            error,
            Error::TokenOutOfRange {
                token: 300,
                index: 1,
                vocab_size: 300
            }
        ),
        "{error:?}"
    );
    let error = session.forward(&[5; 56]).unwrap_err();
    assert!(
        matches!(
            error,
            Error::ContextFull {
                cached: 20,
                new: 56,
                context: 75
            }
        ),
        "{error:?}"
    );
    assert!(matches!(session.forward(&[]), Err(Error::NoTokens)));
    assert!(matches!(
        session.forward(&[5; 1000]),
        Err(Error::ContextFull { .. })
    ));

    assert_eq!(session.forward(&tokens[20..]).unwrap(), expected);
}

#[test]
fn the_whole_context_can_be_used() {
    let model = model();
    let mut session = Session::new(&model);
    session.forward(&[7; 75]).unwrap();
    assert!(matches!(
        session.forward(&[7]),
        Err(Error::ContextFull {
            cached: 75,
            new: 1,
            context: 75
        })
    ));
}

fn story(model: &Model, request: &Request) -> (Vec<u32>, Option<Finish>) {
    generated(model, request).unwrap()
}

#[test]
fn a_generation_ends_where_it_should() {
    let (model, expected) = (model(), expected());
    let request = greedy(expected.tokens);

    let few = Request {
        max_tokens: Some(3),
        ..request.clone()
    };
    assert_eq!(
        story(&model, &few),
        (expected.greedy[..3].to_vec(), Some(Finish::MaxTokens))
    );

    // The fifth token is the first of its kind.
    let end = Request {
        end: vec![299, expected.greedy[4]],
        ..request.clone()
    };
    assert_eq!(
        story(&model, &end),
        (expected.greedy[..4].to_vec(), Some(Finish::EndOfText))
    );

    let many = Request {
        max_tokens: Some(1000),
        ..request
    };
    assert_eq!(
        story(&model, &many),
        (expected.greedy.clone(), Some(Finish::ContextEnd))
    );
}

#[test]
fn a_seed_names_a_story() {
    let model = model();
    let sampling = Sampling {
        temperature: 1.0,
        ..Sampling::GREEDY
    };
    let request = |seed| Request {
        sampling,
        seed,
        max_tokens: Some(8),
        ..greedy(expected().tokens)
    };
    let (first, _) = story(&model, &request(1));
    assert_eq!(story(&model, &request(1)).0, first);
    assert_ne!(story(&model, &request(2)).0, first);
}

#[test]
fn requests_that_cannot_be_met_are_refused() {
    let model = model();
    let refused = |request: Request| generated(&model, &request).unwrap_err();
    assert!(matches!(refused(greedy(vec![])), Error::EmptyPrompt));
    let long = refused(greedy(vec![1; 75]));
    assert!(
        matches!(
            long,
            Error::PromptTooLong {
                tokens: 75,
                context: 75
            }
        ),
        "{long:?}"
    );
    assert!(matches!(
        refused(greedy(vec![1, 300])),
        Error::TokenOutOfRange { token: 300, .. }
    ));
    let none = Request {
        max_tokens: Some(0),
        ..greedy(vec![1])
    };
    assert!(matches!(
        refused(none),
        Error::Setting {
            setting: "max-tokens",
            ..
        }
    ));
    let hot = Sampling {
        temperature: f32::NAN,
        ..Sampling::GREEDY
    };
    let hot = Request {
        sampling: hot,
        ..greedy(vec![1])
    };
    assert!(matches!(
        refused(hot),
        Error::Setting {
            setting: "temperature",
            ..
        }
    ));
}
