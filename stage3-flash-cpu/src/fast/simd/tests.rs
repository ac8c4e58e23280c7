//! Every instruction set that this processor has, against f64.

use conformance::inputs::{hash, normal, tensor};
use ndarray::{Array2, Axis, s};

use super::*;
use crate::fast::lanes::{LaneMatrix, lanes};

/// `e^x` of each, by way of a softmax whose log-sum-exp is 0.
fn exp(kernels: &Kernels, x: &[f32]) -> Vec<f32> {
    let mut tile = LaneMatrix::new(1, x.len());
    let mut row = tile.view_mut(1, 0..x.len());
    row.row_mut(0)
        .slice_mut(s![..x.len()])
        .assign(&ndarray::aview1(x));
    kernels.softmax(row.view_mut(), &[0.0]);
    row.row(0).iter().copied().take(x.len()).collect()
}

#[test]
fn the_portable_set_is_among_them() {
    assert_eq!(sets().last().map(|set| set.name), Some("portable"));
    assert!(std::ptr::eq(kernels(), sets()[0]));
}

#[test]
fn exp_is_within_two_units_in_the_last_place() {
    let mut x: Vec<f32> = (0..200_000)
        .map(|i| -87.3 + (175.3 * i as f32) / 200_000.0)
        .collect();
    // Every float of some stretches, where rounding to an integer turns over.
    for start in [-0.346_6f32, -1.039_7, -34.31, -1e-6] {
        x.extend((0..2000).map(|i| f32::from_bits(start.to_bits() - i)));
    }
    for kernels in sets() {
        let mut worst = 0.0f64;
        for (&x, y) in x.iter().zip(exp(kernels, &x)) {
            let exact = f64::from(x).exp();
            let ulp = f64::from((exact as f32).next_up() - exact as f32);
            worst = worst.max((f64::from(y) - exact).abs() / ulp);
        }
        assert!(worst <= 2.0, "{}: {worst} ulp", kernels.name);
    }
}

#[test]
fn exp_is_exact_where_it_matters() {
    let x = [0.0, -0.0, f32::NEG_INFINITY, f32::MIN, -88.0, -1e9, 88.0];
    for kernels in sets() {
        let y = exp(kernels, &x);
        assert_eq!(y[..6], [1.0, 1.0, 0.0, 0.0, 0.0, 0.0], "{}", kernels.name);
        assert!(y[6].is_finite());
        for nan in [f32::NAN, -f32::NAN, f32::from_bits(0x7FC0_01FF)] {
            assert!(exp(kernels, &[nan])[0].is_nan(), "{}", kernels.name);
        }
        // Only numbers up to the smallest normal one become 0.
        for (x, y) in [(-87.2, 1.0), (-87.5, 0.0)] {
            let at_least = y * f32::MIN_POSITIVE;
            assert!(exp(kernels, &[x])[0] >= at_least, "{}", kernels.name);
        }
    }
}

#[test]
fn products_of_all_sizes_and_strides_are_right() {
    for (number, (m, n, k)) in [
        (1, 1, 1),
        (1, 33, 2),
        (2, 64, 7),
        (3, 96, 64),
        (6, 65, 1),
        (13, 128, 5),
        (23, 160, 33),
        (64, 31, 72),
        (5, 32, 1),
    ]
    .into_iter()
    .enumerate()
    {
        let seed = 10 * number as u64;
        let columns = lanes(n);
        let wide = tensor((m, 2 * k + 1), seed, normal);
        let tall = tensor((k, m), seed + 1, normal);
        let mut b = LaneMatrix::new(k, n);
        let mut c = LaneMatrix::new(m, n);
        b.view_mut(k, 0..n)
            .assign(&tensor((k, columns), seed + 2, normal));
        let old: Array2<f32> = tensor((m, columns), seed + 3, normal);
        let factors: Vec<f32> = tensor(columns, seed + 4, normal).to_vec();
        // Every second column, and a transposed matrix.
        for a in [wide.slice(s![.., ..2 * k; 2]), tall.t()] {
            let product = a.mapv(f64::from).dot(&b.view(k, 0..n).mapv(f64::from));
            for (what, times, kept) in [
                (Old::Replaced(-0.5), -0.5, vec![0.0; columns]),
                (Old::Kept, 1.0, vec![1.0; columns]),
                (Old::Rescaled(&factors), 1.0, factors.clone()),
            ] {
                let kept = ndarray::Array1::from(kept).mapv(f64::from);
                let expected = &product * times + &old.mapv(f64::from) * &kept;
                for kernels in sets() {
                    let mut c = c.view_mut(m, 0..n);
                    c.assign(&old);
                    if let Old::Replaced(_) = what {
                        c.fill(f32::NAN); // and it is not read
                    }
                    kernels.mat_mul(a, b.view(k, 0..n), what, c.view_mut());
                    let error = (&c.mapv(f64::from) - &expected).mapv(f64::abs);
                    let worst = error.iter().copied().fold(0.0, f64::max);
                    assert!(
                        worst < 1e-5 && error.iter().all(|x| !x.is_nan()),
                        "{}: {worst} for {m} × {n} × {k}",
                        kernels.name
                    );
                }
            }
        }
    }
}

