//! Copies and their like: sectors, bytes, branches.
//!
//! Unless a test says otherwise, n = 950 elements in 4 blocks of 256 threads, 32 warps: 29 are
//! full, one has 22 threads at work, two have none. Each warp tests `i >= n` by a branch, which
//! splits the one with 22: 32 branches, of which 1 is divergent. 22 words of 4 bytes are 88 bytes,
//! which need 3 sectors of 32 bytes; a full warp's 128 bytes need 4. So n words in a row are 29 · 4
//! + 3 = 119 sectors, and 119 · 32 = 3808 bytes from DRAM. Buffers begin at the start of a sector.

use cuda_sim::{Class, LaunchProfile, Sectors};

use super::rig::{Arg, Counts, File, Rig, line, sectors};

pub const FILE: File = File {
    source: include_str!("../../kernels/traffic.cu"),
    ptx: include_str!("../../ptx/traffic.ptx"),
};

const N: usize = 950;

/// Warps that have work: 29 full, and one with 22 threads.
const BUSY: u64 = 30;

/// Words in a row.
fn row() -> Sectors {
    sectors(BUSY, 119, 3800)
}

/// A copy from and to rows of words, from which the others differ.
fn copied() -> Counts {
    Counts {
        loads: row(),
        stores: row(),
        branches: 32,
        divergent_branches: 1,
        read: 3808,
        written: 3808,
        ..Counts::default()
    }
}

/// Launches a kernel of this file on n elements.
fn launch(rig: &Rig, kernel: &str, mut args: Vec<Arg>, more: Option<Arg>) -> LaunchProfile {
    args.push(Arg::Int(N as i32));
    args.extend(more);
    rig.launch(&FILE, kernel, [(4, 1), (256, 1)], &args)
}

pub fn copy(rig: &Rig) -> LaunchProfile {
    let (a, b) = (rig.zeros::<f32>(N), rig.zeros::<f32>(N));
    launch(rig, "copy", vec![rig.buffer(&a), rig.buffer(&b)], None)
}

#[test]
fn a_coalesced_copy_moves_no_more_than_it_needs() {
    let profile = copy(&Rig::open());
    assert_eq!(Counts::new(&profile), copied());
    assert_eq!((profile.grid, profile.block), ([4, 1, 1], [256, 1, 1]));
    assert_eq!(profile.shared_bytes, 0);
    let load = line(&profile, &FILE, "// copy: load");
    assert_eq!(
        (load.global_loads, load.global_stores),
        (row(), sectors(0, 0, 0))
    );
    let store = line(&profile, &FILE, "// copy: store");
    assert_eq!(
        (store.global_loads, store.global_stores),
        (sectors(0, 0, 0), row())
    );
}

#[test]
fn instructions_of_a_copy_are_those_of_its_ptx() {
    let total = copy(&Rig::open()).total;
    // All 32 warps: 3 ld.param, mov, shl, mov, add, setp, bra, and ret behind the branch's target.
    // Those with work: cvta, mul.wide, add, ld.global, cvta, add, st.global. The warp that splits
    // meets itself again before `ret`, which it runs once.
    assert_eq!(total.warp_instructions, 32 * 10 + BUSY * 7);
    // All threads, and those with work. The branch is guarded: it counts the 74 threads without
    // work, which take it.
    assert_eq!(total.lane_instructions, 1024 * 9 + 74 + 950 * 7);
    let classes = [
        (Class::Parameter, 32 * 3),
        (Class::Move, 32 * 2),
        (Class::Integer, 32 * 3 + BUSY * 5), // shl, add, setp; cvta, mul.wide, add, cvta, add
        (Class::Control, 32 * 2),
        (Class::Global, BUSY * 2),
    ];
    for (class, warps) in classes {
        assert_eq!(total.of(class), warps, "{}", class.name());
    }
    assert_eq!(total.classes.iter().sum::<u64>(), total.warp_instructions);
}

