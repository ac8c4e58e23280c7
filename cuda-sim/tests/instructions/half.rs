//! 16-bit floats: arithmetic and comparison. The expected bits come from sums of integers of 640
//! bits, which hold every sum and product of two 16-bit floats exactly.

use std::cmp::Ordering;

use super::rig::*;

/// A number as a multiple of 2^-270: two's complement, the lowest word first.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Exact([u64; 10]);

pub const ZERO: Exact = Exact([0; 10]);

impl Exact {
    /// `x` is finite and a multiple of 2^-270.
    pub fn new(x: f64) -> Exact {
        let bits = (x.abs() * 2f64.powi(270)).to_bits();
        if bits == 0 {
            return ZERO;
        }
        // The last digit of the significand is worth 2^place.
        let place = (bits >> 52) as i32 - 1075;
        let digits = bits & ((1 << 52) - 1) | 1 << 52;
        let (digits, place) = match place {
            0.. => (digits, place as u32),
            _ => (digits >> -place, 0),
        };
        let wide = u128::from(digits) << (place % 64);
        let mut words = [0; 10];
        words[place as usize / 64] = wide as u64;
        words[place as usize / 64 + 1] = (wide >> 64) as u64;
        let size = Exact(words);
        if x < 0.0 { size.negated() } else { size }
    }

    fn negated(self) -> Exact {
        let mut one = ZERO;
        one.0[0] = 1;
        Exact(self.0.map(|word| !word)).plus(one)
    }

    fn plus(self, other: Exact) -> Exact {
        let mut carry = false;
        Exact(std::array::from_fn(|i| {
            let (sum, first) = self.0[i].overflowing_add(other.0[i]);
            let (sum, second) = sum.overflowing_add(u64::from(carry));
            carry = first || second;
            sum
        }))
    }

    pub fn compare(self, other: Exact) -> Ordering {
        let difference = self.plus(other.negated());
        match difference.0[9] >> 63 {
            1 => Ordering::Less,
            _ if difference == ZERO => Ordering::Equal,
            _ => Ordering::Greater,
        }
    }
}

/// The finite sizes of `ty` and the number that would follow them, by their bits.
pub fn sizes(ty: Ty) -> Vec<Exact> {
    let infinity = infinity(ty);
    let beyond = 2.0 * ty.float(infinity - 1) - ty.float(infinity - 2);
    let values = (0..infinity).map(|bits| ty.float(bits));
    values.chain([beyond]).map(Exact::new).collect()
}

pub fn infinity(ty: Ty) -> u64 {
    if ty == F16 { 0x7c00 } else { 0x7f80 }
}

/// Bits of `exact`, not zero, rounded to nearest even.
pub fn nearest(sizes: &[Exact], exact: Exact) -> u64 {
    let negative = exact.0[9] >> 63 == 1;
    let size = if negative { exact.negated() } else { exact };
    let above = sizes.partition_point(|s| s.compare(size) != Ordering::Greater);
    let bits = match above {
        n if n == sizes.len() => n - 1,
        n => {
            let twice = size.plus(size);
            match twice.compare(sizes[n - 1].plus(sizes[n])) {
                Ordering::Less => n - 1,
                Ordering::Greater => n,
                Ordering::Equal => n - 1 + (n - 1) % 2,
            }
        }
    };
    bits as u64 | u64::from(negative) << 15
}

/// `a · b + c` rounded once; NaN is 0x7fff.
pub fn fused(ty: Ty, sizes: &[Exact], [a, b, c]: [f64; 3]) -> u64 {
    let rough = a * b + c;
    if rough.is_nan() {
        return 0x7fff;
    }
    if [a, b, c].iter().any(|x| x.is_infinite()) {
        return infinity(ty) | u64::from(rough < 0.0) << 15;
    }
    let exact = Exact::new(a * b).plus(Exact::new(c));
    match exact == ZERO {
        true => u64::from(rough.is_sign_negative()) << 15,
        false => nearest(sizes, exact),
    }
}

pub const TYPES: [Ty; 2] = [F16, Bf16];

