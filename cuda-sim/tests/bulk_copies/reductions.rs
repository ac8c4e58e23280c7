//! `cp.reduce.async.bulk`: each operation and type, in device memory, in tensors and within shared
//! memory, against plain arithmetic.

use cuda_sim::FaultKind;

use super::rig::*;

const N: usize = 32;

/// Values with which sums wrap, and minima depend on the sign.
fn words(seed: u64) -> Vec<u64> {
    let bytes = noise(seed, 8 * N);
    let (words, _) = bytes.as_chunks::<8>();
    let mut words: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
    words[..4].copy_from_slice(&[0, u64::MAX, 1 << 63, 1 << 31]);
    words
}

/// The result of an operation on elements of `bits` bits.
fn expected(op: &str, signed: bool, bits: u32, old: u64, b: u64) -> u64 {
    let mask = u64::MAX >> (64 - bits);
    let key = |x: u64| match signed {
        true => i128::from((x << (64 - bits)) as i64 >> (64 - bits)),
        false => i128::from(x),
    };
    let (old, b) = (old & mask, b & mask);
    let result = match op {
        "add" => old.wrapping_add(b),
        "min" if key(b) < key(old) => b,
        "max" if key(b) > key(old) => b,
        "min" | "max" => old,
        "and" => old & b,
        "or" => old | b,
        "xor" => old ^ b,
        "inc" if old >= b => 0,
        "inc" => old + 1,
        "dec" if old == 0 || old > b => b,
        "dec" => old - 1,
        _ => unreachable!("{op}"),
    };
    result & mask
}

fn bytes_of(words: &[u64], bits: u32) -> Vec<u8> {
    let bytes = bits as usize / 8;
    words
        .iter()
        .flat_map(|w| w.to_le_bytes()[..bytes].to_vec())
        .collect()
}

/// Runs a copy that combines the tile with the data, and returns the data.
fn combined(copy: &str, map: impl Fn(u64) -> Map, data: &[u8], tile: &[u8]) -> Vec<u8> {
    let stream = stream();
    let data = stream.clone_htod(data).unwrap();
    let out = stream.clone_htod(tile).unwrap();
    let body = format!(
        "{}{copy}\ncp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\n",
        undump(tile.len())
    );
    let run = Run {
        map: map(address(&data, &stream)),
        data: address(&data, &stream),
        out: address(&out, &stream),
        first: &[0],
        ..Run::one(&body)
    };
    assert_eq!(run.launch(), Ok(()), "{copy}");
    stream.clone_dtoh(&data).unwrap()
}

fn no_map(_: u64) -> Map {
    Map(cudarc::driver::sys::CUtensorMap { opaque: [0; 16] })
}

const INTEGERS: [(&str, &[&str]); 8] = [
    ("add", &["u32", "s32", "u64"]),
    ("min", &["u32", "s32", "u64", "s64"]),
    ("max", &["u32", "s32", "u64", "s64"]),
    ("inc", &["u32"]),
    ("dec", &["u32"]),
    ("and", &["b32", "b64"]),
    ("or", &["b32", "b64"]),
    ("xor", &["b32", "b64"]),
];

fn bits_of(ty: &str) -> u32 {
    ty[1..].parse().unwrap()
}

#[test]
fn integers_in_device_memory() {
    let (old, new) = (words(1), words(2).into_iter().rev().collect::<Vec<_>>());
    for (op, types) in INTEGERS {
        for ty in types {
            let bits = bits_of(ty);
            let [data, tile] = [&old, &new].map(|words| bytes_of(words, bits));
            let copy = format!(
                "cp.reduce.async.bulk.global.shared::cta.bulk_group.{op}.{ty} [%d2], [%r1], {};",
                tile.len()
            );
            let got = combined(&copy, no_map, &data, &tile);
            let signed = ty.starts_with('s');
            let results = old
                .iter()
                .zip(&new)
                .map(|(&a, &b)| expected(op, signed, bits, a, b));
            let wanted = bytes_of(&results.collect::<Vec<_>>(), bits);
            assert!(got == wanted, "{op} {ty}");
        }
    }
}