#[test]
fn softmax_in_parts_is_softmax() {
    let (keys, queries) = (77, 40);
    let scores: Array2<f32> = tensor((keys, queries), 5, |seed, i| {
        let hidden = hash(seed + 1, i).is_multiple_of(3) || (i as usize).is_multiple_of(queries);
        if hidden {
            f32::NEG_INFINITY
        } else {
            20.0 * normal(seed, i)
        }
    });
    for kernels in sets() {
        let columns = lanes(queries);
        let (mut m, mut l) = (vec![f32::NEG_INFINITY; columns], vec![0.0; columns]);
        let mut factor = vec![f32::NAN; columns];
        let mut weights = Array2::<f64>::zeros((keys, queries));
        let mut tile = LaneMatrix::new(keys, queries);
        let mut start = 0;
        for rows in [1, 2, 30, 44] {
            let part = s![start..start + rows, ..];
            let mut s = tile.view_mut(rows, 0..queries);
            s.slice_mut(s![.., ..queries]).assign(&scores.slice(part));
            kernels.online_softmax(s.view_mut(), &mut m, &mut l, &mut factor);
            for (x, mut column) in weights.axis_iter_mut(Axis(1)).enumerate() {
                column *= f64::from(factor[x]);
            }
            let new = s.slice(s![.., ..queries]).mapv(f64::from);
            weights.slice_mut(part).assign(&new);
            start += rows;
        }
        assert_eq!((m[0], l[0], factor[0]), (f32::NEG_INFINITY, 0.0, 0.0));
        for x in 1..queries {
            let column = scores.column(x).mapv(f64::from);
            let max = column.iter().copied().fold(f64::MIN, f64::max);
            let exact = column.mapv(|s| (s - max).exp());
            assert_eq!(f64::from(m[x]), max, "{}", kernels.name);
            assert!((f64::from(l[x]) / exact.sum() - 1.0).abs() < 1e-6);
            let error = (&exact - &weights.column(x)).mapv(f64::abs);
            assert!(error.iter().all(|&error| error < 1e-6), "{error}");
        }
    }
}

#[test]
fn transposing_twice_changes_nothing() {
    for (rows, columns) in [(1, 1), (3, 40), (16, 16), (33, 72), (130, 5)] {
        let wide: Array2<f32> = tensor((rows, 2 * columns), 3, normal);
        let a = wide.slice(s![.., ..;2]);
        for kernels in sets() {
            let mut t = LaneMatrix::new(columns, rows);
            kernels.transpose(a, t.view_mut(columns, 0..rows));
            let t = t.view(columns, 0..rows);
            let t = t.slice(s![.., ..rows]);
            assert_eq!(t, a.t(), "{}", kernels.name);
            let mut back = Array2::zeros((rows, columns));
            kernels.transpose(t, back.view_mut());
            assert_eq!(back, a, "{}", kernels.name);
        }
    }
}

#[test]
fn the_gradient_of_scores_is_what_it_says() {
    let (queries, keys) = (3, 45);
    let (mut dp, mut p) = (
        LaneMatrix::new(queries, keys),
        LaneMatrix::new(queries, keys),
    );
    for kernels in sets() {
        let values: Array2<f32> = tensor((queries, lanes(keys)), 1, normal);
        let weights: Array2<f32> = tensor((queries, lanes(keys)), 2, normal);
        dp.view_mut(queries, 0..keys).assign(&values);
        p.view_mut(queries, 0..keys).assign(&weights);
        let delta = [0.5, -2.0, 0.0];
        kernels.score_gradient(
            dp.view_mut(queries, 0..keys),
            p.view(queries, 0..keys),
            &delta,
        );
        for ((i, j), &actual) in dp.view(queries, 0..keys).indexed_iter() {
            assert_eq!(
                actual,
                weights[[i, j]] * (values[[i, j]] - delta[i]),
                "{}",
                kernels.name
            );
        }
    }
}
