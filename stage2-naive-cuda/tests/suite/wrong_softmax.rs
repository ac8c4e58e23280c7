//! The purpose of the table: a softmax that does not subtract the maximum passes with small inputs,
//! and only with those.

use conformance::Implementation;
use conformance::device::Device;
use conformance::problems::softmax::Axis;
use cudarc::driver::{LaunchConfig, PushKernelArg};
use stage2_naive_cuda::KERNELS;

#[test]
fn a_softmax_without_max_subtraction_fails_the_big_logits_and_nothing_else() {
    let device = Device::open();
    let module = KERNELS
        .load(device.stream.context(), "wrong_softmax_without_max.cu", &[])
        .unwrap();
    let function = module.load_function("softmax_without_max").unwrap();
    let who = Implementation {
        name: "softmax without max-subtraction",
        device: &device.name,
        lacks: &[],
    };
    let report = conformance::run(
        &who,
        conformance::problems::softmax::problems(Axis::Last),
        |problem, output| {
            let (mut x, mut lse) = (device.upload(&problem.x), device.upload(&output.lse));
            let columns = problem.x.dim().2 as i32;
            let rows = output.lse.len() as u32;
            if rows > 0 {
                let config = LaunchConfig {
                    grid_dim: (rows, 1, 1),
                    block_dim: (128, 1, 1),
                    shared_mem_bytes: 0,
                };
                let mut launch = device.stream.launch_builder(&function);
                launch.arg(&mut x).arg(&mut lse).arg(&columns);
                // SAFETY: the kernel's parameters, in order; one block per row of `x`, all of which
                // `x` and `lse` hold.
                unsafe { launch.launch(config) }?;
            }
            device.read_into(&x, &mut output.y)?;
            device.read_into(&lse, &mut output.lse)?;
            Ok::<_, Box<dyn std::error::Error>>(())
        },
    );
    for case in &report.cases {
        let big = ["huge", "plus", "minus"]
            .iter()
            .any(|word| case.name.contains(word));
        assert_eq!(case.passed(), !big, "{}", case.name);
    }
    assert_eq!(report.failures().count(), 12);
}
