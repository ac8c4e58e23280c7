//! Kernels with shared memory: bank conflicts, barriers, FLOPs.

use cuda_sim::{Class, LaunchProfile};

use super::rig::{Arg, Counts, File, Rig, line, sectors, smooth, wavefronts};

pub const FILE: File = File {
    source: include_str!("../../kernels/tiles.cu"),
    ptx: include_str!("../../ptx/tiles.ptx"),
};

const GEMM: File = File {
    source: include_str!("../../kernels/tiled_gemm.cu"),
    ptx: include_str!("../../ptx/tiled_gemm.ptx"),
};

const SOFTMAX: File = File {
    source: include_str!("../../kernels/row_softmax.cu"),
    ptx: include_str!("../../ptx/row_softmax.ptx"),
};

// Transposes: 40 rows of 50 words. In x, a block's 32 columns are full once, and 18 the second
// time: the matrix is loaded by 40 · 2 requests. Rows are 200 bytes apart, so that they begin 0, 8,
// 16, 24, 0, … bytes into a sector. A full request's 128 bytes are 4 sectors in the first of these
// cases, 5 in the others; 72 bytes are 3 in all of them. Four rows take 4 + 5 + 5 + 5 + 4 · 3 = 31
// sectors, 40 rows 310. The whole matrix is 8000 bytes, 250 sectors.
const ROWS: u64 = 40;
const COLS: u64 = 50;

pub fn transpose(rig: &Rig, kernel: &str) -> LaunchProfile {
    let size = (ROWS * COLS) as usize;
    let (a, b) = (rig.zeros::<f32>(size), rig.zeros::<f32>(size));
    let sizes = [Arg::Int(ROWS as i32), Arg::Int(COLS as i32)];
    let [rows, cols] = sizes;
    let args = [rig.buffer(&a), rig.buffer(&b), rows, cols];
    let blocks = if kernel == "transpose_naive" { 5 } else { 2 };
    rig.launch(&FILE, kernel, [(2, blocks), (32, 8)], &args)
}

#[test]
fn a_naive_transpose_stores_a_sector_for_each_word() {
    let expected = Counts {
        loads: sectors(80, 310, 8000),
        stores: sectors(80, 2000, 8000), // neighbours are 160 bytes apart
        branches: 80,
        divergent_branches: 40, // the 18 columns, in each row
        read: 8000,
        written: 8000,
        ..Counts::default()
    };
    let profile = transpose(&Rig::open(), "transpose_naive");
    assert_eq!(Counts::new(&profile), expected);
}

#[test]
fn a_transpose_by_tiles_is_coalesced_and_conflicts_in_one_bank() {
    let rig = Rig::open();
    // The result has 50 rows of 40 words, 160 bytes: 32 of them in one request, 4 sectors, and 8 in
    // another, 1 sector. A request loads a column of the tile: without padding, 32 or 8 words of
    // one bank.
    let requests = 50 * 2;
    for (kernel, passes, bytes) in [
        ("transpose_tile", 50 * (32 + 8), 32 * 32 * 4),
        ("transpose_padded", requests, 32 * 33 * 4),
    ] {
        let profile = transpose(&rig, kernel);
        let counted = Counts::new(&profile);
        let expected = Counts {
            loads: sectors(80, 310, 8000),
            stores: sectors(requests, 50 * 5, 8000),
            shared_stores: smooth(80, 8000),
            shared_loads: wavefronts([requests, passes, requests], 8000),
            barriers: 4 * 8, // 4 blocks of 8 warps
            // 18 of 32 columns, in 40 rows; 8 of 32, in 50.
            divergent_branches: 40 + 50,
            branches: counted.branches, // as many as the compiler has made of the loops
            read: 8000,
            written: 8000,
            ..Counts::default()
        };
        assert_eq!(counted, expected, "{kernel}");
        assert_eq!(profile.shared_bytes, bytes, "{kernel}");
        let degree = passes as f64 / requests as f64;
        assert_eq!(profile.total.shared_loads.conflict_degree(), degree);
    }
}

