//! The suite of the stage, and what it cannot ask.

use conformance::problems::attention::problems;
use conformance::torch::BesideTorch;
use conformance::{Implementation, Judge, Part, Report, suites};
use ndarray::Array4;
use rstest::rstest;
use stage1_reference::{Error, Options, Stage1, attention};

const WHO: Implementation<'_> = Implementation {
    name: "stage 1",
    device: "CPU",
    lacks: &[],
};

#[rstest]
fn passes_the_suite(
    #[values(Part::Table, Part::Strided, Part::Random, Part::Arguments)] part: Part,
) -> Result<(), Report> {
    suites::stage1::judge(&WHO, &[part], &Stage1).into_result()
}

#[test]
fn is_as_close_to_f64_as_torch_is() -> Result<(), BesideTorch> {
    let mut judge = Judge::new(&WHO, &[Part::Table]);
    suites::stage1::attention(&mut judge, &Stage1);
    judge.report().beside_torch().into_result()
}

#[test]
fn the_scale_defaults_to_one_over_the_root_of_d() -> Result<(), Error> {
    let problem = &problems()[2];
    let d = problem.sizes().head_dim as f32;
    let options = Options::default().scale(1.0 / d.sqrt());
    assert_eq!(problem.options, Options::default());
    let (q, k, v) = (problem.q.view(), problem.k.view(), problem.v.view());
    assert_eq!(
        attention(q, k, v, &options)?,
        attention(q, k, v, &problem.options)?
    );
    Ok(())
}

#[test]
fn nan_in_a_query_or_in_a_mask_is_not_hidden() -> Result<(), Error> {
    let ones = Array4::<f32>::ones((1, 1, 3, 4));
    let mut q = ones.clone();
    q[[0, 0, 1, 2]] = f32::NAN;
    let mut mask = Array4::zeros((1, 1, 3, 3));
    mask[[0, 0, 2, 0]] = f32::NAN;
    let output = attention(
        q.view(),
        ones.view(),
        ones.view(),
        &Options::default().mask(mask),
    )?;
    assert!((output.o[[0, 0, 0, 0]] - 1.0).abs() < 1e-6);
    for row in [1, 2] {
        assert!(output.lse[[0, 0, row]].is_nan() && output.o[[0, 0, row, 3]].is_nan());
    }
    Ok(())
}
