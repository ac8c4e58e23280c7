//! The suite of attention on host arrays, in every stage that has it.

use ndarray::Array4;
use stage1_reference::{Attend, Dropout, Feature, Options, Output};

use crate::compare::Tolerance;
use crate::inputs::{normal, tensor};
use crate::layout::{Layout, Strided};
use crate::problems::attention::{Problem, problems, random, with_dropout};
use crate::problems::compare;
use crate::report::Part;
use crate::{AnyError, Judge};

/// The largest problem of the table that is given again in other layouts, in elements of q.
const SMALL: usize = 10_000;

/// Random problems.
const RANDOM: u64 = 150;

pub(super) fn attention<A: Attend>(judge: &mut Judge<'_>, own: &A) {
    let solve = |problem: &Problem, layouts: [Layout; 3], output: &mut Output| {
        let [q, k, v] = [
            (&problem.q, layouts[0]),
            (&problem.k, layouts[1]),
            (&problem.v, layouts[2]),
        ]
        .map(|(x, layout)| Strided::input(x, layout));
        *output = own.attend(q.view(), k.view(), v.view(), &problem.options)?;
        Ok::<_, A::Error>(())
    };
    for &part in judge.parts() {
        match part {
            Part::Table => judge.problems(part, problems(), |problem, output| {
                solve(problem, [Layout::Packed; 3], output)
            }),
            Part::Strided => {
                for layout in [Layout::SequenceFirst, Layout::Sparse] {
                    let small = problems().into_iter();
                    let small = small.filter(|problem| problem.q.len() <= SMALL);
                    judge.problems(part, small, |problem, output| {
                        solve(problem, [layout; 3], output)
                    });
                }
                repeated(judge, own);
            }
            Part::Random => {
                for seed in judge.seeds(RANDOM) {
                    let head_dim = 1 + (7 * seed as usize) % 40;
                    let (problem, [q, k, v, _]) = random(seed << 8, head_dim, judge.lacks());
                    judge.problems(part, [problem], |problem, output| {
                        solve(problem, [q, k, v], output)
                    });
                }
            }
            Part::Arguments => arguments(judge, own),
            Part::Schedules | Part::Counted => {}
        }
    }
}

/// Dropout, or its refusal where it is lacked. It has a suite of its own, so that no exercise is
/// asked for it.
pub(super) fn dropout<A: Attend>(judge: &mut Judge<'_>, own: &A) {
    for &part in judge.parts() {
        match part {
            Part::Table => judge.problems(part, with_dropout(), |problem, output| {
                let [q, k, v] = [&problem.q, &problem.k, &problem.v].map(|x| x.view());
                *output = own.attend(q, k, v, &problem.options)?;
                Ok::<_, A::Error>(())
            }),
            Part::Arguments => {
                let q = Array4::<f32>::zeros((1, 1, 3, 8));
                for (name, dropout, argument) in bad_dropout(judge.lacks()) {
                    let options = Options::default().dropout(dropout);
                    judge.refusal(name, argument, A::argument_of, || {
                        let result = own.attend(q.view(), q.view(), q.view(), &options);
                        (result.map(|_| ()), true)
                    });
                }
            }
            Part::Strided | Part::Random | Part::Schedules | Part::Counted => {}
        }
    }
}

/// Names, dropout, and the argument that is refused: `options` of an implementation that lacks it.
pub(super) fn bad_dropout(
    lacks: &[Feature],
) -> impl Iterator<Item = (&'static str, Dropout, &'static str)> {
    let bad = [
        ("dropout_of_nan", f32::NAN),
        ("dropout_of_1", 1.0),
        ("dropout_of_inf", f32::INFINITY),
        ("negative_dropout", -0.1),
    ]
    .map(|(name, probability)| (name, probability, "dropout"));
    let lacked = lacks.contains(&Feature::Dropout);
    let lacked = lacked.then_some(("lacked_dropout", 0.5, "options"));
    (bad.into_iter().chain(lacked)).map(|(name, probability, argument)| {
        let dropout = Dropout {
            probability,
            seed: 1,
            offset: 0,
        };
        (name, dropout, argument)
    })
}

/// One key and one value for all batches, heads and positions: strides of 0.
fn repeated(judge: &mut Judge<'_>, own: &impl Attend) {
    let shape = (2, 3, 70, 16); // with committed kernels
    let q = tensor(shape, 1, normal);
    let one = Array4::<f32>::ones((1, 1, 1, 16));
    let all = one.broadcast(shape).expect("axes of 1 are repeated");
    judge.compared(Part::Strided, "strides_of_0", || {
        let output = own.attend(q.view(), all, all, &Options::default())?;
        let ones = Array4::ones(shape);
        let tolerance = Tolerance::of_largest(1e-6, &ones);
        Ok::<_, AnyError>(vec![compare("o", &output.o, &ones, tolerance)?])
    });
}

type Shape = (usize, usize, usize, usize);

