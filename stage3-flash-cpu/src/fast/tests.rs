//! Tests of every instruction set of this processor, from end to end.

use std::env;
use std::fs;
use std::path::Path;

use conformance::inputs::{normal, tensor};
use conformance::problems::{Problem as _, attention::problems};
use conformance::{Implementation, Report, run};
use rstest::rstest;

use crate::fast::backward::attention_backward_by;
use crate::fast::forward::attention_by;
use crate::fast::simd::{Kernels, sets};
use crate::{Error, Gradients, Options, Tiles};

fn judge(simd: &'static Kernels, tiles: Tiles) -> Report {
    let device = format!("CPU ({})", simd.name);
    let who = Implementation {
        name: &format!(
            "stage 3 attention, tiles {} × {}",
            tiles.queries, tiles.keys
        ),
        device: &device,
        lacks: &[],
    };
    run(&who, problems(), |problem, output| {
        let (q, k, v) = (problem.q.view(), problem.k.view(), problem.v.view());
        *output = attention_by(simd, q, k, v, &problem.options, tiles)?;
        Ok::<_, Error>(())
    })
}

fn with_queries(queries: usize) -> Tiles {
    Tiles {
        queries,
        ..Tiles::default()
    }
}

fn assert_beside_torch(report: Report, times: f64) {
    for row in report.beside_torch().rows {
        assert!(row.within(times), "{}: {row:?}", report.device);
    }
    report.into_result().unwrap();
}

/// The sizes of tiles that [`Tiles::for_sizes`] chooses from.
#[rstest]
#[case(64)]
#[case(128)]
#[case(256)]
fn every_problem_is_solved_as_well_as_by_pytorch(#[case] queries: usize) {
    assert_beside_torch(
        judge(sets()[0], with_queries(queries)),
        times_torch(sets()[0]),
    );
}

#[test]
fn every_problem_is_solved_with_every_set() {
    for simd in sets().into_iter().skip(1) {
        assert_beside_torch(judge(simd, with_queries(128)), times_torch(simd));
    }
}

/// Factor by which a set may be further from f64 than PyTorch. PyTorch has fused multiply-adds;
/// without them, every term of a sum is rounded twice.
fn times_torch(simd: &Kernels) -> f64 {
    if simd.name == "portable" { 3.0 } else { 2.0 }
}

/// The best set is judged in `tests/suite/backward.rs`; here the others are held against it.
#[test]
fn gradients_are_the_same_with_every_set() {
    let best = sets()[0];
    for problem in problems() {
        let (q, k, v) = (problem.q.view(), problem.k.view(), problem.v.view());
        let d_o = tensor(q.raw_dim(), 77, normal);
        let solve = |simd| {
            let options = &problem.options;
            let output = attention_by(simd, q, k, v, options, Tiles::default()).unwrap();
            let d_o = d_o.view();
            attention_backward_by(simd, q, k, v, options, &output, d_o, Tiles::BACKWARD).unwrap()
        };
        let tensors = |gradients: Gradients| [gradients.dq, gradients.dk, gradients.dv];
        let expected = tensors(solve(best));
        for simd in sets().into_iter().skip(1) {
            for (actual, expected) in tensors(solve(simd)).iter().zip(&expected) {
                let size = expected.iter().fold(1.0f32, |max, x| max.max(x.abs()));
                // A score of 10⁴ is rounded at 10⁻³, and its weight by the same share.
                let tolerance = if problem.name().contains("1e4") {
                    4e-3
                } else {
                    4e-4
                };
                for (actual, expected) in actual.iter().zip(expected) {
                    let error = (actual - expected).abs();
                    assert!(
                        error <= tolerance * size,
                        "{}, {}: {actual}, {expected}",
                        simd.name,
                        problem.name()
                    );
                }
            }
        }
    }
}

/// A query that sees one key has that score as its log-sum-exp. Its weight is then e^(S − L) in the
/// backward pass, and exactly 1 only if both passes have the same score, of thousands, to the last
/// bit: the gradient of the value is `d_o`.
#[rstest]
#[case(64, None)]
#[case(72, None)]
#[case(128, Some(-0.3))]
fn both_passes_have_the_same_scores_bit_for_bit(#[case] d: usize, #[case] scale: Option<f32>) {
    let [q, k] = [1, 2].map(|seed| tensor((1, 2, 203, d), seed, |seed, i| 60.0 * normal(seed, i)));
    let d_o = tensor(q.raw_dim(), 3, normal);
    let mut options = Options::default().window(0, 0); // query i sees key i
    options.scale = scale;
    let (q, k, v, d_o) = (q.view(), k.view(), q.view(), d_o.view());
    for simd in sets() {
        let output = attention_by(simd, q, k, v, &options, Tiles::default()).unwrap();
        assert!(output.lse.iter().any(|lse| lse.abs() > 5e3));
        for tiles in [
            Tiles::BACKWARD,
            Tiles {
                queries: 30,
                keys: 50,
            },
        ] {
            let gradients =
                attention_backward_by(simd, q, k, v, &options, &output, d_o, tiles).unwrap();
            assert_eq!(gradients.dv, d_o, "{}, D = {d}, {tiles:?}", simd.name);
        }
    }
}

const BEGIN: &str =
    "<!-- outliers: UPDATE_README=1 cargo test -p stage3-flash-cpu --lib readme -->\n";
const END: &str = "<!-- end of outliers -->\n";

/// Two digits of each error on inputs with outliers, and PyTorch's beside it: rows of a table.
fn outliers(simd: &'static Kernels) -> Vec<String> {
    let rows = judge(simd, Tiles::default()).beside_torch().rows;
    let rows = rows
        .into_iter()
        .filter(|row| row.problem.contains("_outliers"));
    rows.map(|row| {
        let torch = row.torch.expect("the fixture has all problems");
        let errors = [row.own.rmse, torch.rmse, row.own.max_abs, torch.max_abs];
        let errors = errors.map(|error| format!("{error:.1e}")).join(" | ");
        format!("| `{}` | {} | {errors} |\n", row.problem, row.tensor)
    })
    .collect()
}

/// AVX2 and AVX-512 give the same bits: a query is a lane in both, and its
/// sums are in the same order.
#[test]
fn the_table_of_errors_in_the_readme_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
    let readme = fs::read_to_string(&path).unwrap();
    let (before, rest) = readme.split_once(BEGIN).unwrap();
    let (_, after) = rest.split_once(END).unwrap();
    let head = "| problem | tensor | RMSE | PyTorch's | largest error | PyTorch's |\n|---|---|---|---|---|---|\n";
    for simd in sets() {
        if simd.name == "portable" {
            println!("the table has no figures of the portable set");
            continue;
        }
        let rows = outliers(simd).concat();
        let current = format!("{before}{BEGIN}{head}{rows}{END}{after}");
        let update = env::var_os("UPDATE_README").is_some();
        if update {
            fs::write(&path, &current).unwrap();
        }
        assert!(
            readme == current || update,
            "`UPDATE_README=1 cargo test -p stage3-flash-cpu --lib readme` mends it; with {} it has:\n{rows}",
            simd.name
        );
    }
}
