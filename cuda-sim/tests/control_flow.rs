//! Control flow, functions and the compiler's library on the kernels of
//! `cuda-sim/kernels/control.cu`, against the host.

use std::sync::Arc;

use cudarc::driver::{
    CudaContext, CudaFunction, CudaStream, DeviceRepr, LaunchConfig, PushKernelArg,
};
use cudarc::nvrtc::Ptx;

struct Kernel {
    stream: Arc<CudaStream>,
    function: CudaFunction,
}

fn kernel(name: &str) -> Kernel {
    cuda_sim::install().unwrap();
    let context = CudaContext::new(0).unwrap();
    let module = context
        .load_module(Ptx::from_src(include_str!("../ptx/control.ptx")))
        .unwrap();
    Kernel {
        stream: context.default_stream(),
        function: module.load_function(name).unwrap(),
    }
}

fn shape(grid: [u32; 3], block: [u32; 3], shared_mem_bytes: u32) -> LaunchConfig {
    LaunchConfig {
        grid_dim: grid.into(),
        block_dim: block.into(),
        shared_mem_bytes,
    }
}

/// Result of `diverging_loops`.
fn diverging_loop(i: i32) -> i32 {
    let mut sum = 0i32;
    for a in 0..i % 7 {
        if a == 5 {
            break;
        }
        for b in (i % 3..9).step_by(2) {
            if (a + b + i) % 4 == 0 {
                continue;
            }
            match (a * b + i) % 6 {
                0 => sum += 1,
                1 => sum += 110,
                2 => sum += 100,
                3 if sum > 500 => return -sum,
                3 => sum *= 2,
                4 => sum -= b,
                _ => sum ^= a,
            }
        }
    }
    sum
}

#[test]
fn loops_diverge_and_meet_again() {
    let Kernel { stream, function } = kernel("diverging_loops");
    let n = 1000;
    let mut out = stream.clone_htod(&[77i32; 1024]).unwrap();
    let mut launch = stream.launch_builder(&function);
    launch.arg(&mut out).arg(&n);
    // SAFETY: 1024 elements, of which threads beyond `n` write none.
    unsafe { launch.launch(shape([5, 1, 1], [208, 1, 1], 0)) }.unwrap();
    let wanted: Vec<i32> = (0..1024)
        .map(|i| if i < n { diverging_loop(i) } else { 77 })
        .collect();
    assert!(
        wanted.iter().any(|&x| x < -500),
        "the early return is taken"
    );
    assert_eq!(stream.clone_dtoh(&out).unwrap(), wanted);
}

#[test]
fn a_warp_is_whole_after_a_loop_that_diverged() {
    let Kernel { stream, function } = kernel("shuffle_after_divergence");
    let mut out = stream.alloc_zeros::<i32>(64).unwrap();
    let mut launch = stream.launch_builder(&function);
    launch.arg(&mut out);
    // SAFETY: one element per thread.
    unsafe { launch.launch(shape([1, 1, 1], [64, 1, 1], 0)) }.unwrap();
    let steps = |i: u32| {
        let (mut x, mut n) = (i * 7 + 1, if i % 2 == 1 { 1000 } else { 0 });
        while x != 1 {
            x = if x % 2 == 1 { 3 * x + 1 } else { x / 2 };
            n += 1;
        }
        n
    };
    let wanted: Vec<i32> = (0..64)
        .map(|i| (i / 32 * 32..i / 32 * 32 + 32).map(steps).sum())
        .collect();
    assert_eq!(stream.clone_dtoh(&out).unwrap(), wanted);
}

#[test]
fn a_spin_lock_lets_every_thread_in_once() {
    for name in ["spin_lock", "lock_without_branches"] {
        let Kernel { stream, function } = kernel(name);
        let mut lock = stream.alloc_zeros::<i32>(1).unwrap();
        let mut counter = stream.alloc_zeros::<i32>(1).unwrap();
        let mut launch = stream.launch_builder(&function);
        launch.arg(&mut lock).arg(&mut counter);
        // SAFETY: one element each.
        unsafe { launch.launch(shape([6, 1, 1], [80, 1, 1], 0)) }.unwrap();
        assert_eq!(stream.clone_dtoh(&counter).unwrap(), [480], "{name}");
    }
}

