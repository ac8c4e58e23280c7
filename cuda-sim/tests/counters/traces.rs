//! Traces: which lanes access which bytes, and what shared memory holds before and after. Expected
//! values follow from the kernels' index expressions.

use cuda_sim::LaunchProfile;
use cuda_sim::trace::{
    self, Access, AccessKind, LaunchTrace, Selection, Space, Step, TraceError, Word,
};

use super::rig::{Arg, File, Rig, line_number};
use super::{tiles, traffic};

/// The trace of one launch at the lines that hold these texts.
fn trace(
    file: &File,
    name: &str,
    texts: &[&str],
    selection: Selection,
    launch: impl FnOnce() -> LaunchProfile,
) -> LaunchTrace {
    let line = |text: &&str| (name.to_owned(), line_number(file, text));
    let selection = Selection {
        lines: texts.iter().map(line).collect(),
        ..selection
    };
    let (_, mut traces) = trace::record(selection, launch);
    assert_eq!(traces.len(), 1);
    traces.remove(0).unwrap()
}

fn trace_traffic(
    texts: &[&str],
    selection: Selection,
    launch: impl FnOnce() -> LaunchProfile,
) -> LaunchTrace {
    let name = "cuda-sim/kernels/traffic.cu";
    trace(&traffic::FILE, name, texts, selection, launch)
}

fn trace_tiles(texts: &[&str], launch: impl FnOnce() -> LaunchProfile) -> LaunchTrace {
    let name = "cuda-sim/kernels/tiles.cu";
    trace(&tiles::FILE, name, texts, Selection::default(), launch)
}

/// The one access of a trace.
#[track_caller]
fn only(trace: &LaunchTrace) -> &Access {
    let accesses: Vec<&Access> = trace.steps.iter().flat_map(|s| &s.accesses).collect();
    assert_eq!(accesses.len(), 1, "{:?}", trace.steps);
    accesses[0]
}

/// Lane, offset and bank or sector of each lane.
fn places(access: &Access) -> Vec<(u32, u64, u64)> {
    let place = |lane: &trace::Lane| (lane.lane, lane.offset, lane.place);
    access.lanes.iter().map(place).collect()
}

fn words(changes: &[Word]) -> Vec<(u64, f32)> {
    let word = |word: &Word| (word.index, f32::from_bits(word.bits));
    changes.iter().map(word).collect()
}

#[test]
fn a_coalesced_load_has_its_lanes_side_by_side() {
    let rig = Rig::open();
    // Warp 1 of block 2 begins with element 2 · 256 + 32.
    let selection = Selection {
        block: [2, 0, 0],
        warp: 1,
        ..Selection::default()
    };
    let trace = trace_traffic(&["// copy: load"], selection, || traffic::copy(&rig));
    let first = 4 * (2 * 256 + 32);
    let access = only(&trace);
    let expected: Vec<_> = (0..32)
        .map(|lane| {
            (
                lane,
                first + 4 * u64::from(lane),
                first / 32 + u64::from(lane) / 8,
            )
        })
        .collect();
    assert_eq!(places(access), expected);
    assert_eq!(
        (access.kind, access.space, access.ty, access.bytes),
        (AccessKind::Load, Space::Global, "f32", 4)
    );
    assert_eq!((access.sectors, access.wavefronts()), (4, 0));
    let array = &trace.arrays[access.lanes[0].array];
    assert_eq!((&*array.name, array.bytes), ("argument 0", 3800));
    assert_eq!((trace.block, trace.warp), ([2, 0, 0], 1));
}