#[test]
fn integers_in_shared_memory() {
    let stream = stream();
    let (old, new) = (words(1), words(2).into_iter().rev().collect::<Vec<_>>());
    for (op, types) in INTEGERS {
        for ty in types
            .iter()
            .filter(|ty| **ty == "u64" && op == "add" || bits_of(ty) == 32)
        {
            let bits = bits_of(ty);
            let [target, source] = [&old, &new].map(|words| bytes_of(words, bits));
            let size = source.len();
            let both = [target, source].concat();
            let out = stream.clone_htod(&both).unwrap();
            let body = format!(
                "{}mbarrier.init.shared.b64 [%r0], 1;\nfence.mbarrier_init.release.cluster;\nmbarrier.arrive.expect_tx.shared.b64 _, [%r0], {size};\n\
                 add.u32 %r21, %r1, {size};\n\
                 cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.{op}.{ty} \
                 [%r1], [%r21], {size}, [%r0];\n{WAIT}{}",
                undump(2 * size),
                dump(size)
            );
            let run = Run {
                out: address(&out, &stream),
                ..Run::one(&body)
            };
            assert_eq!(run.launch(), Ok(()), "{op} {ty}");
            let signed = ty.starts_with('s');
            let results = old
                .iter()
                .zip(&new)
                .map(|(&a, &b)| expected(op, signed, bits, a, b));
            let wanted = bytes_of(&results.collect::<Vec<_>>(), bits);
            assert!(
                stream.clone_dtoh(&out).unwrap()[..size] == wanted,
                "{op} {ty}"
            );
        }
    }
}

/// Halves that are exact in either 16-bit type, and their bits.
fn halves() -> Vec<(f32, f32)> {
    (0..32)
        .map(|i| (i as f32 - 16.0, 3.5 - (i * 5 % 13) as f32))
        .collect()
}

fn half_bits(ty: &str, x: f32) -> u16 {
    if ty == "bf16" {
        return (x.to_bits() >> 16) as u16;
    }
    // Normal numbers with few bits.
    let bits = x.to_bits();
    match bits & 0x7fff_ffff {
        0 => (bits >> 16) as u16,
        size => ((bits >> 16) & 0x8000) as u16 | ((size - (112 << 23)) >> 13) as u16,
    }
}

#[test]
fn floats_in_device_memory() {
    for (op, of) in [
        ("add", (|a, b| a + b) as fn(f32, f32) -> f32),
        ("min", f32::min),
        ("max", f32::max),
    ] {
        for ty in ["f16", "bf16"] {
            let side = |i: usize, x: (f32, f32)| half_bits(ty, if i == 0 { x.0 } else { x.1 });
            let all = |of: &dyn Fn((f32, f32)) -> u16| -> Vec<u8> {
                halves()
                    .into_iter()
                    .flat_map(|x| of(x).to_le_bytes())
                    .collect()
            };
            let form = if op == "add" { "add.noftz" } else { op };
            let copy = format!(
                "cp.reduce.async.bulk.global.shared::cta.bulk_group.{form}.{ty} [%d2], [%r1], 64;"
            );
            let got = combined(&copy, no_map, &all(&|x| side(0, x)), &all(&|x| side(1, x)));
            let wanted = all(&|(a, b)| half_bits(ty, of(a, b)));
            assert!(got == wanted, "{op} {ty}");
        }
    }
    let wide = |of: &dyn Fn((f32, f32)) -> f64| -> Vec<u8> {
        halves()
            .into_iter()
            .flat_map(|x| of(x).to_le_bytes())
            .collect()
    };
    let copy = "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f64 [%d2], [%r1], 256;";
    let got = combined(copy, no_map, &wide(&|x| x.0.into()), &wide(&|x| x.1.into()));
    assert!(got == wide(&|(a, b)| f64::from(a) + f64::from(b)));
    let single = |of: &dyn Fn((f32, f32)) -> f32| -> Vec<u8> {
        halves()
            .into_iter()
            .flat_map(|x| of(x).to_le_bytes())
            .collect()
    };
    let copy = "cp.reduce.async.bulk.global.shared::cta.bulk_group.L2::cache_hint.add.f32 [%d2], [%r1], 128, %d3;";
    let got = combined(copy, no_map, &single(&|x| x.0), &single(&|x| x.1));
    assert!(got == single(&|(a, b)| a + b));
}

