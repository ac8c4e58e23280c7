//! PTX of other code generators than the pinned NVRTC: each file loads whole, and those with a
//! known result give it.
//!
//! `generate.py` has the sources, which are this project's own, and wrote the files.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::{fs, iter};

use crate::common::{Outcome, context};
use cudarc::driver::{
    CudaContext, CudaFunction, CudaStream, DevicePtr, LaunchConfig, PushKernelArg,
};
use cudarc::nvrtc::Ptx;

fn folder() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/generators"))
}

fn text(name: &str) -> Result<String, Box<dyn Error>> {
    Ok(fs::read_to_string(
        folder().join(name).with_extension("ptx"),
    )?)
}

/// The names of a module's kernels.
fn kernels(text: &str) -> Vec<&str> {
    let entries = text.split(".entry").skip(1);
    let names = entries.filter_map(|entry| entry.trim_start().split(['(', '\n']).next());
    names.map(str::trim).collect()
}

#[test]
fn every_file_loads_with_all_its_kernels() -> Outcome {
    let context = context()?;
    let mut loaded = 0;
    for entry in fs::read_dir(folder())? {
        let path = entry?.path();
        if path.extension().is_none_or(|extension| extension != "ptx") {
            continue;
        }
        let text = fs::read_to_string(&path)?;
        let module = context.load_module(Ptx::from_src(&*text));
        let module = module.map_err(|error| format!("{}: {error}", path.display()))?;
        let kernels = kernels(&text);
        assert!(!kernels.is_empty(), "{}", path.display());
        for kernel in kernels {
            module.load_function(kernel)?;
            loaded += 1;
        }
    }
    assert_eq!(loaded, 15);
    Ok(())
}

/// The only kernel of a file, or that of this name.
fn kernel(
    context: &Arc<CudaContext>,
    file: &str,
    name: Option<&str>,
) -> Result<CudaFunction, Box<dyn Error>> {
    let text = text(file)?;
    let module = context.load_module(Ptx::from_src(&*text))?;
    let name = name.unwrap_or(kernels(&text)[0]);
    Ok(module.load_function(name)?)
}

fn shape(grid: u32, block: u32, shared_mem_bytes: u32) -> LaunchConfig {
    LaunchConfig {
        grid_dim: (grid, 1, 1),
        block_dim: (block, 1, 1),
        shared_mem_bytes,
    }
}

/// Numbers that add without rounding.
fn numbers(count: usize, step: usize) -> Vec<f32> {
    let numbers = (0..count).map(|i| (i * step % 61) as f32 - 30.0);
    numbers.collect()
}

/// Dynamic shared memory that a file of Triton's states for its kernel, bytes.
fn shared(file: &str) -> Result<u32, Box<dyn Error>> {
    let text = text(file)?;
    let line = text.lines().next().unwrap_or_default();
    let bytes = line.trim_start_matches("// dynamic shared memory: ");
    Ok(bytes.trim_end_matches(" bytes").parse()?)
}