#[test]
fn the_last_block_sees_what_the_others_wrote() {
    let Kernel { stream, function } = kernel("last_block_sums");
    let n = 30_011;
    let x = stream
        .clone_htod(&(0..n).map(|i| i % 101 - 40).collect::<Vec<i32>>())
        .unwrap();
    let mut partial = stream.alloc_zeros::<i32>(37).unwrap();
    let mut finished = stream.alloc_zeros::<u32>(1).unwrap();
    let mut out = stream.alloc_zeros::<i32>(1).unwrap();
    for _ in 0..3 {
        let mut launch = stream.launch_builder(&function);
        launch
            .arg(&x)
            .arg(&n)
            .arg(&mut partial)
            .arg(&mut finished)
            .arg(&mut out);
        // SAFETY: `n` elements of x, one of `partial` for each block.
        unsafe { launch.launch(shape([37, 1, 1], [256, 1, 1], 0)) }.unwrap();
        assert_eq!(
            stream.clone_dtoh(&out).unwrap(),
            [(0..n).map(|i| i % 101 - 40).sum::<i32>()]
        );
    }
}

#[test]
fn blocks_wait_for_blocks_that_start_later() {
    let Kernel { stream, function } = kernel("chain_of_blocks");
    let mut ready = stream.alloc_zeros::<i32>(40).unwrap();
    let mut value = stream.alloc_zeros::<i32>(40).unwrap();
    let mut launch = stream.launch_builder(&function);
    launch.arg(&mut ready).arg(&mut value);
    // SAFETY: one element for each block.
    unsafe { launch.launch(shape([40, 1, 1], [64, 1, 1], 0)) }.unwrap();
    let wanted: Vec<i32> = (0..40).map(|b| (b..40).sum()).collect();
    assert_eq!(stream.clone_dtoh(&value).unwrap(), wanted);
}

#[test]
fn grids_and_blocks_have_three_dimensions() {
    let Kernel { stream, function } = kernel("three_dimensions");
    let (grid, block) = ([3, 2, 4], [5, 7, 3]);
    let size = [15, 14, 12];
    let mut out = stream.alloc_zeros::<i32>(size.iter().product()).unwrap();
    let mut launch = stream.launch_builder(&function);
    launch.arg(&mut out);
    // SAFETY: one element per thread.
    unsafe { launch.launch(shape(grid, block, 0)) }.unwrap();
    for (i, got) in stream.clone_dtoh(&out).unwrap().into_iter().enumerate() {
        let (x, y, z) = (i % size[0], i / size[0] % size[1], i / size[0] / size[1]);
        assert_eq!(got as usize, x + 100 * y + 10_000 * z);
    }
}

#[test]
fn shared_memory_of_both_kinds() {
    let Kernel { stream, function } = kernel("two_kinds_of_shared_memory");
    let mut out = stream.alloc_zeros::<i32>(1024).unwrap();
    let mut launch = stream.launch_builder(&function);
    launch.arg(&mut out);
    // SAFETY: one element per thread, and a word of dynamic shared memory for each.
    unsafe { launch.launch(shape([1, 1, 1], [1024, 1, 1], 4096)) }.unwrap();
    let wanted: Vec<i32> = (0..1024)
        .map(|t| (t + 33) % 1024 + 2 * (1023 - t) * 10_000 + (t % 3 + 1) * 100_000_000)
        .collect();
    assert_eq!(stream.clone_dtoh(&out).unwrap(), wanted);
}

#[derive(Clone, Copy)]
#[repr(C)]
struct Pair {
    a: i32,
    b: f64,
    c: [i8; 5],
}

// SAFETY: plain data with C layout, as the kernel declares it.
unsafe impl DeviceRepr for Pair {}

