//! Holds a result against the definition, in f64, on some of its rows: cheap, and
//! at the size that is timed.

use std::ops::Range;

use ndarray::{Array2, ArrayView2, ArrayView4, s};
use stage1_reference::Sizes;
use stage3_flash_cpu::{Gradients, Output, Tiles};

/// Inputs and results of a computation; all tensors are `[B, H, N, D]`, the
/// scale is the default one.
pub struct Computed<'a> {
    pub q: ArrayView4<'a, f32>,
    pub k: ArrayView4<'a, f32>,
    pub v: ArrayView4<'a, f32>,
    pub d_o: ArrayView4<'a, f32>,
    pub causal: bool,
    pub output: &'a Output,
    pub gradients: &'a Gradients,
}

impl Computed<'_> {
    /// Stops unless 8 rows at the start, across the end of the forward pass's first tile
    /// of queries, and at the end are right, in every head: of `o` and `dq` for queries,
    /// of `dk` and `dv` for keys.
    pub fn check(&self) {
        let (batch, heads, n, head_dim) = self.q.dim();
        let tiles = Tiles::for_sizes(&Sizes {
            batch,
            heads,
            kv_heads: heads,
            nq: n,
            nk: n,
            head_dim,
        });
        for (b, h) in (0..batch).flat_map(|b| (0..heads).map(move |h| (b, h))) {
            for start in [0, (tiles.queries - 4).min(n - 8), n - 8] {
                self.check_rows(b, h, start..start + 8);
            }
        }
    }

    fn check_rows(&self, b: usize, h: usize, rows: Range<usize>) {
        let head = s![b, h, .., ..];
        let (q, k, v, d_o) = (
            self.q.slice(head).mapv(f64::from),
            self.k.slice(head).mapv(f64::from),
            self.v.slice(head).mapv(f64::from),
            self.d_o.slice(head).mapv(f64::from),
        );
        let (n, d) = q.dim();
        let scale = 1.0 / (d as f64).sqrt();
        let tile = s![rows.clone(), ..];
        // The weights of some queries × some keys, and the gradient by their scores.
        let part = |queries: Range<usize>, keys: Range<usize>| -> [Array2<f64>; 2] {
            let (q, d_o) = (
                q.slice(s![queries.clone(), ..]),
                d_o.slice(s![queries.clone(), ..]),
            );
            let (k, v) = (k.slice(s![keys.clone(), ..]), v.slice(s![keys.clone(), ..]));
            let mut p = q.dot(&k.t()) * scale;
            let mut ds = d_o.dot(&v.t());
            for ((i, j), p) in p.indexed_iter_mut() {
                let (i, j) = (queries.start + i, keys.start + j);
                let hidden = self.causal && j > i;
                let lse = f64::from(self.output.lse[[b, h, i]]);
                *p = if hidden { 0.0 } else { (*p - lse).exp() };
            }
            for (i, mut ds) in ds.rows_mut().into_iter().enumerate() {
                let o = self
                    .output
                    .o
                    .slice(s![b, h, queries.start + i, ..])
                    .mapv(f64::from);
                ds -= d_o.row(i).dot(&o);
            }
            ds *= &p;
            [p, ds]
        };
        let [p, ds] = part(rows.clone(), 0..n);
        let sums = Array2::from_shape_fn((8, 1), |(i, _)| p.row(i).sum());
        same(
            "the sum of weights",
            sums.mapv(|sum| sum as f32).view(),
            &Array2::ones((8, 1)),
        );
        same("o", self.output.o.slice(head).slice(tile), &p.dot(&v));
        let Gradients { dq, dk, dv } = self.gradients;
        same("dq", dq.slice(head).slice(tile), &(ds.dot(&k) * scale));
        let [p, ds] = part(0..n, rows.clone());
        same("dk", dk.slice(head).slice(tile), &(ds.t().dot(&q) * scale));
        same("dv", dv.slice(head).slice(tile), &p.t().dot(&d_o));
    }
}

fn same(what: &str, actual: ArrayView2<'_, f32>, expected: &Array2<f64>) {
    let size = expected.iter().fold(1.0, |max: f64, x| max.max(x.abs()));
    let error = (&actual.mapv(f64::from) - expected).mapv(f64::abs);
    assert!(
        error.iter().all(|&error| error <= 2e-5 * size),
        "not timed, because {what} is wrong: {actual}, not {expected}"
    );
}
