#![allow(missing_docs)]
//! Linear layers against their definition in f64, and what they count.

use crate::rig::{
    Guard, Rig, Rounded, assert_close, matrix, noise, refused, whatever_the_schedule,
};
use conformance::Element;
use conformance::compare::Tolerance;
use conformance::device::profiles;
use cudarc::driver::CudaSlice;
use cudarc::driver::sys::CUdevice_attribute;
use half::{bf16, f16};
use rstest::rstest;
use stage6_pipeline::{Activation, Dtype, Epilogue, Error};

const EPILOGUES: [Epilogue; 4] = [
    Epilogue::Store,
    Epilogue::Gelu,
    Epilogue::SwiGlu,
    Epilogue::Add,
];

/// A layer and its input: what is stored first in `y` too, for [`Epilogue::Add`].
struct Case {
    weight: Rounded,
    bias: Option<Vec<f32>>,
    x: Vec<f32>,
    y: Vec<f32>,
    epilogue: Epilogue,
}

impl Case {
    /// `n` rows of x of `columns`, and a layer of `outputs` outputs.
    fn new(
        rig: &Rig,
        (dtype, epilogue): (Dtype, Epilogue),
        (n, columns, outputs): (usize, usize, usize),
    ) -> Self {
        let rows = match epilogue {
            Epilogue::SwiGlu => 2 * outputs,
            _ => outputs,
        };
        let weight = noise(rows * columns, 1);
        Self {
            weight: matrix(rig, dtype, &weight, rows),
            bias: (n % 3 != 1).then(|| noise(rows, 2)),
            x: noise(n * columns, 3),
            y: noise(n * outputs, 4),
            epilogue,
        }
    }

    fn columns(&self) -> usize {
        self.weight.matrix.columns
    }

    /// `y` as the kernels compute it.
    #[track_caller]
    fn found(&self, rig: &Rig) -> Vec<f32> {
        let mut y = rig.guarded(&self.y);
        let x = rig.upload(&self.x);
        let bias = self.bias.as_ref().map(|bias| rig.upload(bias));
        let view = y.slice_mut(..self.y.len());
        let (weight, kernels) = (&self.weight.matrix, &rig.kernels);
        kernels
            .linear(weight, bias.as_ref(), x.as_view(), view, self.epilogue)
            .unwrap();
        rig.download(&y)
    }

    /// The same of x in the weight's type, which its values fit. Tensor cores multiply.
    #[track_caller]
    fn found_in_half<X, Y>(&self, rig: &Rig) -> Vec<Y>
    where
        X: Activation + Element,
        Y: Activation + Element + Guard,
    {
        let values = |values: &[f32]| Vec::from_iter(values.iter().map(|&x| X::from_f32(x)));
        let x = rig.upload(&values(&self.x));
        let y = Vec::from_iter(self.y.iter().map(|&y| Y::from_f32(y)));
        let mut y = rig.guarded(&y);
        let bias = self.bias.as_ref().map(|bias| rig.upload(bias));
        let view = y.slice_mut(..self.y.len());
        let (weight, kernels) = (&self.weight.matrix, &rig.kernels);
        kernels
            .linear(weight, bias.as_ref(), x.as_view(), view, self.epilogue)
            .unwrap();
        rig.download(&y)
    }

    /// With x rounded to the weight's type.
    fn rounded<X: Element>(mut self) -> Self {
        for x in &mut self.x {
            *x = X::from_f32(*x).to_f32();
        }
        self
    }

