use super::*;
use crate::settings::MmaMode;

/// All sets that this processor can run; the first is the portable one.
fn sets() -> Vec<&'static Handlers> {
    let best = handlers();
    let mut sets = vec![&portable::HANDLERS];
    #[cfg(target_arch = "x86_64")]
    if !std::ptr::eq(best, &portable::HANDLERS) {
        sets.push(&avx2::HANDLERS);
    }
    if !sets.iter().any(|set| std::ptr::eq(*set, best)) {
        sets.push(best);
    }
    sets
}

const A: R = R(0);
const B: R = R(2);
const C: R = R(4);
const D: R = R(6);
/// Some lanes, so that masked writes are tried too.
const MASK: u32 = 0xfff0_5a5f;

/// Small, large, special and plain values, by lane.
fn registers() -> Registers {
    let mut registers = Registers::default();
    registers.reset(8, 0, 6);
    for (i, r) in [A, B, C, D].into_iter().enumerate() {
        let values: [u64; 32] = std::array::from_fn(|lane| match lane {
            0 => 0,
            1 => u64::MAX,
            2 => 1 << 63,
            3 => 0x7f80_0000_7f80_0000,
            4 => 0x3f80_0000_bf80_0000,
            5 => lane as u64 + i as u64,
            _ => {
                (lane as u64 * 4 + i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
                    >> (lane % 3 * 20)
            }
        });
        registers.write(r, u32::MAX, &values);
    }
    registers.write_predicate(P(2), u32::MAX, 0x1357_9bdf);
    registers
}

fn run(handler: Compute, op: &Op) -> Registers {
    let mut registers = registers();
    for mask in [MASK, u32::MAX] {
        // SAFETY: only sets that this processor can run are tried, and forms that the operation
        // has.
        unsafe { handler(&mut registers, op, mask) };
    }
    registers
}

/// Runs an operation three times, one call for each or one for all.
fn thrice(set: &Handlers, form: Form, op: &Op, at_once: bool) -> Registers {
    let mut registers = registers();
    let alike = [Instruction::new(*op, None); 3];
    if at_once {
        // SAFETY: as in `run`.
        unsafe { (set.compute_alike[form as usize])(&mut registers, &alike, MASK) };
    } else {
        for Instruction { op, .. } in &alike {
            // SAFETY: as in `run`.
            unsafe { (set.compute[form as usize])(&mut registers, op, MASK) };
        }
    }
    registers
}

#[track_caller]
fn all_agree(op: Op) {
    let forms = op.forms();
    assert_eq!(forms.first().copied(), op.form());
    // Portably, by the function of the whole family.
    let general = *forms.last().expect("an operation on registers") as usize;
    let expected = run(portable::HANDLERS.compute[general], &op);
    let functions = sets()
        .into_iter()
        .flat_map(|set| forms.iter().map(|form| set.compute[*form as usize]));
    for (set, form) in sets()
        .iter()
        .flat_map(|set| forms.iter().map(move |f| (set, *f)))
    {
        let [one_by_one, at_once] = [false, true].map(|how| thrice(set, form, &op, how));
        assert!(one_by_one == at_once, "{op:?} as {form:?}");
    }
    for function in functions {
        let got = run(function, &op);
        for r in 0..8 {
            assert_eq!(
                got.read::<u32>(R(r)),
                expected.read::<u32>(R(r)),
                "plane {r} of {op:?}"
            );
        }
        for p in 0..6 {
            assert_eq!(
                got.predicate(P(p)),
                expected.predicate(P(p)),
                "predicate {p} of {op:?}"
            );
        }
    }
}

#[test]
fn integer_operations_agree_on_all_instruction_sets() {
    use IntBinary::*;
    for ty in [
        Type::U16,
        Type::S16,
        Type::U32,
        Type::S32,
        Type::U64,
        Type::S64,
    ] {
        for op in [
            Add, Sub, MulLow, MulHigh, Div, Rem, Min, Max, And, Or, Xor, ShiftLeft, ShiftRight,
        ] {
            all_agree(Op::IntBinary {
                op,
                ty,
                d: D,
                a: A,
                b: B,
            });
        }
        for op in [IntTernary::MadLow, IntTernary::MadHigh, IntTernary::Sad] {
            all_agree(Op::IntTernary {
                op,
                ty,
                d: D,
                a: A,
                b: B,
                c: C,
            });
        }
    }
    for ty in [Type::U16, Type::S16, Type::U32, Type::S32] {
        all_agree(Op::MadWide {
            ty,
            d: D,
            a: A,
            b: B,
            c: C,
        });
    }
}

#[test]
fn float_operations_agree_on_all_instruction_sets() {
    for ftz in [false, true] {
        let mode = FloatMode {
            ftz,
            ..FloatMode::PLAIN
        };
        for wide in [false, true] {
            for op in [
                FloatBinary::Add,
                FloatBinary::Sub,
                FloatBinary::Mul,
                FloatBinary::Div,
                FloatBinary::Min,
                FloatBinary::Max,
            ] {
                all_agree(Op::FloatBinary {
                    op,
                    wide,
                    mode,
                    d: D,
                    a: A,
                    b: B,
                });
            }
            all_agree(Op::Fma {
                wide,
                mode,
                d: D,
                a: A,
                b: B,
                c: C,
            });
        }
        all_agree(Op::FloatUnary {
            op: FloatUnary::Exp2,
            wide: false,
            mode,
            d: D,
            a: A,
        });
    }
}

#[test]
fn operations_on_16_bit_floats_agree_on_all_instruction_sets() {
    use HalfOp::*;
    let ops = [
        Neg, Abs, Exp2, Tanh, Add, Sub, Mul, Min, Max, MinNan, MaxNan, Fma,
    ];
    for (bf16, pair) in [(false, false), (false, true), (true, false), (true, true)] {
        for clamp in [Clamp::None, Clamp::Saturate, Clamp::Relu] {
            for op in ops {
                all_agree(Op::Half {
                    op,
                    mode: HalfMode {
                        bf16,
                        pair,
                        ftz: clamp == Clamp::Relu,
                        clamp,
                    },
                    d: D,
                    a: A,
                    b: B,
                    c: C,
                });
            }
        }
    }
    for to in [NarrowType::F16, NarrowType::Bf16] {
        all_agree(Op::ConvertPair {
            how: Narrowing {
                to,
                rounding: Rounding::Nearest,
                ties_away: false,
                relu: false,
                finite: false,
            },
            d: D,
            a: A,
            b: B,
        });
    }
}

#[test]
fn an_operation_has_the_size_of_a_cache_line() {
    assert_eq!(size_of::<Op>(), 64);
}

#[test]
fn matrix_products_agree_on_all_instruction_sets() {
    const BYTES: Factors = Factors::Int8 {
        a_signed: true,
        b_signed: false,
    };
    const FLOAT8: Factors = Factors::E4m3 { b: ByteType::E5m2 };
    // All in place, and not in order.
    for (factors, sums, shape) in [
        (Factors::F16, Sums::F32, ProductShape::M16N8K16),
        (Factors::F16, Sums::F32, ProductShape::M16N8K8),
        (Factors::F16, Sums::F16, ProductShape::M16N8K16),
        (Factors::Bf16, Sums::F32, ProductShape::M16N8K16),
        (Factors::Tf32, Sums::F32, ProductShape::M16N8K8),
        (Factors::Tf32, Sums::F32, ProductShape::M16N8K4),
        (FLOAT8, Sums::F32, ProductShape::M16N8K32),
        (FLOAT8, Sums::F16, ProductShape::M16N8K16),
        (BYTES, Sums::S32 { saturate: true }, ProductShape::M16N8K32),
        (BYTES, Sums::S32 { saturate: false }, ProductShape::M8N8K16),
    ] {
        all_multiply_alike(Op::MatrixProduct(MatrixProduct {
            factors,
            sums,
            shape,
            d: [12, 10, 13, 11].map(R),
            a: [0, 1, 2, 3].map(R),
            b: [4, 5].map(R),
            c: [10, 11, 12, 13].map(R),
        }));
    }
    all_multiply_alike(Op::MatrixProduct64(MatrixProduct64 {
        rows: 16,
        depth: 4,
        d: [12, 6, 10, 8].map(R),
        a: [0, 2].map(R),
        b: R(4),
        c: [6, 8, 10, 12].map(R),
    }));
    for (d_type, columns) in [(Sums::F16, Columns::Low), (Sums::F32, Columns::High)] {
        all_multiply_alike(Op::QuadPairProducts(QuadPairProducts {
            a_layout: Layout::Row,
            b_layout: Layout::Column,
            c_type: d_type,
            d_type,
            columns,
            d: [7, 6, 5, 4].map(R),
            a: [0, 1].map(R),
            b: [2, 3].map(R),
            c: [4, 5, 6, 7].map(R),
        }));
    }
}

#[track_caller]
fn all_multiply_alike(op: Op) {
    for mode in [MmaMode::Exact, MmaMode::Fast] {
        for seed in 0..8 {
            let results = sets().into_iter().map(|set| {
                let mut registers = fragments(seed);
                let mut unit = MatrixUnit::new(mode);
                // SAFETY: only sets that this processor can run are tried.
                unsafe { (set.product)(&mut unit, &mut registers, &op) };
                (0..PLANES).map(|r| *registers.read::<u32>(R(r))).collect()
            });
            let results: Vec<Vec<[u32; 32]>> = results.collect();
            for result in &results[1..] {
                assert_eq!(result, &results[0], "{op:?} {mode:?} {seed}");
            }
        }
    }
}

#[test]
fn products_of_warpgroups_agree_on_all_instruction_sets() {
    let e4m3 = Factors::E4m3 { b: ByteType::E5m2 };
    let bytes = Factors::Int8 {
        a_signed: true,
        b_signed: false,
    };
    let saturated = Sums::S32 { saturate: true };
    for (factors, sums) in [
        (Factors::F16, Sums::F32),
        (Factors::F16, Sums::F16),
        (Factors::Bf16, Sums::F32),
        (Factors::Tf32, Sums::F32),
        (e4m3, Sums::F32),
        (e4m3, Sums::F16),
        (bytes, saturated),
    ] {
        let (p, negate) = (P(1), false);
        let product = WarpgroupProduct {
            number: 0,
            factors,
            sums,
            columns: 16,
            a: LeftFactor::Registers([0, 1, 2, 3].map(R)),
            b: R(12),
            adds: Condition { p, negate },
            negated: [false; 2],
            transposed: [false; 2],
        };
        let d = [4, 5, 6, 7, 8, 9, 10, 11].map(R);
        for (mode, seed) in [MmaMode::Exact, MmaMode::Fast]
            .into_iter()
            .flat_map(|mode| (0..8).map(move |seed| (mode, seed)))
        {
            let results = sets().into_iter().map(|set| {
                let mut warps: [_; 4] = std::array::from_fn(|w| fragments(8 * w as u32 + seed));
                // The words of another warp are B: 16 columns of 32 bytes.
                let shared = fragments(40 + seed);
                let shared: Vec<u8> = (0..4)
                    .flat_map(|r| *shared.read::<u32>(R(r)))
                    .flat_map(u32::to_le_bytes)
                    .collect();
                let descriptor = 128u64 >> 4 << 16 | 256 >> 4 << 32;
                for warp in &mut warps {
                    warp.write(R(12), u32::MAX, &[descriptor; 32]);
                }
                let mut unit = MatrixUnit::new(mode);
                let read = unit.tiles.read(&product, &shared, warps.each_ref());
                read.expect("all in shared memory");
                let d = &d[..product.accumulators()];
                let mut each = warps.each_mut();
                // SAFETY: only sets that this processor can run are tried.
                unsafe { (set.multiply_warpgroup)(&mut unit, &mut each, &product, d, true) };
                let words = |warp: &Registers| (0..PLANES).map(|r| *warp.read(R(r))).collect();
                warps.iter().map(words).collect()
            });
            let results: Vec<Vec<Vec<[u32; 32]>>> = results.collect();
            for result in &results[1..] {
                assert_eq!(result, &results[0], "{product:?} {mode:?} {seed}");
            }
        }
    }
}

const PLANES: u32 = 14;

/// Halves near one, and, of odd seeds, any bits at all.
fn fragments(seed: u32) -> Registers {
    let mut registers = Registers::default();
    registers.reset(PLANES, 0, 2);
    let mut state = seed + 1;
    for r in 0..PLANES {
        let words: [u32; 32] = std::array::from_fn(|_| {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            match seed % 2 {
                0 => state & 0x83ff_83ff | 0x3800_3c00,
                _ => state,
            }
        });
        registers.write(R(r), u32::MAX, &words);
    }
    registers
}

#[test]
fn comparisons_and_selections_agree_on_all_instruction_sets() {
    use Comparison::*;
    for ty in [
        Type::U32,
        Type::S32,
        Type::U64,
        Type::S64,
        Type::F32,
        Type::F64,
    ] {
        for op in [Eq, Ne, Lt, Le, Gt, Ge, EqU, NeU, LtU, LeU, GtU, GeU] {
            for q in [None, Some(P(5))] {
                all_agree(Op::Compare {
                    op,
                    ty,
                    ftz: false,
                    d: P(4),
                    q,
                    a: A,
                    b: B,
                    with: None,
                });
            }
            all_agree(Op::CompareValue {
                op,
                ty,
                ftz: false,
                yes: u32::MAX,
                d: D,
                a: A,
                b: B,
                with: None,
            });
        }
    }
    for wide in [false, true] {
        let p = Condition {
            p: P(2),
            negate: true,
        };
        all_agree(Op::Select {
            wide,
            d: D,
            a: A,
            b: B,
            p,
        });
        all_agree(Op::Move { wide, d: D, a: A });
        for float in [false, true] {
            all_agree(Op::SelectSign {
                wide,
                float,
                ftz: false,
                d: D,
                a: A,
                b: B,
                c: C,
            });
        }
    }
    for space in [MemorySpace::Global, MemorySpace::Shared] {
        all_agree(Op::IsSpace {
            space,
            d: P(4),
            a: A,
        });
    }
}
