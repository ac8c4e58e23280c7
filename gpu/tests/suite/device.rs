//! From a kernel's name to its results, on whatever device this machine has.

use std::sync::Arc;

use cudarc::driver::{CudaContext, LaunchConfig, PushKernelArg};
use gpu::{Bundle, Error, KERNELS};

fn context() -> Arc<CudaContext> {
    gpu::context(0).unwrap()
}

/// `a + b` by `vector_add.cu`, compiled with these constants and launched with blocks of that size.
fn vector_add(constants: &[(&str, &str)], block: u32, a: &[f32], b: &[f32]) -> Vec<f32> {
    let ctx = context();
    let module = KERNELS.load(&ctx, "vector_add.cu", constants).unwrap();
    let kernel = module.load_function("vector_add").unwrap();
    let stream = ctx.default_stream();
    let (a_device, b_device) = (stream.clone_htod(a).unwrap(), stream.clone_htod(b).unwrap());
    let mut c = stream.clone_htod(&vec![f32::NAN; a.len()]).unwrap();
    let n = i32::try_from(a.len()).unwrap();
    let mut launch = stream.launch_builder(&kernel);
    launch.arg(&a_device).arg(&b_device).arg(&mut c).arg(&n);
    // SAFETY: the three buffers hold n elements, and the kernel goes no further.
    unsafe {
        launch.launch(LaunchConfig {
            grid_dim: ((n as u32).div_ceil(block), 1, 1),
            block_dim: (block, 1, 1),
            shared_mem_bytes: 0,
        })
    }
    .unwrap();
    stream.clone_dtoh(&c).unwrap()
}

#[test]
fn vectors_are_added_by_each_variant() {
    for n in [1, 63, 64, 65, 255, 256, 257, 1000] {
        let a: Vec<f32> = (0..n).map(|i| i as f32).collect();
        let b: Vec<f32> = (0..n).map(|i| 0.25 - 3.0 * i as f32).collect();
        let sum: Vec<f32> = a.iter().zip(&b).map(|(a, b)| a + b).collect();
        assert_eq!(vector_add(&[], 256, &a, &b), sum, "n {n}");
        assert_eq!(vector_add(&[("BLOCK", "64")], 64, &a, &b), sum, "n {n}");
    }
}

/// The ten rows of `prelude_check.cu` for one warp of numbers.
fn prelude(x: [f32; 32]) -> [[f32; 32]; 10] {
    let ctx = context();
    let module = KERNELS.load(&ctx, "prelude_check.cu", &[]).unwrap();
    let kernel = module.load_function("prelude_check").unwrap();
    let stream = ctx.default_stream();
    let input = stream.clone_htod(&x).unwrap();
    let mut output = stream.alloc_zeros::<f32>(320).unwrap();
    let mut launch = stream.launch_builder(&kernel);
    launch.arg(&input).arg(&mut output);
    // SAFETY: the kernel reads 32 elements of x and writes 10 times 32 of y.
    unsafe {
        launch.launch(LaunchConfig {
            grid_dim: (1, 1, 1),
            block_dim: (32, 1, 1),
            shared_mem_bytes: 0,
        })
    }
    .unwrap();
    let flat = stream.clone_dtoh(&output).unwrap();
    std::array::from_fn(|row| std::array::from_fn(|lane| flat[row * 32 + lane]))
}

/// Asserts that the functions of the prelude give `wanted`, to `tolerance` relative or absolute.
#[track_caller]
fn near(what: &str, x: f32, got: f32, wanted: f64, tolerance: f64) {
    let error = (f64::from(got) - wanted).abs();
    let close = error <= tolerance * wanted.abs().max(1.0);
    assert!(
        close || f64::from(got) == wanted,
        "{what}({x}) gives {got}, not {wanted}"
    );
}

#[test]
fn the_prelude_computes_what_its_comments_say() {
    let x: [f32; 32] = std::array::from_fn(|lane| 0.125 + 0.7 * lane as f32);
    let y = prelude(x);
    let sum: f64 = x.iter().map(|&x| f64::from(x)).sum();
    for (lane, &x) in x.iter().enumerate() {
        let exact = f64::from(x);
        near("ex2", x, y[0][lane], exact.exp2(), 2f64.powi(-21));
        near("lg2", x, y[1][lane], exact.log2(), 2f64.powi(-21));
        near("rcp", x, y[2][lane], 1.0 / exact, 2f64.powi(-22));
        near("tanh", x, y[3][lane], exact.tanh(), 2f64.powi(-10));
        near("f16", x, y[4][lane], exact, 2f64.powi(-11));
        near("bf16", x, y[5][lane], exact, 2f64.powi(-8));
        assert_eq!(
            y[6][lane],
            0.125 + 0.7 * 31.0f32,
            "the largest, in every lane"
        );
        near("warp_sum", x, y[7][lane], sum, 1e-6);
        assert_eq!((y[8][lane], y[9][lane]), (f32::INFINITY, f32::NEG_INFINITY));
    }
}