pub fn naive_gemm(rig: &Rig) -> LaunchProfile {
    let a = rig.zeros::<f32>(20 * 8);
    let b = rig.zeros::<f32>(8 * 24);
    let c = rig.zeros::<f32>(20 * 24);
    let [m, n, k] = [20, 24, 8].map(Arg::Int);
    let args = [rig.buffer(&a), rig.buffer(&b), rig.buffer(&c), m, n, k];
    rig.launch(&FILE, "naive_gemm", [(2, 2), (16, 16)], &args)
}

#[test]
fn a_naive_gemm_loads_both_operands_for_each_product() {
    let profile = naive_gemm(&Rig::open());
    // [20, 8] · [8, 24]. A warp is 2 rows of 16 columns. Of 8 warps in a block, all have rows in
    // the upper blocks, and 2 in the lower ones: 10 warps have the first 16 columns, and 10 the
    // other 8. These 10 split.
    let warps = 20;
    let threads = 20 * 24;
    // a: a row of 8 words is a sector, and a warp has two rows. b: 16 words are 2 sectors, 8 are 1,
    // for both rows.
    let a = sectors(8 * warps, 8 * warps * 2, 8 * threads * 4);
    let b = sectors(8 * warps, 8 * (10 * 2 + 10), 8 * threads * 4);
    let counted = Counts::new(&profile);
    let expected = Counts {
        loads: sectors(
            a.requests + b.requests,
            a.sectors + b.sectors,
            a.bytes + b.bytes,
        ),
        // Rows are 96 bytes, 3 sectors: 2 for the first 16 columns, 1 for the others; two rows in
        // each warp.
        stores: sectors(warps, 10 * 4 + 10 * 2, threads * 4),
        flops_f32: 2 * 20 * 24 * 8,
        branches: counted.branches, // as many as the compiler has made of the loop
        divergent_branches: 10,
        read: (20 * 8 + 8 * 24) * 4,
        written: threads * 4,
        ..Counts::default()
    };
    assert_eq!(counted, expected);
    assert_eq!(line(&profile, &FILE, "// gemm: a").global_loads, a);
    assert_eq!(line(&profile, &FILE, "// gemm: b").global_loads, b);
    let fma = line(&profile, &FILE, "// gemm: fma");
    assert_eq!(fma.flops_f32, expected.flops_f32);
    assert_eq!(fma.of(Class::Fma32), 8 * warps);
}

pub fn tiled_gemm(rig: &Rig, n: usize) -> LaunchProfile {
    let zeros = || rig.zeros::<f32>(n * n);
    let (a, b, c) = (zeros(), zeros(), zeros());
    let n = n as u32;
    let args = [
        rig.buffer(&a),
        rig.buffer(&b),
        rig.buffer(&c),
        Arg::Int(n as i32),
    ];
    rig.launch(&GEMM, "tiled_gemm", [(n / 16, n / 16), (16, 16)], &args)
}

#[test]
fn a_tiled_gemm_loads_each_operand_once_for_each_tile() {
    let n = 48;
    let profile = tiled_gemm(&Rig::open(), n as usize);
    // A warp is 2 rows of 16 words; rows are 192 bytes, whole sectors: 2 + 2 sectors for each
    // access to global memory.
    let (tiles, warps) = (n / 16, n * n / 32);
    let loads = 2 * tiles * warps; // of a and b, for each tile along k
    // In a tile, the two rows are 32 words in a row. For each of 16 products, a thread loads a word
    // of each tile: of a's, one for each of the warp's rows, 16 banks apart; of b's, 16 words, the
    // same for both rows.
    let operands = 2 * 16 * tiles * warps;
    let expected = Counts {
        loads: sectors(loads, 4 * loads, 128 * loads),
        stores: sectors(warps, 4 * warps, 128 * warps),
        shared_stores: smooth(loads, 128 * loads),
        shared_loads: smooth(operands, 128 * operands),
        flops_f32: 2 * n * n * n,
        barriers: 2 * tiles * warps,
        branches: (1 + tiles) * warps, // `n < 1`, and one behind each tile
        read: 2 * n * n * 4,
        written: n * n * 4,
        ..Counts::default()
    };
    assert_eq!(Counts::new(&profile), expected);
    assert_eq!(profile.shared_bytes, 2 * 16 * 16 * 4);
    let products = line(&profile, &GEMM, "for (int k = 0; k < TILE; ++k)");
    assert_eq!(products.shared_loads, expected.shared_loads);
    assert_eq!(products.flops_f32, expected.flops_f32);
    assert_eq!(
        line(&profile, &GEMM, "so that the tiles are whole").barriers,
        tiles * warps
    );
}