/// Names, shapes of q, k and v, options, and the argument that is refused.
fn bad_arguments() -> Vec<(&'static str, [Shape; 3], Options, &'static str)> {
    let (q, k) = ((2, 4, 65, 8), (2, 4, 129, 8));
    let mut all = Vec::new();
    let plain = Options::default;
    let nothing_for = |d| [(2, 4, 3, d), (2, 4, 5, d), (2, 4, 5, d)];
    for (name, shapes, argument) in [
        ("another_batch", [q, (3, 4, 5, 8), (3, 4, 5, 8)], "k"),
        (
            "another_head_dimension",
            [q, (2, 4, 5, 7), (2, 4, 5, 7)],
            "k",
        ),
        ("values_of_more_rows", [q, k, (2, 4, 130, 8)], "v"),
        ("values_of_fewer_heads", [q, k, (2, 2, 129, 8)], "v"),
        (
            "values_of_another_head_dimension",
            [q, k, (2, 4, 129, 9)],
            "v",
        ),
        ("no_head_dimension", nothing_for(0), "q"),
        ("large_head_dimension", nothing_for(257), "q"),
        ("3_heads_of_k", [q, (2, 3, 5, 8), (2, 3, 5, 8)], "heads"),
        ("8_heads_of_k", [q, (2, 8, 5, 8), (2, 8, 5, 8)], "heads"),
        (
            "another_head_dimension_without_queries",
            [(2, 4, 0, 8), (2, 4, 5, 7), (2, 4, 5, 7)],
            "k",
        ),
        (
            "values_of_more_rows_without_keys",
            [q, (2, 4, 0, 8), (2, 4, 1, 8)],
            "v",
        ),
        ("no_heads_of_k", [q, (2, 0, 5, 8), (2, 0, 5, 8)], "heads"),
    ] {
        all.push((name, shapes, plain(), argument));
    }
    for (name, scale) in [("nan", f32::NAN), ("infinity", f32::INFINITY)] {
        all.push((name, [q, k, k], plain().scale(scale), "scale"));
    }
    let no_queries = [(2, 4, 0, 8), k, k];
    all.push((
        "nan_without_queries",
        no_queries,
        plain().scale(f32::NAN),
        "scale",
    ));
    for (name, mask) in [
        ("mask_of_3_batches", (3, 4, 65, 129)),
        ("mask_of_2_heads", (2, 2, 65, 129)),
        ("mask_of_1_query", (2, 4, 1, 129)),
        ("mask_of_1_key", (2, 4, 65, 1)),
        ("mask_of_no_batch", (0, 4, 65, 129)),
        ("mask_transposed", (2, 4, 129, 65)),
    ] {
        all.push((name, [q, k, k], plain().mask(Array4::zeros(mask)), "mask"));
    }
    for (name, blocks) in [
        ("blocks_of_3_batches", (3, 4, 2, 3)),
        ("blocks_of_2_heads", (2, 2, 2, 3)),
        ("blocks_of_1_row", (2, 4, 1, 3)),
        ("blocks_of_2_columns", (2, 4, 2, 2)),
        ("blocks_of_scores", (2, 4, 65, 129)),
    ] {
        let blocks = Array4::from_elem(blocks, true);
        all.push((name, [q, k, k], plain().blocks(blocks), "blocks"));
    }
    for (name, lengths) in [
        ("1_key_length", vec![5]),
        ("3_key_lengths", vec![5; 3]),
        ("a_key_length_of_130", vec![129, 130]),
        ("a_huge_key_length", vec![usize::MAX, 0]),
    ] {
        all.push((name, [q, k, k], plain().key_lengths(lengths), "key_lengths"));
    }
    all
}

/// A proper use of a feature, on 65 queries and keys, and its name.
fn uses(feature: Feature) -> Option<(Options, &'static str)> {
    let plain = Options::default();
    Some(match feature {
        Feature::Scale => (plain.scale(0.5), "scale"),
        Feature::Causal => (plain.causal(), "causal"),
        Feature::Window => (plain.window(1, 1), "window"),
        Feature::KeyLengths => (plain.key_lengths([5]), "key_lengths"),
        Feature::AdditiveMask => (plain.mask(Array4::zeros((1, 1, 65, 65))), "mask"),
        Feature::BlockSparse => (
            plain.blocks(Array4::from_elem((1, 1, 2, 2), true)),
            "blocks",
        ),
        _ => return None,
    })
}

fn arguments<A: Attend>(judge: &mut Judge<'_>, own: &A) {
    let lacked = judge.lacks().iter().filter_map(|&feature| uses(feature));
    let shape = (1, 1, 65, 8);
    // What is refused is refused beside what is not.
    let lacked = lacked.flat_map(|(options, name)| {
        let causal = (format!("{name}_and_causal"), options.clone().causal());
        [(name.to_owned(), options), causal]
    });
    let lacked = lacked.map(|(name, options)| (name, [shape; 3], options, "options"));
    let bad = bad_arguments().into_iter();
    let bad =
        bad.map(|(name, shapes, options, argument)| (name.to_owned(), shapes, options, argument));
    for (name, shapes, options, argument) in bad.chain(lacked) {
        let [q, k, v] = shapes.map(Array4::<f32>::zeros);
        judge.refusal(&name, argument, A::argument_of, || {
            let result = own.attend(q.view(), k.view(), v.view(), &options);
            (result.map(|_| ()), true)
        });
    }
}
