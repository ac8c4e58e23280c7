//! Mistakes of kernels on tensor cores: in the layout of fragments, in swizzled tiles, in the descriptors of a warpgroup's factors, in
//! what is rounded to half precision.

use std::rc::Rc;

use conformance::Dtype;
use ndarray::{Array4, s};
use stage1_reference::Options;

use super::formula::{Answer, Formula, Row, Weigh, Weighed};
use super::{Cause, Hypothesis};

/// q, k and v.
type Operands = [Array4<f64>; 3];

/// What is read in place of q, k and v, and what is computed from it.
pub(super) struct Mistake {
    read: Box<dyn Fn(&Operands) -> Operands>,
    formula: Formula,
}

impl Mistake {
    pub(super) fn attend(&self, qkv: &Operands, options: &Options) -> Answer {
        let read = (self.read)(qkv);
        self.formula.attend(read.each_ref(), options)
    }

    fn reading(read: impl Fn(&Operands) -> Operands + 'static) -> Self {
        Self {
            read: Box::new(read),
            formula: Formula::right(),
        }
    }

    fn computing(formula: Formula) -> Self {
        Self {
            formula,
            ..Self::reading(Operands::clone)
        }
    }
}

pub(super) fn mistakes() -> Vec<Hypothesis<Mistake>> {
    let families = [fragments(), swizzles(), descriptors(), roundings()];
    families.into_iter().flatten().collect()
}

/// The place, row and column, from which an element is read.
type Place = fn([usize; 2]) -> [usize; 2];

/// One operand is read from other places.
fn fragments() -> Vec<Hypothesis<Mistake>> {
    let transposed: Place = |[row, column]| [row / 8 * 8 + column % 8, column / 8 * 8 + row % 8];
    let quadrants: Place = |[row, column]| match row / 8 % 2 == column / 8 % 2 {
        true => [row, column],
        false => [row ^ 8, column ^ 8],
    };
    let forms: [(&str, &[usize], Place); 6] = [
        ("tiles of 8 × 8 of q are transposed", &[0], transposed),
        ("tiles of 8 × 8 of k are transposed", &[1], transposed),
        ("tiles of 8 × 8 of v are transposed", &[2], transposed),
        ("a[1] and a[2] of q are exchanged", &[0], quadrants),
        ("b0 and b1 of k are exchanged", &[1], |[row, column]| {
            [row, column ^ 8]
        }),
        ("b0 and b1 of v are exchanged", &[2], |[row, column]| {
            [row ^ 8, column]
        }),
    ];
    let cause = Cause::FragmentLayout;
    let mistake = |(detail, which, place)| read_elsewhere(cause, detail, which, place);
    forms.map(mistake).into()
}

/// Factors of a warpgroup's products are read from other places, where panels of 64 columns lie one behind the other.
fn descriptors() -> Vec<Hypothesis<Mistake>> {
    let forms: [(&str, &[usize], Place); 4] = [
        (
            "16 columns further is 16 bytes further",
            &[0, 1],
            |[row, column]| [row, column - column % 64 / 16 * 8],
        ),
        (
            "columns from 64 on are those of the next row",
            &[0, 1],
            |[row, column]| [row + column / 64, column % 64],
        ),
        (
            "columns of v from 64 on lie 16 bytes further",
            &[2],
            |[row, column]| match column / 64 {
                0 => [row, column],
                _ => [row + (column - 56) / 64, (column - 56) % 64],
            },
        ),
        (
            "the second warpgroup has the queries of the first",
            &[0],
            |[row, column]| [row - row % 128 / 64 * 64, column],
        ),
    ];
    let mistake = |(detail, which, place)| read_elsewhere(Cause::Descriptor, detail, which, place);
    let mut mistakes = Vec::from(forms.map(mistake));
    let last = |qkv: &Operands| {
        let mut read = qkv.clone();
        let step = read[0].dim().3.saturating_sub(16);
        read[0].slice_mut(s![.., .., .., ..step]).fill(0.0);
        read
    };
    mistakes.push(Hypothesis::new(
        Cause::Descriptor,
        "each 16 columns begin new sums",
        Mistake::reading(last),
    ));
    mistakes
}

/// Some operands are read from other places.
fn read_elsewhere(
    cause: Cause,
    detail: &str,
    which: &'static [usize],
    place: impl Fn([usize; 2]) -> [usize; 2] + 'static,
) -> Hypothesis<Mistake> {
    let read = move |qkv: &Operands| {
        let mut read = qkv.clone();
        for &which in which {
            read[which] = moved(&qkv[which], &place);
        }
        read
    };
    Hypothesis::new(cause, detail, Mistake::reading(read))
}

/// Rows of 16-byte vectors are stored at swizzled places and read from plain ones, or the other way round, which is the same.
fn swizzles() -> Vec<Hypothesis<Mistake>> {
    let forms: [(&str, &[usize]); 5] = [
        ("of q", &[0]),
        ("of k", &[1]),
        ("of v", &[2]),
        ("of k and v", &[1, 2]),
        ("of q, k and v", &[0, 1, 2]),
    ];
    let mistake = |(detail, which): (&str, &'static [usize])| {
        let read = move |qkv: &Operands| {
            let mut read = qkv.clone();
            for &which in which {
                let places = (qkv[which].dim().3 / 8).clamp(1, 8);
                read[which] = moved(&qkv[which], |[row, column]| {
                    [row, column ^ (row * places / 8 % places * 8)]
                });
            }
            read
        };
        Hypothesis::new(Cause::SwizzledOnce, detail, Mistake::reading(read))
    };
    forms.map(mistake).into()
}

/// A tensor whose elements are read from other places of the same matrix; beyond its last row there are zeros.
fn moved(x: &Array4<f64>, place: impl Fn([usize; 2]) -> [usize; 2]) -> Array4<f64> {
    Array4::from_shape_fn(x.raw_dim(), |(b, h, row, column)| {
        let [row, column] = place([row, column]);
        x.get([b, h, row, column]).copied().unwrap_or(0.0)
    })
}

/// What is f32 is rounded to f16.
fn roundings() -> Vec<Hypothesis<Mistake>> {
    let round = |x: f64| f64::from(Dtype::F16.round(x as f32));
    let scale = Formula {
        scale: Box::new(move |_, scale| round(scale)),
        ..Formula::right()
    };
    let weigh = move |row: &Row<'_>| -> Weighed {
        let scores: Vec<f64> = row.scores.iter().map(|&score| round(score)).collect();
        let row = Row {
            scores: &scores,
            ..*row
        };
        row.weighed()
    };
    let scores = Formula {
        weigh: Rc::new(weigh) as Weigh,
        ..Formula::right()
    };
    let rounded =
        |detail, formula| Hypothesis::new(Cause::RoundedEarly, detail, Mistake::computing(formula));
    vec![rounded("the scale", scale), rounded("the scores", scores)]
}
