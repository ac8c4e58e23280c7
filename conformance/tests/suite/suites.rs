//! Deliberately wrong implementations through the suites: the reports name the
//! problems that they fail.

use std::collections::BTreeSet;

use conformance::device::Device;
use conformance::problems::{Problem as _, multi_head};
use conformance::{Card, Dtype, Implementation, Judge, Part, Report, oracle, problems, suites};
use ndarray::{Array3, ArrayView3, ArrayView4};
use stage1_reference::{Attend, Error, MultiHead, MultiHeadAttention, Options, Output, Stage1};
use stage2_naive_cuda::{Call, GemmRung, LADDER_LACKS, Ladder, Product, SoftmaxRung, Steps};
use stage5_decode::{
    CacheShape, CacheViewMut, Decode, Decoding, Inputs, NewTokens, Outputs, PerSequence, Shape,
    Stage5,
};

const WHO: Implementation<'_> = Implementation {
    name: "wrong",
    device: "CPU",
    lacks: &[],
};

fn failed(report: &Report) -> BTreeSet<&str> {
    report.failures().map(|case| &*case.name).collect()
}

#[track_caller]
fn assert_named(report: &Report, names: &[&str]) {
    let failed = failed(report);
    for name in names {
        assert!(failed.contains(name), "{name}: {report}");
    }
}

/// Errors: windows are one key too wide, key lengths are not checked, a problem without keys
/// panics, and the layer omits the bias of `w_o`.
struct WrongStage1;

impl Attend for WrongStage1 {
    type Error = Error;

    fn attend(
        &self,
        q: ArrayView4<'_, f32>,
        k: ArrayView4<'_, f32>,
        v: ArrayView4<'_, f32>,
        options: &Options,
    ) -> Result<Output, Error> {
        assert!(k.dim().2 > 0, "no keys");
        let mut options = options.clone();
        if let Some(window) = &mut options.window {
            window.left = window.left.saturating_add(1);
        }
        for length in options.key_lengths.iter_mut().flatten() {
            *length = k.dim().2.min(*length);
        }
        Stage1.attend(q, k, v, &options)
    }

    fn argument_of(error: &Error) -> Option<&str> {
        Stage1::argument_of(error)
    }
}

impl MultiHead for WrongStage1 {
    fn multi_head(
        &self,
        layer: &MultiHeadAttention,
        x: ArrayView3<'_, f32>,
        options: &Options,
    ) -> Result<Array3<f32>, Error> {
        let mut layer = layer.clone();
        layer.w_o.bias = None;
        Stage1.multi_head(&layer, x, options)
    }
}

#[test]
fn a_wrong_stage_1_fails_the_problems_that_it_gets_wrong() {
    let parts = [Part::Table, Part::Arguments];
    let report = suites::stage1::judge(&WHO, &parts, &WrongStage1);
    assert_named(
        &report,
        &[
            "b1_h2_n129_d16_window_7_0",
            "b2_h2_nq5_nk0_d16",
            "assignment_b16_n100",
            "refuses_a_key_length_of_130",
            "refuses_b_o_of_17",
        ],
    );
    let right = [
        "b1_h2_n65_d64_causal",
        "assignment_b4_n10",
        "refuses_another_batch",
    ];
    assert!(
        right.iter().all(|name| !failed(&report).contains(name)),
        "{report}"
    );
    let text = report.to_string();
    assert!(
        text.contains("o: ") && text.contains("first in row [0, 0, 8], column 0: "),
        "{text}"
    );
    assert!(
        text.contains("b2_h2_nq5_nk0_d16") && text.contains("it panicked: no keys"),
        "{text}"
    );
    assert!(
        text.contains("no error, not an error that names `key_lengths`"),
        "{text}"
    );
}

