//! Norms, rotation, embedding and the choice of a token against their definitions, with
//! guards around what they write.

use crate::rig::{Guard, Rig, assert_close, matrix, noise, refused, whatever_the_schedule};
use conformance::Element;
use conformance::compare::Tolerance;
use cudarc::driver::CudaSlice;
use half::{bf16, f16};
use rstest::rstest;
use stage6_pipeline::{Activation, Device, Dtype, Heads, Norm, NormKind};

const EPSILON: f32 = 1e-5;

fn norm_of(rig: &Rig, weight: &[f32], bias: Option<&[f32]>) -> Norm<Device> {
    Norm {
        weight: rig.upload(weight),
        bias: bias.map(|bias| rig.upload(bias)),
    }
}

#[track_caller]
fn normalised(rig: &Rig, norm: &Norm<Device>, kind: NormKind, x: &[f32]) -> Vec<f32> {
    let mut y = rig.guarded(&vec![f32::NAN; x.len()]);
    let x_device = rig.upload(x);
    let view = y.slice_mut(..x.len());
    rig.kernels
        .norm(norm, kind, EPSILON, x_device.as_view(), view)
        .unwrap();
    rig.download(&y)
}

#[rstest]
fn norms_equal_their_definition(
    #[values((3, 1), (2, 36), (2, 96), (2, 127), (5, 128), (2, 129), (1, 1000), (2, 5000))] (n, c): (
        usize,
        usize,
    ),
    #[values(NormKind::LayerNorm, NormKind::RmsNorm)] kind: NormKind,
    #[values(0.0, 1000.0)] mean: f32,
    #[values(1.0, 1e-3, 1e4)] spread: f32,
) {
    let rig = Rig::open();
    let x = Vec::from_iter(noise(n * c, 3).iter().map(|value| mean + spread * value));
    let (weight, bias) = (noise(c, 4), noise(c, 5));
    for bias in [Some(&*bias), None] {
        let norm = norm_of(&rig, &weight, bias);
        let mut expected = Vec::new();
        for row in x.chunks(c) {
            let wide = || row.iter().map(|&value| f64::from(value));
            let mean = match kind {
                NormKind::LayerNorm => wide().sum::<f64>() / c as f64,
                NormKind::RmsNorm => 0.0,
            };
            let variance = wide().map(|value| (value - mean).powi(2)).sum::<f64>() / c as f64;
            let deviation = (variance + f64::from(EPSILON)).sqrt();
            expected.extend(wide().enumerate().map(|(j, value)| {
                let bias = bias.map_or(0.0, |bias| f64::from(bias[j]));
                (value - mean) / deviation * f64::from(weight[j]) + bias
            }));
        }
        // The mean is rounded to f32: an error of mean * 2^-23 or so before the division by the
        // deviation, which is never below sqrt(epsilon) = 3.2e-3.
        let centre = match kind {
            NormKind::LayerNorm => mean / (spread / 2.0).max(3.2e-3),
            NormKind::RmsNorm => 0.0,
        };
        let tolerance = Tolerance {
            relative: 3e-6,
            absolute: f64::from(3e-6 + centre * 1.2e-7),
        };
        let found = normalised(&rig, &norm, kind, &x);
        assert_close(
            &format!("{kind:?}, {n} x {c}"),
            &found,
            &expected,
            tolerance,
        );
    }
}

/// A norm in f32, rounded: to the bit.
#[rstest]
fn norms_in_half_precision_are_rounded(#[values(36, 97, 1000)] c: usize) {
    fn check<Y: Activation + Element + Guard>(c: usize) {
        let rig = Rig::open();
        let norm = norm_of(&rig, &noise(c, 1), Some(&noise(c, 2)));
        let x = noise(3 * c, 3);
        let expected = normalised(&rig, &norm, NormKind::LayerNorm, &x);
        let mut y = rig.guarded(&vec![Y::from_f32(0.0); x.len()]);
        let (x_device, view) = (rig.upload(&x), y.slice_mut(..x.len()));
        let result = rig.kernels.norm(
            &norm,
            NormKind::LayerNorm,
            EPSILON,
            x_device.as_view(),
            view,
        );
        result.unwrap();
        let expected = Vec::from_iter(expected.iter().map(|&y| Y::from_f32(y).to_f32()));
        let found = Vec::from_iter(rig.download(&y).iter().map(|&y| y.to_f32()));
        assert_eq!(found, expected);
    }
    check::<f16>(c);
    check::<bf16>(c);
}