#[test]
fn lanes_without_an_element_are_not_active() {
    let rig = Rig::open();
    // 950 = 3 · 256 + 5 · 32 + 22
    let selection = Selection {
        block: [3, 0, 0],
        warp: 5,
        ..Selection::default()
    };
    let trace = trace_traffic(&["// copy: store"], selection, || traffic::copy(&rig));
    assert_eq!(trace.steps.len(), 1);
    assert_eq!(trace.steps[0].active, (1 << 22) - 1);
    let access = only(&trace);
    assert_eq!((access.kind, access.lanes.len()), (AccessKind::Store, 22));
    assert_eq!(access.sectors, 3);
    assert_eq!(trace.arrays[access.lanes[0].array].name, "argument 1");
    // Warp 6 has left before the line.
    let selection = Selection {
        block: [3, 0, 0],
        warp: 6,
        ..Selection::default()
    };
    let trace = trace_traffic(&["// copy: store"], selection, || traffic::copy(&rig));
    assert_eq!(trace.steps, []);
}

#[test]
fn a_stride_spreads_lanes_over_sectors() {
    let rig = Rig::open();
    for (stride, sectors) in [(2, 8), (8, 32), (32, 32)] {
        let line = &["// strided: load"];
        let trace = trace_traffic(line, Selection::default(), || {
            traffic::copy_strided(&rig, stride)
        });
        let access = only(&trace);
        let step = 4 * stride as u64;
        let expected: Vec<_> = (0..32)
            .map(|lane| (lane, step * u64::from(lane), step * u64::from(lane) / 32))
            .collect();
        assert_eq!((places(access), access.sectors), (expected, sectors));
    }
}

#[test]
fn both_sides_of_a_branch_have_their_lanes() {
    let rig = Rig::open();
    let trace = trace_traffic(
        &["// two ways: odd", "// two ways: even"],
        Selection::default(),
        || traffic::two_ways(&rig),
    );
    let odd = line_number(&traffic::FILE, "// two ways: odd");
    let stores = trace.steps.iter().filter(|step| !step.accesses.is_empty());
    let mut seen = Vec::new();
    for step in stores {
        let (active, parity) = match step.line == odd {
            true => (0xaaaa_aaaa, 1),
            false => (0x5555_5555, 0),
        };
        assert_eq!(step.active, active);
        let expected: Vec<_> = (0..16)
            .map(|i| (2 * i + parity, 4 * u64::from(i)))
            .collect();
        let found: Vec<_> = places(&step.accesses[0]);
        let found: Vec<_> = found.iter().map(|&(lane, at, _)| (lane, at)).collect();
        assert_eq!(found, expected);
        seen.push(step.line);
    }
    seen.sort_unstable();
    assert_eq!(seen, [odd, odd + 2]);
}

#[test]
fn lanes_leave_a_loop_one_after_the_other() {
    let rig = Rig::open();
    let trace = trace_traffic(
        &["// uneven: loop", "// uneven: store"],
        Selection::default(),
        || traffic::uneven_loop(&rig),
    );
    // Lane l runs l mod 4 rounds.
    let mut masks: Vec<u32> = trace.steps.iter().map(|step| step.active).collect();
    masks.dedup();
    for rounds in [0xeeee_eeee, 0xcccc_cccc, 0x8888_8888] {
        assert!(masks.contains(&rounds), "{masks:x?}");
    }
    let store = trace.steps.iter().find(|step| !step.accesses.is_empty());
    let store: &Step = store.unwrap();
    assert_eq!(store.active, u32::MAX);
    let stored = |lane: &trace::Lane| f32::from_bits(lane.values[0] as u32);
    let stored: Vec<f32> = store.accesses[0].lanes[..4].iter().map(stored).collect();
    // From 1, each round halves the value and adds 1.
    assert_eq!(stored, [1.0, 1.5, 1.75, 1.875]);
}

#[test]
fn words_of_a_stride_meet_in_banks() {
    let rig = Rig::open();
    for (stride, degree) in [(1, 1), (2, 2), (16, 16), (32, 32), (33, 1)] {
        let line = &["words[threadIdx.x * stride] = 1.0f;"];
        let trace = trace_tiles(line, || tiles::bank_stride(&rig, stride));
        let access = only(&trace);
        let expected: Vec<_> = (0..32)
            .map(|lane| {
                let word = u64::from(lane) * stride as u64;
                (lane, 4 * word, word % 32)
            })
            .collect();
        assert_eq!(places(access), expected);
        assert_eq!((access.wavefronts(), access.passes.len()), (degree, 1));
        assert_eq!(access.passes[0].lanes, u32::MAX);
        assert_eq!(trace.arrays[0].name, "words");
        // Nothing is there before, and 32 ones after.
        let step = &trace.steps[trace.steps.len() - 1];
        assert_eq!(step.before, []);
        let ones: Vec<_> = (0..32).map(|lane| (lane * stride as u64, 1.0)).collect();
        assert_eq!(words(&step.after), ones);
    }
}