/// Values where rounding, overflow, subnormals and signs may go wrong.
pub fn values(ty: Ty) -> Vec<u64> {
    let one = if ty == F16 { 0x3c00 } else { 0x3f80 };
    let least_normal = if ty == F16 { 0x400 } else { 0x80 };
    let infinity = infinity(ty);
    let sizes = [
        0,
        1,
        2,
        least_normal - 1,
        least_normal,
        least_normal + 1,
        one / 2,
        one - 1,
        one,
        one + 1,
        one + 3,
        one + least_normal / 2,
        one + least_normal,
        infinity - least_normal,
        infinity - 2,
        infinity - 1,
        infinity,
        infinity + 1,
        0x7fff,
    ];
    sizes.iter().flat_map(|&x| [x, x | 0x8000]).collect()
}

/// `count` columns: all combinations of `values`, then 4000 rows of random bits.
pub fn rows(values: &[u64], count: usize) -> Vec<Vec<u64>> {
    let n = values.len().pow(count as u32);
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state >> 48
    };
    (0..count as u32)
        .map(|column| {
            let repeat = values.len().pow(column);
            let combined = (0..n).map(|i| values[i / repeat % values.len()]);
            let mut all: Vec<u64> = combined.collect();
            all.extend((0..4000).map(|_| random()));
            all
        })
        .collect()
}

fn flushed(ty: Ty, bits: u64) -> u64 {
    let least_normal = if ty == F16 { 0x400 } else { 0x80 };
    if bits & 0x7fff < least_normal {
        bits & 0x8000
    } else {
        bits
    }
}

pub fn is_nan(ty: Ty, bits: u64) -> bool {
    ty.float(bits).is_nan()
}

fn saturated(ty: Ty, bits: u64) -> u64 {
    let x = ty.float(bits);
    match x {
        _ if x.is_nan() || x <= 0.0 => 0,
        _ if x > 1.0 => float_bits(ty, 1.0),
        _ => bits,
    }
}

pub fn rectified(ty: Ty, bits: u64) -> u64 {
    if bits >> 15 == 1 && !is_nan(ty, bits) {
        0
    } else {
        bits
    }
}

/// Asserts that `name` of `ty`, and of pairs of it, gives the bits that `expected` does, in every
/// row.
#[track_caller]
fn check_rows(name: &str, ty: Ty, columns: &[Vec<u64>], expected: impl Fn(&[u64]) -> u64) {
    let list = ["{a}", "{b}", "{c}"][..columns.len()].join(", ");
    let n = columns[0].len();
    let wanted: Vec<u64> = (0..n)
        .map(|i| expected(&columns.iter().map(|column| column[i]).collect::<Vec<_>>()))
        .collect();
    let single = run(
        &format!("{name}.{} {{d}}, {list};", ty.name()),
        ty,
        &vec![ty; columns.len()],
        columns,
    );
    // The high half is the row behind.
    let pair = |column: &Vec<u64>, i: usize| column[(i + 1) % n] << 16 | column[i];
    let pairs: Vec<Vec<u64>> = columns
        .iter()
        .map(|column| (0..n).map(|i| pair(column, i)).collect())
        .collect();
    let double = run(
        &format!("{name}.{}x2 {{d}}, {list};", ty.name()),
        U32,
        &vec![U32; columns.len()],
        &pairs,
    );
    for i in 0..n {
        let row: Vec<u64> = columns.iter().map(|column| column[i]).collect();
        let (got, wanted_pair) = (single[i], pair(&wanted, i));
        assert_eq!(got, wanted[i], "{name}.{ty:?} of {row:#x?}: {got:#x}");
        assert_eq!(
            double[i], wanted_pair,
            "{name}.{ty:?}x2 of {row:#x?} in the low half"
        );
    }
}

