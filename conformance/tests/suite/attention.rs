//! Wrong implementations of attention must not pass the table, and a report shows
//! what is wrong with them.

use conformance::problems::Problem as _;
use conformance::problems::attention::Problem;
use conformance::{Implementation, Report};
use cudarc::driver::LaunchConfig;
use cudarc::nvrtc::Ptx;
use ndarray::{Array3, Array4, Axis, s};
use rstest::rstest;
use stage1_reference::{Dropout, Error, Feature, Options, Output, attention};

fn who<'a>(name: &'a str, lacks: &'a [Feature]) -> Implementation<'a> {
    Implementation {
        name,
        device: "CPU",
        lacks,
    }
}

/// The table, without its longest problems.
fn problems() -> Vec<Problem> {
    let mut table = conformance::problems::attention::problems();
    table.retain(|problem| problem.extent().length < 1000);
    table
}

fn judge(name: &str, mut solve: impl FnMut(&Problem) -> Result<Output, Error>) -> Report {
    conformance::run(&who(name, &[]), problems(), |problem, output| {
        *output = solve(problem)?;
        Ok::<_, Error>(())
    })
}

fn reference(problem: &Problem) -> Result<Output, Error> {
    with_options(problem, &problem.options)
}

fn with_options(problem: &Problem, options: &Options) -> Result<Output, Error> {
    let (q, k, v) = (problem.q.view(), problem.k.view(), problem.v.view());
    attention(q, k, v, options)
}

/// Names of the problems that a wrong implementation fails.
fn caught(name: &str, solve: impl FnMut(&Problem) -> Result<Output, Error>) -> Vec<String> {
    judge(name, solve)
        .failures()
        .map(|case| case.name.clone())
        .collect()
}

#[track_caller]
fn assert_among(names: &[String], name: &str) {
    assert!(names.iter().any(|other| other == name), "{names:?}");
}

#[test]
fn results_rounded_to_22_bits_are_not_as_close_as_those_of_torch() {
    let report = judge("rounded", |problem| {
        let mut output = reference(problem)?;
        output
            .o
            .mapv_inplace(|x| f32::from_bits((x.to_bits() + 2) & !3));
        Ok(output)
    });
    let text = report.beside_torch().into_result().unwrap_err().to_string();
    assert!(text.starts_with("rounded: "), "{text}");
    assert!(
        text.contains("b1_h2_n129_d16_window_0_0  o: max abs "),
        "{text}"
    );
    report.into_result().unwrap(); // the tolerance of the table is wider
}

#[test]
fn outputs_that_are_not_written_are_found() {
    let who = who("nothing", &[]);
    let report = conformance::run(&who, problems(), |_, _| Ok::<_, Error>(()));
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
    // Eight of them, and how many more there are.
    assert_eq!(text.matches("3 heads, which is not a multiple").count(), 8);
    let more = format!("and {} more like it: ", report.cases.len() - 8);
    assert!(text.contains(&more), "{text}");
    assert!(!text.contains("tolerance"), "{text}");
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
    assert_among(&names, "b1_h2_n65_d64_causal");
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
            with_options(problem, &options)
        });
    assert_among(&names, "b1_h2_nq65_nk129_d16_causal");
    assert_among(&names, "b1_h2_nq129_nk65_d16_causal");
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
    assert_among(&names, "b2_h6_hkv2_nq33_nk65_d16");
    assert!(names.iter().all(|name| name.contains("_hkv")), "{names:?}");
}