    /// `y` by definition, and the size of the terms of its largest sum.
    fn expected(&self) -> (Vec<f64>, f64) {
        let outputs = self.epilogue.outputs(self.weight.matrix.rows);
        let mut magnitude = 0.0f64;
        let mut sum = |i: usize, row: usize| {
            let x = &self.x[i * self.columns()..][..self.columns()];
            let w = &self.weight.values[row * self.columns()..][..self.columns()];
            let terms = x.iter().zip(w).map(|(&x, &w)| f64::from(x) * f64::from(w));
            let bias = self.bias.as_ref().map_or(0.0, |bias| f64::from(bias[row]));
            magnitude = magnitude.max(terms.clone().map(f64::abs).sum::<f64>() + bias.abs());
            terms.sum::<f64>() + bias
        };
        let mut y = Vec::new();
        let mut largest = 1.0f64;
        for (index, &before) in self.y.iter().enumerate() {
            let (i, output) = (index / outputs, index % outputs);
            let value = sum(i, output);
            y.push(match self.epilogue {
                Epilogue::Store => value,
                Epilogue::Gelu => gelu(value),
                Epilogue::Add => f64::from(before) + value,
                Epilogue::SwiGlu => {
                    let up = sum(i, outputs + output);
                    largest = largest.max(value.abs()).max(up.abs());
                    value / (1.0 + (-value).exp()) * up
                }
            });
        }
        // An error of a gate or an up is multiplied by the other.
        (y, magnitude * largest)
    }

    #[track_caller]
    fn check(&self, rig: &Rig, what: &str) {
        self.compare(&self.found(rig), what);
    }

    #[track_caller]
    fn compare(&self, found: &[f32], what: &str) {
        let (expected, magnitude) = self.expected();
        let tolerance = Tolerance::of_sum(f32::EPSILON.into(), self.columns()).floor(magnitude);
        assert_close(what, found, &expected, tolerance);
    }
}

fn bits(y: &[f32]) -> Vec<u32> {
    y.iter().map(|y| y.to_bits()).collect()
}

fn gelu(v: f64) -> f64 {
    let inner = (2.0 / std::f64::consts::PI).sqrt() * (v + 0.044715 * v.powi(3));
    0.5 * v * (1.0 + inner.tanh())
}

#[rstest]
fn equals_its_definition(
    #[values(Dtype::F32, Dtype::F16, Dtype::Bf16)] dtype: Dtype,
    #[values(1, 3, 72, 96, 129)] columns: usize,
    #[values(1, 31, 33, 257)] outputs: usize,
) {
    let rig = Rig::open();
    for (index, n) in [1, 2, 3, 4, 5, 6, 7, 8, 9, 17, 65].into_iter().enumerate() {
        for (which, epilogue) in EPILOGUES.into_iter().enumerate() {
            if (index + which) % 2 == outputs % 2 || n == 1 {
                let case = Case::new(&rig, (dtype, epilogue), (n, columns, outputs));
                case.check(&rig, &format!("n = {n}, {epilogue:?}"));
            }
        }
    }
}

/// Long rows, which several warps of a block share.
#[rstest]
#[case::f32(Dtype::F32, 1600, 40)]
#[case::f16(Dtype::F16, 3072, 24)]
#[case::bf16_not_aligned(Dtype::Bf16, 3071, 9)]
fn long_rows_equal_their_definition(
    #[case] dtype: Dtype,
    #[case] columns: usize,
    #[case] outputs: usize,
) {
    let rig = Rig::open();
    for n in [1, 5, 9] {
        let case = Case::new(&rig, (dtype, Epilogue::Add), (n, columns, outputs));
        case.check(&rig, &format!("n = {n}"));
    }
}

#[rstest]
fn a_batch_equals_its_rows_one_by_one(
    #[values(Dtype::F32, Dtype::F16, Dtype::Bf16)] dtype: Dtype,
    #[values((72, 33), (97, 40), (128, 128), (1536, 20))] (columns, outputs): (usize, usize),
) {
    let rig = Rig::open();
    for n in 2..=8 {
        for epilogue in EPILOGUES {
            let batch = Case::new(&rig, (dtype, epilogue), (n, columns, outputs));
            let together = batch.found(&rig);
            for i in 0..n {
                let mut one = Case::new(&rig, (dtype, epilogue), (n, columns, outputs));
                one.x = batch.x[i * columns..][..columns].to_vec();
                one.y = batch.y[i * outputs..][..outputs].to_vec();
                let row = &together[i * outputs..][..outputs];
                assert_eq!(
                    bits(&one.found(&rig)),
                    bits(row),
                    "{epilogue:?}, row {i} of {n}"
                );
            }
        }
    }
}