#[test]
fn vectors_of_four_are_added_by_both_nvrtcs() -> Outcome {
    let context = context()?;
    let stream = context.default_stream();
    for file in ["nvrtc-12", "nvrtc-13"] {
        let add = kernel(&context, file, Some("add"))?;
        let (a, b) = (numbers(40, 7), numbers(40, 11));
        let x = stream.clone_htod(&a)?;
        let mut y = stream.clone_htod(&b)?;
        let mut launch = stream.launch_builder(&add);
        launch.arg(&x).arg(&mut y).arg(&10i32);
        // SAFETY: the arguments are the kernel's, and have room.
        unsafe { launch.launch(shape(1, 32, 32 * 4)) }?;
        let sums: Vec<f32> = iter::zip(a, b).map(|(a, b)| a + b).collect();
        assert_eq!(stream.clone_dtoh(&y)?, sums, "{file}");
    }
    Ok(())
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Scale {
    factor: f32,
    unused: u64,
}

// SAFETY: plain numbers.
unsafe impl cudarc::driver::DeviceRepr for Scale {}

#[test]
fn structs_calls_and_tables_of_llvm_are_right() -> Outcome {
    let context = context()?;
    let stream = context.default_stream();
    for file in ["llvm-sm_75", "llvm-sm_90"] {
        let add = kernel(&context, file, None)?;
        let (a, b) = (numbers(40, 7), numbers(40, 11));
        let x = stream.clone_htod(&a)?;
        let mut y = stream.clone_htod(&b)?;
        let scale = Scale {
            factor: 2.0,
            unused: 0,
        };
        let mut launch = stream.launch_builder(&add);
        launch.arg(&x).arg(&mut y).arg(&10i32).arg(&scale);
        // All ten threads are in work, and no other waits at its barrier.
        // SAFETY: the arguments are the kernel's, and have room.
        unsafe { launch.launch(shape(1, 10, 0)) }?;
        let sums = iter::zip(a, b).enumerate().map(|(i, (a, b))| match i % 4 {
            0 => (a + b) * 2.0 * [1.0, 2.0, 3.0, 4.0][i / 4 % 4],
            _ => a + b,
        });
        assert_eq!(stream.clone_dtoh(&y)?, sums.collect::<Vec<f32>>(), "{file}");
    }
    Ok(())
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Pair {
    low: f32,
    high: f32,
}

// SAFETY: plain numbers.
unsafe impl cudarc::driver::DeviceRepr for Pair {}

#[test]
fn warps_are_summed_by_clang() -> Outcome {
    let context = context()?;
    let stream = context.default_stream();
    let (n, [low, high]) = (200, [2.0f32, 3.0]);
    let x = numbers(n, 7);
    let scaled = (0..256).map(|i| {
        let x = x.get(i).copied().unwrap_or(0.0);
        x * low * [0.5, 1.0, 1.5, 2.0][i % 4] + x + high
    });
    let scaled: Vec<f32> = scaled.collect();
    let sums = (0..n).map(|i| scaled[i / 32 * 32..][..32].iter().sum());
    let sums: Vec<f32> = sums.collect();
    for file in ["clang-sm_75", "clang-sm_90"] {
        let kernel = kernel(&context, file, None)?;
        let input = stream.clone_htod(&x)?;
        let mut y = stream.alloc_zeros::<f32>(n)?;
        let mut launch = stream.launch_builder(&kernel);
        let pair = Pair { low, high };
        launch.arg(&input).arg(&mut y).arg(&200i32).arg(&pair);
        // SAFETY: the arguments are the kernel's, and have room.
        unsafe { launch.launch(shape(2, 128, 0)) }?;
        assert_eq!(stream.clone_dtoh(&y)?, sums, "{file}");
    }
    Ok(())
}

#[test]
fn masked_vectors_are_added_by_triton() -> Outcome {
    let context = context()?;
    let stream = context.default_stream();
    for file in ["triton-add-sm80", "triton-add-sm90"] {
        let add = kernel(&context, file, None)?;
        let (a, b) = (numbers(300, 7), numbers(300, 11));
        let (x, y) = (stream.clone_htod(&a)?, stream.clone_htod(&b)?);
        let mut z = stream.clone_htod(&vec![-1.0f32; 512])?;
        let mut launch = stream.launch_builder(&add);
        launch
            .arg(&x)
            .arg(&y)
            .arg(&mut z)
            .arg(&300i32)
            .arg(&0u64)
            .arg(&0u64);
        // SAFETY: the arguments are the kernel's, and have room.
        unsafe { launch.launch(shape(2, 128, shared(file)?)) }?;
        let mut sums: Vec<f32> = iter::zip(a, b).map(|(a, b)| a + b).collect();
        sums.resize(512, -1.0);
        assert_eq!(stream.clone_dtoh(&z)?, sums, "{file}");
    }
    Ok(())
}

#[test]
fn rows_sum_to_one_by_triton() -> Outcome {
    let context = context()?;
    let stream = context.default_stream();
    let softmax = kernel(&context, "triton-softmax-sm80", None)?;
    let (rows, n, count) = (3, 100, 100i32);
    let values: Vec<f32> = numbers(rows * n, 7).iter().map(|x| x / 8.0).collect();
    let x = stream.clone_htod(&values)?;
    let mut y = stream.alloc_zeros::<f32>(rows * n)?;
    let mut launch = stream.launch_builder(&softmax);
    launch.arg(&x).arg(&mut y).arg(&count).arg(&0u64).arg(&0u64);
    // SAFETY: the arguments are the kernel's, and have room.
    unsafe { launch.launch(shape(rows as u32, 128, shared("triton-softmax-sm80")?)) }?;
    let computed = stream.clone_dtoh(&y)?;
    for (row, computed) in iter::zip(values.chunks(n), computed.chunks(n)) {
        let exponentials: Vec<f64> = row.iter().map(|x| f64::from(*x).exp()).collect();
        let sum: f64 = exponentials.iter().sum();
        for (exponential, computed) in iter::zip(exponentials, computed) {
            let expected = exponential / sum;
            let error = (f64::from(*computed) - expected).abs() / expected;
            assert!(error < 2e-6, "{computed} for {expected}");
        }
    }
    Ok(())
}

/// The bits of a small whole number in half precision.
fn half(x: f32) -> u16 {
    if x == 0.0 {
        return 0;
    }
    let bits = x.to_bits();
    let exponent = (bits >> 23 & 0xff) as u16 - 127 + 15;
    (bits >> 16 & 0x8000) as u16 | exponent << 10 | (bits >> 13 & 0x3ff) as u16
}

#[test]
fn matrices_are_multiplied_by_triton() -> Outcome {
    let context = context()?;
    let stream = context.default_stream();
    let file = "triton-matmul-sm80";
    let matmul = kernel(&context, file, None)?;
    let (n, count) = (64, 64i32);
    let (a, b) = (numbers(n * n, 7), numbers(n * n, 11));
    let halves = |values: &[f32]| values.iter().map(|x| half(*x)).collect::<Vec<u16>>();
    let (x, y) = (
        stream.clone_htod(&halves(&a))?,
        stream.clone_htod(&halves(&b))?,
    );
    let mut z = stream.alloc_zeros::<f32>(n * n)?;
    let mut launch = stream.launch_builder(&matmul);
    launch
        .arg(&x)
        .arg(&y)
        .arg(&mut z)
        .arg(&count)
        .arg(&0u64)
        .arg(&0u64);
    let config = LaunchConfig {
        grid_dim: (2, 2, 1),
        ..shape(1, 128, shared(file)?)
    };
    // SAFETY: the arguments are the kernel's, and have room.
    unsafe { launch.launch(config) }?;
    let product = |at: usize| -> f32 {
        let (i, j) = (at / n, at % n);
        (0..n).map(|k| a[i * n + k] * b[k * n + j]).sum()
    };
    let expected: Vec<f32> = (0..n * n).map(product).collect();
    assert_eq!(stream.clone_dtoh(&z)?, expected);
    Ok(())
}

/// Each block makes two tensor maps in memory that the launcher hands over.
#[test]
fn tiles_are_copied_by_maps_that_triton_makes() -> Outcome {
    let context = context()?;
    let stream = context.default_stream();
    let file = "triton-double-sm90";
    let double = kernel(&context, file, None)?;
    let (rows, columns) = (40i32, 36i32);
    let before = numbers((rows * columns) as usize, 7);
    let x = stream.clone_htod(&before)?;
    let mut y = stream.clone_htod(&vec![-1.0f32; 64 * 64])?;
    let mut maps = stream.alloc_zeros::<u8>(4 * 2 * 128)?;
    let mut launch = stream.launch_builder(&double);
    launch
        .arg(&x)
        .arg(&mut y)
        .arg(&rows)
        .arg(&columns)
        .arg(&mut maps)
        .arg(&0u64);
    let config = LaunchConfig {
        grid_dim: (2, 2, 1),
        ..shape(1, 128, shared(file)?)
    };
    // SAFETY: the arguments are the kernel's, and have room.
    unsafe { launch.launch(config) }?;
    let mut doubled: Vec<f32> = before.iter().map(|x| 2.0 * x).collect();
    doubled.resize(64 * 64, -1.0);
    assert_eq!(stream.clone_dtoh(&y)?, doubled);
    Ok(())
}

/// Passes an array as Numba does, as seven values.
fn push<'a>(
    values: &mut Vec<u64>,
    stream: &'a Arc<CudaStream>,
    array: &'a cudarc::driver::CudaSlice<f32>,
) {
    let (address, _guard) = array.device_ptr(stream);
    values.extend([0, 0, array.len() as u64, 4, address, array.len() as u64, 4]);
}

#[test]
fn arrays_are_added_and_summed_by_numba() -> Outcome {
    let context = context()?;
    let stream = context.default_stream();
    let (a, b) = (numbers(200, 7), numbers(200, 11));
    let (x, y) = (stream.clone_htod(&a)?, stream.clone_htod(&b)?);
    let (z, total) = (
        stream.alloc_zeros::<f32>(200)?,
        stream.alloc_zeros::<f32>(1)?,
    );
    for (file, arrays) in [
        ("numba-add", [&x, &y, &z].as_slice()),
        ("numba-reduce", [&z, &total].as_slice()),
    ] {
        let function = kernel(&context, file, None)?;
        let mut values = Vec::new();
        for array in arrays {
            push(&mut values, &stream, array);
        }
        let mut launch = stream.launch_builder(&function);
        for value in &values {
            launch.arg(value);
        }
        // SAFETY: the arguments are the kernel's, and have room.
        unsafe { launch.launch(shape(2, 128, 0)) }?;
    }
    let sums: Vec<f32> = iter::zip(a, b).map(|(a, b)| a + b).collect();
    assert_eq!(stream.clone_dtoh(&z)?, sums);
    assert_eq!(stream.clone_dtoh(&total)?, [sums.iter().sum::<f32>()]);
    Ok(())
}
