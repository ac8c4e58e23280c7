//! Flow of bytes through operations: the operand bytes that each byte of a result is made of.
//!
//! Half of a packed pair may be unset, and the other half in use. So what is known of registers
//! that may be used unset ([`super::unset_registers`]) is known of each byte, and it follows the
//! bytes: through moves and packing, truncation and extension, shifts and masks by constants.

use crate::program::op::{Bits, BytesFrom, IntBinary, IntTernary, IntUnary, Op, R};

/// Relation of the results of an operation to its operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Making {
    /// Each byte of a result is a byte of an operand, and no other value comes in.
    Moves,
    /// The results are made of the operands, and it does nothing else.
    Computes,
    /// It does more, or tests its operands.
    Uses,
}

/// One result of an operation that moves or computes: for each operand, and each byte of the
/// result, the bytes of the operand on which it depends, a bit each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Recipe {
    pub d: R,
    pub from: Vec<(R, [u8; 8])>,
}

/// The value of a register, if it is known.
pub(crate) type Known<'k> = &'k dyn Fn(R) -> Option<u64>;

/// Relation of the results of `op` to its operands, of which some are `known`.
pub(crate) fn making(op: &Op, known: Known<'_>) -> Making {
    match *op {
        Op::Move { .. }
        | Op::Select { .. }
        | Op::Shuffle { .. }
        | Op::Pack { .. }
        | Op::Unpack { .. } => Making::Moves,
        Op::Convert { how, .. } if how.is_bits() && how.to.bytes() <= how.from.bytes() => {
            Making::Moves
        }
        Op::Bits {
            op: Bits::Permute,
            a,
            b,
            c,
            ..
        } => match known(c) {
            Some(selector) if takes_bytes_of_variables(selector, [a, b], known) => Making::Moves,
            _ => Making::Computes,
        },
        Op::IntUnary { .. }
        | Op::Count { .. }
        | Op::FloatUnary { .. }
        | Op::Convert { .. }
        | Op::Cvta { .. }
        | Op::IntBinary { .. }
        | Op::FloatBinary { .. }
        | Op::Half { .. }
        | Op::Narrow { .. }
        | Op::ConvertPair { .. }
        | Op::ConvertBytes { .. }
        | Op::SignExtend { .. }
        | Op::IntTernary { .. }
        | Op::MadWide { .. }
        | Op::Bits { .. }
        | Op::BitExtract { .. }
        | Op::BitInsert { .. }
        | Op::Fma { .. } => Making::Computes,
        _ => Making::Uses,
    }
}

