//! Head dimensions without committed kernels of their own, on a machine without a compiler: the
//! padded kernel takes them, and the handle says which it is.

use conformance::device::{Device, alone};
use conformance::problems::attention::random;
use conformance::suites::stage4::solve;
use conformance::{Dtype, Implementation};
use half::bf16;
use stage4_flash_cuda::{Attention, Format, Shape, Stage4};

#[test]
fn the_padded_kernel_takes_them() {
    let cache = env!("CARGO_TARGET_TMPDIR").to_owned() + "/no-compiler";
    let variables = [("NVRTC_PATH", "none"), ("GPU_CACHE_DIR", &*cache)];
    if alone("no_compiler::the_padded_kernel_takes_them", &variables).is_some() {
        return;
    }
    let device = Device::open();
    let own = Stage4 {
        stream: device.stream.clone(),
        attention: Attention::new(device.stream.context()).unwrap(),
    };
    let who = Implementation {
        name: "library",
        device: &device.name,
        lacks: &[],
    };
    for (head_dim, columns) in [(20, 32), (100, 128), (33, 64)] {
        let variant = own.attention.variant(head_dim).unwrap();
        assert_eq!(variant.head_dim, columns);
        let (problem, [layout, ..]) = random(((head_dim as u64) << 8) + 7, head_dim, &[]);
        let report = conformance::run(&who, [problem.clone()], |_, output| {
            *output = solve::<f32>(&device, &own, &problem, [layout; 4])?;
            Ok::<_, Box<dyn std::error::Error>>(())
        });
        report.into_result().unwrap();
    }
    assert_eq!(own.attention.loaded(), 3, "the padded ones");
    for (head_dim, columns) in [(20, 64), (100, 128), (200, 256)] {
        let (problem, [layout, ..]) = random(((head_dim as u64) << 8) + 7, head_dim, &[]);
        let shape = Shape::packed(problem.sizes());
        let variant = own.attention.half_variant(Format::Bf16, &shape);
        assert_eq!(variant.unwrap().head_dim, columns);
        let problem = problem.stored_in(Dtype::Bf16);
        let report = conformance::run(&who, [problem.clone()], |_, output| {
            *output = solve::<bf16>(&device, &own, &problem, [layout; 4])?;
            Ok::<_, Box<dyn std::error::Error>>(())
        });
        report.into_result().unwrap();
    }
    assert_eq!(own.attention.variant(256).unwrap().head_dim, 256);
    assert_eq!(
        own.attention.variant(40).unwrap().head_dim,
        40,
        "it is committed"
    );
}
