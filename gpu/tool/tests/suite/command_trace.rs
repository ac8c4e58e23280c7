//! `gpu trace` and `gpu picture`, as a user runs them: on kernels whose accesses follow from their
//! index expressions.

use std::fs;

use crate::common::{DOUBLE, folder, gpu, root, write};
use gpu_recording::{Recording, Scalar, Space};

const BANKS: &str = "gpu/kernels/bank_conflicts.cu";
const LOADS: &str = "gpu/kernels/coalescing.cu";

/// Number of the line of a file that has this text.
fn line(file: &str, text: &str) -> usize {
    let source = fs::read_to_string(root().join(file)).unwrap();
    let mut lines = source.lines();
    1 + lines.position(|line| line.contains(text)).unwrap()
}

fn recorded(arguments: &str) -> Recording {
    let run = gpu(root(), &format!("trace {arguments} --json"));
    run.succeeds();
    Recording::parse(&run.text).unwrap()
}

#[test]
fn a_row_is_four_sectors_and_a_column_32() {
    let (row, column) = (line(LOADS, "// row 0"), line(LOADS, "// column 0"));
    let recording = recorded(&format!("{LOADS} --line {row} --line {column}"));
    assert_eq!((&*recording.kernel, recording.left_out), ("coalescing", 0));
    let accesses: Vec<_> = recording.steps.iter().flat_map(|s| &s.accesses).collect();
    let [of_row, of_column] = accesses[..] else {
        panic!("{accesses:?}");
    };
    let all: Vec<u32> = (0..32).collect();
    assert_eq!((&of_row.lanes, &of_column.lanes), (&all, &all));
    let bytes = |step: u64| -> Vec<u64> { (0..32).map(|lane| step * lane).collect() };
    assert_eq!(
        (&of_row.offsets, &of_column.offsets),
        (&bytes(4), &bytes(128))
    );
    let sectors = |step: u64| -> Vec<u64> { bytes(step).iter().map(|at| at / 32).collect() };
    assert_eq!(
        (&of_row.sectors, &of_column.sectors),
        (&sectors(4), &sectors(128))
    );
    assert_eq!((of_row.sector_count, of_column.sector_count), (4, 32));
    // The matrix is 0, 1, 2, …
    assert_eq!(of_column.values[3], [Scalar::Float(96.0)]);
    assert_eq!(recording.arrays[of_row.arrays[0]].name, "argument 0");
}

#[test]
fn columns_of_tiles_have_the_banks_of_their_layout() {
    // Kernel's argument `column` is 5.
    type Layout = (&'static str, &'static str, fn(u32) -> u32, u32);
    let layouts: [Layout; 4] = [
        ("plain = ", "tile", |x| 32 * x + 5, 32),
        ("apart = ", "padded", |x| 33 * x + 5, 1),
        ("exchanged = ", "swizzled", |x| 32 * x + (5 ^ x), 1),
        ("two_rows = ", "tile", |x| 32 * (x / 16) + 2 * x % 32, 2),
    ];
    for (text, array, word, wavefronts) in layouts {
        let recording = recorded(&format!("{BANKS} --line {}", line(BANKS, text)));
        let mut accesses = recording.steps.iter().flat_map(|s| &s.accesses);
        let access = accesses.next().unwrap();
        assert!(accesses.next().is_none(), "{text}");
        assert_eq!(access.space, Space::Shared);
        let words: Vec<u32> = (0..32).map(word).collect();
        let offsets: Vec<u64> = words.iter().map(|word| 4 * u64::from(*word)).collect();
        assert_eq!(access.offsets, offsets, "{text}");
        // The three tiles lie one behind the other, wherever that is.
        let shift = (access.banks[0] + 32 - words[0] % 32) % 32;
        let banks: Vec<u32> = words.iter().map(|word| (word + shift) % 32).collect();
        assert_eq!(
            (&access.banks, access.wavefronts()),
            (&banks, wavefronts),
            "{text}"
        );
        assert_eq!(recording.arrays[access.arrays[0]].name, array);
    }
}