#[test]
fn lines_add_up_to_the_total() {
    let profile = copy(&Rig::open());
    let mut sum = cuda_sim::Counters::default();
    for line in &profile.lines {
        sum += line.counters;
    }
    assert_eq!(sum, profile.total);
}

pub fn copy_offset(rig: &Rig) -> LaunchProfile {
    let (a, b) = (rig.zeros::<f32>(N + 1), rig.zeros::<f32>(N));
    launch(
        rig,
        "copy_offset",
        vec![rig.buffer(&a), rig.buffer(&b)],
        None,
    )
}

#[test]
fn a_copy_that_is_off_by_a_word_costs_a_sector_more_in_each_full_warp() {
    // A full warp's bytes 4..132 lie in sectors 0..=4. The last warp's bytes 4..92 lie in sectors
    // 0..=2. Neighbouring warps share a sector: bytes 4..3804 of the whole array are sectors
    // 0..=118.
    let expected = Counts {
        loads: sectors(BUSY, 29 * 5 + 3, 3800),
        ..copied()
    };
    assert_eq!(Counts::new(&copy_offset(&Rig::open())), expected);
}

pub fn copy_strided(rig: &Rig, stride: usize) -> LaunchProfile {
    let (a, b) = (rig.zeros::<f32>(N * stride), rig.zeros::<f32>(N));
    let args = vec![rig.buffer(&a), rig.buffer(&b)];
    launch(rig, "copy_strided", args, Some(Arg::Int(stride as i32)))
}

#[test]
fn a_strided_copy_moves_what_lies_between_too() {
    let rig = Rig::open();
    // Stride 2: a full warp spans 256 bytes, 8 sectors; the last one's words end at byte 21 · 8 + 4
    // = 172, in the sixth. Stride 8 and more: a sector for each word.
    for (stride, fetched) in [(1, 119), (2, 29 * 8 + 6), (8, 950), (32, 950)] {
        let profile = copy_strided(&rig, stride);
        let expected = Counts {
            loads: sectors(BUSY, fetched, 3800),
            read: 32 * fetched, // no sector is of use to two warps
            ..copied()
        };
        assert_eq!(Counts::new(&profile), expected, "stride {stride}");
        let load = line(&profile, &FILE, "// strided: load").global_loads;
        assert_eq!(load, expected.loads, "stride {stride}");
        assert_eq!(
            line(&profile, &FILE, "// strided: store").global_stores,
            row()
        );
        assert_eq!(load.per_request(), fetched as f64 / 30.0);
        assert_eq!(load.efficiency(), 3800.0 / (32 * fetched) as f64);
    }
}

pub fn copy_vectors(rig: &Rig) -> LaunchProfile {
    let (a, b) = (rig.zeros::<f32>(4 * 237), rig.zeros::<f32>(4 * 237));
    let args = [rig.buffer(&a), rig.buffer(&b), Arg::Int(237)];
    rig.launch(&FILE, "copy_vectors", [(1, 1), (256, 1)], &args)
}

#[test]
fn vectors_of_four_words_take_a_quarter_of_the_requests() {
    // 237 vectors of 16 bytes in one block of 8 warps: 7 full ones with 16 sectors each; 13 threads
    // with 208 bytes, 7 sectors.
    let moved = sectors(8, 7 * 16 + 7, 237 * 16);
    let expected = Counts {
        loads: moved,
        stores: moved,
        branches: 8,
        divergent_branches: 1,
        read: 119 * 32,
        written: 119 * 32,
        ..Counts::default()
    };
    assert_eq!(Counts::new(&copy_vectors(&Rig::open())), expected);
}

pub fn copy_bytes(rig: &Rig) -> LaunchProfile {
    let (a, b) = (rig.zeros::<u8>(N), rig.zeros::<u8>(N));
    launch(
        rig,
        "copy_bytes",
        vec![rig.buffer(&a), rig.buffer(&b)],
        None,
    )
}

