//! Asynchronous copies: sizes, zeros behind a smaller source, and what waits.

use cuda_sim::trace;

use super::rig::*;

/// Sixteen bytes of shared memory for each of 96 threads.
const TILE: &str = ".shared .align 16 .b8 tile[1536];\n";

/// `%r5`: the thread's place in the tile. `%d5`: its source in the first operand, aligned to
/// `bytes` bytes. Then a copy, a wait and a load of `{d}`, from byte `at` of the place.
fn body(copy: &str, bytes: u32, load: &str, at: u32) -> String {
    let fill = "st.shared.v4.u32 [%r5], {%r7, %r7, %r7, %r7};";
    format!(
        "mov.u32 %r5, tile;\nmov.u32 %r6, %tid.x;\nmad.lo.u32 %r5, %r6, 16, %r5;\nmov.u32 %r7, -1;\n{fill}\n\
         ld.param.u64 %d5, [p1];\nadd.s64 %d5, %d5, %d31;\nand.b64 %d5, %d5, -{bytes};\n\
         {copy}\ncp.async.wait_all;\n{load} {{d}}, [%r5+{at}];"
    )
}

/// Values, and source sizes up to `most`.
fn values(most: u64) -> Vec<Vec<u64>> {
    let n = 96 * 4;
    let value = |i: u64| (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 0x0101_0101_0101_0101;
    vec![
        (0..n).map(value).collect(),
        (0..n).map(|i| i % (most + 1)).collect(),
        (0..n).map(|i| i / 3 % 2).collect(),
    ]
}

/// The first `bytes` bytes of `value`, and zeros.
fn first(value: u64, bytes: u64) -> u64 {
    match bytes {
        0 => 0,
        bytes => value & (u64::MAX >> (64 - 8 * bytes.min(8))),
    }
}

#[test]
fn all_sizes_and_smaller_sources() {
    let all = values(4);
    let copy = "cp.async.ca.shared.global [%r5], [%d5], 4, {b};";
    let got = run_in(
        TILE,
        &body(copy, 4, "ld.shared.u32", 0),
        U32,
        &[U64, U32],
        &all[..2],
    );
    for (i, got) in got.into_iter().enumerate() {
        assert_eq!(got, first(all[0][i], all[1][i]), "thread {i}");
    }
    let all = values(8);
    let copy = "cp.async.ca.shared::cta.global.L2::128B [%r5], [%d5], 8, {b};";
    let got = run_in(
        TILE,
        &body(copy, 8, "ld.shared.u64", 0),
        U64,
        &[U64, U32],
        &all[..2],
    );
    for (i, got) in got.into_iter().enumerate() {
        assert_eq!(got, first(all[0][i], all[1][i]), "thread {i}");
    }
    let all = values(16);
    for (cache, at) in [("cg", 0), ("ca", 8)] {
        let copy = format!("cp.async.{cache}.shared.global [%r5], [%d5], 16, {{b}};");
        let body = body(&copy, 16, "ld.shared.u64", at);
        let got = run_in(TILE, &body, U64, &[U64, U32], &all[..2]);
        for (i, got) in got.into_iter().enumerate() {
            let value = all[0][(i & !1) + at as usize / 8];
            let bytes = all[1][i].saturating_sub(at.into());
            assert_eq!(got, first(value, bytes), "thread {i} at {at}");
        }
    }
}

#[test]
fn whole_and_ignored_sources() {
    let all = values(8);
    let copy = "cp.async.ca.shared.global [%r5], [%d5], 8;\ncp.async.commit_group;\ncp.async.wait_group 0;";
    let got = run_in(
        TILE,
        &body(copy, 8, "ld.shared.u64", 0),
        U64,
        &[U64],
        &all[..1],
    );
    assert_eq!(got, all[0]);
    // What lies behind a copy is left as it is.
    let got = run_in(
        TILE,
        &body(copy, 8, "ld.shared.u64", 8),
        U64,
        &[U64],
        &all[..1],
    );
    assert!(got.iter().all(|&x| x == u64::MAX));
    let copy = "cp.async.ca.shared.global [%r5], [%d5], 8, {c};";
    let body = body(copy, 8, "ld.shared.u64", 0);
    let got = run_in(TILE, &body, U64, &[U64, U32, Pred], &all);
    for (i, got) in got.into_iter().enumerate() {
        let wanted = if all[2][i] == 1 { 0 } else { all[0][i] };
        assert_eq!(got, wanted, "thread {i}");
    }
    // Only where the guard holds.
    let copy = "@%p3 cp.async.ca.shared.global [%r5], [%d5], 8;";
    let body = self::body(copy, 8, "ld.shared.u64", 0);
    let got = run_in(TILE, &body, U64, &[U64, U32, Pred], &all);
    for (i, got) in got.into_iter().enumerate() {
        let wanted = if all[2][i] == 1 { all[0][i] } else { u64::MAX };
        assert_eq!(got, wanted, "thread {i}");
    }
}

/// A source of which nothing is read may lie anywhere.
#[test]
fn a_source_of_no_bytes_is_not_looked_at() {
    let copy = "mov.u64 %d5, 0;\ncp.async.ca.shared.global [%r5], [%d5], 8, 0;";
    let got = run_in(
        TILE,
        &body(copy, 8, "ld.shared.u64", 0),
        U64,
        &[U64],
        &values(8)[..1],
    );
    assert!(got.iter().all(|&x| x == 0));
}

/// So its address may be unset.
#[test]
fn the_address_of_a_source_of_no_bytes_may_be_unset() {
    let mut all = values(8);
    all[1] = all[2].iter().map(|reads| 8 * reads).collect();
    let set = "@%p3 mov.u64 %d6, %d5;\nnot.pred %p4, %p3;";
    for source in ["8, {b}", "8, %p4"] {
        let copy = format!("{set}\ncp.async.ca.shared.global [%r5], [%d6], {source};");
        let body = body(&copy, 8, "ld.shared.u64", 0);
        let got = run_in(TILE, &body, U64, &[U64, U32, Pred], &all);
        for (i, got) in got.into_iter().enumerate() {
            assert_eq!(got, all[0][i] * all[2][i], "thread {i}");
        }
    }
}

/// As its own class; the read as a load of device memory, the write as a store to shared memory.
#[test]
fn counters_of_a_copy() {
    let copy = "cp.async.cg.shared.global [%r5], [%d5], 16;\ncp.async.commit_group;\ncp.async.wait_group 0;";
    let body = body(copy, 16, "ld.shared.u64", 0);
    let values = vec![(0..96).collect()];
    let (_, launches) = cuda_sim::profile(|| run_in(TILE, &body, U64, &[U64], &values));
    let total = launches[0].total;
    // Three warps: the copy, the commit, the wait, and the `wait_all` behind.
    assert_eq!(total.of(cuda_sim::Class::Copy), 3 * 4);
    let class_name = cuda_sim::Class::Copy.name();
    assert_eq!(class_name, "async copy");
    // The operand is loaded too: 256 bytes of a warp, 8 sectors, and the copies read the same, each
    // 16 bytes twice.
    let loads = total.global_loads;
    assert_eq!((loads.requests, loads.sectors), (3 * 2, 3 * 16));
    assert_eq!(loads.bytes, 96 * 8 + 96 * 16);
    // The tile is filled before, by the same stores.
    let stores = total.shared_stores;
    assert_eq!(
        (stores.requests, stores.wavefronts, stores.ideal),
        (3 * 2, 3 * 8, 3 * 8)
    );
    assert_eq!(stores.bytes, 2 * 96 * 16);
    // Four lines of 128 bytes in the operand's load and in the result's store; the copy passes by
    // the first-level cache.
    assert_eq!(total.cache_lines, 3 * (2 + 2));
}

/// Lanes of different sizes are one request. Where nothing is read, nothing is counted.
#[test]
fn counters_of_copies_of_different_sizes() {
    let sizes: Vec<u64> = (0..96).map(|i| i % 17).collect();
    let reading = sizes.iter().filter(|&&size| size > 0).count() as u64;
    for (cache, lines) in [("cg", 0), ("ca", 2)] {
        let copy = format!("cp.async.{cache}.shared.global [%r5], [%d5], 16, {{b}};");
        let body = body(&copy, 16, "ld.shared.u64", 0);
        let values = vec![(0..96).collect(), sizes.clone()];
        let run = || run_in(TILE, &body, U64, &[U64, U32], &values);
        let (_, launches) = cuda_sim::profile(run);
        let total = launches[0].total;
        // Per warp: two operands, which lie 8 bytes apart, and the copies, which read the first
        // one.
        let loads = total.global_loads;
        assert_eq!((loads.requests, loads.sectors), (3 * 3, 3 * (8 + 8 + 8)));
        assert_eq!(loads.bytes, 96 * (8 + 4) + reading * 16);
        assert_eq!(total.cache_lines, 3 * (2 + 2 + 2 + lines), "{cache}");
    }
}

#[test]
fn a_trace_has_the_bytes_that_are_read() {
    let all = values(16);
    let copy = "cp.async.cg.shared.global [%r5], [%d5], 16, {b};";
    let body = body(copy, 16, "ld.shared.u64", 0);
    let selection = trace::Selection::default();
    let run = || run_in(TILE, &body, U64, &[U64, U32], &all[..2]);
    let (_, traces) = trace::record(selection, run);
    let trace = traces[0].as_ref().unwrap();
    let mut accesses = trace.steps.iter().flat_map(|step| &step.accesses);
    let of_copy = |a: &&trace::Access| a.space == trace::Space::Global && a.bytes == 16;
    let access = accesses.find(of_copy).expect("the copy");
    // 8 sectors of 4 lanes each; lanes 0 and 17 read nothing.
    assert_eq!(access.sectors, 8);
    let lanes: Vec<u32> = access.lanes.iter().map(|lane| lane.lane).collect();
    assert_eq!(
        lanes,
        (0..32).filter(|lane| lane % 17 != 0).collect::<Vec<_>>()
    );
    for lane in &access.lanes {
        let i = lane.lane as usize;
        let bytes = all[1][i];
        let word = |w: u64| {
            let value = all[0][(i & !1) + w as usize / 2] >> (32 * (w % 2)) & 0xffff_ffff;
            first(value, (bytes - 4 * w).min(4))
        };
        let wanted: Vec<u64> = (0..bytes.div_ceil(4)).map(word).collect();
        assert_eq!(lane.values, wanted, "lane {i} of {bytes} bytes");
    }
    // Then it writes 16 bytes by each lane, which go on with zeros.
    let store = accesses.next().expect("the store of the copy");
    assert_eq!(
        (store.kind, store.space, store.instruction),
        (
            trace::AccessKind::Store,
            trace::Space::Shared,
            access.instruction + 1
        )
    );
    assert_eq!((store.bytes, store.lanes.len()), (16, 32));
    for (lane, of_lane) in (0..).zip(&store.lanes) {
        let read = access.lanes.iter().find(|read| read.lane == lane);
        let mut wanted = read.map_or(Vec::new(), |read| read.values.clone());
        wanted.resize(4, 0);
        assert_eq!((of_lane.lane, &of_lane.values), (lane, &wanted));
        assert_eq!(of_lane.offset, 16 * u64::from(lane));
    }
}