#[test]
fn sums_and_products_are_rounded_once() {
    for ty in TYPES {
        let sizes = sizes(ty);
        let columns = rows(&values(ty), 2);
        let value = |bits: u64| ty.float(bits);
        let sum = |x: &[u64]| fused(ty, &sizes, [value(x[0]), 1.0, value(x[1])]);
        let difference = |x: &[u64]| fused(ty, &sizes, [value(x[0]), 1.0, -value(x[1])]);
        let product = |x: &[u64]| {
            let (a, b) = (value(x[0]), value(x[1]));
            // The zero that keeps the product's sign.
            let zero = if (a * b).is_sign_negative() {
                -0.0
            } else {
                0.0
            };
            fused(ty, &sizes, [a, b, zero])
        };
        check_rows("add", ty, &columns, sum);
        check_rows("add.rn", ty, &columns, sum);
        check_rows("sub", ty, &columns, difference);
        check_rows("mul.rn", ty, &columns, product);
        if ty == F16 {
            let flush = |x: &[u64]| [flushed(ty, x[0]), flushed(ty, x[1])];
            check_rows("add.ftz", ty, &columns, |x| flushed(ty, sum(&flush(x))));
            check_rows("mul.ftz.sat", ty, &columns, |x| {
                saturated(ty, flushed(ty, product(&flush(x))))
            });
            check_rows("sub.sat", ty, &columns, |x| saturated(ty, difference(x)));
        }
    }
}

#[test]
fn fused_multiply_add_is_rounded_once() {
    for ty in TYPES {
        let sizes = sizes(ty);
        let columns = rows(&values(ty), 3);
        let result =
            |x: &[u64]| fused(ty, &sizes, [ty.float(x[0]), ty.float(x[1]), ty.float(x[2])]);
        check_rows("fma.rn", ty, &columns, result);
        let few = rows(&values(ty)[6..22], 3);
        check_rows("fma.rn.relu", ty, &few, |x| rectified(ty, result(x)));
        if ty == F16 {
            check_rows("fma.rn.sat", ty, &few, |x| saturated(ty, result(x)));
            let flush =
                |x: &[u64]| flushed(ty, result(&[x[0], x[1], x[2]].map(|x| flushed(ty, x))));
            check_rows("fma.rn.ftz", ty, &few, flush);
            check_rows("fma.rn.ftz.relu", ty, &few, |x| rectified(ty, flush(x)));
        }
    }
}

/// A bf16 tie that a term too small for f64 decides.
#[test]
fn a_tiny_addend_decides_a_tie() {
    // (1 + 2^-4)·(1 + 2^-4) = 1 + 2^-3 + 2^-8: the middle of two bf16.
    let columns = [
        vec![0x3f88; 3],
        vec![0x3f88; 3],
        vec![0x0001, 0x8001, 0x0000],
    ];
    let got = run(
        "fma.rn.bf16 {d}, {a}, {b}, {c};",
        Bf16,
        &[Bf16; 3],
        &columns,
    );
    assert_eq!(got, [0x3f91, 0x3f90, 0x3f90]);
}

/// The smaller of two values, or the `largest`; of a number and a NaN, the number.
pub fn extreme(ty: Ty, largest: bool, a: u64, b: u64) -> u64 {
    match (is_nan(ty, a), is_nan(ty, b)) {
        (true, true) => return 0x7fff,
        (true, false) => return b,
        (false, true) => return a,
        (false, false) => {}
    }
    let (left, right) = (ty.float(a), ty.float(b));
    // -0 is less than +0.
    let less = left < right || (left == right && a >> 15 == 1);
    if less != largest { a } else { b }
}

#[test]
fn minimum_and_maximum() {
    for ty in TYPES {
        let columns = rows(&values(ty), 2);
        for (name, largest) in [("min", false), ("max", true)] {
            let result = |x: &[u64]| extreme(ty, largest, x[0], x[1]);
            let of_nan = |x: &[u64]| match x.iter().any(|&x| is_nan(ty, x)) {
                true => 0x7fff,
                false => result(x),
            };
            check_rows(name, ty, &columns, result);
            check_rows(&format!("{name}.NaN"), ty, &columns, of_nan);
            if ty == F16 {
                check_rows(&format!("{name}.ftz"), ty, &columns, |x| {
                    result(&[flushed(ty, x[0]), flushed(ty, x[1])])
                });
            }
        }
    }
}

pub fn all() -> Vec<u64> {
    (0..0x1_0000).collect()
}