/// A device without the tensor cores that `gemm_mma.cu` needs.
fn lacks_tensor_cores(rig: &Rig) -> bool {
    let weight = matrix(rig, Dtype::F16, &[0.0; 32], 4).matrix;
    !rig.kernels.on_tensor_cores(&weight, Epilogue::Store)
}

/// Sums are f32 as in the other kernels, so what x loses by rounding is all that is lost.
#[rstest]
fn in_half_precision_equals_its_definition(
    #[values(Dtype::F16, Dtype::Bf16)] dtype: Dtype,
    #[values(8, 72, 128, 200)] columns: usize,
    #[values(4, 36, 132, 260)] outputs: usize,
) {
    match dtype {
        Dtype::F16 => in_half_precision::<f16>(columns, outputs),
        _ => in_half_precision::<bf16>(columns, outputs),
    }
}

#[track_caller]
fn in_half_precision<X: Activation + Element + Guard>(columns: usize, outputs: usize) {
    let rig = Rig::open();
    if lacks_tensor_cores(&rig) {
        return;
    }
    for (index, n) in [1, 9, 17, 64, 65, 150].into_iter().enumerate() {
        for (which, epilogue) in EPILOGUES.into_iter().enumerate() {
            if (index + which) % 2 == outputs / 4 % 2 && n > 9 {
                continue;
            }
            let dtype = <X as Activation>::DTYPE;
            let case = Case::new(&rig, (dtype, epilogue), (n, columns, outputs)).rounded::<X>();
            let sums = case.found_in_half::<X, f32>(&rig);
            case.compare(&sums, &format!("n = {n}, {epilogue:?}"));
            if epilogue != Epilogue::Add {
                let stored = case.found_in_half::<X, X>(&rig);
                let rounded = Vec::from_iter(sums.iter().map(|&y| X::from_f32(y).to_f32()));
                let stored = Vec::from_iter(stored.iter().map(|&y| y.to_f32()));
                assert_eq!(stored, rounded, "n = {n}, {epilogue:?}");
            }
        }
    }
}

/// x of ±1e4, and one row that holds a NaN or an infinity, which no other row sees.
#[rstest]
fn in_half_precision_a_bad_row_is_alone(#[values(f32::NAN, f32::INFINITY)] bad: f32) {
    let rig = Rig::open();
    if lacks_tensor_cores(&rig) {
        return;
    }
    for epilogue in EPILOGUES {
        let mut case = Case::new(&rig, (Dtype::F16, epilogue), (70, 72, 36));
        for x in &mut case.x {
            *x = if *x < 0.0 { -1e4 } else { 1e4 };
        }
        case = case.rounded::<f16>();
        let clean = case.found_in_half::<f16, f32>(&rig);
        case.compare(&clean, &format!("{epilogue:?}"));
        case.x[65 * 72 + 71] = bad;
        case.x[65 * 72] = -bad;
        let found = case.found_in_half::<f16, f32>(&rig);
        let (rows, clean) = (found.chunks(36), clean.chunks(36));
        for (i, (row, clean)) in rows.zip(clean).enumerate() {
            match i {
                65 => assert!(row.iter().any(|y| !y.is_finite()), "{epilogue:?}: {row:?}"),
                _ => assert_eq!(bits(row), bits(clean), "{epilogue:?}, row {i}"),
            }
        }
    }
}

