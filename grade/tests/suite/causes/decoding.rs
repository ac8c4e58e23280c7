//! Attention on a cache, and updates of one.

use conformance::inputs::hash;
use conformance::problems::{Problem, decode};
use grade::cause::{Cause, Update, probes};
use ndarray::{Array4, s};
use stage1_reference::Output;

use super::{Mistake, causes, named};

/// Decoding: `first..last` of the keys of a sequence for query i.
#[derive(Clone, Copy)]
struct Decoder {
    last: fn(length: usize, nq: usize, i: usize) -> usize,
    length: fn(lengths: &[usize], b: usize) -> usize,
    kv_head: fn(h: usize, heads: usize, kv_heads: usize) -> usize,
    scale: fn(f32) -> f32,
    /// Keys of a part with its own maximum; the parts are added without rescaling.
    split: usize,
    /// No maximum is subtracted.
    no_max: bool,
    /// Heads of the cache are taken to lie a length apart.
    by_length: bool,
    /// All slots of the last of the tiles of so many keys have a weight, beyond the last key 0.
    tile: usize,
}

const DECODER: Decoder = Decoder {
    last: |length, nq, i| (length + i + 1).saturating_sub(nq),
    length: |lengths, b| lengths[b],
    kv_head: |h, heads, kv_heads| h / (heads / kv_heads),
    scale: |scale| scale,
    split: usize::MAX,
    no_max: false,
    by_length: false,
    tile: 1,
};

fn decoder(problem: &decode::Problem, how: &Decoder) -> Output {
    let mut output = problem.poisoned();
    let (batch, heads, nq, d) = problem.q.dim();
    let kv_heads = problem.k.dim().1;
    let scale = (how.scale)(problem.scale.unwrap_or(1.0 / (d as f32).sqrt()));
    for (b, h, i) in ndarray::indices((batch, heads, nq)) {
        let length = (how.length)(&problem.lengths, b);
        let end = (how.last)(length, nq, i);
        let own = (length + i + 1).saturating_sub(nq);
        let first = problem
            .window
            .map_or(0, |window| own.saturating_sub(window.saturating_add(1)));
        let h_kv = (how.kv_head)(h, heads, kv_heads);
        let at = |x: &Array4<f32>, j: usize, c: usize| {
            let (_, _, max_seq, _) = x.dim();
            let distance = if how.by_length { length } else { max_seq };
            let row = (b * kv_heads + h_kv) * distance + j;
            x[[
                row / (kv_heads * max_seq),
                row / max_seq % kv_heads,
                row % max_seq,
                c,
            ]]
        };
        let (mut max, mut sum, mut o) = (f32::NEG_INFINITY, 0f32, vec![0f32; d]);
        let keys: Vec<usize> = (first..end).collect();
        for part in keys.chunks(how.split.min(1 << 20)) {
            let scores: Vec<f32> = part
                .iter()
                .map(|&j| {
                    let products = (0..d).map(|c| problem.q[[b, h, i, c]] * at(&problem.k, j, c));
                    products.sum::<f32>() * scale
                })
                .collect();
            let of_part = match how.no_max {
                true => 0.0,
                false => scores.iter().copied().fold(f32::NEG_INFINITY, f32::max),
            };
            for (&j, score) in part.iter().zip(&scores) {
                let p = (score - of_part).exp();
                sum += p;
                for (c, o) in o.iter_mut().enumerate() {
                    *o += p * at(&problem.v, j, c);
                }
            }
            max = max.max(of_part);
        }
        let slots = end.next_multiple_of(how.tile).min(problem.k.dim().2);
        for (j, c) in ndarray::indices((slots.saturating_sub(end), d)) {
            o[c] += 0.0 * at(&problem.v, end + j, c);
        }
        output.lse[[b, h, i]] = if keys.is_empty() { max } else { max + sum.ln() };
        for (c, o) in o.iter().enumerate() {
            output.o[[b, h, i, c]] = if keys.is_empty() { 0.0 } else { o / sum };
        }
    }
    output
}

#[test]
fn mistakes_in_decoding_are_named() {
    let mistakes: [Mistake<Decoder>; 10] = [
        (Cause::UnusedSlots, |it| it.tile = 128),
        (Cause::AtLeastOneKey, |it| {
            it.last = |length, nq, i| (length + i + 1).saturating_sub(nq).max(1)
        }),
        (Cause::StaleCacheSlot, |it| {
            it.last = |length, nq, i| (length + i).saturating_sub(nq)
        }),
        (Cause::CacheStride, |it| it.by_length = true),
        (Cause::WrongLength, |it| it.length = |lengths, _| lengths[0]),
        (Cause::WrongHead, |it| {
            it.kv_head = |h, _, kv_heads| h % kv_heads
        }),
        (Cause::MissingScale, |it| it.scale = |_| 1.0),
        (Cause::NoMaxSubtraction, |it| it.no_max = true),
        (Cause::MissingRescale, |it| it.split = 64),
        (Cause::MissingRescale, |it| it.split = 32),
    ];
    named(probes::decode(), decoder, DECODER, mistakes);
}

/// Copies the rows of each sequence to the slots that `slot` gives.
fn copied(
    update: &Update,
    from: [usize; 2],
    slot: fn(length: usize, count: usize) -> usize,
    all: bool,
) -> [Array4<f32>; 2] {
    [0, 1].map(|tensor| {
        let mut cache = update.before[tensor].clone();
        for (b, (&count, &length)) in update.counts.iter().zip(&update.lengths).enumerate() {
            let rows = &update.rows[from[tensor]];
            for i in 0..if all { rows.dim().2 } else { count } {
                let j = slot(length, count) + i;
                if j < cache.dim().2 {
                    cache
                        .slice_mut(s![b, .., j, ..])
                        .assign(&rows.slice(s![b, .., i, ..]));
                }
            }
        }
        cache
    })
}

#[test]
fn mistakes_in_updates_are_named() {
    let right = |length, count| length - count;
    let update = |from, slot: fn(usize, usize) -> usize, all| {
        causes(probes::update(), |update| copied(update, from, slot, all))
    };
    assert_eq!(update([0, 1], right, false), []);
    assert_eq!(
        update([0, 1], |length, count| length - count + 1, false),
        [Cause::StaleCacheSlot]
    );
    assert_eq!(
        update([0, 1], |length, _| length, false),
        [Cause::StaleCacheSlot]
    );
    assert_eq!(update([0, 1], |_, _| 0, false), [Cause::StaleCacheSlot]);
    assert_eq!(
        update([0, 1], |_, _| usize::MAX / 2, false),
        [Cause::NotWritten]
    );
    assert_eq!(update([0, 1], right, true), [Cause::WritesPadding]);
    assert_eq!(update([1, 0], right, false), [Cause::KeysForValues]);
    let random = |update: &Update| {
        copied(update, [0, 1], |length, count| length - count, false).map(|cache| {
            cache.mapv(|x| f32::from_bits(hash(3, u64::from(x.to_bits())) as u32 >> 8))
        })
    };
    assert_eq!(causes(probes::update(), random), []);
}