#[test]
fn signs_of_all_values() {
    let negated: fn(u64) -> u64 = |x| x ^ 0x8000;
    let absolute: fn(u64) -> u64 = |x| x & 0x7fff;
    for (name, sign) in [("neg", negated), ("abs", absolute)] {
        for ty in TYPES {
            let (nans, numbers): (Vec<u64>, Vec<u64>) =
                all().into_iter().partition(|&x| is_nan(ty, x));
            check_rows(name, ty, &[numbers], |x| sign(x[0]));
            // PTX leaves the bits of a NaN open; these are those of an RTX 3060.
            let expected = |x: u64| if ty == Bf16 { sign(x) } else { 0x7fff };
            let single = format!("{name}.{} {{d}}, {{a}};", ty.name());
            let got = run(&single, ty, &[ty], std::slice::from_ref(&nans));
            assert_eq!(got, nans.iter().map(|&x| expected(x)).collect::<Vec<_>>());
            let pair = format!("{name}.{}x2 {{d}}, {{a}};", ty.name());
            let pairs = nans.iter().map(|x| x << 16 | x).collect();
            let got = run(&pair, U32, &[U32], &[pairs]);
            assert!(got.iter().all(|&pair| pair == 0x7fff_7fff), "{pair}");
        }
        let expected = |x: &[u64]| match is_nan(F16, x[0]) {
            true => 0x7fff,
            false => sign(flushed(F16, x[0])),
        };
        check_rows(&format!("{name}.ftz"), F16, &[all()], expected);
    }
}