#[test]
fn in_half_precision_a_row_has_the_same_bits_among_any_others() {
    let rig = Rig::open();
    if lacks_tensor_cores(&rig) {
        return;
    }
    let (columns, outputs) = (136, 72);
    for epilogue in EPILOGUES {
        let together = Case::new(&rig, (Dtype::Bf16, epilogue), (70, columns, outputs));
        let found = together.found_in_half::<bf16, f32>(&rig);
        for i in [0, 9, 63, 64, 69] {
            let mut one = Case::new(&rig, (Dtype::Bf16, epilogue), (70, columns, outputs));
            one.x = together.x[i * columns..][..columns].to_vec();
            one.y = together.y[i * outputs..][..outputs].to_vec();
            let row = &found[i * outputs..][..outputs];
            assert_eq!(
                bits(&one.found_in_half::<bf16, f32>(&rig)),
                bits(row),
                "{epilogue:?}, {i}"
            );
        }
    }
}

/// So many rows that each SM gets a larger tile, or two smaller ones: the larger tiles' outputs are
/// those of one row alone, which has smaller tiles.
#[rstest]
fn in_half_precision_large_tiles_equal_small_ones(
    #[values(Epilogue::Gelu, Epilogue::SwiGlu, Epilogue::Add)] epilogue: Epilogue,
) {
    let rig = Rig::open();
    if lacks_tensor_cores(&rig) {
        return;
    }
    let sms = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT;
    let sms = rig.device.stream.context().attribute(sms).unwrap() as usize;
    let tiles = sms / 8;
    let (n, columns, outputs) = (1000, 72, epilogue.outputs(96 * tiles - 24));
    let together = Case::new(&rig, (Dtype::F16, epilogue), (n, columns, outputs));
    let work = || Ok::<_, ()>(together.found_in_half::<f16, f32>(&rig));
    let found = match profiles(work) {
        Some(Ok((found, launches))) => {
            assert_eq!(launches[0].grid, [tiles as u32, 8, 1]);
            found
        }
        _ => together.found_in_half::<f16, f32>(&rig),
    };
    for i in [0, 64, 127, 128, 999] {
        let mut one = Case::new(&rig, (Dtype::F16, epilogue), (n, columns, outputs));
        one.x = together.x[i * columns..][..columns].to_vec();
        one.y = together.y[i * outputs..][..outputs].to_vec();
        let row = &found[i * outputs..][..outputs];
        let alone = one.found_in_half::<f16, f32>(&rig);
        assert_eq!(bits(&alone), bits(row), "{i}");
    }
}

/// Each block reads its rows of x and of the weight once, and shared memory has no bank conflicts.
#[test]
fn in_half_precision_tiles_are_read_once() {
    let rig = Rig::open();
    if lacks_tensor_cores(&rig) {
        return;
    }
    let [n, columns, outputs] = [128_usize, 192, 256];
    for epilogue in [Epilogue::Gelu, Epilogue::Add] {
        let case = Case::new(&rig, (Dtype::F16, epilogue), (n, columns, outputs));
        let work = || Ok::<_, ()>(case.found_in_half::<f16, f32>(&rig));
        let Some(Ok((_, launches))) = profiles(work) else {
            return;
        };
        let total = &launches[0].total;
        assert_eq!(launches.len(), 1);
        assert_eq!(total.shared_loads.wavefronts, total.shared_loads.ideal);
        let tiles = (n / 64, outputs / 128);
        let copied = (tiles.1 * n + tiles.0 * outputs) * columns * 2 / 32;
        let added = if epilogue == Epilogue::Add {
            n * outputs * 4 / 32
        } else {
            0
        };
        let loaded = total.global_loads.sectors as usize;
        println!("{epilogue:?}: {loaded} sectors, {copied} copied, {added} added");
        let bias = loaded - copied - added;
        assert!(
            bias <= tiles.0 * tiles.1 * 4 * 4 * 4,
            "{bias} sectors of the bias"
        );
    }
}

/// Sums of ±1e4: GELU and SiLU leave large numbers alone and make 0 of large negative ones.
#[rstest]
fn large_numbers_do_not_overflow(
    #[values(Dtype::F32, Dtype::F16, Dtype::Bf16)] dtype: Dtype,
    #[values(1, 7, 20)] n: usize,
) {
    let rig = Rig::open();
    for epilogue in EPILOGUES {
        let mut case = Case::new(&rig, (dtype, epilogue), (n, 96, 33));
        for x in &mut case.x {
            *x = if *x < 0.0 { -1e4 } else { 1e4 };
        }
        case.check(&rig, &format!("{epilogue:?}"));
    }
}

