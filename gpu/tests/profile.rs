//! Profiles, asked for by a program.

use std::path::Path;

use gpu::invocation::Invocation;
use gpu::{KERNELS, profile};

#[test]
fn each_launch_within_is_profiled_in_order() {
    gpu::simulate().unwrap();
    let ctx = gpu::context(0).unwrap();
    let ptx = KERNELS.ptx("vector_add.cu", &[]).unwrap();
    let stated = |n: u32| {
        let text = format!(
            "// launch: grid=1 block=256\n\
             // args: f32[{n}]=ones f32[{n}]=ones f32[{n}]=uninit i32={n}\n"
        );
        Invocation::parse(&text, Path::new("")).unwrap()
    };
    stated(7).run(&ctx, &ptx).unwrap();
    let (results, launches) = profile::profile(|| {
        let first = stated(64).run(&ctx, &ptx).unwrap();
        stated(1).run(&ctx, &ptx).unwrap();
        first
    })
    .unwrap();
    assert_eq!(results[2].1.to_f64(), [2.0; 64]);
    let flops: Vec<u64> = launches
        .iter()
        .map(|launch| launch.total.flops_f32)
        .collect();
    assert_eq!(flops, [64, 1]);
    assert_eq!(
        (&*launches[0].kernel, launches[0].block),
        ("vector_add", [256, 1, 1])
    );
}
