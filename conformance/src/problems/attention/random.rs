//! Random problems.

use stage1_reference::{BLOCK, Feature, Options, Sizes};

use super::Problem;
use crate::inputs::{hash, normal, tensor, uniform};
use crate::layout::Layout;

/// A random problem, and layouts of q, k, v and o: functions of the seed. No option
/// is among what is `lacked`.
pub fn random(seed: u64, head_dim: usize, lacked: &[Feature]) -> (Problem, [Layout; 4]) {
    let mut draws = 0;
    // A number below `end`.
    let mut draw = |end: usize| {
        draws += 1;
        (hash(seed, draws) % end as u64) as usize
    };
    let kv_heads = 1 + draw(2);
    let lacks = |feature| lacked.contains(&feature);
    let (batch, group) = (1 + draw(2), 1 + draw(3));
    let sizes = Sizes {
        batch,
        heads: kv_heads
            * if lacks(Feature::GroupedHeads) {
                1
            } else {
                group
            },
        kv_heads,
        nq: [1, 1 + draw(70), 60 + draw(80)][draw(3)],
        nk: [1 + draw(70), 60 + draw(80), 60 + draw(140)][draw(3)],
        head_dim,
    };
    let Sizes {
        batch,
        heads,
        nq,
        nk,
        ..
    } = sizes;
    let mut options = Options::default();
    if draw(2) == 0 && !lacks(Feature::Causal) {
        options = options.causal();
    }
    if draw(3) == 0 && !lacks(Feature::Window) {
        options = options.window(draw(nk + 10), draw(nk + 10));
    }
    if draw(3) == 0 && !lacks(Feature::KeyLengths) {
        let lengths: Vec<usize> = (0..batch).map(|_| draw(nk + 1)).collect();
        options = options.key_lengths(lengths);
    }
    if draw(3) == 0 && !lacks(Feature::Scale) {
        // The tolerance is that of scores of a few units, so the scale is a part of the default.
        options = options.scale((draw(9) as f32 / 4.0 - 1.0) * sizes.default_scale());
    }
    if draw(3) == 0 && !lacks(Feature::AdditiveMask) {
        let shape = ([1, batch][draw(2)], [1, heads][draw(2)], nq, nk);
        let hidden = |seed, i| uniform(seed + 1, i) < -0.5;
        options = options.mask(tensor(shape, seed + 4, |seed, i| match hidden(seed, i) {
            true => f32::NEG_INFINITY,
            false => normal(seed, i),
        }));
    }
    if draw(3) == 0 && !lacks(Feature::BlockSparse) {
        let (rows, columns) = (nq.div_ceil(BLOCK), nk.div_ceil(BLOCK));
        let shape = ([1, batch][draw(2)], [1, heads][draw(2)], rows, columns);
        let bits = tensor(shape, seed + 6, uniform);
        options = options.blocks(bits.mapv(|x| x < 0.0));
    }
    let layouts = [0; 4].map(|_| Layout::RANDOM[draw(3)]);
    let rows = |heads, n| [batch, heads, n, head_dim];
    let q = tensor(rows(heads, nq), seed + 1, normal);
    let k = tensor(rows(kv_heads, nk), seed + 2, normal);
    let v = tensor(rows(kv_heads, nk), seed + 3, |seed, i| {
        1.0 + normal(seed, i)
    });
    let features = options.features();
    let name = format!("seed {seed}: {sizes:?}, {features:?}, {layouts:?}");
    (Problem::new(name, q, k, v, options).with_padding(), layouts)
}