#[rstest]
fn a_nan_stays_in_its_row(
    #[values(1, 5, 20)] n: usize,
    #[values(96, 97)] columns: usize,
    #[values(f32::NAN, f32::INFINITY)] bad: f32,
) {
    let rig = Rig::open();
    for epilogue in EPILOGUES {
        let mut case = Case::new(&rig, (Dtype::F32, epilogue), (n, columns, 33));
        let clean = case.found(&rig);
        let row = n / 2;
        case.x[row * columns + columns - 1] = bad;
        case.x[row * columns] = -bad; // with a weight of another sign, or not: NaN, or an infinity
        for (index, (y, clean)) in case.found(&rig).into_iter().zip(clean).enumerate() {
            if index / 33 == row {
                let zero = y == 0.0 && matches!(epilogue, Epilogue::Gelu | Epilogue::SwiGlu);
                assert!(
                    !y.is_finite() || zero && bad.is_infinite(),
                    "{epilogue:?}: {y}"
                );
            } else {
                assert_eq!(y.to_bits(), clean.to_bits(), "{epilogue:?}");
            }
        }
    }
}

/// A decode step reads each weight once, whatever the batch.
#[rstest]
#[case::short_rows(Dtype::F32, 128, 1000)]
#[case::short_rows_f16(Dtype::F16, 512, 515)]
#[case::long_rows(Dtype::Bf16, 3072, 768)]
#[case::split_rows(Dtype::F32, 1600, 240)]
fn a_decode_step_reads_the_weight_once(
    #[case] dtype: Dtype,
    #[case] columns: usize,
    #[case] outputs: usize,
    #[values(1, 2, 3, 4, 5, 6, 7, 8)] n: usize,
) {
    let rig = Rig::open();
    let layer = |n: usize| {
        let case = Case::new(&rig, (dtype, Epilogue::Store), (n, columns, outputs));
        let x = rig.upload(&case.x);
        let mut y = rig.upload(&case.y);
        let view = y.as_view_mut();
        let weight = &case.weight.matrix;
        let launch = || {
            rig.kernels
                .linear(weight, None, x.as_view(), view, Epilogue::Store)
        };
        let (_, launches) = profiles(launch)?.unwrap();
        assert_eq!(launches.len(), 1);
        Some(launches[0].clone())
    };
    let Some(launch) = layer(n) else {
        return;
    };
    let least = (columns * outputs * dtype.bytes() / 32) as f64;
    // Every block reads x, once for all its rows; N is a power of 2, and rows beyond n are those of
    // the last. A lane that has 8 columns reads them by two loads of 16 bytes, each of which
    // touches half of a sector.
    let touched = if dtype == Dtype::F32 { 1 } else { 2 };
    let of_x = launch.grid[0] as usize * n.next_power_of_two() * columns * 4 / 32 * touched;
    let loads = launch.total.global_loads.sectors as f64 - of_x as f64;
    println!(
        "{dtype}, {columns} x {outputs}, n = {n}: {:.4}",
        loads / least
    );
    assert!(loads >= least, "{loads} sectors of {least}");
    assert!(loads <= 1.02 * least, "{loads} sectors, {least} needed");
}

#[test]
fn no_bit_depends_on_the_schedule() {
    whatever_the_schedule("linear::no_bit_depends_on_the_schedule", || {
        let rig = Rig::open();
        let mut bits = Vec::new();
        for (n, columns, outputs) in [(1, 128, 200), (3, 1600, 33), (20, 97, 70), (100, 64, 132)] {
            for epilogue in EPILOGUES {
                let case = Case::new(&rig, (Dtype::F16, epilogue), (n, columns, outputs));
                bits.extend(case.found(&rig).iter().map(|y| y.to_bits()));
                if n > 8 && (columns, outputs) == (64, 132) && !lacks_tensor_cores(&rig) {
                    let on_tensor_cores = case.found_in_half::<f16, f32>(&rig);
                    bits.extend(on_tensor_cores.iter().map(|y| y.to_bits()));
                }
            }
        }
        bits
    });
}

