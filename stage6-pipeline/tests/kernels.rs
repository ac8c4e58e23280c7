//! Each kernel of this crate against the same computation in f64, with guard elements around what it writes.

use conformance::device::Device;
use conformance::inputs::{tensor, uniform};
use cudarc::driver::CudaSlice;
use rstest::rstest;
use stage6_pipeline::{Error, Kernels};

/// What stands behind the end of an output, and must still stand there afterwards.
const GUARD: f32 = -7.5e33;
const GUARDS: usize = 5;

/// A device, and the kernels on it.
struct Rig {
    device: Device,
    kernels: Kernels,
}

impl Rig {
    fn open() -> Self {
        let device = Device::open();
        let kernels = Kernels::new(&device.stream).unwrap();
        Self { device, kernels }
    }

    fn upload(&self, values: &[f32]) -> CudaSlice<f32> {
        self.device.upload(values)
    }

    /// The values, with guards behind them.
    fn guarded(&self, values: &[f32]) -> CudaSlice<f32> {
        self.upload(&[values, &[GUARD; GUARDS]].concat())
    }

    /// The values before the guards, which must be untouched.
    #[track_caller]
    fn download(&self, array: &CudaSlice<f32>) -> Vec<f32> {
        let mut values = self.device.download(array);
        let guards = values.split_off(values.len() - GUARDS);
        assert_eq!(guards, [GUARD; GUARDS], "written behind the end");
        values
    }
}

/// Numbers of [-1, 1); `salt` tells arrays apart.
fn noise(count: usize, salt: u64) -> Vec<f32> {
    tensor(count, salt, uniform).to_vec()
}

/// Every element within `tolerance`, relative to the larger of 1 and the expected value. NaN never is.
#[track_caller]
fn assert_close(found: &[f32], expected: &[f64], tolerance: f64) {
    assert_eq!(found.len(), expected.len());
    for (index, (&found, &expected)) in found.iter().zip(expected).enumerate() {
        let error = (f64::from(found) - expected).abs();
        let within = error <= tolerance * expected.abs().max(1.0);
        assert!(
            within,
            "element {index} is {found}, expected {expected}, off by {error:e}"
        );
    }
}

#[rstest]
#[case::one_token(1, 36, 0)]
#[case::at_a_position(3, 36, 7)]
#[case::wider_than_a_block(2, 300, 1)]
#[case::to_the_last_position(10, 5, 0)]
fn embedding(#[case] n: usize, #[case] c: usize, #[case] first: usize) {
    const V: usize = 11;
    const CONTEXT: usize = 10;
    let device = Rig::open();
    let (wte, wpe) = (noise(V * c, 1), noise(CONTEXT * c, 2));
    let tokens: Vec<u32> = (0..n as u32).map(|i| (i * 7 + 10) % V as u32).collect();

    let mut x = device.guarded(&vec![f32::NAN; n * c]);
    let tables = (device.upload(&wte), device.upload(&wpe));
    device
        .kernels
        .embedding(
            x.slice_mut(..n * c),
            &tokens,
            &tables.0.as_view(),
            &tables.1.as_view(),
            first,
        )
        .unwrap();

    let at = |i: usize, j: usize| wte[tokens[i] as usize * c + j] + wpe[(first + i) * c + j];
    let expected: Vec<f32> = (0..n * c).map(|i| at(i / c, i % c)).collect();
    assert_eq!(device.download(&x), expected);
}

#[test]
fn embedding_never_reads_outside_its_tables() {
    let device = Rig::open();
    let (wte, wpe) = (
        device.upload(&noise(11 * 4, 1)),
        device.upload(&noise(10 * 4, 2)),
    );
    let mut x = device.upload(&[0.0; 8]);
    let mut embed = |tokens: &[u32], first| {
        device.kernels.embedding(
            x.slice_mut(..tokens.len() * 4),
            tokens,
            &wte.as_view(),
            &wpe.as_view(),
            first,
        )
    };
    let token = |result| match result {
        Err(Error::TokenOutOfRange {
            token,
            index,
            vocab_size,
        }) => (token, index, vocab_size),
        other => panic!("{other:?}"),
    };
    assert_eq!(token(embed(&[3, 11], 0)), (11, 1, 11));
    assert_eq!(token(embed(&[u32::MAX], 0)), (u32::MAX, 0, 11));
    assert!(matches!(
        embed(&[1, 2], 9),
        Err(Error::ContextFull {
            cached: 9,
            new: 2,
            context: 10
        })
    ));
    assert!(matches!(embed(&[], 0), Err(Error::NoTokens)));
    embed(&[10], 9).unwrap();
}