/// The approximations are within the errors that PTX states, and exact at the ends.
#[test]
fn approximations_of_all_values() {
    // Error relative to the result, or absolute; results below the least normal number may be off
    // by one of its units.
    type Bound = (f64, f64);
    type Case = (&'static str, Ty, fn(f64) -> f64, Bound);
    let cases: [Case; 4] = [
        (
            "ex2.approx",
            F16,
            f64::exp2,
            (2f64.powf(-9.9), 2f64.powi(-24)),
        ),
        ("ex2.approx.ftz", Bf16, f64::exp2, (2f64.powi(-7), 0.0)),
        ("tanh.approx", F16, f64::tanh, (0.0, 2f64.powf(-10.987))),
        ("tanh.approx", Bf16, f64::tanh, (0.0, 2f64.powi(-8))),
    ];
    for (name, ty, function, (relative, absolute)) in cases {
        let body = format!("{name}.{} {{d}}, {{a}};", ty.name());
        let single = run(&body, ty, &[ty], &[all()]);
        let pairs: Vec<u64> = all().iter().map(|x| x << 16 | (x ^ 0x1234)).collect();
        let body = format!("{name}.{}x2 {{d}}, {{a}};", ty.name());
        let double = run(&body, U32, &[U32], &[pairs]);
        for (bits, &got) in single.iter().enumerate() {
            let double = double[bits];
            assert_eq!(
                double,
                got << 16 | single[bits ^ 0x1234],
                "{body} of {bits:#x}"
            );
            let x = ty.float(bits as u64);
            if x.is_nan() {
                assert_eq!(got, 0x7fff, "{name} of {bits:#x}");
                continue;
            }
            let exact = function(x);
            let value = ty.float(got);
            let largest = ty.float(infinity(ty) - 1);
            // bf16 flushes small results.
            let flushes = ty == Bf16 && exact.abs() < 2f64.powi(-126);
            let good = if exact > largest {
                value == f64::INFINITY || value == largest
            } else if flushes && name.starts_with("ex2") {
                value == 0.0
            } else {
                (value - exact).abs() <= absolute + relative * exact.abs()
            };
            assert!(good, "{name}.{ty:?} of {bits:#x}: {value}, not {exact}");
        }
    }
}

/// Truth of a relation for less, equal, greater, and where one side is NaN.
const RELATIONS: [Named<[bool; 4]>; 14] = {
    const Y: bool = true;
    const N: bool = false;
    [
        ("eq", [N, Y, N, N]),
        ("ne", [Y, N, Y, N]),
        ("lt", [Y, N, N, N]),
        ("le", [Y, Y, N, N]),
        ("gt", [N, N, Y, N]),
        ("ge", [N, Y, Y, N]),
        ("equ", [N, Y, N, Y]),
        ("neu", [Y, N, Y, Y]),
        ("ltu", [Y, N, N, Y]),
        ("leu", [Y, Y, N, Y]),
        ("gtu", [N, N, Y, Y]),
        ("geu", [N, Y, Y, Y]),
        ("num", [Y, Y, Y, N]),
        ("nan", [N, N, N, Y]),
    ]
};

fn holds(relation: [bool; 4], a: f64, b: f64) -> bool {
    relation[a
        .partial_cmp(&b)
        .map_or(3, |order| (order as i8 + 1) as usize)]
}

#[test]
fn comparisons() {
    for ty in TYPES {
        let name = ty.name();
        let one = float_bits(ty, 1.0);
        let columns = rows(&values(ty), 2);
        let n = columns[0].len();
        let next = |i: usize| (i + 1) % n;
        let pairs: Vec<Vec<u64>> = columns
            .iter()
            .map(|column| (0..n).map(|i| column[next(i)] << 16 | column[i]).collect())
            .collect();
        for (relation, table) in RELATIONS {
            for ftz in [false, true] {
                if ftz && ty == Bf16 {
                    continue;
                }
                let dot_ftz = if ftz { ".ftz" } else { "" };
                let value = |bits| ty.float(if ftz { flushed(ty, bits) } else { bits });
                let yes: Vec<bool> = (0..n)
                    .map(|i| holds(table, value(columns[0][i]), value(columns[1][i])))
                    .collect();
                let test = |body: &str, d: Ty, pair: bool, wanted: &dyn Fn(usize) -> u64| {
                    let (operand, values) = if pair { (U32, &pairs) } else { (ty, &columns) };
                    let got = run(body, d, &[operand; 2], values);
                    for (i, got) in got.into_iter().enumerate() {
                        let row = (values[0][i], values[1][i]);
                        assert_eq!(got, wanted(i), "{body} of {row:#x?}");
                    }
                };
                let bit = |i: usize| u64::from(yes[i]);
                let one_of = |x: u64| move |yes: u64| if yes == 1 { x } else { 0 };
                let body = format!("setp.{relation}{dot_ftz}.{name} {{d}}, {{a}}, {{b}};");
                test(&body, Pred, false, &bit);
                let body = format!(
                    "setp.{relation}{dot_ftz}.{name}x2 %p5|%p6, {{a}}, {{b}};\n\
                     selp.u32 %r5, 1, 0, %p5;\nselp.u32 %r6, 2, 0, %p6;\nor.b32 {{d}}, %r5, %r6;"
                );
                test(&body, U32, true, &|i| bit(i) | bit(next(i)) << 1);
                let body = format!("set.{relation}{dot_ftz}.{name}.{name} {{d}}, {{a}}, {{b}};");
                test(&body, ty, false, &|i| one_of(one)(bit(i)));
                let body = format!("set.{relation}{dot_ftz}.u16.{name} {{d}}, {{a}}, {{b}};");
                test(&body, U16, false, &|i| one_of(0xffff)(bit(i)));
                let body = format!("set.{relation}{dot_ftz}.s32.{name} {{d}}, {{a}}, {{b}};");
                test(&body, U32, false, &|i| one_of(0xffff_ffff)(bit(i)));
                for (d, x) in [(format!("{name}x2"), one), ("u32".to_owned(), 0xffff)] {
                    let body = format!("set.{relation}{dot_ftz}.{d}.{name}x2 {{d}}, {{a}}, {{b}};");
                    test(&body, U32, true, &|i| {
                        one_of(x)(bit(next(i))) << 16 | one_of(x)(bit(i))
                    });
                }
            }
        }
        // With a predicate.
        let body = format!(
            "setp.ne.b32 %p7, {{a}}, 0;\nset.lt.and.u32.{name}x2 {{d}}, {{a}}, {{b}}, !%p7;"
        );
        let got = run(&body, U32, &[U32; 2], &pairs);
        for i in 0..n {
            let (a, b) = (pairs[0][i], pairs[1][i]);
            let less = |shift: u32| ty.float(a >> shift & 0xffff) < ty.float(b >> shift & 0xffff);
            let half = |shift| {
                if a == 0 && less(shift) {
                    0xffff << shift
                } else {
                    0
                }
            };
            assert_eq!(got[i], half(0) | half(16), "{body} of {a:#x}, {b:#x}");
        }
    }
}
