//! `ldmatrix`: its addresses, counters and traces. Its layout is tested with the products.

use cuda_sim::trace;

use super::rig::*;

/// Loads from a tile of 32 rows of 16 bytes, whose words hold their indices. `load` has the address
/// of row `row(lane)` in `%r7` and as a generic address in `%d7`, and loads into `%r10` to `%r13`;
/// the result is `%r{result}`.
fn load(load: &str, result: usize, row: impl Fn(u64) -> u64) -> Vec<u64> {
    run_loads("", load, result, row)
}

/// [`load`], with instructions before it.
fn run_loads(before: &str, load: &str, result: usize, row: impl Fn(u64) -> u64) -> Vec<u64> {
    let words = ["", "+4", "+8", "+12"];
    let store = |at: &&str| format!("st.shared.u32 [%r7{at}], %r8;\nadd.u32 %r8, %r8, 1;\n");
    let fill: String = words.iter().map(store).collect();
    let body = format!(
        "mov.u32 %r5, tile;\nmov.u32 %r6, %tid.x;\nmad.lo.u32 %r7, %r6, 16, %r5;\nshl.b32 %r8, %r6, 2;\n{fill}\
         bar.sync 0;\nmad.lo.u32 %r7, {{a}}, 16, %r5;\ncvt.u64.u32 %d7, %r7;\ncvta.shared.u64 %d7, %d7;\n\
         {before}ldmatrix.sync.aligned.m8n8.{load};\nmov.u32 {{d}}, %r{result};"
    );
    let tile = ".shared .align 16 .b8 tile[512];\n";
    run_in(tile, &body, U32, &[U32], &[(0..32).map(row).collect()])
}

/// Lane 4g + t gets word t of row g of a matrix, whose rows the lanes from `first` on name.
fn words(first: u64, row: impl Fn(u64) -> u64) -> Vec<u64> {
    let word = |lane: u64| 4 * row(first + lane / 4) + lane % 4;
    (0..32).map(word).collect()
}

#[test]
fn generic_addresses_of_shared_memory() {
    let order = |lane: u64| (lane * 5 + 3) % 32;
    // Lanes that name no row have an address far away.
    let row = |lane: u64| if lane < 16 { order(lane) } else { 1 << 24 };
    let got = load("x2.b16 {%r10, %r11}, [%d7]", 11, row);
    assert_eq!(got, words(8, order));
    let got = load("x4.b16 {%r10, %r11, %r12, %r13}, [%d7]", 13, order);
    assert_eq!(got, words(24, order));
}

/// Lanes that name no row may have an unset address.
#[test]
fn addresses_that_are_not_used_may_be_unset() {
    for (count, names, result) in [(1, "%r10", 10), (2, "%r10, %r11", 11)] {
        let lanes = 8 * count;
        let first = format!("x{count}.shared.b16 {{{names}}}, [%r20]");
        let set = format!(
            "mov.u32 %r21, %laneid;\nsetp.lt.u32 %p1, %r21, {lanes};\n@%p1 mov.u32 %r20, %r7;\n"
        );
        let got = run_loads(&set, &first, result, |lane| lane);
        assert_eq!(got, words(lanes - 8, |lane| lane));
    }
}

/// Eight rows are served at a time, even if lanes of different groups name the same ones.
#[test]
fn rows_that_are_loaded_twice_take_as_long() {
    let x4 = "x4.shared.b16 {%r10, %r11, %r12, %r13}, [%r7]";
    let pairs = |lane: u64| lane / 2;
    let (got, launches) = cuda_sim::profile(|| load(x4, 12, pairs));
    assert_eq!(got, words(16, pairs));
    let loads = launches[0].total.shared_loads;
    assert_eq!((loads.requests, loads.wavefronts, loads.ideal), (1, 4, 4));
    let (_, launches) = cuda_sim::profile(|| load(x4, 10, |_| 7));
    let loads = launches[0].total.shared_loads;
    assert_eq!((loads.requests, loads.wavefronts, loads.ideal), (1, 4, 4));
}

#[test]
fn a_trace_has_the_rows() {
    let order = |lane: u64| 31 - lane;
    let row = |lane: u64| if lane < 16 { order(lane) } else { 1 };
    let x2 = "x2.shared.b16 {%r10, %r11}, [%r7]";
    let (_, traces) = trace::record(trace::Selection::default(), || load(x2, 10, row));
    let trace = traces[0].as_ref().unwrap();
    let mut accesses = trace.steps.iter().flat_map(|step| &step.accesses);
    let is_load = |a: &&trace::Access| a.kind == trace::AccessKind::Load;
    let in_shared = |a: &&trace::Access| a.space == trace::Space::Shared;
    let access = accesses.find(|a| is_load(a) && in_shared(a));
    let access = access.expect("the load of matrices");
    assert_eq!((access.elements, access.bytes), (4, 16));
    let passes: Vec<_> = access
        .passes
        .iter()
        .map(|p| (p.lanes, p.wavefronts))
        .collect();
    assert_eq!(passes, [(0xff, 1), (0xff00, 1)]);
    assert_eq!(access.lanes.len(), 16);
    for (lane, of_lane) in (0..).zip(&access.lanes) {
        let row = order(lane);
        assert_eq!(u64::from(of_lane.lane), lane);
        assert_eq!((of_lane.offset, of_lane.place), (16 * row, 4 * row % 32));
        assert_eq!(of_lane.values, (4 * row..4 * row + 4).collect::<Vec<_>>());
    }
}