#[test]
fn bytes_of_a_warp_share_one_sector() {
    let moved = sectors(BUSY, BUSY, 950);
    let expected = Counts {
        loads: moved,
        stores: moved,
        read: 30 * 32,
        written: 30 * 32,
        ..copied()
    };
    assert_eq!(Counts::new(&copy_bytes(&Rig::open())), expected);
}

pub fn broadcast(rig: &Rig) -> LaunchProfile {
    let (a, b) = (rig.zeros::<f32>(4), rig.zeros::<f32>(N));
    launch(rig, "broadcast", vec![rig.buffer(&a), rig.buffer(&b)], None)
}

#[test]
fn a_word_for_all_threads_is_one_sector_in_each_request() {
    let profile = broadcast(&Rig::open());
    let expected = Counts {
        loads: sectors(BUSY, BUSY, 3800),
        read: 32, // four words for four blocks, in one sector
        ..copied()
    };
    assert_eq!(Counts::new(&profile), expected);
    assert_eq!(profile.total.global_loads.efficiency(), 3800.0 / 960.0);
}

pub fn two_arrays(rig: &Rig) -> LaunchProfile {
    let (a, b, c) = (
        rig.zeros::<f32>(N),
        rig.zeros::<f32>(N),
        rig.zeros::<f32>(N),
    );
    let args = vec![rig.buffer(&a), rig.buffer(&b), rig.buffer(&c)];
    launch(rig, "two_arrays", args, None)
}

#[test]
fn a_request_may_go_to_two_arrays() {
    // A full warp: 64 bytes of each array, 2 + 2 sectors. The last one: 64 bytes and 24, 2 + 1. As
    // many as from one.
    assert_eq!(Counts::new(&two_arrays(&Rig::open())), copied());
}

pub fn axpy(rig: &Rig) -> LaunchProfile {
    let (x, y) = (rig.zeros::<f64>(N), rig.zeros::<f64>(N));
    let args = vec![Arg::Double(3.0), rig.buffer(&x), rig.buffer(&y)];
    launch(rig, "axpy", args, None)
}

#[test]
fn doubles_take_twice_the_sectors_and_count_as_flops_of_their_own() {
    // A full warp: 8 sectors; the last one: 176 bytes, 6. Two loads, one store; y is read and
    // written.
    let row = 29 * 8 + 6;
    let expected = Counts {
        loads: sectors(2 * BUSY, 2 * row, 2 * 7600),
        stores: sectors(BUSY, row, 7600),
        flops_f64: 2 * 950, // a fused multiply-add each
        read: 2 * 32 * row,
        written: 32 * row,
        ..copied()
    };
    assert_eq!(Counts::new(&axpy(&Rig::open())), expected);
}

pub fn uneven_loop(rig: &Rig) -> LaunchProfile {
    let out = rig.zeros::<f32>(N);
    rig.launch(
        &FILE,
        "uneven_loop",
        [(4, 1), (256, 1)],
        &[rig.buffer(&out), Arg::Float(0.5), Arg::Int(N as i32)],
    )
}

#[test]
fn a_warp_whose_loops_differ_in_length_splits_and_meets_again() {
    let profile = uneven_loop(&Rig::open());
    // Lengths 0 1 2 3 0 1 2 3 … Of each warp at work, threads with length 0 part at the branch
    // before the loop, those with length 1 and 2 at the branch behind their last round; at that of
    // the third round all who are left leave. 950 = 237 · 4 + 2 threads do 237 · (0 + 1 + 2 + 3) +
    // 0 + 1 rounds of one fused multiply-add.
    let rounds = 237 * 6 + 1;
    let expected = Counts {
        stores: row(), // all threads of a warp at once
        flops_f32: 2 * rounds,
        branches: 32 + BUSY * (1 + 3),
        divergent_branches: 1 + BUSY * 3,
        written: 3808,
        ..Counts::default()
    };
    assert_eq!(Counts::new(&profile), expected);
    assert_eq!(profile.total.of(Class::Fma32), BUSY * 3);
    let looped = line(&profile, &FILE, "// uneven: loop");
    assert_eq!(
        (looped.flops_f32, looped.divergent_branches),
        (2 * rounds, BUSY * 3)
    );
    let store = line(&profile, &FILE, "// uneven: store");
    assert_eq!((store.global_stores, store.branches), (row(), 0));
}