#[test]
fn a_nan_stays_in_its_row_of_a_norm() {
    let rig = Rig::open();
    let norm = norm_of(&rig, &noise(96, 1), None);
    let mut x = noise(3 * 96, 2);
    let clean = normalised(&rig, &norm, NormKind::LayerNorm, &x);
    x[96 + 50] = f32::NAN;
    let found = normalised(&rig, &norm, NormKind::LayerNorm, &x);
    assert!(found[96..192].iter().all(|y| y.is_nan()));
    assert_eq!((&found[..96], &found[192..]), (&clean[..96], &clean[192..]));
}

#[rstest]
#[case::one_pair(2, 1, 1)]
#[case::multi_query(32, 4, 1)]
#[case::odd(72, 3, 3)]
#[case::grouped(128, 8, 2)]
#[case::widest(256, 2, 1)]
fn rope_equals_its_definition(
    #[case] d: usize,
    #[case] queries: usize,
    #[case] keys: usize,
    #[values(1.0, 1.25)] factor: f32,
) {
    let rig = Rig::open();
    let positions = [0, 1, 7, 4095, 131_071, 1_000_003];
    let (half, row) = (d / 2, (queries + 2 * keys) * d);
    let inverse = Vec::from_iter((0..half).map(|i| 10_000f32.powf(-(i as f32) / half as f32)));
    let qkv = noise(positions.len() * row, 6);

    let mut rotated = rig.guarded(&qkv);
    let positions_device = rig.upload(&positions);
    rig.kernels
        .rope(
            rotated.slice_mut(..qkv.len()),
            positions_device.as_view(),
            &rig.upload(&inverse),
            factor,
            Heads { queries, keys },
        )
        .unwrap();
    let found = rig.download(&rotated);

    let expected = (0..qkv.len()).map(|index| {
        let (token, column) = (index / row, index % row);
        let (head, j) = (column / d, column % d);
        let x = |j: usize| f64::from(qkv[token * row + head * d + j]);
        if head >= queries + keys {
            return x(j);
        }
        // The product is rounded to f32, as in transformers.
        let angle = f64::from(positions[token] as f32 * inverse[j % half]);
        let (sin, cos) = (
            angle.sin() * f64::from(factor),
            angle.cos() * f64::from(factor),
        );
        if j < half {
            x(j) * cos - x(j + half) * sin
        } else {
            x(j) * cos + x(j - half) * sin
        }
    });
    let tolerance = Tolerance {
        relative: 0.0,
        absolute: 5e-7,
    };
    assert_close("rope", &found, &Vec::from_iter(expected), tolerance);
    for (index, (&found, &before)) in found.iter().zip(&qkv).enumerate() {
        if index % row >= (queries + keys) * d {
            assert_eq!(found, before, "a value was rotated");
        }
    }
}

/// A rotation in f32, rounded: to the bit.
#[test]
fn rope_in_half_precision_is_rounded() {
    fn check<T: Activation + Element + Guard>() {
        let rig = Rig::open();
        let heads = Heads {
            queries: 3,
            keys: 1,
        };
        let halves = Vec::from_iter(noise(2 * 5 * 8, 6).iter().map(|&x| T::from_f32(x)));
        let values = |halves: &[T]| Vec::from_iter(halves.iter().map(|&x| x.to_f32()));
        let (mut exact, mut found) = (rig.guarded(&values(&halves)), rig.guarded(&halves));
        let (positions, inverse) = (rig.upload(&[1, 70]), rig.upload(&[1.0, 0.1, 0.01, 0.001]));
        let (exact_view, view) = (exact.slice_mut(..80), found.slice_mut(..80));
        let kernels = &rig.kernels;
        let rotated = kernels.rope(exact_view, positions.as_view(), &inverse, 1.0, heads);
        rotated.unwrap();
        let rotated = kernels.rope(view, positions.as_view(), &inverse, 1.0, heads);
        rotated.unwrap();
        let expected = rig.download(&exact);
        let expected = Vec::from_iter(expected.iter().map(|&x| T::from_f32(x).to_f32()));
        assert_eq!(values(&rig.download(&found)), expected);
    }
    check::<f16>();
    check::<bf16>();
}

