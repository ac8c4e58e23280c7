//! The backward pass against two others: the dense analytic gradient, and central differences, both in f64.

use conformance::inputs::{normal, tensor};
use conformance::problems::attention::problems;
use ndarray::{Array2, Array4, s};
use rstest::rstest;
use stage1_reference::{Mask, Options, Sizes};
use stage3_flash_cpu::{
    Gradients, Tiles, attention, attention_backward, attention_backward_with_tiles,
};

/// Attention's inputs in f64, as far as they may be read.
struct Dense<'a> {
    q: Array4<f64>,
    k: Array4<f64>,
    v: Array4<f64>,
    mask: Mask<'a>,
    sizes: Sizes,
    scale: f64,
}

impl<'a> Dense<'a> {
    fn new(q: &Array4<f32>, k: &Array4<f32>, v: &Array4<f32>, options: &'a Options) -> Self {
        let sizes = Sizes::of("dense", q.dim(), k.dim(), v.dim()).unwrap();
        let default = 1.0 / (sizes.head_dim as f64).sqrt();
        Self {
            q: q.mapv(f64::from),
            k: k.mapv(f64::from),
            v: v.mapv(f64::from),
            mask: options.combined("dense", &sizes).unwrap(),
            sizes,
            scale: options.scale.map_or(default, f64::from),
        }
    }

    /// The weights of one head, `[nq, n]`, where `n` is the sequence's key length.
    fn weights(&self, b: usize, h: usize) -> Array2<f64> {
        let n = self.mask.key_length(b);
        let k = self.k.slice(s![b, h / self.sizes.group(), ..n, ..]);
        let mut p = self.q.slice(s![b, h, .., ..]).dot(&k.t()) * self.scale;
        for ((i, j), s) in p.indexed_iter_mut() {
            *s += f64::from(self.mask.bias(b, h, i, j));
        }
        for mut row in p.rows_mut() {
            let max = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            row.mapv_inplace(|s| {
                if s == f64::NEG_INFINITY {
                    0.0
                } else {
                    (s - max).exp()
                }
            });
            let sum = row.sum();
            row.mapv_inplace(|p| if sum == 0.0 { 0.0 } else { p / sum });
        }
        p
    }

    /// `Σ d_o ∘ o`: a loss whose gradient by `o` is `d_o`.
    fn loss(&self, d_o: &Array4<f64>) -> f64 {
        let mut loss = 0.0;
        for b in 0..self.sizes.batch {
            for h in 0..self.sizes.heads {
                let n = self.mask.key_length(b);
                let v = self.v.slice(s![b, h / self.sizes.group(), ..n, ..]);
                loss += (self.weights(b, h).dot(&v) * d_o.slice(s![b, h, .., ..])).sum();
            }
        }
        loss
    }

    /// `dq`, `dk`, `dv` by the textbook: the whole weight matrix, and the Jacobian of softmax.
    fn gradients(&self, d_o: &Array4<f64>) -> [Array4<f64>; 3] {
        let mut dq = Array4::zeros(self.q.raw_dim());
        let mut dk = Array4::zeros(self.k.raw_dim());
        let mut dv = Array4::zeros(self.v.raw_dim());
        for b in 0..self.sizes.batch {
            for h in 0..self.sizes.heads {
                let n = self.mask.key_length(b);
                let kv = s![b, h / self.sizes.group(), ..n, ..];
                let p = self.weights(b, h);
                let d_o = d_o.slice(s![b, h, .., ..]);
                let dp = d_o.dot(&self.v.slice(kv).t());
                let mut ds = &p * &dp;
                for (mut ds, p) in ds.rows_mut().into_iter().zip(p.rows()) {
                    let sum = ds.sum();
                    ds.scaled_add(-sum, &p);
                }
                ds *= self.scale;
                let mut part = dv.slice_mut(kv);
                part += &p.t().dot(&d_o);
                let mut part = dk.slice_mut(kv);
                part += &ds.t().dot(&self.q.slice(s![b, h, .., ..]));
                dq.slice_mut(s![b, h, .., ..])
                    .assign(&ds.dot(&self.k.slice(kv)));
            }
        }
        [dq, dk, dv]
    }
}

/// The largest difference, as a share of the gradient's largest element, or of 1 if that is smaller.
fn distance(actual: &Array4<f32>, expected: &Array4<f64>) -> f64 {
    assert_eq!(actual.shape(), expected.shape());
    let size = expected.iter().fold(1.0, |max: f64, x| max.max(x.abs()));
    let errors = actual.iter().zip(expected).map(|(&a, e)| {
        let error = (f64::from(a) - e).abs();
        if error.is_nan() { f64::INFINITY } else { error }
    });
    errors.fold(0.0, f64::max) / size
}

fn d_o(q: &Array4<f32>) -> Array4<f32> {
    tensor(q.raw_dim(), 77, normal)
}

fn compare(name: &str, actual: &Gradients, expected: &[Array4<f64>; 3], tolerance: f64) {
    let Gradients { dq, dk, dv } = actual;
    for ((tensor, actual), expected) in [("dq", dq), ("dk", dk), ("dv", dv)]
        .into_iter()
        .zip(expected)
    {
        let distance = distance(actual, expected);
        assert!(
            distance <= tolerance,
            "{name}: {tensor} is {distance:.1e} off"
        );
    }
}

