//! The whole table of attention problems, with tiles of any size and on any number of threads. `src/tests.rs` holds the errors
//! beside PyTorch's.

use conformance::problems::attention::problems;
use conformance::{Implementation, Report, run};
use rstest::rstest;
use stage3_flash_cpu::{Error, Tiles, attention, attention_with_tiles, instruction_set};

fn judge(name: &str, tiles: Option<Tiles>) -> Report {
    let device = format!("CPU ({})", instruction_set());
    let who = Implementation {
        name,
        device: &device,
        lacks: &[],
    };
    run(&who, problems(), |problem, output| {
        let (q, k, v) = (problem.q.view(), problem.k.view(), problem.v.view());
        *output = match tiles {
            Some(tiles) => attention_with_tiles(q, k, v, &problem.options, tiles)?,
            None => attention(q, k, v, &problem.options)?,
        };
        Ok::<_, Error>(())
    })
}

#[test]
fn every_problem_is_solved() {
    judge("stage 3 attention", None).into_result().unwrap();
}

#[rstest]
#[case(1, 1)]
#[case(3, 5)]
#[case(33, 31)]
#[case(65, 200)]
#[case(usize::MAX, usize::MAX)]
fn every_problem_is_solved_with_tiles_of(#[case] queries: usize, #[case] keys: usize) {
    let report = judge(
        &format!("stage 3 attention, tiles {queries} × {keys}"),
        Some(Tiles { queries, keys }),
    );
    report.into_result().unwrap();
}

#[test]
fn the_number_of_threads_changes_nothing() {
    let on = |threads| {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .unwrap();
        pool.install(|| {
            let problems = problems().into_iter();
            let outputs = problems.map(|problem| {
                let (q, k, v) = (problem.q.view(), problem.k.view(), problem.v.view());
                attention(q, k, v, &problem.options).unwrap()
            });
            // Bits, because NaN is not equal to itself.
            let bits = outputs.map(|output| {
                let values = output.o.into_iter().chain(output.lse);
                values.map(f32::to_bits).collect::<Vec<_>>()
            });
            bits.collect::<Vec<_>>()
        })
    };
    let one = on(1);
    assert_eq!(one, on(2));
    assert_eq!(one, on(7));
}
