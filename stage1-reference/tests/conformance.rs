//! The reference through the table that judges every later stage, and wrong implementations that must not pass it.

use ndarray::{Array3, Array4, Axis};
use stage1_reference::conformance::{self, Implementation, Report};
use stage1_reference::{Error, Options, Output, attention};

type Problem = conformance::attention::Problem;

fn judge(name: &str, mut solve: impl FnMut(&Problem) -> Result<Output, Error>) -> Report {
    let who = Implementation {
        name,
        device: "CPU",
        lacks: &[],
    };
    conformance::run(
        &who,
        conformance::attention::problems(),
        |problem, output| {
            *output = solve(problem)?;
            Ok::<_, Error>(())
        },
    )
}

fn reference(problem: &Problem) -> Result<Output, Error> {
    attention(
        problem.q.view(),
        problem.k.view(),
        problem.v.view(),
        &problem.options,
    )
}

/// Names of the problems that a wrong implementation fails.
fn caught(name: &str, solve: impl FnMut(&Problem) -> Result<Output, Error>) -> Vec<String> {
    judge(name, solve)
        .failures()
        .map(|case| case.name.clone())
        .collect()
}

#[test]
fn the_reference_solves_every_problem() -> Result<(), Report> {
    judge("stage 1 attention", reference).into_result()
}

#[test]
fn outputs_that_are_not_written_are_found() {
    let who = Implementation {
        name: "nothing",
        device: "CPU",
        lacks: &[],
    };
    let report = conformance::run(&who, conformance::attention::problems(), |_, _| {
        Ok::<_, Error>(())
    });
    // Empty outputs cannot be wrong.
    for case in report.cases.iter().filter(|case| case.passed()) {
        assert!(
            ["b0_", "_h0_", "nq0_", "_n0_"]
                .iter()
                .any(|empty| case.name.contains(empty)),
            "{}",
            case.name
        );
    }
    assert!(report.failures().count() > 50);
}

#[test]
fn errors_are_failures_and_are_shown() {
    let report = judge("refuses", |_| {
        Err(Error::HeadGroups {
            operation: "attention",
            heads: 3,
            kv_heads: 2,
        })
    });
    assert_eq!(report.failures().count(), report.cases.len());
    let text = report.to_string();
    assert!(text.starts_with("refuses on CPU: 0 of "), "{text}");
    assert_eq!(
        text.matches("3 heads, which is not a multiple").count(),
        report.cases.len()
    );
}

#[test]
fn swapped_operands_are_caught() {
    let names = caught("k and v swapped", |problem| {
        attention(
            problem.q.view(),
            problem.v.view(),
            problem.k.view(),
            &problem.options,
        )
    });
    assert!(
        names.contains(&"b1_h2_n65_d64_causal".to_owned()),
        "{names:?}"
    );
}

#[test]
fn a_causal_mask_aligned_top_left_is_caught_where_it_differs() {
    let names =
        caught("causal mask aligned top-left", |problem| {
            let mut options = problem.options.clone();
            if std::mem::take(&mut options.causal) {
                let (nq, nk) = (problem.sizes().nq, problem.sizes().nk);
                let hidden = Array4::from_shape_fn((1, 1, nq, nk), |(_, _, i, j)| {
                    if j > i { f32::NEG_INFINITY } else { 0.0 }
                });
                options.mask = Some(options.mask.map_or(hidden.clone(), |mask| mask + &hidden));
            }
            attention(
                problem.q.view(),
                problem.k.view(),
                problem.v.view(),
                &options,
            )
        });
    assert!(
        names.contains(&"b1_h2_nq65_nk129_d16_causal".to_owned()),
        "{names:?}"
    );
    assert!(
        names.contains(&"b1_h2_nq129_nk65_d16_causal".to_owned()),
        "{names:?}"
    );
    assert!(
        names
            .iter()
            .all(|name| name.ends_with("causal") && name.contains("_nq")),
        "{names:?}"
    );
}

#[test]
fn heads_that_read_the_wrong_keys_are_caught() {
    let names = caught("head h reads key head h % H_kv", |problem| {
        let (heads, kv_heads) = (problem.sizes().heads, problem.sizes().kv_heads);
        if kv_heads == 0 {
            return reference(problem);
        }
        let spread =
            |x: &Array4<f32>| x.select(Axis(1), &Vec::from_iter((0..heads).map(|h| h % kv_heads)));
        attention(
            problem.q.view(),
            spread(&problem.k).view(),
            spread(&problem.v).view(),
            &problem.options,
        )
    });
    assert!(
        names.contains(&"b2_h6_hkv2_nq33_nk65_d16".to_owned()),
        "{names:?}"
    );
    assert!(names.iter().all(|name| name.contains("_hkv")), "{names:?}");
}

#[test]
fn one_wrong_element_in_the_last_row_is_caught() {
    let names = caught("off by one part in ten thousand", |problem| {
        let mut output = reference(problem)?;
        if let Some(last) = output.o.last_mut() {
            *last = *last * 1.0001 + 1e-4;
        }
        Ok(output)
    });
    assert!(names.len() > 50, "{names:?}");
}

#[test]
fn a_finite_lse_for_an_empty_row_is_caught() {
    let names = caught("lse −1e30", |problem| {
        let mut output = reference(problem)?;
        output.lse = Array3::from_shape_fn(output.lse.dim(), |i| output.lse[i].max(-1e30));
        Ok(output)
    });
    assert!(
        names.contains(&"b1_h2_nq129_nk65_d16_causal".to_owned()),
        "{names:?}"
    );
    assert!(names.contains(&"b2_h2_nq5_nk0_d16".to_owned()), "{names:?}");
    assert!(
        !names.contains(&"b1_h2_n65_d64_causal".to_owned()),
        "{names:?}"
    );
}

#[test]
fn the_scale_defaults_to_one_over_the_root_of_d() -> Result<(), Error> {
    let problem = &conformance::attention::problems()[2];
    let d = problem.sizes().head_dim as f32;
    let options = Options::default().scale(1.0 / d.sqrt());
    assert_eq!(problem.options, Options::default());
    let explicit = attention(
        problem.q.view(),
        problem.k.view(),
        problem.v.view(),
        &options,
    )?;
    assert_eq!(explicit, reference(problem)?);
    Ok(())
}
