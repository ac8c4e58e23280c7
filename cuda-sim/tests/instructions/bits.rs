//! Bits: shifts, bit fields, bytes, truth tables.

use super::rig::*;

#[test]
fn shifts_clamp() {
    for ty in [U16, S16, U32, S32, U64, S64] {
        let bits = ty.bits();
        check(
            &format!("shl.b{bits} {{d}}, {{a}}, {{b}};"),
            ty,
            &[ty, U32],
            |x| {
                if x[1] >= u64::from(bits) {
                    0
                } else {
                    x[0] << x[1]
                }
            },
        );
        check(
            &format!("shr.{} {{d}}, {{a}}, {{b}};", ty.name()),
            ty,
            &[ty, U32],
            |x| (ty.int(x[0]) >> x[1].min(100)) as u64,
        );
    }
    for (mode, amount) in [
        ("clamp", (|c| c.min(32)) as fn(u64) -> u64),
        ("wrap", |c| c & 31),
    ] {
        check(
            &format!("shf.l.{mode}.b32 {{d}}, {{a}}, {{b}}, {{c}};"),
            U32,
            &[U32, U32, U32],
            |x| ((u128::from(x[1] << 32 | x[0]) << amount(x[2])) >> 32) as u64,
        );
        check(
            &format!("shf.r.{mode}.b32 {{d}}, {{a}}, {{b}}, {{c}};"),
            U32,
            &[U32, U32, U32],
            |x| (x[1] << 32 | x[0]) >> amount(x[2]),
        );
    }
}

#[test]
fn bit_fields() {
    for ty in [U32, S32, U64, S64] {
        let width = u64::from(ty.bits());
        check(
            &format!("bfe.{} {{d}}, {{a}}, {{b}}, {{c}};", ty.name()),
            ty,
            &[ty, U32, U32],
            |x| {
                let counted = if width == 64 { u64::MAX } else { 0xff };
                let (at, length) = (x[1] & counted, x[2] & counted);
                let bit = |i: u64| x[0] >> i & 1;
                let sign = if ty.is_signed() && length > 0 {
                    bit((at + length - 1).min(width - 1))
                } else {
                    0
                };
                (0..width).fold(0, |d, i| {
                    d | if i < length && at + i < width {
                        bit(at + i)
                    } else {
                        sign
                    } << i
                })
            },
        );
    }
    for (ty, at, length) in [
        (U32, 0, 32),
        (U32, 5, 9),
        (U32, 31, 4),
        (U32, 32, 1),
        (U64, 60, 9),
        (U64, 0, 64),
        (U64, 3, 0),
        (U64, 255, 255),
    ] {
        let width = ty.bits();
        check(
            &format!("bfi.b{width} {{d}}, {{a}}, {{b}}, {at}, {length};"),
            ty,
            &[ty, ty],
            |x| {
                (0..length).filter(|i| at + i < width).fold(x[1], |d, i| {
                    d & !(1 << (at + i)) | (x[0] >> i & 1) << (at + i)
                })
            },
        );
    }
    for (mode, clamps) in [("clamp", true), ("wrap", false)] {
        check(
            &format!("bmsk.{mode}.b32 {{d}}, {{a}}, {{b}};"),
            U32,
            &[U32, U32],
            |x| {
                let limit = |n: u64| if clamps { n.min(32) } else { n & 31 };
                ((1u64 << limit(x[1])) - 1) << limit(x[0])
            },
        );
        for ty in [U32, S32] {
            check(
                &format!("szext.{mode}.{} {{d}}, {{a}}, {{b}};", ty.name()),
                ty,
                &[ty, U32],
                |x| {
                    let n = if clamps { x[1].min(32) } else { x[1] & 31 };
                    let kept = x[0] & ((1 << n) - 1);
                    let negative = ty == S32 && n > 0 && kept >> (n - 1) == 1;
                    if negative { kept | u64::MAX << n } else { kept }
                },
            );
        }
    }
    check("fns.b32 {d}, {a}, {b}, {c};", U32, &[U32, U32, S32], |x| {
        let (mut at, offset) = (x[1] as i64, S32.int(x[2]));
        if offset == 0 {
            return if at < 32 && x[0] >> at & 1 == 1 {
                x[1]
            } else {
                u64::MAX
            };
        }
        let mut left = offset.abs();
        while (0..32).contains(&at) {
            left -= i128::from(x[0] >> at & 1);
            if left == 0 {
                return at as u64;
            }
            at += offset.signum() as i64;
        }
        u64::MAX
    });
}

/// For a selector, which of eight bytes go where.
type Picks = fn(u64) -> [u64; 4];

