//! Products in all types, shapes and layouts.

use cuda_sim::{Class, MmaMode, Phase};

use super::definition::element;
use super::rig::{Case, K_MAJOR, Matrices, Tile};
use crate::instructions::matrix::random;

/// Types of factors and sums.
const TYPES: [(&str, &str, &str); 17] = [
    ("f16", "f16", "f32"),
    ("f16", "f16", "f16"),
    ("bf16", "bf16", "f32"),
    ("tf32", "tf32", "f32"),
    ("e4m3", "e4m3", "f32"),
    ("e4m3", "e5m2", "f32"),
    ("e5m2", "e4m3", "f32"),
    ("e5m2", "e5m2", "f32"),
    ("e4m3", "e4m3", "f16"),
    ("e4m3", "e5m2", "f16"),
    ("e5m2", "e4m3", "f16"),
    ("e5m2", "e5m2", "f16"),
    ("s8", "s8", "s32"),
    ("s8", "u8", "s32"),
    ("u8", "s8", "s32"),
    ("u8", "u8", "s32"),
    ("bf16", "bf16", "f32"),
];

#[track_caller]
fn check(case: &Case, matrices: &Matrices) {
    for mode in [MmaMode::Exact, MmaMode::Fast] {
        cuda_sim::set_mma(Some(mode));
        let d = case.run(matrices);
        cuda_sim::set_mma(None);
        for (at, &got) in d.iter().enumerate() {
            let (row, column) = (at / case.columns, at % case.columns);
            let wanted = element(case, mode, matrices, row, column);
            assert_eq!(
                got, wanted,
                "{mode:?} {case:?} at {row}, {column}: {got:#x}, not {wanted:#x}"
            );
        }
    }
}

/// Bits of a finite factor near one, of either sign, with all digits.
fn near_one(ty: &str, x: u32) -> u32 {
    match ty {
        "f16" => x & 0x83ff | (0x3800 + (x >> 16 & 3) * 0x400),
        "bf16" => x & 0x807f | (0x3f00 + (x >> 16 & 3) * 0x80),
        "tf32" => x & 0x807f_ffff | 0x3f00_0000,
        "e4m3" => x & 0x87 | (0x30 + (x >> 16 & 1) * 8),
        "e5m2" => x & 0x83 | (0x38 + (x >> 16 & 1) * 4),
        _ => x >> 24,
    }
}

fn near_one_sum(ty: &str, x: u32) -> u32 {
    match ty {
        "f16" => x & 0x83ff | (0x3800 + (x >> 16 & 7) * 0x400),
        "f32" => x & 0x807f_ffff | (0x3f80_0000 + (x >> 23 & 3) * 0x80_0000),
        _ => x,
    }
}

fn random_matrices(case: &Case, seed: u32) -> Matrices {
    let (mut of_factors, mut of_sums) = (random(seed), random(seed + 100));
    let mut at = 0;
    let left = 64 * case.depth();
    case.matrices(
        || {
            at += 1;
            let ty = if at <= left { case.a } else { case.b };
            near_one(ty, of_factors())
        },
        || near_one_sum(case.sums, of_sums()),
    )
}

#[test]
fn all_types_multiply_from_registers_and_from_shared_memory() {
    for (i, (a, b, sums)) in TYPES.into_iter().enumerate() {
        for fragments in [false, true] {
            for columns in [8, 24, 64] {
                let case = Case {
                    fragments,
                    ..Case::new(a, b, sums, columns)
                };
                check(&case, &random_matrices(&case, i as u32 + 1));
            }
        }
    }
}

#[test]
fn all_widths_multiply() {
    for columns in (8..=256).step_by(8) {
        let types = TYPES[columns / 8 % 12];
        let case = Case {
            fragments: columns % 16 == 0,
            ..Case::new(types.0, types.1, types.2, columns)
        };
        check(&case, &random_matrices(&case, columns as u32));
    }
    for columns in [
        8, 16, 24, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224, 240, 256,
    ] {
        let case = Case::new("s8", "u8", "s32", columns);
        check(&case, &random_matrices(&case, columns as u32));
    }
}