#[test]
fn a_column_of_a_tile_is_one_bank_and_of_a_padded_one_all() {
    let rig = Rig::open();
    for (kernel, width, degree) in [("transpose_tile", 32, 32), ("transpose_padded", 33, 1)] {
        let lines = &["= tile[threadIdx.x][j];"];
        let trace = trace_tiles(lines, || tiles::transpose(&rig, kernel));
        let mut accesses = trace.steps.iter().flat_map(|step| &step.accesses);
        let column = accesses.find(|access| access.space == Space::Shared);
        let column = column.unwrap();
        // Warp 0 has y = 0: first it reads column 0.
        let expected: Vec<_> = (0..32)
            .map(|lane| {
                let word = u64::from(lane) * width;
                (lane, 4 * word, word % 32)
            })
            .collect();
        assert_eq!((places(column), column.kind), (expected, AccessKind::Load));
        assert_eq!(column.wavefronts(), degree, "{kernel}");
    }
}

#[test]
fn vectors_are_served_in_passes() {
    let rig = Rig::open();
    let line = &["vectors[threadIdx.x * stride] = float4"];
    let trace = trace_tiles(line, || tiles::bank_vectors(&rig, 4, 1));
    let access = only(&trace);
    assert_eq!((access.elements, access.bytes), (4, 16));
    let passes: Vec<_> = access
        .passes
        .iter()
        .map(|p| (p.lanes, p.wavefronts))
        .collect();
    let expected = [0xff, 0xff00, 0xff_0000, 0xff00_0000].map(|lanes| (lanes, 1));
    assert_eq!(passes, expected);
    let bits = [1.0f32, 2.0, 3.0, 4.0].map(|x| u64::from(x.to_bits()));
    assert_eq!(access.lanes[31].values, bits);
    assert_eq!((access.lanes[31].offset, access.lanes[31].place), (496, 28));
}

#[test]
fn a_generic_load_is_split_by_memory() {
    let rig = Rig::open();
    let trace = trace_tiles(&["out[threadIdx.x] = from[threadIdx.x ^ 1];"], || {
        tiles::two_spaces(&rig)
    });
    let loads = trace.steps.iter().flat_map(|step| &step.accesses);
    let loads: Vec<&Access> = loads.filter(|a| a.kind == AccessKind::Load).collect();
    let [global, shared] = loads[..] else {
        panic!("{loads:?}");
    };
    assert_eq!((global.space, shared.space), (Space::Global, Space::Shared));
    assert_eq!(global.instruction, shared.instruction);
    let lanes = |access: &Access| -> Vec<u32> { access.lanes.iter().map(|l| l.lane).collect() };
    assert_eq!(lanes(shared), (0..16).collect::<Vec<_>>());
    assert_eq!(lanes(global), (16..32).collect::<Vec<_>>());
    // Bytes 64 to 127.
    assert_eq!((global.sectors, global.lanes[0].place), (2, 2));
}