/// The layer of a fixture, spoilt.
#[test]
fn a_transposed_weight_swapped_heads_and_no_biases_are_caught() {
    let wrong = |spoil: fn(&mut MultiHeadAttention)| {
        let mut judge = Judge::new(&WHO, &[Part::Table]);
        let narrow = multi_head::problems().into_iter().nth(5);
        judge.problems(Part::Table, narrow, |problem, output| {
            let mut layer = problem.layer.clone();
            spoil(&mut layer);
            *output = Stage1.multi_head(&layer, problem.x.view(), &problem.options)?;
            Ok::<_, Error>(())
        });
        let report = judge.report();
        assert_eq!(report.cases[0].name, "narrow_heads_b3_n7");
        report.cases[0].comparisons()[0].wrong
    };
    assert_eq!(wrong(|_| {}), 0);
    let spoils: [fn(&mut MultiHeadAttention); 3] = [
        |layer| layer.w_k.weight = layer.w_k.weight.t().as_standard_layout().into_owned(),
        |layer| layer.heads = 8,
        |layer| *layer = multi_head::layer(48, 6, false),
    ];
    for spoil in spoils {
        assert!(wrong(spoil) > 900);
    }
}

/// Half precision: what is rounded to a type is right in that type, and wrong in f32.
#[test]
fn a_result_in_half_precision_is_judged_as_one() {
    for dtype in [Dtype::F16, Dtype::Bf16] {
        for judged_as in [dtype, Dtype::F32] {
            let table = problems::attention::problems().into_iter();
            let table = table.map(|problem| problem.stored_in(judged_as));
            let report = conformance::run(&WHO, table.step_by(5), |problem, output| {
                let (q, k, v) = (problem.q.view(), problem.k.view(), problem.v.view());
                *output = Stage1.attend(q, k, v, &problem.options)?;
                output.o.mapv_inplace(|x| dtype.round(x));
                Ok::<_, Error>(())
            });
            assert_eq!(
                report.clone().into_result().is_ok(),
                judged_as == dtype,
                "{report}"
            );
        }
    }
}

#[test]
fn a_result_in_half_precision_may_be_twice_as_far_as_one_whose_every_step_is_rounded() {
    for dtype in [Dtype::F16, Dtype::Bf16] {
        let table = problems::attention::problems().into_iter();
        let mut plain = table.filter(|problem| problem.name() == "b1_h2_n65_d64_causal");
        let problem = plain
            .next()
            .expect("a problem of the table")
            .stored_in(dtype);
        let (q, k, v, options) = (&problem.q, &problem.k, &problem.v, &problem.options);
        let (right, lse) = oracle::attention(q, k, v, options);
        let naive = oracle::attention_in(dtype, true, q, k, v, options);
        let off_by = |times: f64| {
            let report = conformance::run(&WHO, [problem.clone()], |_, output| {
                output.o = (&right + (&naive - &right) * times).mapv(|x| x as f32);
                output.lse = lse.mapv(|x| x as f32);
                Ok::<_, Error>(())
            });
            report.into_result().is_ok()
        };
        assert_eq!([1.0, 2.0, 8.0].map(off_by), [true, true, false], "{dtype}");
    }
}

/// Errors: of NT products, the last matrix is missing; softmax does not write `lse`; scale-and-mask
/// drops the causal mask; and attention does so if `nq` and `nk` differ.
struct WrongStage2(Ladder);

impl Steps for WrongStage2 {
    type Error = stage2_naive_cuda::Error;

    fn run(&self, call: Call<'_>) -> Result<(), Self::Error> {
        self.0.run(match call {
            Call::Softmax { x, shape, .. } => {
                let mut unwritten = self.0.stream.alloc_zeros(shape.rows.clamp(1, 4096))?;
                let lse = unwritten.as_view_mut();
                return self.0.run(Call::Softmax { x, lse, shape });
            }
            Call::Gemm { a, b, c, mut shape } => {
                if shape.product == Product::Nt {
                    shape.batch = shape.batch.saturating_sub(1);
                }
                Call::Gemm { a, b, c, shape }
            }
            Call::ScaleAndMask { scores, mut shape } => {
                shape.causal = false;
                Call::ScaleAndMask { scores, shape }
            }
            mut call => {
                if let Call::Attention { shape, .. } = &mut call {
                    shape.causal &= shape.nq == shape.nk;
                }
                call
            }
        })
    }

    fn argument_of(error: &Self::Error) -> Option<&str> {
        error.argument()
    }
}

