//! Problems that are not in the table, whose errors are compared with PyTorch's: what an
//! implementation may leave out or take for nothing.

use ndarray::Array4;
use stage1_reference::Options;

use super::Problem;
use super::row::Row;
use crate::Dtype;
use crate::inputs::{normal, tensor, uniform};
use crate::layout::Layout;

/// Those in f32 that every implementation is asked for.
pub fn others() -> Vec<Problem> {
    let others = [scale_0(), scale_1(), small_weights()].into_iter();
    others.chain(in_longer_buffers(Dtype::F32)).collect()
}

/// A scale that looks like none, and a causal mask.
fn scale_1() -> Problem {
    Row::new(1, 2, 64, 64, 64).scale(1.0).causal().problem()
}

/// A scale that makes all scores 0, and a causal mask, which hides keys all the same. There are 64
/// matrices: each smaller power of two, which an implementation may take at a time, divides them.
pub fn scale_0() -> Problem {
    Row::new(4, 16, 5, 9, 16).scale(0.0).causal().problem()
}

/// A key of score 0, then thousands that are 16 to 17 below: each has no weight that counts, and
/// all together have.
///
/// 1 plus a weight is rounded to 1 where the score is below −16.636, and up where it is above. The
/// scores are such that these errors nearly cancel: one after the other the weights add
/// 1.26 · 10⁻⁴ to 1, and 1.29 · 10⁻⁴ without rounding. So any order of summation is right.
pub fn small_weights() -> Problem {
    const D: usize = 16;
    let q = Array4::from_shape_fn((1, 2, 3, D), |(.., column)| first_alone(column, 4.0));
    let mut k = tensor((1, 2, 2001, D), 32, normal);
    let mut v = tensor((1, 2, 2001, D), 33, |seed, i| 1.0 + normal(seed, i));
    for ((_, _, key, column), x) in k.indexed_iter_mut() {
        if column == 0 {
            *x = small_weight(key);
        }
    }
    for ((_, _, key, _), x) in v.indexed_iter_mut() {
        if key == 0 {
            *x = -1.0;
        }
    }
    let name = "b1_h2_nq3_nk2001_d16_small_weights".to_owned();
    Problem {
        extreme: true,
        ..Problem::new(name, q, k, v, Options::default())
    }
}

/// The score of a key of [`small_weights`].
pub(in crate::problems) fn small_weight(key: usize) -> f32 {
    match key {
        0 => 0.0,
        key => -16.593 - 0.493 * uniform(37, key as u64),
    }
}

/// A row that is 0 but for its first element.
pub(in crate::problems) fn first_alone(column: usize, value: f32) -> f32 {
    if column == 0 { value } else { 0.0 }
}

/// Tensors in buffers that go on behind them: no key, and one key whose score looks like none.
pub fn in_longer_buffers(dtype: Dtype) -> [Problem; 2] {
    // The score is a power of two: multiplied by log2(e), it is as exact as log2(e).
    let (size, score) = match dtype {
        Dtype::F32 => (2f32.powi(21), "minus1e12"),
        Dtype::F16 | Dtype::Bf16 => (2f32.powi(15), "minus3e8"),
    };
    [0, 1].map(|nk| {
        let name = match nk {
            0 => "b1_h2_nq17_nk0_d16_in_longer_buffers".to_owned(),
            _ => format!("b1_h2_nq17_nk1_d16_{score}_in_longer_buffers"),
        };
        Problem {
            extreme: true,
            layouts: [Layout::Longer; 4],
            ..one_key(name, nk, size)
        }
        .stored_in(dtype)
    })
}

/// One key of score −2^18 in a buffer that goes on: far below any other score, and not −inf.
pub fn low_key() -> Problem {
    Problem {
        extreme: true,
        layouts: [Layout::Longer; 4],
        ..one_key("b1_h2_nq17_nk1_d16_minus3e5".to_owned(), 1, 1024.0)
    }
}

/// At most one key. Its score is −size² / 4.
fn one_key(name: String, nk: usize, size: f32) -> Problem {
    let [q, k] = [(17, size), (nk, -size)].map(|(rows, value)| {
        Array4::from_shape_fn((1, 2, rows, 16), |(.., column)| first_alone(column, value))
    });
    let v = tensor((1, 2, nk, 16), 33, |seed, i| 1.0 + normal(seed, i));
    Problem::new(name, q, k, v, Options::default())
}