/// The results of an operation that moves or computes the same way in every lane; `None` for other
/// operations.
pub(crate) fn recipes(op: &Op, known: Known<'_>) -> Option<Vec<Recipe>> {
    let one = |d: R, from| Some(vec![Recipe { d, from }]);
    match *op {
        Op::Move { wide, d, a } => one(d, bits(if wide { 64 } else { 32 }, [a], |k| Some((0, k)))),
        Op::Pack {
            bits: part,
            count,
            d,
            parts,
        } => {
            let part = u32::from(part);
            let source = |k| Some(((k / part) as usize, k % part));
            one(d, bits(part * u32::from(count), parts, source))
        }
        Op::Unpack {
            bits: part,
            parts,
            a,
            ..
        } => {
            let part = u32::from(part);
            let moved = |(i, d): (usize, Option<R>)| {
                let d = d?;
                let from = bits(part, [a], |k| Some((0, part * i as u32 + k)));
                Some(Recipe { d, from })
            };
            Some(parts.into_iter().enumerate().filter_map(moved).collect())
        }
        Op::Convert {
            how, to_wide, d, a, ..
        } if how.is_bits() => {
            let (to, from) = (how.to.bytes() * 8, how.from.bytes() * 8);
            let source = |k: u32| {
                let k = extended(k, to, how.to.is_signed())?;
                Some((0, extended(k, from, how.from.is_signed())?))
            };
            one(d, bits(if to_wide { 64 } else { 32 }, [a], source))
        }
        Op::IntUnary { op, ty, d, a } => {
            let width = ty.bytes() * 8;
            let from = match op {
                IntUnary::Not => logic(width, [a; 3], 0x0f, known),
                IntUnary::Reverse => bits(width, [a], |k| Some((0, width - 1 - k))),
                IntUnary::Neg => carried(ty.bytes(), [a]),
                IntUnary::Abs | IntUnary::Cnot => whole([a]),
            };
            one(d, from)
        }
        Op::IntBinary { op, ty, d, a, b } => {
            let width = ty.bytes() * 8;
            let from = match (op, known(b).map(|n| n.min(64) as u32)) {
                (IntBinary::And, _) => logic(width, [a, b, b], 0xc0, known),
                (IntBinary::Or, _) => logic(width, [a, b, b], 0xfc, known),
                (IntBinary::Xor, _) => logic(width, [a, b, b], 0x3c, known),
                (IntBinary::ShiftLeft, Some(n)) => {
                    bits(width, [a], |k| Some((0, k.checked_sub(n)?)))
                }
                (IntBinary::ShiftRight, Some(n)) => bits(width, [a], |k| {
                    Some((0, extended(k + n, width, ty.is_signed())?))
                }),
                (IntBinary::Add | IntBinary::Sub | IntBinary::MulLow, _) => {
                    carried(ty.bytes(), [a, b])
                }
                _ => whole([a, b]),
            };
            one(d, from)
        }
        Op::IntTernary { op, ty, d, a, b, c } => {
            let from = match op {
                IntTernary::MadLow => carried(ty.bytes(), [a, b, c]),
                _ => whole([a, b, c]),
            };
            one(d, from)
        }
        Op::MadWide { ty, d, a, b, c } => one(d, carried(2 * ty.bytes(), [a, b, c])),
        Op::Bits { op, d, a, b, c } => {
            let count = known(c).map(|n| n as u32);
            // Of the 64 bits `{b, a}`, the 32 from `first` on.
            let funnel = |first: u32| {
                bits(32, [a, b], |k| {
                    Some(((first + k) as usize / 32, (first + k) % 32))
                })
            };
            let from = match (op, count) {
                (Bits::Lop3(table), _) => logic(32, [a, b, c], table, known),
                (Bits::Permute, Some(selector)) => bits(32, [a, b], |k| {
                    let nibble = selector >> (4 * (k / 8));
                    let bit = if nibble & 8 != 0 { 7 } else { k % 8 };
                    Some(((nibble as usize & 7) / 4, nibble % 4 * 8 + bit))
                }),
                (Bits::FunnelLeftWrap, Some(n)) => funnel(32 - n % 32),
                (Bits::FunnelLeftClamp, Some(n)) => funnel(32 - n.min(32)),
                (Bits::FunnelRightWrap, Some(n)) => funnel(n % 32),
                (Bits::FunnelRightClamp, Some(n)) => funnel(n.min(32)),
                _ => whole([a, b, c]),
            };
            one(d, from)
        }
        Op::BitExtract {
            ty,
            d,
            a,
            start,
            length,
        } => {
            let width = ty.bytes() * 8;
            let from = match (known(start), known(length)) {
                (Some(start), Some(length)) => {
                    let (start, length) = (start as u32 & 0xff, length as u32 & 0xff);
                    bits(width, [a], |k| {
                        let k = start + extended(k, length, ty.is_signed())?;
                        Some((0, extended(k, width, ty.is_signed())?))
                    })
                }
                _ => whole([a, start, length]),
            };
            one(d, from)
        }
        Op::BitInsert {
            wide,
            d,
            a,
            b,
            start,
            length,
        } => {
            let from = match (known(start), known(length)) {
                (Some(start), Some(length)) => {
                    let (start, length) = (start as u32 & 0xff, length as u32 & 0xff);
                    let field = start..start + length;
                    bits(if wide { 64 } else { 32 }, [a, b], |k| {
                        Some(if field.contains(&k) {
                            (0, k - start)
                        } else {
                            (1, k)
                        })
                    })
                }
                _ => whole([a, b, start, length]),
            };
            one(d, from)
        }
        Op::ConvertPair { d, a, b, .. } => {
            let half = |r, low: usize| {
                let mut bytes = [0; 8];
                bytes[low..low + 2].fill(0xff);
                (r, bytes)
            };
            one(d, vec![half(a, 2), half(b, 0)])
        }
        Op::ConvertBytes { how, d, a, b } => one(
            d,
            match how.from {
                BytesFrom::Bytes => vec![(a, [1, 1, 2, 2, 0, 0, 0, 0])],
                BytesFrom::Halves => vec![(a, [0b0011, 0b1100, 0, 0, 0, 0, 0, 0])],
                BytesFrom::Floats => vec![
                    (a, [0, 0xff, 0, 0, 0, 0, 0, 0]),
                    (b, [0xff, 0, 0, 0, 0, 0, 0, 0]),
                ],
            },
        ),
        Op::Half {
            mode, d, a, b, c, ..
        } if mode.pair => {
            let mut halves = [0; 8];
            halves[..4].copy_from_slice(&[0b0011, 0b0011, 0b1100, 0b1100]);
            one(d, [a, b, c].map(|r| (r, halves)).to_vec())
        }
        Op::Half { d, a, b, c, .. } => one(d, whole([a, b, c])),
        Op::Count { d, a, .. }
        | Op::Narrow { d, a, .. }
        | Op::FloatUnary { d, a, .. }
        | Op::Convert { d, a, .. }
        | Op::Cvta { d, a, .. } => one(d, whole([a])),
        Op::FloatBinary { d, a, b, .. } | Op::SignExtend { d, a, bits: b, .. } => {
            one(d, whole([a, b]))
        }
        Op::Fma { d, a, b, c, .. } => one(d, whole([a, b, c])),
        _ => None,
    }
}