#[rstest]
#[case::window_one_too_wide("b1_h2_n129_d16_window_7_0", |options: &mut Options| {
    if let Some(window) = &mut options.window {
        window.left = window.left.saturating_add(1);
    }
})]
#[case::window_one_too_narrow("b1_h2_n129_d16_window_0_5", |options: &mut Options| {
    if let Some(window) = &mut options.window {
        window.right = window.right.saturating_sub(1);
    }
})]
#[case::no_causal_beside_a_window("b1_h2_n65_d16_window_7_5_causal", |options: &mut Options| {
    options.causal &= options.window.is_none();
})]
#[case::padding_is_read("b7_h2_nq33_nk129_d16_lengths", |options: &mut Options| {
    options.key_lengths = None;
})]
#[case::one_key_too_few("b7_h4_hkv2_nq1_nk129_d16_lengths", |options: &mut Options| {
    for length in options.key_lengths.iter_mut().flatten() {
        *length = length.saturating_sub(1);
    }
})]
#[case::last_block_is_seen("b2_h2_nq130_nk200_d16_blocks_per_head", |options: &mut Options| {
    if let Some(last) = options.blocks.as_mut().and_then(|blocks| blocks.last_mut()) {
        *last = true;
    }
})]
#[case::the_same_blocks_for_all_heads("b2_h2_nq130_nk200_d16_blocks_per_head", |options: &mut Options| {
    if let Some(blocks) = &mut options.blocks && blocks.dim().1 > 0 {
        *blocks = blocks.slice(s![.., ..1, .., ..]).to_owned();
    }
})]
#[case::the_same_mask_for_all_batches("b2_h3_nq33_nk65_d16_mask_per_batch", |options: &mut Options| {
    if let Some(mask) = &mut options.mask && mask.dim().0 > 0 {
        *mask = mask.slice(s![..1, .., .., ..]).to_owned();
    }
})]
fn a_mask_that_is_read_wrongly_is_caught(#[case] example: &str, #[case] spoil: fn(&mut Options)) {
    let who = who("spoilt options", &[]);
    let spoilt = |problem: &Problem| {
        let mut options = problem.options.clone();
        spoil(&mut options);
        options
    };
    let problems = problems().into_iter();
    let problems = problems.filter(|problem| spoilt(problem) != problem.options);
    let report = conformance::run(&who, problems, |problem, output| {
        *output = with_options(problem, &spoilt(problem))?;
        Ok::<_, Error>(())
    });
    let names: Vec<&str> = report.failures().map(|case| &*case.name).collect();
    assert!(names.contains(&example), "{names:?}");
}

#[rstest]
#[case::seed(|dropout: &mut Dropout| dropout.seed ^= 1 << 40)]
#[case::offset(|dropout: &mut Dropout| dropout.offset = dropout.offset.wrapping_add(1))]
#[case::no_high_half(|dropout: &mut Dropout| dropout.offset &= 0xffff_ffff)]
#[case::probability(|dropout: &mut Dropout| dropout.probability *= 1.01)]
fn dropout_that_is_drawn_otherwise_is_caught(#[case] spoil: fn(&mut Dropout)) {
    let who = who("another dropout", &[]);
    let spoilt = |problem: &Problem| {
        let mut options = problem.options.clone();
        options.dropout.iter_mut().for_each(spoil);
        options
    };
    let problems = conformance::problems::attention::with_dropout().into_iter();
    let problems = problems.filter(|problem| {
        // Where any weight may be another.
        spoilt(problem) != problem.options
            && (0.01..0.9).contains(&problem.options.dropout.unwrap().probability)
    });
    let problems = problems.filter(|problem| !problem.q.is_empty() && problem.sizes().nk > 9);
    let report = conformance::run(&who, problems, |problem, output| {
        *output = with_options(problem, &spoilt(problem))?;
        Ok::<_, Error>(())
    });
    assert!(!report.cases.is_empty() && report.cases.iter().all(|case| !case.passed()));
}

