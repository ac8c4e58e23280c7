//! The softmax and GEMM tables: plain f32 solves them, and the classic mistakes do not.

use conformance::problems::gemm::{self, Product};
use conformance::problems::softmax::{self, Axis};
use conformance::{Implementation, Report};
use ndarray::{Array4, Axis as NdAxis, s};

fn who(name: &str) -> Implementation<'_> {
    Implementation {
        name,
        device: "CPU",
        lacks: &[],
    }
}

/// Softmax in f32; `subtract` says whether the maximum is subtracted.
fn judge_softmax(name: &str, subtract: bool) -> Report {
    let who = who(name);
    let problems = [Axis::Last, Axis::NextToLast].map(softmax::problems);
    conformance::run(&who, problems.into_iter().flatten(), |problem, output| {
        let axis = NdAxis(if problem.axis == Axis::Last { 2 } else { 1 });
        output.y.assign(&problem.x);
        for (mut vector, lse) in output.y.lanes_mut(axis).into_iter().zip(&mut output.lse) {
            let max = vector.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let subtract = subtract && max.is_finite();
            let shift = if subtract { max } else { 0.0 };
            vector.mapv_inplace(|x| (x - shift).exp());
            let sum = vector.sum();
            vector.mapv_inplace(|x| if sum == 0.0 { 0.0 } else { x / sum });
            *lse = shift + sum.ln();
        }
        Ok::<_, String>(())
    })
}

fn judge_gemm(
    name: &str,
    product: Product,
    group: fn(h: usize, heads: usize, b_heads: usize) -> usize,
) -> Report {
    let who = who(name);
    conformance::run(&who, gemm::problems(product), |problem, c| {
        let (batch, heads, ..) = problem.a.dim();
        for z in 0..batch {
            for h in 0..heads {
                let b = problem
                    .b
                    .slice(s![z, group(h, heads, problem.b.dim().1), .., ..]);
                let b = if problem.product == Product::Nn {
                    b
                } else {
                    b.reversed_axes()
                };
                c.slice_mut(s![z, h, .., ..])
                    .assign(&problem.a.slice(s![z, h, .., ..]).dot(&b));
            }
        }
        Ok::<_, String>(())
    })
}

#[test]
fn a_plain_softmax_solves_the_table() -> Result<(), Report> {
    judge_softmax("plain softmax", true).into_result()
}

#[test]
fn a_softmax_without_max_subtraction_fails_the_big_logits_and_nothing_else() {
    let report = judge_softmax("softmax without max-subtraction", false);
    for case in &report.cases {
        let big = ["huge", "plus", "minus"]
            .iter()
            .any(|word| case.name.contains(word));
        assert_eq!(case.passed(), !big, "{}", case.name);
    }
}

#[test]
fn a_plain_product_solves_the_table() -> Result<(), Report> {
    let shared = |h, heads, b_heads| h / (heads / b_heads);
    judge_gemm("plain GEMM_NN", Product::Nn, shared).into_result()?;
    judge_gemm("plain GEMM_NT", Product::Nt, shared).into_result()
}

#[test]
fn a_product_with_the_wrong_head_of_b_is_caught() {
    let report = judge_gemm("GEMM with h % H_b", Product::Nn, |h, _, b_heads| {
        h % b_heads
    });
    let names: Vec<&str> = report.failures().map(|case| case.name.as_str()).collect();
    assert_eq!(names, ["b2_h4_hb2_m17_n33_k19"]); // with one head of b, both rules agree
}

#[test]
fn a_product_that_leaves_out_its_last_term_is_caught() {
    let who = who("GEMM without the last term");
    let report = conformance::run(&who, gemm::problems(Product::Nn), |problem, c| {
        let (_, heads, m, k) = problem.a.dim();
        let mut a: Array4<f32> = problem.a.clone();
        if k > 0 && heads == 1 {
            a.slice_mut(s![.., .., m - 1, k - 1]).fill(0.0);
        }
        for (i, mut c) in c.outer_iter_mut().enumerate() {
            for (h, mut c) in c.outer_iter_mut().enumerate() {
                let b = problem
                    .b
                    .slice(s![i, h * problem.b.dim().1 / heads, .., ..]);
                c.assign(&a.slice(s![i, h, .., ..]).dot(&b));
            }
        }
        Ok::<_, String>(())
    });
    let spoiled =
        |name: &str| name.contains("_h1_") && !name.contains("_m0_") && !name.contains("_n0_");
    for case in &report.cases {
        assert_eq!(case.passed(), !spoiled(&case.name), "{}", case.name);
    }
}