#[rstest]
#[case::default(Tiles::BACKWARD)]
#[case::single(Tiles { queries: 1, keys: 1 })]
#[case::ragged(Tiles { queries: 33, keys: 31 })]
#[case::whole(Tiles { queries: usize::MAX, keys: usize::MAX })]
fn the_whole_table_agrees_with_the_dense_gradient(#[case] tiles: Tiles) {
    for problem in problems() {
        let name = conformance::problems::Problem::name(&problem);
        let (q, k, v, options) = (&problem.q, &problem.k, &problem.v, &problem.options);
        let small = tiles.queries > 1 || q.len() < 1 << 13;
        if !small {
            continue;
        }
        let d_o = d_o(q);
        let output = attention(q.view(), k.view(), v.view(), options).unwrap();
        let (q, k, v) = (q.view(), k.view(), v.view());
        let actual =
            attention_backward_with_tiles(q, k, v, options, &output, d_o.view(), tiles).unwrap();
        let dense = Dense::new(&problem.q, &problem.k, &problem.v, options);
        let expected = dense.gradients(&d_o.mapv(f64::from));
        // An error in a score is one of the same size in its weight, as a share. The last place of a score of 10⁴ is
        // 10⁻³, that of one of 1250 is 10⁻⁴.
        let tolerance = match name {
            name if name.contains("1e4") => 2e-3,
            name if name.contains("one_hot") => 2e-4,
            _ => 2e-5,
        };
        compare(name, &actual, &expected, tolerance);
    }
}

#[test]
fn both_agree_with_central_differences() {
    let q = tensor((2, 2, 5, 3), 1, normal);
    let [k, v] = [2, 3].map(|seed| tensor((2, 1, 7, 3), seed, normal));
    let mask = tensor((1, 2, 5, 7), 4, |seed, i| {
        if i.is_multiple_of(4) {
            f32::NEG_INFINITY
        } else {
            normal(seed, i)
        }
    });
    let options = Options::default()
        .causal()
        .key_lengths(vec![7, 5])
        .mask(mask)
        .scale(-0.7);
    let d_o = d_o(&q);
    let exact = d_o.mapv(f64::from);

    let mut dense = Dense::new(&q, &k, &v, &options);
    let by_hand = dense.gradients(&exact);
    let step = 1e-5;
    let inputs: [for<'a> fn(&'a mut Dense<'_>) -> &'a mut Array4<f64>; 3] =
        [|x| &mut x.q, |x| &mut x.k, |x| &mut x.v];
    let differences = inputs.map(|input| {
        let mut gradient = Array4::zeros(input(&mut dense).raw_dim());
        for (index, slope) in gradient.indexed_iter_mut() {
            let value = input(&mut dense)[index];
            input(&mut dense)[index] = value + step;
            let above = dense.loss(&exact);
            input(&mut dense)[index] = value - step;
            let below = dense.loss(&exact);
            input(&mut dense)[index] = value;
            *slope = (above - below) / (2.0 * step);
        }
        gradient
    });
    for (by_hand, differences) in by_hand.iter().zip(&differences) {
        let worst = (by_hand - differences).mapv(f64::abs);
        assert!(worst.iter().all(|&error| error < 1e-8), "{worst}");
        assert!(differences.iter().any(|x| x.abs() > 0.1));
    }

    let output = attention(q.view(), k.view(), v.view(), &options).unwrap();
    let actual =
        attention_backward(q.view(), k.view(), v.view(), &options, &output, d_o.view()).unwrap();
    compare("central differences", &actual, &differences, 1e-6);
}

/// Without queries of any head, keys have no part in the loss.
#[test]
fn keys_without_query_heads_have_no_gradient() {
    let q = Array4::<f32>::zeros((2, 0, 5, 16));
    let [k, v] = [1, 2].map(|seed| tensor((2, 2, 7, 16), seed, normal));
    let options = Options::default();
    let output = attention(q.view(), k.view(), v.view(), &options).unwrap();
    let gradients = attention_backward(q.view(), k.view(), v.view(), &options, &output, q.view());
    let Gradients { dq, dk, dv } = gradients.unwrap();
    assert_eq!(dq.dim(), q.dim());
    assert_eq!((dk, dv), (Array4::zeros(k.dim()), Array4::zeros(k.dim())));
}

#[test]
fn the_number_of_threads_changes_nothing_but_rounding() {
    let [q, k, v] = [1, 2, 3].map(|seed| tensor((1, 2, 200, 24), seed, normal));
    let options = Options::default().causal();
    let d_o = d_o(&q);
    let output = attention(q.view(), k.view(), v.view(), &options).unwrap();
    let on = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
        let tiles = Tiles {
            queries: 16,
            keys: 16,
        };
        pool.build().unwrap().install(|| {
            let (q, k, v) = (q.view(), k.view(), v.view());
            attention_backward_with_tiles(q, k, v, &options, &output, d_o.view(), tiles).unwrap()
        })
    };
    let one = on(1);
    let expected = [&one.dq, &one.dk, &one.dv].map(|x| x.mapv(f64::from));
    for threads in [2, 7] {
        compare("threads", &on(threads), &expected, 1e-6);
    }
}