/// The smallest f16, a subnormal: 2^-24.
const TINY: f32 = 1.0 / 16_777_216.0;

/// Numbers with their nearest f16 and bf16, ties to even.
const ROUNDED: [(f32, f32, f32); 11] = [
    (0.0, 0.0, 0.0),
    (1.0 + 1.0 / 2048.0, 1.0, 1.0),
    (1.0 + 3.0 / 2048.0, 1.0 + 4.0 / 2048.0, 1.0),
    (1.0 + 1.0 / 256.0, 1.0 + 1.0 / 256.0, 1.0),
    (1.0 + 3.0 / 256.0, 1.0 + 3.0 / 256.0, 1.0 + 4.0 / 256.0),
    (65519.0, 65504.0, 65536.0),
    (65520.0, f32::INFINITY, 65536.0),
    (-1.25 * TINY, -TINY, -1.25 * TINY),
    (f32::MAX, f32::INFINITY, f32::INFINITY),
    (f32::NEG_INFINITY, f32::NEG_INFINITY, f32::NEG_INFINITY),
    (0.1, 0.099_975_586, 0.100_097_656),
];

#[test]
fn conversions_round_to_even_and_keep_infinity_and_nan() {
    let mut x = [f32::NAN; 32];
    for (lane, (number, _, _)) in ROUNDED.iter().enumerate() {
        x[lane] = *number;
    }
    let y = prelude(x);
    for (lane, (number, half, brain)) in ROUNDED.iter().enumerate() {
        assert_eq!(y[4][lane], *half, "f16 of {number}");
        assert_eq!(y[5][lane], *brain, "bf16 of {number}");
    }
    assert!(y[4][31].is_nan() && y[5][31].is_nan());
    assert_eq!(y[6][0], f32::MAX, "a NaN counts as absent");
    assert!(y[7][0].is_nan());
}

#[test]
fn a_module_is_loaded_once_in_a_context() {
    let ctx = context();
    let load = |ctx, constants: &[_]| KERNELS.load(ctx, "vector_add.cu", constants).unwrap();
    let first = load(&ctx, &[("BLOCK", "64")]);
    assert!(Arc::ptr_eq(&first, &load(&ctx, &[("BLOCK", "64")])));
    assert!(!Arc::ptr_eq(&first, &load(&ctx, &[])));
    let other = context();
    assert!(!Arc::ptr_eq(&ctx, &other));
    assert!(!Arc::ptr_eq(&first, &load(&other, &[("BLOCK", "64")])));
    assert!(Arc::ptr_eq(&first, &load(&ctx, &[("BLOCK", "64")])));
}

#[test]
fn a_device_that_is_not_there_is_an_error_with_the_number_of_those_there_are() {
    for asked in [1000, usize::MAX] {
        let error = gpu::context(asked).unwrap_err();
        let Error::NoSuchDevice { ordinal, count, .. } = error else {
            panic!("{error}")
        };
        assert_eq!(ordinal, asked);
        assert_eq!(
            count,
            usize::try_from(CudaContext::device_count().unwrap()).unwrap()
        );
        let text = error.to_string();
        assert!(
            text.starts_with(&format!("no device {asked}: the ")),
            "{text}"
        );
        assert!(
            text.ends_with(&format!(" has {count} (numbered from 0)")),
            "{text}"
        );
    }
}

#[test]
fn a_kernel_for_a_newer_device_is_refused_before_it_is_compiled() {
    let kernel = "// arch: compute_999\nextern \"C\" __global__ void newer() {}\n";
    let ctx = context();
    let error = Bundle::new("p", vec![("newer.cu", kernel)].leak(), &[], &[])
        .load(&ctx, "newer.cu", &[])
        .unwrap_err();
    let Error::DeviceTooOld {
        file,
        needs,
        device,
        capability,
    } = &error
    else {
        panic!("{error}")
    };
    assert_eq!(
        (file.as_str(), needs.as_str()),
        ("p/kernels/newer.cu", "compute_999")
    );
    assert_eq!(*device, gpu::device_label(&ctx).unwrap());
    assert_eq!(*capability, ctx.compute_capability().unwrap());
}
