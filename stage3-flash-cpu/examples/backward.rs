//! The backward pass on tiles, as plain as the algorithm: one head, no mask. The fast form with all
//! options is `src/fast/backward.rs`.
//!
//! `cargo run -p stage3-flash-cpu --example backward` compares the two.

use ndarray::{Array2, Array4, ArrayView2, Axis, s};
use stage3_flash_cpu::{Error, Options, attention, attention_backward};

/// Queries of a tile, and keys of one.
const TILE: usize = 64;

// ANCHOR: loop
/// dQ, dK and dV of one head. `lse` and `delta` are columns, with a number for each query.
fn gradients(
    [q, k, v, d_o]: [ArrayView2<'_, f32>; 4],
    [lse, delta]: [ArrayView2<'_, f32>; 2],
    scale: f32,
) -> [Array2<f32>; 3] {
    let [mut dq, mut dk, mut dv] = [q, k, v].map(|x| Array2::zeros(x.raw_dim()));
    for j in (0..k.nrows()).step_by(TILE) {
        let keys = s![j..k.nrows().min(j + TILE), ..];
        let (k_j, v_j) = (k.slice(keys), v.slice(keys)); // line 6
        let (mut dk_j, mut dv_j) = (dk.slice_mut(keys), dv.slice_mut(keys)); // line 7: zeros
        for i in (0..q.nrows()).step_by(TILE) {
            let queries = s![i..q.nrows().min(i + TILE), ..];
            let (q_i, do_i) = (q.slice(queries), d_o.slice(queries)); // line 9
            let s_ij = q_i.dot(&k_j.t()) * scale; // line 10
            let p = (s_ij - lse.slice(queries)).mapv(f32::exp); // line 11
            dv_j += &p.t().dot(&do_i); // line 12
            let dp = do_i.dot(&v_j.t()); // line 13
            let ds = p * (dp - delta.slice(queries)) * scale; // line 14, and the scale
            let mut dq_i = dq.slice_mut(queries);
            dq_i += &ds.dot(&k_j); // line 15
            dk_j += &ds.t().dot(&q_i); // line 16
        }
    }
    [dq, dk, dv]
}
// ANCHOR_END: loop

fn main() -> Result<(), Error> {
    let (n, d, scale) = (150, 32, 0.2);
    let tensor = |seed: f32| {
        Array4::from_shape_fn((1, 1, n, d), |(_, _, i, c)| {
            (seed * (i * d + c) as f32).sin()
        })
    };
    let [q, k, v, d_o] = [0.3, 0.7, 1.1, 1.3].map(tensor);
    let mut options = Options::default();
    options.scale = Some(scale);
    let output = attention(q.view(), k.view(), v.view(), &options)?;
    let fast = attention_backward(q.view(), k.view(), v.view(), &options, &output, d_o.view())?;

    let head = s![0, 0, .., ..];
    let lse = output.lse.slice(s![0, 0, ..]).insert_axis(Axis(1));
    let products = &d_o.slice(head) * &output.o.slice(head);
    let delta = products.sum_axis(Axis(1)).insert_axis(Axis(1));
    let inputs = [&q, &k, &v, &d_o].map(|x| x.slice(head));
    let plain = gradients(inputs, [lse, delta.view()], scale);
    let fast = [fast.dq, fast.dk, fast.dv];
    for ((name, plain), fast) in ["dQ", "dK", "dV"].into_iter().zip(plain).zip(fast) {
        let error = (&plain - &fast.slice(head)).mapv(f32::abs);
        let largest = error.fold(0.0, |max: f32, &x| max.max(x));
        assert!(largest < 1e-4, "{name} is off by {largest}");
        println!("{name}: the two forms differ by {largest:.1e} at most");
    }
    Ok(())
}