pub fn two_ways(rig: &Rig) -> LaunchProfile {
    let (even, odd) = (rig.zeros::<f32>(N / 2), rig.zeros::<f32>(N / 2));
    launch(
        rig,
        "two_ways",
        vec![rig.buffer(&even), rig.buffer(&odd)],
        None,
    )
}

#[test]
fn both_sides_of_a_branch_are_requests_of_their_own() {
    let profile = two_ways(&Rig::open());
    // Each side of a full warp: 16 words in a row, from a multiple of 64 bytes: 2 sectors. Of the
    // last warp, 11: 44 bytes, 2 sectors.
    let side = sectors(BUSY, 2 * BUSY, 475 * 4);
    let expected = Counts {
        stores: sectors(2 * BUSY, 4 * BUSY, 3800),
        // `i >= n`; then the two ways, and a jump at the end of each, of which one leads over the
        // other side.
        branches: 32 + BUSY * 3,
        divergent_branches: 1 + BUSY,
        written: 2 * 60 * 32, // 1900 bytes of each array
        ..Counts::default()
    };
    assert_eq!(Counts::new(&profile), expected);
    for text in ["// two ways: odd", "// two ways: even"] {
        assert_eq!(line(&profile, &FILE, text).global_stores, side, "{text}");
    }
}

pub fn local_array(rig: &Rig, index: impl Fn(i32) -> i32) -> LaunchProfile {
    let index: Vec<i32> = (0..N as i32).map(index).collect();
    let (index, out) = (rig.upload(&index), rig.zeros::<f32>(N));
    launch(
        rig,
        "local_array",
        vec![rig.buffer(&index), rig.buffer(&out)],
        None,
    )
}

#[test]
fn local_arrays_interleave_the_words_of_a_warp() {
    let rig = Rig::open();
    // Each of 8 rounds stores the same word of all threads, which lie side by side: like words in a
    // row. A load of the same word by all is no different. Where neighbours load different words,
    // each needs a sector.
    for (index, loaded) in [((|_| 3) as fn(i32) -> i32, 119), (|i| i % 8, 950)] {
        let profile = local_array(&rig, index);
        let expected = Counts {
            local: sectors(9 * BUSY, 8 * 119 + loaded, 9 * 3800),
            branches: 32 + BUSY * 8,
            ..copied()
        };
        assert_eq!(Counts::new(&profile), expected);
        let store = line(&profile, &FILE, "// local: store").local;
        assert_eq!(store, sectors(8 * BUSY, 8 * 119, 8 * 3800));
    }
}

/// 300 blocks of a copy take the time that is told from 3 of them, bit for bit: 300 blocks are not
/// spread evenly, 3 are few.
#[test]
fn the_time_of_a_larger_grid_follows_from_a_part_of_it() {
    let rig = Rig::open();
    let copy = |blocks: u32| {
        let n = 256 * blocks as usize;
        let (a, b) = (rig.zeros::<f32>(n), rig.zeros::<f32>(n));
        let args = [rig.buffer(&a), rig.buffer(&b), Arg::Int(n as i32)];
        rig.launch(&FILE, "copy", [(blocks, 1), (256, 1)], &args)
    };
    let (part, whole) = (copy(3), copy(300));
    assert_eq!(part.repeated(100), whole.time);
    assert_eq!(part.repeated(1), part.time);
    assert_ne!(part.repeated(99), whole.time);
}