/// True if how the results depend on the operands depends on the value of an operand.
pub(crate) fn depends_on_values(op: &Op) -> bool {
    matches!(
        op,
        Op::IntBinary {
            op: IntBinary::And | IntBinary::Or | IntBinary::ShiftLeft | IntBinary::ShiftRight,
            ..
        } | Op::Bits { .. }
            | Op::BitExtract { .. }
            | Op::BitInsert { .. }
    )
}

/// True if a `prmt` with this selector copies bytes, and none of a known value.
fn takes_bytes_of_variables(selector: u64, [a, b]: [R; 2], known: Known<'_>) -> bool {
    (0..4).all(|i| {
        let nibble = selector >> (4 * i) & 0xf;
        nibble & 8 == 0 && known(if nibble < 4 { a } else { b }).is_none()
    })
}

/// The bit of a field of `width` bits that is bit `k` of the extended value; `None` if it is zero.
fn extended(k: u32, width: u32, signed: bool) -> Option<u32> {
    if k < width {
        Some(k)
    } else if signed {
        width.checked_sub(1)
    } else {
        None
    }
}

/// Each of `width` bits is a bit of an operand, or zero.
fn bits<const N: usize>(
    width: u32,
    operands: [R; N],
    source: impl Fn(u32) -> Option<(usize, u32)>,
) -> Vec<(R, [u8; 8])> {
    let mut from = operands.map(|r| (r, [0; 8]));
    for k in 0..width {
        if let Some((operand, bit)) = source(k) {
            from[operand].1[k as usize / 8] |= 1 << (bit / 8);
        }
    }
    from.to_vec()
}

/// Each of `width` bits depends on the same bits of the operands, by a truth table as `lop3` has
/// it. What does not matter because another operand's bit is known does not count.
fn logic(width: u32, operands: [R; 3], table: u8, known: Known<'_>) -> Vec<(R, [u8; 8])> {
    let mut from = operands.map(|r| (r, [0; 8]));
    let fixed = operands.map(known);
    for k in 0..width {
        let fits = |values: u32| {
            (0..3).all(|i| {
                let bit = values >> (2 - i) & 1;
                fixed[i].is_none_or(|v| v >> k & 1 == u64::from(bit))
            })
        };
        for (i, (_, bytes)) in from.iter_mut().enumerate() {
            let flip = 4 >> i;
            let matters = |values: &u32| {
                fits(*values) && (table >> values ^ table >> (values ^ flip)) & 1 != 0
            };
            if (0..8).any(|values| matters(&values)) {
                bytes[k as usize / 8] |= 1 << (k / 8);
            }
        }
    }
    from.to_vec()
}

/// Sums and products: a byte of the result depends on the bytes of the operands up to its place.
fn carried<const N: usize>(bytes: u32, operands: [R; N]) -> Vec<(R, [u8; 8])> {
    let up_to = std::array::from_fn(|i| {
        if i < bytes as usize {
            u8::MAX >> (7 - i)
        } else {
            0
        }
    });
    operands.map(|r| (r, up_to)).to_vec()
}

/// Each byte of the result depends on all of the operands.
fn whole<const N: usize>(operands: [R; N]) -> Vec<(R, [u8; 8])> {
    operands.map(|r| (r, [u8::MAX; 8])).to_vec()
}