pub fn row_softmax(rig: &Rig) -> LaunchProfile {
    let (x, y) = (rig.zeros::<f32>(3 * 200), rig.zeros::<f32>(3 * 200));
    let args = [rig.buffer(&x), rig.buffer(&y), Arg::Int(200)];
    rig.launch(&SOFTMAX, "row_softmax", [(3, 1), (128, 1)], &args)
}

#[test]
fn a_row_softmax_reads_its_row_three_times() {
    let profile = row_softmax(&Rig::open());
    // 3 rows of 200 words, 800 bytes, 25 sectors, in blocks of 128 threads: all 4 warps take a
    // word, then 3 of them the other 72, the last one with 8 threads: 7 requests in a pass.
    let rows = 3;
    let (requests, words) = (7, 200);
    // For each word: a maximum; subtraction, multiplication, exp2, addition; the same again, with a
    // multiplication by the reciprocal for the addition. For each thread: 5 maxima and 5 sums in
    // the warp, 4 and 4 across warps, and the reciprocal.
    let flops = words * (1 + 4 + 4) + 128 * (5 + 5 + 4 + 4 + 1);
    // A pass of 4 warps: three branches around its loops, and one behind each of the 7 rounds. The
    // warp with 8 threads splits. Twice, the first thread of each of 4 warps stores what the warp
    // found.
    let (branches, splits) = (3 * (4 * 3 + 7) + 8, 3 + 8);
    let expected = Counts {
        loads: sectors(rows * 3 * requests, rows * 3 * 25, rows * 3 * 800),
        stores: sectors(rows * requests, rows * 25, rows * 800),
        shared_stores: smooth(rows * 8, rows * 8 * 4),
        // Twice 4 words, which all threads of a warp load together.
        shared_loads: smooth(rows * 4 * 8, rows * 128 * 8 * 4),
        flops_f32: rows * flops,
        barriers: rows * 3 * 4,
        branches: rows * branches,
        divergent_branches: rows * splits,
        read: rows * 800,
        written: rows * 800,
        ..Counts::default()
    };
    assert_eq!(Counts::new(&profile), expected);
    assert_eq!(profile.total.of(Class::Warp), rows * 4 * 10);
    // exp2 in two passes, and the reciprocal.
    assert_eq!(profile.total.of(Class::Special), rows * (2 * requests + 4));
}

pub fn bank_stride(rig: &Rig, stride: i32) -> LaunchProfile {
    let out = rig.zeros::<f32>(32);
    let args = [rig.buffer(&out), Arg::Int(stride)];
    rig.launch(&FILE, "bank_stride", [(1, 1), (32, 1)], &args)
}

#[test]
fn words_of_a_stride_meet_in_banks_as_often_as_the_divisor_they_share_with_32() {
    let rig = Rig::open();
    // Lane l is in bank l · stride mod 32: gcd(stride, 32) lanes in each bank that is used.
    let conflicts = [
        (1, 1),
        (2, 2),
        (3, 1),
        (4, 4),
        (6, 2),
        (16, 16),
        (31, 1),
        (32, 32),
        (33, 1),
    ];
    for (stride, passes) in conflicts {
        let shared = wavefronts([1, passes, 1], 128);
        let expected = Counts {
            stores: sectors(1, 4, 128),
            shared_loads: shared,
            shared_stores: shared,
            written: 128,
            ..Counts::default()
        };
        assert_eq!(
            Counts::new(&bank_stride(&rig, stride)),
            expected,
            "stride {stride}"
        );
    }
}