#[rstest]
#[case::one_column(3, 1)]
#[case::narrow(2, 36)]
#[case::block_minus_one(2, 127)]
#[case::block(5, 128)]
#[case::block_plus_one(2, 129)]
#[case::several_steps(1, 1000)]
fn layernorm(
    #[case] n: usize,
    #[case] c: usize,
    #[values(0.0, 1000.0)] mean: f32,
    #[values(1.0, 1e-3)] spread: f32,
) {
    const EPSILON: f32 = 1e-5;
    let device = Rig::open();
    let x: Vec<f32> = noise(n * c, 3)
        .iter()
        .map(|value| mean + spread * value)
        .collect();
    let (weight, bias) = (noise(c, 4), noise(c, 5));

    let mut y = device.guarded(&vec![f32::NAN; n * c]);
    let x_device = device.upload(&x);
    let norm = (device.upload(&weight), device.upload(&bias));
    device
        .kernels
        .layernorm(
            y.slice_mut(..n * c),
            x_device.as_view(),
            &norm.0,
            &norm.1,
            EPSILON,
        )
        .unwrap();

    let mut expected = Vec::new();
    for row in x.chunks(c) {
        let wide = || row.iter().map(|&value| f64::from(value));
        let mean = wide().sum::<f64>() / c as f64;
        let variance = wide().map(|value| (value - mean).powi(2)).sum::<f64>() / c as f64;
        let deviation = (variance + f64::from(EPSILON)).sqrt();
        let scaled = wide().enumerate().map(|(j, value)| {
            (value - mean) / deviation * f64::from(weight[j]) + f64::from(bias[j])
        });
        expected.extend(scaled);
    }
    // The mean is rounded to f32: an error of mean * 2^-23 or so before the division by the deviation, which is
    // never below sqrt(epsilon) = 3.2e-3.
    let deviation = (spread / 2.0).max(3.2e-3);
    let tolerance = f64::from(1e-5 + mean * 1.2e-7 / deviation);
    assert_close(&device.download(&y), &expected, tolerance);
}

#[test]
fn gelu() {
    let device = Rig::open();
    let special = [
        0.0, -0.0, 1e-40, -1e-40, 0.5, -0.5, 1.0, -1.0, 3.0, -3.0, 5.0, -5.0, 10.0, -10.0, 100.0,
        -100.0, 1e13, -1e13, 1e30, -1e30,
    ];
    for count in [1, 127, 128, 129, 500] {
        let filler = noise(count, 6).into_iter().map(|value| 4.0 * value);
        let x: Vec<f32> = special.into_iter().chain(filler).take(count).collect();
        let mut on_device = device.guarded(&x);
        device
            .kernels
            .gelu_tanh(on_device.slice_mut(..count))
            .unwrap();

        let gelu = |v: f64| {
            let inner = (2.0 / std::f64::consts::PI).sqrt() * (v + 0.044715 * v.powi(3));
            0.5 * v * (1.0 + inner.tanh())
        };
        let expected: Vec<f64> = x.iter().map(|&value| gelu(f64::from(value))).collect();
        assert_close(&device.download(&on_device), &expected, 1e-6);
    }
}

#[rstest]
#[case(1, 1)]
#[case(3, 127)]
#[case(2, 129)]
#[case(5, 432)]
fn bias_add(#[case] n: usize, #[case] c: usize) {
    let device = Rig::open();
    let (x, bias) = (noise(n * c, 7), noise(c, 8));
    let mut on_device = device.guarded(&x);
    device
        .kernels
        .bias_add(on_device.slice_mut(..n * c), &device.upload(&bias))
        .unwrap();
    let expected: Vec<f32> = (0..n * c).map(|i| x[i] + bias[i % c]).collect();
    assert_eq!(device.download(&on_device), expected);
}

#[rstest]
#[case(1, 1)]
#[case(3, 127)]
#[case(2, 129)]
fn residual_add(#[case] n: usize, #[case] c: usize) {
    let device = Rig::open();
    let (x, y, bias) = (noise(n * c, 9), noise(n * c, 10), noise(c, 11));
    let mut on_device = device.guarded(&x);
    let (y_device, bias_device) = (device.upload(&y), device.upload(&bias));
    let kernels = &device.kernels;
    kernels
        .residual_add(
            on_device.slice_mut(..n * c),
            y_device.as_view(),
            &bias_device,
        )
        .unwrap();
    let expected: Vec<f32> = (0..n * c).map(|i| x[i] + (y[i] + bias[i % c])).collect();
    assert_eq!(device.download(&on_device), expected);
}

#[test]
fn lengths_that_do_not_fit_are_refused() {
    let device = Rig::open();
    let (kernels, bias) = (&device.kernels, device.upload(&[1.0; 4]));
    let (mut x, y) = (device.upload(&[0.0; 10]), device.upload(&[0.0; 10]));
    let norm = (device.upload(&[1.0; 4]), device.upload(&[0.0; 3]));
    let length = |result| match result {
        Err(Error::Argument(error)) => (error.operation, error.argument),
        other => panic!("{other:?}"),
    };
    assert_eq!(
        length(kernels.bias_add(x.slice_mut(..), &bias)),
        ("bias_add", "x")
    );
    assert_eq!(
        length(kernels.bias_add(x.slice_mut(..0), &bias)),
        ("bias_add", "x")
    );
    let result = kernels.residual_add(x.slice_mut(..8), y.slice(..4), &bias);
    assert_eq!(length(result), ("residual_add", "y"));
    let result = kernels.layernorm(x.slice_mut(..8), y.slice(..8), &norm.0, &norm.1, 1e-5);
    assert_eq!(length(result), ("layernorm", "bias"));
    assert_eq!(
        length(kernels.gelu_tanh(x.slice_mut(..0))),
        ("gelu_tanh", "x")
    );
    let (wte, wpe) = (device.upload(&[0.0; 9]), device.upload(&[0.0; 8]));
    let result = kernels.embedding(x.slice_mut(..8), &[0, 1], &wte.as_view(), &wpe.as_view(), 0);
    assert_eq!(length(result), ("embedding", "wte"));
}
