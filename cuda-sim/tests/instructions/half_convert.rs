//! Conversions of 16-bit floats and tf32 against exact numbers.

use std::cmp::Ordering;

use super::half::{Exact, TYPES, ZERO, all, infinity, is_nan, nearest, rectified, sizes, values};
use super::rig::*;

/// f32 values: near the middles of 16-bit and tf32 values, at their ends, and random ones.
fn singles() -> Vec<u64> {
    let mut all = F32.nasty();
    for ty in TYPES {
        for bits in values(ty) {
            let x = (ty.float(bits) as f32).to_bits();
            let next = (ty.float((bits & 0x7fff).min(infinity(ty) - 2) + 1) as f32).to_bits();
            let middle = (x & 0x7fff_ffff).midpoint(next) | x & 0x8000_0000;
            for near in [x, middle] {
                all.extend([near.wrapping_sub(1), near, near + 1].map(u64::from));
            }
        }
    }
    let mut state = 1u32;
    all.extend((0..4000).map(|_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        u64::from(state)
    }));
    all
}

/// Bits of the f32 `x` as `ty`: to nearest even, or toward zero.
fn rounded(ty: Ty, sizes: &[Exact], x: f64, to_zero: bool) -> u64 {
    let sign = u64::from(x.is_sign_negative()) << 15;
    if x.is_nan() {
        return 0x7fff;
    }
    if x.is_infinite() {
        return sign | infinity(ty);
    }
    let exact = Exact::new(x.abs());
    if to_zero {
        let below = sizes.partition_point(|s| s.compare(exact) != Ordering::Greater) as u64 - 1;
        return sign | below.min(infinity(ty) - 1);
    }
    match exact == ZERO {
        true => sign,
        false => sign | nearest(sizes, exact),
    }
}

#[test]
fn conversions_from_f32() {
    let all = singles();
    for ty in TYPES {
        let sizes = sizes(ty);
        for (rounding, to_zero) in [("rn", false), ("rz", true)] {
            for (relu, finite) in [(false, false), (true, false), (false, true), (true, true)] {
                let wanted = |x: u64| {
                    let bits = rounded(ty, &sizes, F32.float(x), to_zero);
                    let nan = is_nan(ty, bits);
                    let bits = match finite && !nan && bits & 0x7fff == infinity(ty) {
                        true => bits - 1,
                        false => bits,
                    };
                    if relu { rectified(ty, bits) } else { bits }
                };
                let relu = if relu { ".relu" } else { "" };
                let finite = if finite { ".satfinite" } else { "" };
                let name = format!("cvt.{rounding}{relu}{finite}.{}", ty.name());
                let body = format!("{name}.f32 {{d}}, {{a}};");
                for (got, &x) in run(&body, ty, &[F32], std::slice::from_ref(&all))
                    .iter()
                    .zip(&all)
                {
                    assert_eq!(*got, wanted(x), "{body} of {x:#x}");
                }
                let mut other = all.clone();
                other.rotate_left(7);
                let body = format!("{name}x2.f32 {{d}}, {{a}}, {{b}};");
                let got = run(&body, U32, &[F32; 2], &[all.clone(), other.clone()]);
                for ((got, &a), &b) in got.iter().zip(&all).zip(&other) {
                    assert_eq!(
                        *got,
                        wanted(a) << 16 | wanted(b),
                        "{body} of {a:#x}, {b:#x}"
                    );
                }
            }
        }
    }
}

#[test]
fn conversions_to_tf32() {
    let all = singles();
    let value = |bits: u32| f64::from(f32::from_bits(bits));
    for rounding in ["rna", "rn", "rz"] {
        for finite in ["", ".satfinite"] {
            let body = format!("cvt.{rounding}{finite}.tf32.f32 {{d}}, {{a}};");
            for (got, &x) in run(&body, U32, &[F32], std::slice::from_ref(&all))
                .iter()
                .zip(&all)
            {
                let (got, x) = (*got as u32, x as u32);
                let exact = value(x);
                if exact.is_nan() {
                    // That of `.rna` is an RTX 3060's.
                    let nan = match rounding {
                        "rna" => x >> 13 << 13,
                        _ => 0x7fff_ffff,
                    };
                    assert_eq!(got, nan, "{body} of {x:#x}");
                    continue;
                }
                // The two tf32 values around it, as f64, where the one behind the largest is no
                // infinity.
                let (sign, size) = (x & 0x8000_0000, x & 0x7fff_ffff);
                let below = size >> 13 << 13;
                let above = below + 0x2000;
                let beyond = if above == 0x7f80_0000 {
                    2f64.powi(128)
                } else {
                    value(above)
                };
                let middle = (value(below) + beyond) / 2.0;
                let even = if below >> 13 & 1 == 0 { below } else { above };
                let nearest = match value(size).partial_cmp(&middle) {
                    _ if exact.is_infinite() => below,
                    Some(Ordering::Less) => below,
                    Some(Ordering::Equal) if rounding == "rn" => even,
                    _ => above,
                };
                let wanted = if rounding == "rz" { below } else { nearest };
                let wanted = match finite {
                    "" => wanted,
                    _ => wanted.min(0x7f7f_e000),
                };
                assert_eq!(got, sign | wanted, "{body} of {x:#x}: {got:#x}");
            }
        }
    }
    let body = "cvt.rn.relu.tf32.f32 {d}, {a};";
    let got = run(
        body,
        U32,
        &[F32],
        &[vec![0xbf80_0000, 0x3f80_1001, 0xffc0_0000]],
    );
    assert_eq!(got, [0, 0x3f80_2000, 0x7fff_ffff]);
}

#[test]
fn conversions_from_all_values() {
    for ty in TYPES {
        let name = ty.name();
        let body = format!("cvt.f32.{name} {{d}}, {{a}};");
        for (bits, got) in run(&body, F32, &[ty], &[all()]).into_iter().enumerate() {
            let wanted = ty.float(bits as u64) as f32;
            let got = f32::from_bits(got as u32);
            let same = got.to_bits() == wanted.to_bits() || (got.is_nan() && wanted.is_nan());
            assert!(same, "{body} of {bits:#x}: {got}, not {wanted}");
        }
        // There and back.
        let body = format!("cvt.f32.{name} %r5, {{a}};\ncvt.rn.{name}.f32 {{d}}, %r5;");
        for (bits, got) in run(&body, ty, &[ty], &[all()]).into_iter().enumerate() {
            let bits = bits as u64;
            let wanted = if is_nan(ty, bits) { 0x7fff } else { bits };
            assert_eq!(got, wanted, "{body}");
        }
    }
}