#[test]
fn what_does_not_fit_is_refused() {
    let rig = Rig::open();
    let zeros = |count: usize| rig.upload(&vec![0.0f32; count]);
    let layer = |dtype, rows| matrix(&rig, dtype, &vec![0.0; rows * 6], rows).matrix;
    let linear = |weight: &_, bias: Option<&CudaSlice<f32>>, x: usize, y: usize, epilogue| {
        let (x, mut y) = (zeros(24), (zeros(24), x, y));
        let view = y.0.slice_mut(..y.2);
        let result = rig
            .kernels
            .linear(weight, bias, x.slice(..y.1), view, epilogue);
        refused(result)
    };
    let (weight, odd, bias) = (layer(Dtype::F16, 4), layer(Dtype::F32, 3), zeros(3));
    let mut short = layer(Dtype::Bf16, 4);
    short.dtype = Dtype::F32;
    let mut empty = layer(Dtype::F32, 4);
    empty.columns = 0;
    for (weight, bias, x, y, epilogue, argument) in [
        (&weight, None, 13, 8, Epilogue::Store, "x"),
        (&weight, None, 0, 8, Epilogue::Store, "x"),
        (&weight, None, 12, 9, Epilogue::Store, "y"),
        (&weight, None, 12, 8, Epilogue::SwiGlu, "y"),
        (&weight, Some(&bias), 12, 8, Epilogue::Add, "bias"),
        (&odd, None, 12, 2, Epilogue::SwiGlu, "weight"),
        (&short, None, 12, 8, Epilogue::Gelu, "weight"),
        (&empty, None, 12, 8, Epilogue::Gelu, "weight"),
    ] {
        let refused = linear(weight, bias, x, y, epilogue);
        assert_eq!(refused, ("linear", argument), "{x}, {y}, {epilogue:?}");
    }
}

#[test]
fn types_that_do_not_fit_are_refused() {
    let rig = Rig::open();
    let layer = |dtype, columns: usize| matrix(&rig, dtype, &vec![0.0; 4 * columns], 4).matrix;
    let halves = rig.upload(&[f16::ZERO; 16]);
    let mut rounded = rig.upload(&[f16::ZERO; 8]);
    let mut sums = rig.upload(&[0.0f32; 8]);
    let (f32, short, other) = (
        layer(Dtype::F32, 8),
        layer(Dtype::F16, 4),
        layer(Dtype::Bf16, 8),
    );
    let fits_other = match lacks_tensor_cores(&rig) {
        true => "f32",
        false => "f32 or bf16",
    };
    for (weight, n, expected) in [
        (&f32, 16, "f32"),
        (&short, 8, "f32"),
        (&other, 16, fits_other),
    ] {
        let (x, y) = (halves.slice(..n), sums.as_view_mut());
        let result = rig.kernels.linear(weight, None, x, y, Epilogue::Store);
        let Err(Error::Argument(error)) = result else {
            panic!("{result:?}");
        };
        let parts = (error.argument, &*error.expected, &*error.actual);
        assert_eq!(parts, ("x", expected, "f16"), "{}", weight.dtype);
    }
    let weight = layer(Dtype::F16, 8);
    let x = rig.upload(&[0.0f32; 16]);
    let (x, y) = (x.as_view(), rounded.as_view_mut());
    let result = rig.kernels.linear(&weight, None, x, y, Epilogue::Store);
    assert_eq!(refused(result), ("linear", "y"));
    let (x, y) = (halves.as_view(), rounded.as_view_mut());
    let result = rig.kernels.linear(&weight, None, x, y, Epilogue::Add);
    assert_eq!(refused(result), ("linear", "y"));
}
