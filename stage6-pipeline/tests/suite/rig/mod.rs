//! Common parts of the tests of kernels: a device with kernels, guarded arrays, matrices of
//! any dtype, the comparator.
#![allow(dead_code, reason = "each test program uses some of it")]

use conformance::compare::{Comparison, Tolerance};
use conformance::device::{Device, alone};
use conformance::inputs::{tensor, uniform};
use cudarc::driver::{CudaSlice, DeviceRepr};
use half::{bf16, f16};
use ndarray::ArrayView1;
use stage6_pipeline::{Dtype, Error, Kernels, Matrix};

/// Guard elements behind an output.
const GUARDS: usize = 5;

/// A device, and the kernels on it.
pub struct Rig {
    pub device: Device,
    pub kernels: Kernels,
}

impl Rig {
    pub fn open() -> Self {
        let device = Device::open();
        let kernels = Kernels::new(&device.stream).unwrap();
        Self { device, kernels }
    }

    pub fn upload<T: DeviceRepr + Default + Copy>(&self, values: &[T]) -> CudaSlice<T> {
        self.device.upload(values)
    }

    /// The values, with guards behind them.
    pub fn guarded<T: Guard>(&self, values: &[T]) -> CudaSlice<T> {
        self.upload(&[values, &[T::GUARD; GUARDS]].concat())
    }

    /// The values before the guards, which must be untouched.
    #[track_caller]
    pub fn download<T: Guard>(&self, array: &CudaSlice<T>) -> Vec<T> {
        let mut values = self.device.download(array);
        let guards = values.split_off(values.len() - GUARDS);
        assert_eq!(guards, [T::GUARD; GUARDS], "written behind the end");
        values
    }
}

/// An element that no kernel writes.
pub trait Guard: DeviceRepr + Default + Copy + PartialEq + std::fmt::Debug {
    const GUARD: Self;
}

impl Guard for f32 {
    const GUARD: Self = -7.5e33;
}

impl Guard for f16 {
    const GUARD: Self = f16::from_bits(0xe9a5);
}

impl Guard for bf16 {
    const GUARD: Self = bf16::from_bits(0xe9a5);
}

impl Guard for i32 {
    const GUARD: Self = -777_777;
}

/// Numbers of [-1, 1); `salt` tells arrays apart.
pub fn noise(count: usize, salt: u64) -> Vec<f32> {
    tensor(count, salt, uniform).to_vec()
}

/// A matrix in device memory, and the values that its elements have.
pub struct Rounded {
    pub matrix: Matrix<CudaSlice<u8>>,
    pub values: Vec<f32>,
}

/// A `[rows, columns]` matrix of the nearest values of `dtype`.
pub fn matrix(rig: &Rig, dtype: Dtype, values: &[f32], rows: usize) -> Rounded {
    let (mut bytes, mut rounded) = (Vec::new(), Vec::new());
    for &value in values {
        match dtype {
            Dtype::F32 => {
                bytes.extend(value.to_le_bytes());
                rounded.push(value);
            }
            Dtype::F16 => {
                bytes.extend(f16::from_f32(value).to_le_bytes());
                rounded.push(f16::from_f32(value).to_f32());
            }
            Dtype::Bf16 => {
                bytes.extend(bf16::from_f32(value).to_le_bytes());
                rounded.push(bf16::from_f32(value).to_f32());
            }
        }
    }
    let matrix = Matrix {
        dtype,
        rows,
        columns: values.len() / rows,
        bytes: rig.upload(&bytes),
    };
    let values = rounded;
    Rounded { matrix, values }
}

/// Every element within the tolerance; NaN never is.
#[track_caller]
pub fn assert_close(what: &str, found: &[f32], expected: &[f64], tolerance: Tolerance) {
    let (found, expected) = (ArrayView1::from(found), ArrayView1::from(expected));
    let comparison = Comparison::new("y", found, expected, tolerance);
    assert!(comparison.passed(), "{what}: {comparison}");
}

/// The operation and argument of an error about an argument.
#[track_caller]
pub fn refused<T: std::fmt::Debug>(result: Result<T, Error>) -> (&'static str, &'static str) {
    match result {
        Err(Error::Argument(error)) => (error.operation, error.argument),
        other => panic!("{other:?}"),
    }
}

/// Runs the test of this name in processes of 1, 2 and 5 host threads, in each for several seeds of
/// the schedule: `bits` must be the same in all of them.
pub fn whatever_the_schedule(test: &str, bits: impl Fn() -> Vec<u32>) {
    let digest = |threads| {
        let variables = [("GPU", "sim"), ("CUDA_SIM_THREADS", threads)];
        let text = alone(test, &variables)?;
        let line = text.lines().find(|line| line.starts_with("digest "));
        Some(line.expect("a digest").to_owned())
    };
    let Some(first) = digest("1") else {
        let expected = bits();
        for seed in 0..4 {
            assert_eq!(gpu::with_seed(seed, &bits), expected, "seed {seed}");
        }
        let digest = expected.iter().fold(0, |sum, &bits| {
            conformance::inputs::hash(sum, u64::from(bits))
        });
        println!("digest {digest:x}");
        return;
    };
    assert_eq!(digest("4"), Some(first), "4 host threads");
}