#[test]
fn what_other_warps_wrote_is_there_before_a_step() {
    let rig = Rig::open();
    let values: Vec<f32> = (0..256).map(|i| i as f32).collect();
    let (values, sum) = (rig.upload(&values), rig.zeros::<f32>(1));
    let args = [rig.buffer(&values), rig.buffer(&sum), Arg::Int(256)];
    let trace = trace_tiles(
        &[
            "if (threadIdx.x % 32 == 0) sums",
            "__syncthreads();  // all warps' sums are there",
            "if (threadIdx.x < 8) x = sums[threadIdx.x];",
        ],
        || rig.launch(&tiles::FILE, "block_sum", [(1, 1), (256, 1)], &args),
    );
    // Warp w sums 32 w … 32 w + 31: 1024 w + 496.
    let sum = |warp: u64| (warp, 1024.0 * warp as f32 + 496.0);
    let store = trace
        .steps
        .iter()
        .find(|step| !step.after.is_empty())
        .unwrap();
    assert_eq!(words(&store.after), [sum(0)]);
    let load = trace.steps.iter().find(|step| {
        let mut accesses = step.accesses.iter();
        accesses.any(|a| (a.kind, a.space) == (AccessKind::Load, Space::Shared))
    });
    let load = load.unwrap();
    let access = &load.accesses[0];
    let loaded = |lane: &trace::Lane| (u64::from(lane.lane), f32::from_bits(lane.values[0] as u32));
    let expected: Vec<_> = (0..8).map(sum).collect();
    assert_eq!(
        access.lanes.iter().map(loaded).collect::<Vec<_>>(),
        expected
    );
    let before: Vec<_> = trace
        .steps
        .iter()
        .flat_map(|step| words(&step.before))
        .collect();
    assert_eq!(
        before,
        expected[1..],
        "the other warps' sums, behind the barrier"
    );
    let barriers = trace.steps.iter().filter(|step| step.barrier);
    assert_eq!(barriers.count(), 1);
    assert_eq!(
        (&*trace.arrays[0].name, trace.arrays[0].ty),
        ("sums", "f32")
    );
}

#[test]
fn a_trace_changes_no_counter_and_is_the_same_on_every_run() {
    let rig = Rig::open();
    let launches: [fn(&Rig) -> LaunchProfile; 4] = [
        |rig| tiles::transpose(rig, "transpose_tile"),
        |rig| tiles::block_sum(rig),
        |rig| tiles::histogram(rig, |i| i / 7),
        |rig| traffic::uneven_loop(rig),
    ];
    for launch in launches {
        let alone = launch(&rig);
        let record = || trace::record(Selection::default(), || launch(&rig));
        let (profile, traces) = record();
        assert_eq!(profile, alone);
        assert_eq!(record().1, traces);
        let trace = traces[0].as_ref().unwrap();
        assert!(trace.steps.len() > 5 && trace.left_out == 0);
        // What is recorded of this warp is part of what is counted of all.
        let accesses = trace.steps.iter().flat_map(|step| &step.accesses);
        let wavefronts: u32 = accesses.map(Access::wavefronts).sum();
        assert!(u64::from(wavefronts) <= alone.total.shared().wavefronts);
    }
}

#[test]
fn a_trace_of_every_warp_adds_up_to_the_counters() {
    let rig = Rig::open();
    let (mut sectors, mut wavefronts, mut barriers) = (0, 0, 0);
    let mut profile = None;
    for block in [[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0]] {
        for warp in 0..8 {
            let selection = Selection {
                block,
                warp,
                ..Selection::default()
            };
            let (counted, traces) =
                trace::record(selection, || tiles::transpose(&rig, "transpose_tile"));
            for step in &traces[0].as_ref().unwrap().steps {
                barriers += u64::from(step.barrier);
                for access in &step.accesses {
                    sectors += access.sectors;
                    wavefronts += u64::from(access.wavefronts());
                }
            }
            profile = Some(counted.total);
        }
    }
    let total = profile.unwrap();
    assert_eq!(sectors, total.global().sectors);
    assert_eq!(wavefronts, total.shared().wavefronts);
    assert_eq!(barriers, total.barriers);
}

#[test]
fn steps_beyond_the_limit_are_counted() {
    let rig = Rig::open();
    let record = |steps| {
        let selection = Selection {
            steps,
            ..Selection::default()
        };
        let (_, mut traces) = trace::record(selection, || tiles::block_sum(&rig));
        traces.remove(0).unwrap()
    };
    let whole = record(4096);
    let cut = record(3);
    assert_eq!(cut.steps, whole.steps[..3]);
    assert_eq!(cut.left_out, whole.steps.len() as u64 - 3);
    assert_eq!(record(0).left_out, whole.steps.len() as u64);
}