#[test]
fn shared_memory_is_recorded_before_and_after() {
    let store = line(BANKS, "swizzled[y][x ^ y] = ");
    let recording = recorded(&format!("{BANKS} --line {store} --steps 1"));
    assert!(recording.left_out > 0);
    let step = &recording.steps[0];
    let stores = |words: &[gpu_recording::Word], name: &str| -> Vec<(u64, f64)> {
        let own = words
            .iter()
            .filter(|word| recording.arrays[word.0].name == name);
        let mut found: Vec<(u64, f64)> = own
            .map(|word| match word.2 {
                Scalar::Float(value) => (word.1, value),
                ref other => panic!("{other:?}"),
            })
            .collect();
        found.dedup();
        found
    };
    // Row 0 of the matrix, which is not exchanged.
    let row: Vec<(u64, f64)> = (0..32).map(|x| (x, x as f64)).collect();
    assert_eq!(stores(&step.before, "swizzled"), []);
    let written: Vec<_> = recording
        .steps
        .iter()
        .flat_map(|s| stores(&s.after, "swizzled"))
        .collect();
    assert_eq!(written, row);
    assert_eq!(&stores(&step.before, "tile")[..32], row);
}

#[test]
fn the_text_says_what_the_json_says() {
    let column = line(BANKS, "plain = ");
    let text = gpu(root(), &format!("trace {BANKS} --line {column}")).text;
    for part in [
        "bank_conflicts of gpu/kernels/bank_conflicts.cu, grid (1, 1, 1), block (32, 1, 1)\nblock (0, 0, 0), warp 0\n",
        "32 lanes\n  | float plain = tile[x][column];\n",
        "  load   f32  tile[5 … 997]: 32 wavefronts, 1 without conflicts\n",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
}

#[test]
fn recordings_and_pictures_are_the_same_on_every_run_and_have_no_address() {
    let column = line(BANKS, "plain = ");
    for command in [
        "trace gpu/kernels/bank_conflicts.cu --json".to_owned(),
        format!("picture {BANKS} --line {column}"),
    ] {
        let first = gpu(root(), &command).text;
        assert!(gpu(root(), &command).text == first, "{command}");
        assert!(!first.contains("0x") && first.len() > 1000);
    }
}

#[test]
fn a_picture_marks_conflicts_and_has_colours_for_both_themes() {
    let picture = |text: &str| {
        let run = gpu(
            root(),
            &format!("picture {BANKS} --line {}", line(BANKS, text)),
        );
        run.succeeds();
        run.text
    };
    let counts = |svg: &str, what: &str| svg.matches(what).count();
    let plain = picture("plain = ");
    assert!(plain.starts_with("<svg xmlns=") && plain.trim_end().ends_with("</svg>"));
    assert!(plain.contains("@media (prefers-color-scheme: dark)"));
    assert!(
        plain.contains("aria-label=\"Line ")
            && plain.contains("32 wavefronts, 1 without conflicts")
    );
    assert_eq!(
        (
            counts(&plain, "class=\"clash\""),
            counts(&plain, "class=\"red\"")
        ),
        (32, 1)
    );
    let padded = picture("apart = ");
    assert_eq!(
        (
            counts(&padded, "class=\"wire\""),
            counts(&padded, "class=\"green\"")
        ),
        (32, 32)
    );
    assert_eq!(counts(&padded, "class=\"red\""), 0);
    let two = picture("two_rows = ");
    assert_eq!(
        (counts(&two, "class=\"red\""), counts(&two, ">2</text>")),
        (16, 16 + 2)
    );
    let loads = gpu(
        root(),
        &format!("picture {LOADS} --line {}", line(LOADS, "// row 0")),
    )
    .text;
    assert_eq!(
        (
            counts(&loads, "class=\"outline\""),
            counts(&loads, "class=\"orange\"")
        ),
        (4, 32)
    );
}

#[test]
fn a_header_and_another_warp_can_be_named() {
    let reduce = line("stage2-naive-cuda/kernels/block_reduce.cuh", "= fold(");
    let softmax = "stage2-naive-cuda/kernels/1_softmax_tree.cu --grid 1 --arg f32[128]=iota --arg f32[1]=uninit --arg i32=128";
    let of_warp = |warp: u32| {
        recorded(&format!(
            "{softmax} --line block_reduce.cuh:{reduce} --warp {warp}"
        ))
    };
    // 128 threads: in the first step, threads 0 to 63 fold the words 64 behind; warps 2 and 3 never
    // do.
    let first = of_warp(1);
    let step = first
        .steps
        .iter()
        .find(|step| !step.accesses.is_empty())
        .unwrap();
    assert_eq!(step.file, "stage2-naive-cuda/kernels/block_reduce.cuh");
    let mut offsets: Vec<u64> = step
        .accesses
        .iter()
        .map(|access| access.offsets[0] / 4)
        .collect();
    offsets.sort_unstable();
    assert!(
        offsets.contains(&32) && offsets.contains(&96),
        "{offsets:?}"
    );
    assert!(of_warp(2).steps.iter().all(|step| step.accesses.is_empty()));
}

#[test]
fn what_cannot_be_recorded_is_an_error() {
    let out_of_reach = [
        (
            format!("trace {LOADS} --line 1"),
            "error: line 1 of gpu/kernels/coalescing.cu has no code in coalescing; lines with code: gpu/kernels/coalescing.cu: 16, 18, 19",
        ),
        (
            format!("picture {LOADS} --line 99"),
            "error: line 99 of gpu/kernels/coalescing.cu has no code",
        ),
        (
            format!("trace {LOADS} --line nosuch.cuh:3"),
            "error: line 3 of nosuch.cuh has no code",
        ),
        (
            format!("trace {LOADS} --block-index 1"),
            "error: there is no block (1, 0, 0): the grid is (1, 1, 1)",
        ),
        (
            format!("trace {LOADS} --warp 1"),
            "error: there is no warp 1: a block has 1, counted from 0",
        ),
        (
            format!("picture {LOADS}"),
            "error: name the lines to draw: --line N",
        ),
        (
            format!("picture {LOADS} --line 20 --visit 5"),
            "accesses memory at these lines less than 6 times",
        ),
        (
            format!("trace {LOADS} --line 0"),
            "write it as a number from 1, or as HEADER:NUMBER",
        ),
        (
            format!("trace {LOADS} --arg f32[4]=iota --arg f32[32]=uninit"),
            "error: launching kernel coalescing",
        ),
    ];
    for (command, message) in out_of_reach {
        let run = gpu(root(), &command);
        assert!(
            !run.success && run.errors.contains(message),
            "{command}\n{}",
            run.text
        );
    }
    let folder = folder("command_trace");
    write(&folder, "double.ptx", DOUBLE);
    let run = gpu(&folder, "trace double.ptx --line 3");
    assert!(
        run.errors
            .contains("lines with code: none, because the PTX has no line information"),
        "{}",
        run.text
    );
}

#[test]
fn ptx_without_lines_is_recorded_as_a_whole() {
    let folder = folder("command_trace_whole");
    write(&folder, "double.ptx", DOUBLE);
    let run = gpu(&folder, "trace double.ptx --json --block-index 1");
    let recording = Recording::parse(&run.text).unwrap();
    let [step] = &recording.steps[..] else {
        panic!("{:?}", recording.steps);
    };
    assert_eq!((step.line, &*step.active), (0, &[0, 1, 2, 3][..]));
    // Block 1 doubles elements 4 to 7.
    let [load, store] = &step.accesses[..] else {
        panic!("{:?}", step.accesses);
    };
    assert_eq!(
        (&*load.offsets, &*store.offsets),
        (&[16, 20, 24, 28][..], &[16, 20, 24, 28][..])
    );
    assert_eq!(store.values[3], [Scalar::Float(14.0)]);
}

#[test]
fn lanes_that_leave_end_a_step() {
    let folder = folder("command_trace_leave");
    let leaves =
        "\tmov.u32 %r3, %tid.x;\n\t.reg .pred %q;\n\tsetp.ge.u32 %q, %r3, 2;\n\t@%q ret;\n";
    let half = DOUBLE.replace("\tmov.u32 %r3, %tid.x;\n", leaves);
    write(&folder, "half.ptx", half);
    let run = gpu(&folder, "trace half.ptx --json");
    let recording = Recording::parse(&run.text).unwrap();
    let active: Vec<&[u32]> = recording.steps.iter().map(|step| &*step.active).collect();
    assert_eq!(active, [&[0, 1, 2, 3][..], &[0, 1]]);
    assert_eq!(recording.steps[1].accesses[1].offsets, [0, 4]);
}