#[rstest]
fn embeddings_are_rows_of_their_tables(
    #[values(Dtype::F32, Dtype::F16, Dtype::Bf16)] dtype: Dtype,
    #[values(1, 36, 300)] c: usize,
    #[values(true, false)] positioned: bool,
) {
    const VOCAB: usize = 11;
    const CONTEXT: usize = 10;
    let rig = Rig::open();
    let tokens = matrix(&rig, dtype, &noise(VOCAB * c, 1), VOCAB);
    let places = matrix(&rig, dtype, &noise(CONTEXT * c, 2), CONTEXT);
    // Valid ones, then tokens and positions without a row.
    let ids = [3, 0, 10, 3, -1, 11, i32::MAX, 5, 5];
    let positions = [9, 0, 4, 4, 1, 1, 1, -1, 10];

    let mut x = rig.guarded(&vec![0.0; ids.len() * c]);
    let (ids_device, positions_device) = (rig.upload(&ids), rig.upload(&positions));
    let table = positioned.then_some(&places.matrix);
    let view = x.slice_mut(..ids.len() * c);
    rig.kernels
        .embed(
            view,
            ids_device.as_view(),
            positions_device.as_view(),
            &tokens.matrix,
            table,
        )
        .unwrap();

    for (i, row) in rig.download(&x).chunks(c).enumerate() {
        let valid = (0..VOCAB as i32).contains(&ids[i])
            && (!positioned || (0..CONTEXT as i32).contains(&positions[i]));
        if !valid {
            assert!(row.iter().all(|x| x.is_nan()), "token {}", ids[i]);
            continue;
        }
        let token = &tokens.values[ids[i] as usize * c..][..c];
        for (j, &x) in row.iter().enumerate() {
            let place = if positioned {
                places.values[positions[i] as usize * c + j]
            } else {
                0.0
            };
            assert_eq!(x, token[j] + place);
        }
    }
}

#[test]
fn rows_are_gathered() {
    let rig = Rig::open();
    let (x, rows) = (noise(5 * 97, 1), [4, 0, 4, 5, -1]);
    let mut y = rig.guarded(&vec![0.0; rows.len() * 97]);
    let (x_device, rows_device) = (rig.upload(&x), rig.upload(&rows));
    let view = y.slice_mut(..rows.len() * 97);
    rig.kernels
        .gather(view, rows_device.as_view(), x_device.as_view())
        .unwrap();
    let y = rig.download(&y);
    for (i, row) in [4, 0, 4].into_iter().enumerate() {
        assert_eq!(y[i * 97..][..97], x[row * 97..][..97]);
    }
    assert!(y[3 * 97..].iter().all(|y| y.is_nan()));
}

fn largest(rig: &Rig, rows: &[Vec<f32>]) -> Vec<i32> {
    let mut tokens = rig.guarded(&vec![-7; rows.len()]);
    let logits = rig.upload(&rows.concat());
    let view = tokens.slice_mut(..rows.len());
    rig.kernels.argmax(view, logits.as_view()).unwrap();
    rig.download(&tokens)
}

#[rstest]
fn the_first_of_the_largest_logits_is_chosen(
    #[values(1, 2, 31, 33, 257, 2048, 9001)] vocab: usize,
) {
    let rig = Rig::open();
    let random = noise(vocab, 1);
    let with = |places: &[usize], value: f32| {
        let mut row = random.clone();
        for &place in places {
            row[place % vocab] = value;
        }
        row
    };
    let (last, middle) = (vocab - 1, vocab / 2);
    let rows = [
        random.clone(),
        with(&[last], 2.0),
        with(&[last, middle, 1], 1e4),
        vec![f32::NEG_INFINITY; vocab],
        vec![-0.0; vocab],
        with(&[middle, last], f32::INFINITY),
        Vec::from_iter((0..vocab).map(|i| if i == last { -1e4 } else { -2e4 })),
    ];
    let expected = rows.iter().map(|row| {
        let first = |best: usize, i: usize| if row[i] > row[best] { i } else { best };
        let best = (0..vocab).fold(0, first);
        if row[best].is_infinite() {
            -1
        } else {
            best as i32
        }
    });
    assert_eq!(largest(&rig, &rows), Vec::from_iter(expected));

    let rows = [
        with(&[last], f32::NAN),
        with(&[0], -f32::NAN),
        vec![f32::NAN; vocab],
    ];
    assert_eq!(largest(&rig, &rows), [-1, -1, -1]);
    let mut both = with(&[middle], f32::NAN);
    both[last] = f32::INFINITY;
    assert_eq!(largest(&rig, &[both]), [-1]);
}

#[rstest]
fn counts_are_incremented(#[values(1, 2, 127, 300)] n: usize) {
    let rig = Rig::open();
    let counts = Vec::from_iter((0..n as i32).map(|i| 3 * i));
    let mut device = rig.guarded(&counts);
    for _ in 0..2 {
        rig.kernels.increment(device.slice_mut(..n)).unwrap();
    }
    let expected = Vec::from_iter(counts.iter().map(|count| count + 2));
    assert_eq!(rig.download(&device), expected);
}