#[test]
fn a_wrong_stage_2_fails_the_problems_that_it_gets_wrong() {
    let device = Device::open();
    let own = WrongStage2(Ladder {
        stream: device.stream.clone(),
        gemm: GemmRung::Plain,
        softmax: SoftmaxRung::Tree,
    });
    let who = Implementation {
        name: "wrong",
        device: &device.name,
        lacks: &LADDER_LACKS,
    };
    let parts = [Part::Table, Part::Arguments, Part::Counted];
    let few = |card: &Card<'_>| card.extent.matrices < 65_536; // to save time
    let mut judge = Judge::new(&who, &parts).only(&few);
    suites::stage2::all(&mut judge, &device, &own);
    let report = judge.report();
    assert_named(
        &report,
        &[
            "b2_r3_c129",                  // lse of the softmax
            "b2_h4_m17_n33_k19",           // NT product
            "b1_h2_nq129_nk65_causal",     // scale and mask
            "b1_h2_nq65_nk129_d16_causal", // attention
            "refuses_softmax_short_lse",
            "refuses_gemm_nt_batch",
        ],
    );
    // Not tiled: where it is counted, that is found.
    let counts = matches!(gpu::backend(), Ok(gpu::Backend::Simulator));
    assert_eq!(failed(&report).contains("gemm_nn_loads"), counts);
    let wrong =
        |case: &&str| case.starts_with("refuses_attention") || case.starts_with("refuses_gemm_nn");
    assert_eq!(failed(&report).into_iter().find(wrong), None);
    let text = report.to_string();
    assert!(
        text.contains("lse: ") && text.contains("first in row [0], column 0: NaN, not"),
        "{text}"
    );
}

/// Error: new values are read with the strides of new keys.
struct WrongStage5(Stage5);

impl Decoding for WrongStage5 {
    type Error = <Stage5 as Decoding>::Error;

    fn update_cache(
        &self,
        cache: CacheViewMut<'_>,
        counts: PerSequence<'_>,
        new: NewTokens<'_>,
    ) -> Result<(), Self::Error> {
        let v_strides = new.k_strides;
        self.0
            .update_cache(cache, counts, NewTokens { v_strides, ..new })
    }

    fn decode(
        &self,
        inputs: Inputs<'_>,
        outputs: Outputs<'_>,
        shape: &Shape,
    ) -> Result<(), Self::Error> {
        self.0.decode(inputs, outputs, shape)
    }

    fn has_cache(&self, shape: &CacheShape, paged: bool) -> bool {
        self.0.has_cache(shape, paged)
    }

    fn argument_of(error: &Self::Error) -> Option<&str> {
        Stage5::argument_of(error)
    }
}

#[test]
fn strides_of_keys_are_not_those_of_values() {
    let device = Device::open();
    let wrong = WrongStage5(Stage5 {
        stream: device.stream.clone(),
        decode: Decode::new(device.stream.context()).unwrap(),
    });
    let mut judge = Judge::new(&WHO, &[Part::Strided]);
    suites::stage5::update_cache(&mut judge, &device, &wrong);
    let report = judge.finish();
    assert_eq!(failed(&report).len(), report.cases.len(), "{report}");
}

#[test]
fn a_result_that_depends_on_the_schedule_is_caught() {
    let parts = [Part::Schedules];
    let mut judge = Judge::new(&WHO, &parts);
    judge.same_bits("stable", 0..3, |_| Ok::<_, Error>(vec![1.0]));
    judge.same_bits("unstable", 0..3, |&seed| {
        Ok::<_, Error>(vec![if seed == 2 { -0.0 } else { 0.0 }])
    });
    judge.same_bits("faulty", 0..3, |_| Err::<Vec<f32>, _>("a fault"));
    let report = judge.report();
    assert_eq!(failed(&report), BTreeSet::from(["unstable", "faulty"]));
    assert!(
        report.to_string().contains(", but with 2 digest "),
        "{report}"
    );
}

/// A device that does not count fails nothing; an implementation that fails
/// or launches nothing does.
#[test]
fn a_claim_that_is_not_counted_is_no_failure() {
    let parts = [Part::Counted];
    let counted = |launches| {
        let mut judge = Judge::new(&WHO, &parts);
        judge.counted("loads", "sectors", &launches, |_| 0, 0);
        judge.report()
    };
    let report = counted(None);
    assert!(
        report
            .summary()
            .ends_with("; not counted on this device: 1")
    );
    assert!(report.into_result().is_ok());
    let report = counted(Some(Err("a fault".to_owned())));
    assert!(
        report
            .to_string()
            .contains("a fault, not at most 0 sectors"),
        "{report}"
    );
    assert!(counted(Some(Ok(Vec::new()))).into_result().is_err());
}