#[test]
fn what_an_implementation_lacks_is_reported_by_name() {
    let who = who(
        "a beginning",
        &[Feature::Window, Feature::BlockSparse, Feature::GroupedHeads],
    );
    let report = conformance::run(&who, problems(), |problem, output| {
        assert!(problem.options.window.is_none() && problem.options.blocks.is_none());
        *output = reference(problem)?;
        Ok::<_, Error>(())
    });
    let summary = report.summary();
    for (feature, count) in report.not_supported() {
        assert!(
            summary.contains(&format!("{feature} ({count})")),
            "{summary}"
        );
    }
    assert!(summary.contains("; not supported: window ("), "{summary}");
    assert_eq!(report.not_supported().len(), 3);
    let run = report.cases.iter().filter(|case| case.was_run()).count();
    assert!(
        summary.contains(&format!(": {run} of {run} problems solved")),
        "{summary}"
    );
    report.into_result().unwrap();
}

#[test]
fn an_implementation_that_lacks_everything_does_not_pass() {
    let who = who("nothing", &[Feature::Causal]);
    let problems = problems().into_iter();
    let problems = problems.filter(|problem| problem.options.causal);
    let report = conformance::run(&who, problems, |_, _| Err("not called"));
    assert!(report.into_result().is_err());
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
    assert_among(&names, "b1_h2_nq129_nk65_d16_causal");
    assert_among(&names, "b2_h2_nq5_nk0_d16");
    assert!(
        !names.iter().any(|name| name == "b1_h2_n65_d64_causal"),
        "{names:?}"
    );
}

/// A report on a fault, as the driver's error has it.
fn fault(line: u32, block: usize, address: usize) -> String {
    format!(
        "launching: the driver reports CUDA_ERROR_LAUNCH_FAILED: race: store of 4 bytes at {address:#x} in shared memory\n  \
         kernel  gemm\n  source  p/kernels/gemm.cu:{line}\n  block   ({block}, 0, 0), thread (1, 0, 0)"
    )
}

#[test]
fn each_fault_is_reported_once_in_full() {
    let mut calls = 0;
    let count = problems().len();
    let report = conformance::run(&who("faulty", &[]), problems(), |_, _| {
        calls += 1;
        let line = if calls % 2 == 0 { 18 } else { 30 };
        Err::<(), _>(fault(line, calls, 4096 * calls))
    });
    assert_eq!(report.failures().count(), count);
    let text = report.to_string();
    for line in [18, 30] {
        let place = format!("source  p/kernels/gemm.cu:{line}\n");
        assert_eq!(text.matches(&place).count(), 1, "{text}");
    }
    let more = format!("and {} more like it: ", count / 2 - 1);
    assert!(text.contains(&more), "{text}");
    assert!(text.lines().count() < 20, "{text}");
    assert!(!text.contains("tolerance"), "{text}");
}

/// PTX of a kernel that does not end.
const ENDLESS: &str =
    ".version 8.4\n.target sm_75\n.address_size 64\n.visible .entry endless()\n{\nL:\nbra L;\n}\n";

#[test]
fn an_endless_kernel_ends_the_table() {
    gpu::simulate().unwrap(); // a GPU would not end it
    let context = gpu::context(0).unwrap();
    let stream = context.default_stream();
    let module = context.load_module(Ptx::from_src(ENDLESS)).unwrap();
    let endless = module.load_function("endless").unwrap();
    let mut calls = 0;
    let count = problems().len();
    let report = conformance::run(&who("endless", &[]), problems(), |problem, output| {
        calls += 1;
        if calls < 3 {
            *output = reference(problem).unwrap();
            return Ok(());
        }
        let config = LaunchConfig {
            grid_dim: (1000, 1, 1),
            block_dim: (256, 1, 1),
            shared_mem_bytes: 0,
        };
        // SAFETY: the kernel has no parameters.
        let launched = unsafe { stream.launch_builder(&endless).launch(config) };
        let ended = launched.and_then(|_| stream.synchronize());
        ended.map_err(|error| gpu::explanation(&error))
    });
    assert_eq!(calls, 3);
    assert_eq!(report.failures().count(), count - 2);
    let text = report.to_string();
    assert_eq!(
        text.matches("endless loop: one warp ran more than 16777216")
            .count(),
        1,
        "{text}"
    );
    assert!(
        text.contains("not run, because an earlier kernel did not end"),
        "{text}"
    );
}