#[test]
fn bytes_and_truth_tables() {
    let table: [Named<Picks>; 7] = [
        ("", |c| [c & 15, c >> 4 & 15, c >> 8 & 15, c >> 12 & 15]),
        (".f4e", |c| [c & 3, (c & 3) + 1, (c & 3) + 2, (c & 3) + 3]),
        (".b4e", |c| {
            [
                c & 3,
                ((c & 3) + 7) % 8,
                ((c & 3) + 6) % 8,
                ((c & 3) + 5) % 8,
            ]
        }),
        (".rc8", |c| [c & 3; 4]),
        (".ecl", |c| [0, 1, 2, 3].map(|i| i.max(c & 3))),
        (".ecr", |c| [0, 1, 2, 3].map(|i| i.min(c & 3))),
        (".rc16", |c| [0, 1, 0, 1].map(|i| i + 2 * (c & 1))),
    ];
    for (mode, picks) in table {
        check(
            &format!("prmt.b32{mode} {{d}}, {{a}}, {{b}}, {{c}};"),
            U32,
            &[U32, U32, U32],
            |x| {
                let pool = x[1] << 32 | x[0];
                picks(x[2]).into_iter().rev().fold(0, |d, pick| {
                    let byte = pool >> (8 * (pick & 7)) & 0xff;
                    let byte = if pick & 8 == 0 {
                        byte
                    } else {
                        255 * (byte >> 7)
                    };
                    d << 8 | byte
                })
            },
        );
    }
    for immediate in [0x00u64, 0x1b, 0x80, 0x96, 0xca, 0xe8, 0xfe, 0xff] {
        check(
            &format!("lop3.b32 {{d}}, {{a}}, {{b}}, {{c}}, {immediate};"),
            U32,
            &[U32, U32, U32],
            |x| {
                (0..32).fold(0, |d, i| {
                    let row = (x[0] >> i & 1) << 2 | (x[1] >> i & 1) << 1 | (x[2] >> i & 1);
                    d | (immediate >> row & 1) << i
                })
            },
        );
    }
    let part = |x: u64, i: u64, bits: u64, signed: bool| {
        let value = x >> (bits * i) & ((1 << bits) - 1);
        value as i64
            - if signed && value >> (bits - 1) == 1 {
                1 << bits
            } else {
                0
            }
    };
    for (a, b) in [(U32, U32), (U32, S32), (S32, U32), (S32, S32)] {
        let names = format!("{}.{}", a.name(), b.name());
        let signs = (a == S32, b == S32);
        check(
            &format!("dp4a.{names} {{d}}, {{a}}, {{b}}, {{c}};"),
            U32,
            &[U32, U32, U32],
            |x| {
                (0..4).fold(x[2] as i64, |sum, i| {
                    sum + part(x[0], i, 8, signs.0) * part(x[1], i, 8, signs.1)
                }) as u64
            },
        );
        for (half, first) in [("lo", 0), ("hi", 2)] {
            check(
                &format!("dp2a.{half}.{names} {{d}}, {{a}}, {{b}}, {{c}};"),
                U32,
                &[U32, U32, U32],
                |x| {
                    (0..2).fold(x[2] as i64, |sum, i| {
                        sum + part(x[0], i, 16, signs.0) * part(x[1], i + first, 8, signs.1)
                    }) as u64
                },
            );
        }
    }
    for (op, count, bits) in [("vabsdiff4", 4, 8), ("vabsdiff2", 2, 16)] {
        let differences = |x: &[u64]| {
            (0..count)
                .map(|i| part(x[0], i, bits, false).abs_diff(part(x[1], i, bits, false)))
                .collect::<Vec<_>>()
        };
        check(
            &format!("{op}.u32.u32.u32 {{d}}, {{a}}, {{b}}, {{c}};"),
            U32,
            &[U32, U32, U32],
            |x| {
                differences(x)
                    .into_iter()
                    .rev()
                    .fold(0, |d, part| d << bits | part)
            },
        );
        check(
            &format!("{op}.u32.u32.u32.add {{d}}, {{a}}, {{b}}, {{c}};"),
            U32,
            &[U32, U32, U32],
            |x| x[2] + differences(x).iter().sum::<u64>(),
        );
    }
    let halves = |x: &[u64], signed, f: fn(i64, i64) -> i64| {
        (0..2).rev().fold(0, |d, i| {
            d << 16 | f(part(x[0], i, 16, signed), part(x[1], i, 16, signed)) as u64 & 0xffff
        })
    };
    check("add.u16x2 {d}, {a}, {b};", U32, &[U32, U32], |x| {
        halves(x, false, |a, b| a + b)
    });
    check("add.s16x2 {d}, {a}, {b};", U32, &[U32, U32], |x| {
        halves(x, true, |a, b| a + b)
    });
    check("min.u16x2 {d}, {a}, {b};", U32, &[U32, U32], |x| {
        halves(x, false, i64::min)
    });
    check("max.u16x2 {d}, {a}, {b};", U32, &[U32, U32], |x| {
        halves(x, false, i64::max)
    });
    check("min.s16x2 {d}, {a}, {b};", U32, &[U32, U32], |x| {
        halves(x, true, i64::min)
    });
    check("max.s16x2.relu {d}, {a}, {b};", U32, &[U32, U32], |x| {
        halves(x, true, |a, b| a.max(b).max(0))
    });
}