/// All tiles with elements of so many bits.
fn tiles(bits: usize) -> Vec<Tile> {
    let mut tiles = Vec::new();
    for transposed in [false, true] {
        for width in [1, 2, 4, 8] {
            for leading_is_larger in [false, true] {
                for shift in 0..width / 2 {
                    let tile = Tile {
                        transposed,
                        width,
                        shift: 2 * shift,
                        leading_is_larger,
                    };
                    let is_possible = !transposed || (bits == 16 && shift == 0);
                    if is_possible {
                        tiles.push(tile);
                    }
                }
                if width == 1 && (!transposed || bits == 16) {
                    tiles.push(Tile {
                        transposed,
                        width,
                        shift: 0,
                        leading_is_larger,
                    });
                }
            }
        }
    }
    tiles
}

#[test]
fn tiles_lie_in_every_layout() {
    for (a, b, sums) in [TYPES[0], TYPES[3], TYPES[4], TYPES[12]] {
        let case = Case::new(a, b, sums, 64);
        let all = tiles(case.bits());
        for (i, tile) in all.iter().enumerate() {
            let other = all[(i * 7 + 3) % all.len()];
            for tiles in [[*tile, K_MAJOR], [K_MAJOR, *tile], [*tile, other]] {
                let case = Case { tiles, ..case };
                check(&case, &random_matrices(&case, i as u32 + 1));
            }
        }
    }
}

/// A tile of B with rows of 128 bytes is wider than 64 columns if it is transposed.
#[test]
fn wide_transposed_tiles() {
    for columns in [72, 128, 200, 256] {
        for width in [1, 2, 4, 8] {
            for leading_is_larger in [false, true] {
                let tile = Tile {
                    transposed: true,
                    width,
                    shift: 0,
                    leading_is_larger,
                };
                let case = Case {
                    tiles: [K_MAJOR, tile],
                    ..Case::new("bf16", "bf16", "f32", columns)
                };
                check(&case, &random_matrices(&case, columns as u32));
            }
        }
    }
}

#[test]
fn factors_change_their_signs() {
    for (a, b, sums) in &TYPES[..12] {
        for negated in [[true, false], [false, true], [true, true]] {
            for fragments in [false, true] {
                let case = Case {
                    negated,
                    fragments,
                    ..Case::new(a, b, sums, 16)
                };
                check(&case, &random_matrices(&case, 5));
            }
        }
    }
}

#[test]
fn without_scale_d_the_sums_start_with_zero() {
    for (a, b, sums) in TYPES {
        let case = Case {
            adds: false,
            ..Case::new(a, b, sums, 16)
        };
        let mut matrices = random_matrices(&case, 9);
        // What is there must not count.
        matrices
            .c
            .fill(if sums == "f16" { 0x7e00 } else { 0x7fc0_0000 });
        check(&case, &matrices);
    }
}

#[test]
fn integers_wrap_or_saturate() {
    for (a, b, sums) in &TYPES[12..16] {
        for saturate in [false, true] {
            let case = Case {
                saturate,
                ..Case::new(a, b, sums, 32)
            };
            let (mut factor, mut sum) = (random(3), random(4));
            let limits = [i32::MAX, i32::MIN, i32::MAX - 9000, i32::MIN + 9000];
            let matrices = case.matrices(
                || match factor() {
                    x if x % 4 == 0 => [0x80, 0xff, 0x7f, 0][(x >> 8) as usize % 4],
                    x => x >> 24,
                },
                || limits[(sum() >> 8) as usize % 4] as u32,
            );
            check(&case, &matrices);
        }
    }
}