#[test]
fn functions_take_structures() {
    let Kernel { stream, function } = kernel("functions_and_arrays");
    let mut out = stream.alloc_zeros::<i64>(64).unwrap();
    let given = Pair {
        a: 1000,
        b: 12.5,
        c: [1, 2, 3, 4, 5],
    };
    let k = 0xdead_beef_1234_5677u64;
    let mut launch = stream.launch_builder(&function);
    launch.arg(&mut out).arg(&given).arg(&k);
    // SAFETY: one element per thread.
    unsafe { launch.launch(shape([1, 1, 1], [64, 1, 1], 0)) }.unwrap();
    for (t, got) in stream.clone_dtoh(&out).unwrap().into_iter().enumerate() {
        let mut pair = given;
        for x in [t, t + 1] {
            pair.a += x as i32;
            pair.b *= 0.5;
            pair.c[x & 3] = x as i8;
        }
        let own = ((t * 5) & 15).pow(2) + t;
        let high = ((u128::from(k.wrapping_mul(t as u64 + 1)) * u128::from(k)) >> 64) as u64;
        let product = high / (t as u64 + 3) % 1_000_003;
        let wanted = i64::from(pair.a)
            + (pair.b * 8.0) as i64
            + i64::from(pair.c[1])
            + own as i64 * 1000
            + product as i64 * 100_000;
        assert_eq!(got, wanted, "thread {t}");
    }
}

#[test]
fn recursion() {
    let Kernel { stream, function } = kernel("recursion");
    let mut out = stream.clone_htod(&[5i32; 32]).unwrap();
    let mut launch = stream.launch_builder(&function);
    launch.arg(&mut out);
    // SAFETY: one element per thread.
    unsafe { launch.launch(shape([1, 1, 1], [32, 1, 1], 0)) }.unwrap();
    assert_eq!(stream.clone_dtoh(&out).unwrap(), [5; 32]);
}

#[test]
fn the_library_of_the_compiler_is_as_exact_as_it_says() {
    let Kernel { stream, function } = kernel("mathematics");
    let x: Vec<f64> = [1e-30, 0.001, 0.3, 1.0, 1.5, 2.7, 7.9, 15.0]
        .into_iter()
        .flat_map(|x| [x, -x, 0.7 * x, -1.3 * x])
        .collect();
    let input = stream.clone_htod(&x).unwrap();
    let mut out = stream.alloc_zeros::<f64>(12 * x.len()).unwrap();
    let mut launch = stream.launch_builder(&function);
    launch.arg(&mut out).arg(&input);
    // SAFETY: one element of x and twelve of `out` per thread.
    unsafe { launch.launch(shape([1, 1, 1], [x.len() as u32, 1, 1], 0)) }.unwrap();
    let out = stream.clone_dtoh(&out).unwrap();
    for (row, &x) in out.chunks(12).zip(&x) {
        let f = f64::from(x as f32);
        let wanted = [
            f.sin(),
            f.exp(),
            f.abs().ln(),
            f.abs().powf(f64::from(1.7f32)),
            f.tanh(),
            erf(f),
            f64::from(x as f32 * 1e6).cos(),
            x.sin(),
            x.exp(),
            x.abs().ln(),
            x.atan2(0.3),
            x.cbrt(),
        ];
        for (i, (got, wanted)) in row.iter().zip(wanted).enumerate() {
            let relative = if i < 7 { 1e-6 } else { 1e-15 };
            let absolute = if i < 7 { 1e-37 } else { 0.0 };
            assert!(
                (got - wanted).abs() <= relative * wanted.abs() + absolute,
                "function {i} of {x:e}: {got:e}, not {wanted:e}"
            );
        }
    }
}

/// The error function by its series, or its continued fraction where that converges faster.
fn erf(x: f64) -> f64 {
    if x.abs() > 3.0 {
        let fraction = (1..80)
            .rev()
            .fold(0.0, |rest, k| f64::from(k) / 2.0 / (x.abs() + rest));
        let tail = (-x * x).exp() / (x.abs() + fraction) / std::f64::consts::PI.sqrt();
        return (1.0 - tail).copysign(x);
    }
    let (mut term, mut sum) = (x, x);
    for n in 1..100 {
        term *= -x * x / f64::from(n);
        sum += term / f64::from(2 * n + 1);
    }
    sum * 2.0 / std::f64::consts::PI.sqrt()
}

#[test]
fn printf_returns_its_number_of_arguments() {
    let Kernel { stream, function } = kernel("prints");
    let mut out = stream.clone_htod(&[0i32, 3]).unwrap();
    let mut launch = stream.launch_builder(&function);
    launch.arg(&mut out);
    // The host may hold standard output while it waits for the kernel, whichever thread runs the
    // block.
    let _held = std::io::stdout().lock();
    // SAFETY: two elements.
    unsafe { launch.launch(shape([8, 1, 1], [1, 1, 1], 0)) }.unwrap();
    assert_eq!(stream.clone_dtoh(&out).unwrap(), [6, 3]);
}