pub fn bank_vectors(rig: &Rig, words: u32, stride: i32) -> LaunchProfile {
    let out = rig.zeros::<f32>(32 * words as usize);
    let kernel = if words == 2 {
        "bank_pairs"
    } else {
        "bank_vectors"
    };
    let args = [rig.buffer(&out), Arg::Int(stride)];
    rig.launch(&FILE, kernel, [(1, 1), (32, 1)], &args)
}

#[test]
fn vectors_are_served_as_many_lanes_at_a_time_as_fill_the_banks() {
    let rig = Rig::open();
    // 16 neighbours with two words have all 32 banks, as have 8 with four. With gaps as wide as the
    // vectors they have half the banks, each twice.
    for (words, stride, passes, ideal) in [(2, 1, 2, 2), (2, 2, 4, 2), (4, 1, 4, 4), (4, 2, 8, 4)] {
        let bytes = 32 * 4 * u64::from(words);
        let shared = wavefronts([1, passes, ideal], bytes);
        let expected = Counts {
            stores: sectors(1, bytes / 32, bytes),
            shared_loads: shared,
            shared_stores: shared,
            written: bytes,
            ..Counts::default()
        };
        let counted = Counts::new(&bank_vectors(&rig, words, stride));
        assert_eq!(counted, expected, "{words} words, stride {stride}");
    }
}

pub fn bank_partners(rig: &Rig, keep: i32) -> LaunchProfile {
    let (pairs, vectors) = (rig.zeros::<f32>(64), rig.zeros::<f32>(128));
    let args = [rig.buffer(&pairs), rig.buffer(&vectors), Arg::Int(keep)];
    rig.launch(&FILE, "bank_partners", [(1, 1), (32, 1)], &args)
}

#[test]
fn loads_of_vectors_are_served_together_where_lanes_pair_up() {
    let rig = Rig::open();
    // Wavefronts of loads of 8 bytes and of 16, and how many would do.
    for (keep, of_8, of_16) in [
        // No lane has a partner: 16 lanes have 16 pairs in a row, 8 lanes 8 vectors.
        (31, (2, 2), (4, 4)),
        // l and l ^ 1 have one address, so 32 and 16 lanes are served together. Of 16 places 0, 2,
        // … the pairs are 16 bytes apart, so a bank has words of two; of 8 such places the vectors
        // are 32 bytes apart, two again.
        (30, (2, 1), (4, 2)),
        // l and l ^ 2. Places 0, 1, 4, 5, …: the other half of the banks, each twice.
        (29, (2, 1), (4, 2)),
        // l and l ^ 4 are no partners. 16 lanes have places 0 to 3 and 8 to 11: words 0 to 7 and 16
        // to 23. 8 lanes have four vectors in a row.
        (27, (2, 2), (4, 4)),
        // All lanes of a half warp have one place. Pairs 0 and 16 are 128 bytes apart, in the same
        // banks.
        (16, (2, 1), (2, 2)),
        // All lanes have one place.
        (0, (1, 1), (2, 2)),
    ] {
        let profile = bank_partners(&rig, keep);
        for (text, (passes, ideal), bytes) in [
            ("// partners: two words", of_8, 256),
            ("// partners: four words", of_16, 512),
        ] {
            let expected = wavefronts([1, passes, ideal], bytes);
            assert_eq!(
                line(&profile, &FILE, text).shared_loads,
                expected,
                "keep {keep}, {text}"
            );
        }
    }
}

pub fn two_spaces(rig: &Rig) -> LaunchProfile {
    let (a, b) = (rig.zeros::<f32>(32), rig.zeros::<f32>(32));
    rig.launch(
        &FILE,
        "two_spaces",
        [(1, 1), (32, 1)],
        &[rig.buffer(&a), rig.buffer(&b)],
    )
}