#[test]
fn special_values_subnormals_and_overflow() {
    for (a, b, sums) in &TYPES[..12] {
        let case = Case::new(a, b, sums, 32);
        for rare in [8, 64] {
            let (mut factor, mut sum) = (random(rare + 1), random(rare + 2));
            let bits = case.bits() as u32;
            let specials: &[u32] = match *a {
                "f16" => &[
                    0x7c00, 0xfc00, 0x7e01, 0x7c01, 0x7bff, 0xfbff, 1, 0x83ff, 0, 0x8000,
                ],
                "bf16" => &[
                    0x7f80, 0xff80, 0x7fc1, 0x7f81, 0x7f7f, 0xff7f, 1, 0x807f, 0, 0x8000,
                ],
                "tf32" => &[
                    0x7f80_0000,
                    0xff80_0000,
                    0x7fc0_0001,
                    0x7f80_0001,
                    0x7f7f_ffff,
                    0xff7f_ffff,
                    1,
                    0x807f_ffff,
                    0x2000,
                    0x8000_0000,
                ],
                _ => &[0x7c, 0xfc, 0x7f, 0xfd, 0x7b, 0x7e, 1, 0x87, 0, 0x80],
            };
            let matrices = case.matrices(
                || match factor() {
                    x if x % rare == 0 => specials[(x >> 8) as usize % specials.len()],
                    // Any finite size: sums of f16 overflow, and terms are far apart.
                    x if bits == 32 => x & 0xbfff_ffff,
                    x if bits == 16 => x >> 16 & 0xbfff,
                    x => x >> 24 & 0xbf,
                },
                || match (*sums, sum()) {
                    ("f16", x) if x % 8 == 0 => {
                        [0x7bff, 0xfc00, 0x7e01, 0x8001, 0xfbff][(x >> 8) as usize % 5]
                    }
                    ("f16", x) => x >> 16 & 0xfbff,
                    (_, x) if x % 8 == 0 => {
                        [0x7f7f_ffff, 0xff80_0000, 0x7f80_0001, 0x8000_0001][(x >> 8) as usize % 4]
                    }
                    (_, x) => x & 0xbfff_ffff,
                },
            );
            check(&case, &matrices);
        }
        // All zero, of either sign, and the largest sums.
        let (largest, minus_zero) = match *sums {
            "f16" => (0x7bff, 0x8000),
            _ => (0x7f7f_ffff, 0x8000_0000),
        };
        check(&case, &case.matrices(|| 0, || 0));
        check(&case, &case.matrices(|| 0, || minus_zero));
        let big = match *a {
            "f16" => 0x7bff,
            "bf16" => 0x7f7f,
            "tf32" => 0x7f7f_e000,
            _ => 0x7b,
        };
        check(&case, &case.matrices(|| big, || largest));
    }
}

#[test]
fn operations_are_counted_by_type_and_timed_by_their_rates() {
    for (a, b, sums, per_f16) in [
        ("f16", "f16", "f32", [1, 1]),
        ("tf32", "tf32", "f32", [2, 1]),
        ("e4m3", "e5m2", "f32", [1, 2]),
        ("s8", "s8", "s32", [1, 2]),
    ] {
        let case = Case::new(a, b, sums, 32);
        case.run(&random_matrices(&case, 1));
        let launch = cuda_sim::last_launch().unwrap();
        let total = launch.total;
        let operations = 2 * 64 * 32 * case.depth() as u64;
        let (floats, integers) = match sums {
            "s32" => (0, operations),
            _ => (operations, 0),
        };
        assert_eq!(total.flops_tensor, floats, "{case:?}");
        assert_eq!(total.flops_wgmma, floats, "{case:?}");
        assert_eq!(total.ops_tensor_int8, integers, "{case:?}");
        let of_tf32 = if a == "tf32" { operations } else { 0 };
        assert_eq!(total.flops_tensor_tf32, of_tf32, "{case:?}");
        // One instruction of each warp, and three around it.
        assert_eq!(total.of(Class::Tensor), 4, "{case:?}");
        assert_eq!(total.of(Class::Warp), 12, "{case:?}");
        let figures = launch.phases.iter();
        let [times, over] = per_f16;
        let timed: u64 = figures.clone().map(|phase| phase.wgmma).sum();
        assert_eq!(timed, operations * times / over, "{case:?}");
        let others = |phase: &Phase| phase.tensor + phase.tensor_tf32 + phase.tensor_int8;
        assert_eq!(figures.map(others).sum::<u64>(), 0, "{case:?}");
    }
}
