//! Both rungs through the table of stage 1, and beside PyTorch; stage 2's kernels through what they have masks of this stage for.

mod support;

use conformance::problems::attention::{Problem, problems};
use conformance::{Implementation, Report};
use stage2_naive_cuda::LACKS;
use stage4_flash_cuda::{Attention, Mode, Strategy};
use support::{Device, Modes, assert_rung_2};

/// Rung 1 with all columns in shared memory at once where they fit, else in slices.
#[test]
fn rung_1() -> Result<(), Box<dyn std::error::Error>> {
    let report = run("stage 4, 1_fused", problems(), |device, head_dim| {
        let exact = device.attention(Mode::FusedBy(Strategy::Exact));
        if exact.variant(head_dim).is_ok() {
            exact
        } else {
            device.attention(Mode::FusedBy(Strategy::Split))
        }
    });
    beside_torch(report)
}

#[test]
fn rung_2() -> Result<(), Box<dyn std::error::Error>> {
    beside_torch(run(
        "stage 4, 2_register_tiled",
        problems(),
        |device, head_dim| {
            let attention = device.attention(Mode::Fused);
            assert_rung_2(&attention, head_dim);
            attention
        },
    ))
}

/// The problems that stage 2 itself refuses; the others are in its own tests.
#[test]
fn naive_and_tiled() -> Result<(), Box<dyn std::error::Error>> {
    for mode in [Mode::Naive, Mode::Tiled] {
        let problems: Vec<Problem> = (problems().into_iter())
            .filter(|problem| problem.options.refuse("", &LACKS).is_err())
            .collect();
        assert!(problems.len() > 30, "{}", problems.len());
        let name = format!("stage 4, {mode}");
        run(&name, problems, |device, _| device.attention(mode)).into_result()?;
    }
    Ok(())
}

fn run(name: &str, problems: Vec<Problem>, choose: impl Fn(&Device, usize) -> Attention) -> Report {
    let device = Device::open();
    let who = Implementation {
        name,
        device: &device.name,
        lacks: &[],
    };
    conformance::run(&who, problems, |problem, output| {
        let (q, k, v) = (problem.q.view(), problem.k.view(), problem.v.view());
        let attention = choose(&device, problem.q.dim().3);
        *output = attention.forward_host(&device.stream, q, k, v, &problem.options)?;
        Ok::<_, stage4_flash_cuda::Error>(())
    })
}

fn beside_torch(report: Report) -> Result<(), Box<dyn std::error::Error>> {
    let beside_torch = report.beside_torch();
    report.into_result()?;
    Ok(beside_torch.into_result()?)
}