#[test]
fn a_generic_load_counts_where_its_addresses_lie() {
    let expected = Counts {
        loads: sectors(1, 2, 64), // the upper half of the warp: bytes 64..128
        shared_loads: smooth(1, 64),
        shared_stores: smooth(1, 128),
        stores: sectors(1, 4, 128),
        read: 64,
        written: 128,
        ..Counts::default()
    };
    assert_eq!(Counts::new(&two_spaces(&Rig::open())), expected);
}

pub fn histogram(rig: &Rig, value: impl Fn(u32) -> u32) -> LaunchProfile {
    let values: Vec<u32> = (0..950).map(value).collect();
    let (values, bins) = (rig.upload(&values), rig.zeros::<u32>(64));
    let args = [rig.buffer(&values), rig.buffer(&bins), Arg::Int(950)];
    rig.launch(&FILE, "histogram", [(4, 1), (256, 1)], &args)
}

#[test]
fn a_histogram_counts_conflicts_of_its_atomics() {
    let rig = Rig::open();
    // 950 values in 4 blocks of 8 warps: 29 warps are full, one has 22 threads, two have none. 119
    // sectors, as in a copy. 64 bins, 2 words in each bank.
    let busy = 30;
    // Values i: 32 neighbours, one for each bank. Values 2i: 16 banks, each twice, also where only
    // 22 threads count. All the same: one word, which is no conflict.
    let histograms = [
        (histogram(&rig, |i| i), 1),
        (histogram(&rig, |i| 2 * i), 2),
        (histogram(&rig, |_| 7), 1),
    ];
    for (profile, passes) in histograms {
        let expected = Counts {
            loads: sectors(busy, 119, 3800),
            // 2 warps of each block empty the bins, load them, and add them to 256 bytes of global
            // memory.
            shared_stores: smooth(4 * 2, 4 * 256),
            shared_loads: smooth(4 * 2, 4 * 256),
            atomics: sectors(4 * 2, 4 * 8, 4 * 256),
            shared_atomics: wavefronts([busy, passes * busy, busy], 3800),
            barriers: 2 * 32,
            branches: 3 * 32,
            divergent_branches: 1,
            read: 3808 + 256, // an atomic operation reads and writes
            written: 256,
            ..Counts::default()
        };
        assert_eq!(Counts::new(&profile), expected);
    }
}

pub fn block_sum(rig: &Rig) -> LaunchProfile {
    let (values, sum) = (rig.zeros::<f32>(950), rig.zeros::<f32>(1));
    let args = [rig.buffer(&values), rig.buffer(&sum), Arg::Int(950)];
    rig.launch(&FILE, "block_sum", [(4, 1), (256, 1)], &args)
}

#[test]
fn a_reduction_adds_by_shuffles() {
    let profile = block_sum(&Rig::open());
    // 950 values in 4 blocks of 8 warps, loaded as in a copy. All 32 warps shuffle, then one of
    // each block.
    let shuffles = 5 * (32 + 4);
    let expected = Counts {
        loads: sectors(30, 119, 3800),
        atomics: sectors(4, 4, 4 * 4),
        shared_stores: smooth(32, 32 * 4), // one thread of each warp
        shared_loads: smooth(4, 4 * 8 * 4), // eight threads of one warp
        flops_f32: shuffles * 32 + 4,      // an addition behind each shuffle, and four atomic ones
        barriers: 32,
        // All warps: `i < n`, the first lane, the first warp. First warps: the first 8 threads, the
        // first one.
        branches: 3 * 32 + 2 * 4,
        divergent_branches: 1 + 32 + 4 + 4,
        read: 3808 + 32,
        written: 32,
        ..Counts::default()
    };
    assert_eq!(Counts::new(&profile), expected);
    assert_eq!(profile.total.of(Class::Warp), shuffles);
}