/// The tensor map has the type; what lies outside of the tensor is dropped.
#[test]
fn tensors() {
    let (old, new) = (words(1), words(2).into_iter().rev().collect::<Vec<_>>());
    for (element, signed, bits) in [(2, false, 32), (3, true, 32), (4, false, 64), (5, true, 64)] {
        for (op, _) in INTEGERS {
            if bits == 64 && matches!(op, "inc" | "dec") || signed && matches!(op, "inc" | "dec") {
                continue;
            }
            let tensor = Tensor::dense(ELEMENTS[element], &[N as u64 - 3], &[N as u32]);
            let [data, tile] = [&old, &new].map(|words| bytes_of(words, bits));
            let copy = format!(
                "cp.reduce.async.bulk.tensor.1d.global.shared::cta.{op}.tile.bulk_group [%d1, {{%r2}}], [%r1];"
            );
            let got = combined(&copy, |address| tensor.encode(address), &data, &tile);
            let results = old.iter().zip(&new).enumerate();
            let results = results.map(|(i, (&a, &b))| match i < N - 3 {
                true => expected(op, signed, bits, a, b),
                false => a,
            });
            let wanted = bytes_of(&results.collect::<Vec<_>>(), bits);
            assert!(got == wanted, "{op} {element}");
        }
    }
    for (element, ty) in [(6, "f16"), (9, "bf16")] {
        let tensor = Tensor::dense(ELEMENTS[element], &[32], &[32]);
        let all = |of: &dyn Fn((f32, f32)) -> f32| -> Vec<u8> {
            halves()
                .into_iter()
                .flat_map(|x| half_bits(ty, of(x)).to_le_bytes())
                .collect()
        };
        let copy = "cp.reduce.async.bulk.tensor.1d.global.shared::cta.add.bulk_group.L2::cache_hint \
                    [%d1, {%r2}], [%r1], %d3;";
        let map = |address| tensor.encode(address);
        let got = combined(copy, map, &all(&|x| x.0), &all(&|x| x.1));
        assert!(got == all(&|(a, b)| a + b), "{ty}");
    }
}

/// Blocks that add to one place, as atomic operations do.
#[test]
fn blocks_add_to_one_place() {
    let stream = stream();
    let data = stream.alloc_zeros::<u32>(8).unwrap();
    let body = "mov.u32 %r20, %ctaid.x;\nst.shared.v4.u32 [%r1], {%r20, 1, 2, %r20};\nst.shared.v4.u32 [%r1+16], {1, 1, 1, 1};\nfence.proxy.async;\n\
        cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%d2], [%r1], 32;\n\
        cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\n";
    let run = Run {
        data: address(&data, &stream),
        blocks: 64,
        ..Run::one(body)
    };
    assert_eq!(run.launch(), Ok(()));
    let sum = 64 * 63 / 2;
    assert_eq!(
        stream.clone_dtoh(&data).unwrap(),
        [sum, 64, 128, sum, 64, 64, 64, 64]
    );
}

#[test]
fn pairs_that_ptx_does_not_have_are_unknown() {
    for form in [
        "global.shared::cta.bulk_group.add.s64 [%d2], [%r1], 16;",
        "global.shared::cta.bulk_group.add.f16 [%d2], [%r1], 16;",
        "global.shared::cta.bulk_group.min.noftz.f16 [%d2], [%r1], 16;",
        "global.shared::cta.bulk_group.add.b32 [%d2], [%r1], 16;",
        "global.shared::cta.bulk_group.and.u32 [%d2], [%r1], 16;",
        "global.shared::cta.bulk_group.min.f32 [%d2], [%r1], 16;",
        "global.shared::cta.bulk_group.inc.s32 [%d2], [%r1], 16;",
        "global.shared::cta.bulk_group.add.u16 [%d2], [%r1], 16;",
        "global.shared::cta.bulk_group.exch.b32 [%d2], [%r1], 16;",
        "shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.f32 [%r1], [%r1], 16, [%r0];",
        "shared::cluster.shared::cta.mbarrier::complete_tx::bytes.min.u64 [%r1], [%r1], 16, [%r0];",
        "shared::cluster.shared::cta.mbarrier::complete_tx::bytes.and.b64 [%r1], [%r1], 16, [%r0];",
    ] {
        let form = format!("cp.reduce.async.bulk.{form}");
        let kind = Run::one(&form).launch().unwrap_err();
        let is_unknown = matches!(*kind, FaultKind::UnknownInstruction { .. });
        assert!(is_unknown, "{form}: {kind:?}");
    }
}