#[test]
fn what_is_not_there_is_an_error_and_the_launch_runs() {
    let rig = Rig::open();
    let file = "cuda-sim/kernels/traffic.cu".to_owned();
    let record = |selection| {
        let (profile, mut traces) = trace::record(selection, || traffic::copy(&rig));
        assert!(profile.total.warp_instructions > 0);
        traces.remove(0).unwrap_err()
    };
    let load = line_number(&traffic::FILE, "// copy: load");
    let error = record(Selection {
        lines: vec![(file.clone(), load), (file.clone(), 1)],
        ..Selection::default()
    });
    let TraceError::NoSuchLine {
        kernel,
        line,
        available,
        ..
    } = &error
    else {
        panic!("{error}");
    };
    assert_eq!((&**kernel, *line), ("copy", 1));
    assert!(available.contains(&(file.clone(), load)) && available.is_sorted());
    let text = error.to_string();
    assert!(
        text.starts_with(
            "line 1 of cuda-sim/kernels/traffic.cu has no code in copy; lines with code: "
        ) && text.contains(&format!(" {load}, {}", load + 1)),
        "{text}"
    );
    let error = record(Selection {
        block: [0, 1, 0],
        ..Selection::default()
    });
    assert_eq!(
        error.to_string(),
        "there is no block (0, 1, 0): the grid is (4, 1, 1)"
    );
    let error = record(Selection {
        warp: 8,
        ..Selection::default()
    });
    assert_eq!(
        error.to_string(),
        "there is no warp 8: a block has 8, counted from 0"
    );
}

#[test]
fn a_long_trace_is_cut_and_says_so() {
    let rig = Rig::open();
    // Each round of the inner loop makes two loads of 32 lanes with one element each, which count
    // 128 of 2^20.
    let (m, n, k) = (8, 16, 20_000);
    let (a, b) = (rig.zeros::<f32>(m * k), rig.zeros::<f32>(k * n));
    let c = rig.zeros::<f32>(m * n);
    let [rows, columns, depth] = [m, n, k].map(|size| Arg::Int(size as i32));
    let args = [
        rig.buffer(&a),
        rig.buffer(&b),
        rig.buffer(&c),
        rows,
        columns,
        depth,
    ];
    let selection = Selection {
        steps: usize::MAX,
        ..Selection::default()
    };
    let (_, mut traces) = trace::record(selection, || {
        rig.launch(&tiles::FILE, "naive_gemm", [(1, 1), (16, 16)], &args)
    });
    let trace = traces.remove(0).unwrap();
    let accesses = trace.steps.iter().flat_map(|step| &step.accesses);
    let size: usize = accesses.map(|access| 2 * access.lanes.len()).sum();
    assert!((1 << 20..(1 << 20) + 128).contains(&size), "{size}");
    assert!(trace.left_out > 0);
}

#[test]
fn results_are_those_of_a_launch_without_a_trace() {
    let rig = Rig::open();
    let values: Vec<f32> = (0..950).map(|i| (i as f32).sin()).collect();
    let values = rig.upload(&values);
    let transposed = |traced: bool| {
        let out = rig.zeros::<f32>(950);
        let sizes = [19, 50].map(Arg::Int);
        let [rows, columns] = sizes;
        let args = [rig.buffer(&values), rig.buffer(&out), rows, columns];
        let launch = || rig.launch(&tiles::FILE, "transpose_padded", [(2, 1), (32, 8)], &args);
        if traced {
            trace::record(Selection::default(), launch);
        } else {
            launch();
        }
        rig.download(&out)
    };
    let results = transposed(true);
    assert_eq!(results, transposed(false));
    // Element (3, 7) of the matrix is element (7, 3) of its transpose.
    assert_eq!(results[7 * 19 + 3], (157f32).sin());
}