#[test]
fn no_bit_of_a_step_depends_on_the_schedule() {
    whatever_the_schedule("steps::no_bit_of_a_step_depends_on_the_schedule", || {
        let rig = Rig::open();
        let norm = norm_of(&rig, &noise(1000, 1), None);
        let y = normalised(&rig, &norm, NormKind::LayerNorm, &noise(3000, 2));
        let mut logits = Vec::from_iter(noise(6000, 3).chunks(2000).map(<[f32]>::to_vec));
        logits[1] = vec![0.5; 2000];
        let tokens = largest(&rig, &logits);
        let bits = y.iter().map(|y| y.to_bits());
        bits.chain(tokens.iter().map(|&token| token as u32))
            .collect()
    });
}

#[test]
fn what_does_not_fit_is_refused() {
    let rig = Rig::open();
    let kernels = &rig.kernels;
    let floats = |count: usize| rig.upload(&vec![0.0f32; count]);
    let counts = |count: usize| rig.upload(&vec![0i32; count]);
    let (x, mut y) = (floats(48), floats(48));
    let (ids, four) = (counts(8), floats(4));

    let norm = |norm: &Norm<Device>, x: usize, y: usize| {
        let (from, mut to) = (floats(48), floats(48));
        let (from, to) = (from.slice(..x), to.slice_mut(..y));
        refused(kernels.norm(norm, NormKind::LayerNorm, EPSILON, from, to))
    };
    let good = norm_of(&rig, &[1.0; 4], None);
    assert_eq!(norm(&good, 9, 9), ("norm", "x"));
    assert_eq!(norm(&good, 0, 0), ("norm", "x"));
    assert_eq!(norm(&good, 8, 12), ("norm", "y"));
    let bad = norm_of(&rig, &[1.0; 4], Some(&[0.0; 3]));
    assert_eq!(norm(&bad, 8, 8), ("norm", "bias"));

    let mut rope = |row: usize, positions: usize, frequencies: &CudaSlice<f32>, keys: usize| {
        let heads = Heads { queries: 2, keys };
        let (qkv, positions) = (y.slice_mut(..row), ids.slice(..positions));
        refused(kernels.rope(qkv, positions, frequencies, 1.0, heads))
    };
    assert_eq!(rope(47, 2, &four, 1), ("rope", "qkv"));
    assert_eq!(rope(32, 2, &four, 1), ("rope", "positions"));
    assert_eq!(rope(32, 1, &four, usize::MAX), ("rope", "qkv"));
    assert_eq!(
        rope(32, 1, &floats(129), 1),
        ("rope", "inverse_frequencies")
    );

    let table = |dtype, rows| matrix(&rig, dtype, &vec![0.0; rows * 6], rows).matrix;
    let tokens = table(Dtype::F16, 5);
    let mut embed = |x: usize, tokens: usize, positions: usize, table: &_, places| {
        let (tokens, positions) = (ids.slice(..tokens), ids.slice(..positions));
        refused(kernels.embed(y.slice_mut(..x), tokens, positions, table, places))
    };
    assert_eq!(embed(12, 0, 0, &tokens, None), ("embed", "tokens"));
    assert_eq!(embed(12, 2, 3, &tokens, None), ("embed", "positions"));
    assert_eq!(embed(13, 2, 2, &tokens, None), ("embed", "x"));
    let other = table(Dtype::Bf16, 5);
    assert_eq!(
        embed(12, 2, 2, &tokens, Some(&other)),
        ("embed", "position_table")
    );
    let mut short = table(Dtype::F16, 5);
    short.rows = 6;
    assert_eq!(embed(12, 2, 2, &short, None), ("embed", "token_table"));
    assert_eq!(
        embed(12, 2, 2, &tokens, Some(&short)),
        ("embed", "position_table")
    );

    let mut gather = |y_len: usize, rows: usize, x_len: usize| {
        refused(kernels.gather(y.slice_mut(..y_len), ids.slice(..rows), x.slice(..x_len)))
    };
    assert_eq!(gather(12, 0, 12), ("gather", "rows"));
    assert_eq!(gather(13, 2, 12), ("gather", "y"));
    assert_eq!(gather(12, 2, 13), ("gather", "x"));

    let mut chosen = counts(3);
    let mut argmax = |tokens: usize, logits: usize| {
        refused(kernels.argmax(chosen.slice_mut(..tokens), x.slice(..logits)))
    };
    assert_eq!(argmax(0, 4), ("argmax", "tokens"));
    assert_eq!(argmax(3, 10), ("argmax", "logits"));
    assert_eq!(argmax(3, 2), ("argmax", "logits"));
    assert_eq!(
        refused(kernels.increment(chosen.slice_mut(..0))),
        ("increment", "counts")
    );
}
