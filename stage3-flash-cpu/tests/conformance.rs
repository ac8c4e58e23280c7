//! The whole table of attention problems: no further from f64 than stage 1 may be, nor than twice PyTorch's own f32.

use rstest::rstest;
use stage1_reference::conformance::attention::problems;
use stage1_reference::conformance::{Implementation, Report, run};
use stage3_flash_cpu::{Error, Tiles, attention, attention_with_tiles, instruction_set};

fn judge(name: &str, tiles: Tiles) -> Report {
    let device = format!("CPU ({})", instruction_set());
    let who = Implementation {
        name,
        device: &device,
        lacks: &[],
    };
    run(&who, problems(), |problem, output| {
        let (q, k, v) = (problem.q.view(), problem.k.view(), problem.v.view());
        *output = attention_with_tiles(q, k, v, &problem.options, tiles)?;
        Ok::<_, Error>(())
    })
}

#[test]
fn every_problem_is_solved_as_well_as_by_pytorch() {
    let report = judge("stage 3 attention", Tiles::default());
    report.beside_torch().into_result().unwrap();
    report.into_result().unwrap();
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
        Tiles { queries, keys },
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
