//! `gpu run` and `gpu ptx`, as a user runs them.

use std::fs;
use std::path::Path;

use crate::common::{DOUBLE, folder, gpu, root, run, words, write};

const VECTOR_ADD: &str = "run gpu/kernels/vector_add.cu --grid 2 --block 256 \
     --arg f32[300]=iota --arg f32[300]=ones --arg f32[300]=uninit --arg i32=300";

fn fails(line: &str, reason: &str) {
    let run = gpu(root(), line);
    run.fails().says(reason);
}

#[test]
fn a_kernel_of_a_package_runs_by_its_committed_ptx() {
    // No compiler: the committed file is found, with constants too.
    let no_compiler = [("NVRTC_PATH", "/nowhere")];
    let all = run(root(), &words(VECTOR_ADD), &no_compiler);
    all.succeeds();
    let lines: Vec<&str> = all.text.lines().collect();
    assert!(
        lines[0].starts_with(
            "vector_add of gpu/kernels/vector_add.cu, grid (2, 1, 1), block (256, 1, 1), on "
        ),
        "{}",
        all.text
    );
    assert_eq!(
        lines[1..],
        [
            "argument 0, f32[300]: 0 1 2 3 4 5 6 7 …",
            "argument 1, f32[300]: 1 1 1 1 1 1 1 1 …",
            "argument 2, f32[300]: 1 2 3 4 5 6 7 8 …",
        ]
    );
    let smaller = format!("{VECTOR_ADD} -D BLOCK=64 --block 64 --grid 5 --print 2:3").replacen(
        "--grid 2 --block 256 ",
        "",
        1,
    );
    let smaller = run(
        &root().join("gpu/src"),
        &words(&smaller.replace("gpu/kernels", "../kernels")),
        &no_compiler,
    );
    smaller.succeeds().ends("argument 2, f32[300]: 1 2 3 …\n");
}

#[test]
fn buffers_are_saved_and_read_as_numpy_files() {
    let folder = folder("command_run_npy");
    let path = folder.join("sum.npy");
    let saved = gpu(root(), &format!("{VECTOR_ADD} --out 2={}", path.display()));
    assert!(
        saved.success && saved.text.lines().count() == 1,
        "{}",
        saved.text
    );
    let again = VECTOR_ADD.replace("f32[300]=ones", &format!("f32=@{}", path.display()));
    let again = gpu(root(), &format!("{again} --print 2:4 --print 0:0"));
    // i + (i + 1)
    let expected = "argument 2, f32[300]: 1 3 5 7 …\nargument 0, f32[300]: …\n";
    again.succeeds().ends(expected);
}

#[test]
fn ptx_states_its_launch_and_what_it_expects() {
    let folder = folder("command_run_ptx");
    write(&folder, "twice.ptx", DOUBLE);
    let good = run(&folder, &["run", "twice.ptx"], &[]);
    good.succeeds()
        .ends("argument 0, f32[8]: 0 2 4 6 8 10 12 14\n");

    // Two launches, and one of them.
    let launch = "// launch: grid=2 block=4\n";
    let two = DOUBLE.replace(
        launch,
        &format!("{launch}// launch: grid=1 block=4 kernel=twice\n"),
    );
    let expected = two.replace(": f32 0 2 4 6 8 10 12 14", ": f32 0 4 8 12 8 10 12 14");
    assert_ne!(two, expected);
    write(&folder, "two.ptx", expected);
    let both = run(&folder, &["run", "two.ptx"], &[]);
    let title = "twice of two.ptx, grid (2, 1, 1), block (4, 1, 1), then twice of two.ptx, grid (1, 1, 1), block (4, 1, 1)";
    both.begins(title).ends(": 0 4 8 12 8 10 12 14\n");
    // Results that are expected of both launches are not expected of one.
    let one = gpu(&folder, "run two.ptx --kernel twice");
    let shown = ": 0 2 4 6 4 5 6 7\n";
    one.succeeds().says(shown);
    let note = "note: the file's `// expect` is not compared: it is about all its launches\n";
    one.says(note);
    for (command, verdict) in [
        ("check two.ptx", "clean: "),
        (
            "check two.ptx --kernel twice",
            "no fault found; results not checked: ",
        ),
        ("profile two.ptx", "twice of two.ptx"),
        ("profile two.ptx --kernel twice --json -", "{"),
    ] {
        let ran = gpu(&folder, command);
        ran.succeeds().says(verdict);
    }
    for (command, what) in [
        ("profile two.ptx --json -", "--json"),
        ("profile two.ptx --ncu none.csv", "--ncu"),
        ("trace two.ptx", "a recording"),
    ] {
        let refused = gpu(&folder, command);
        let reason = "shows one launch; the file states 2: name one by --kernel";
        let reason = format!("error: {what} {reason}\n");
        assert!(
            !refused.success && refused.text == reason,
            "{}",
            refused.text
        );
    }

    let bad = gpu(&folder, "run twice.ptx --arg f32[8]=ones");
    let reason = "element 0 is 2 (0x40000000), expected 0 (0x00000000); 7 of 8 elements differ";
    bad.fails().says(reason);

    write(
        &folder,
        "twice.ptx",
        DOUBLE.replace("block=4", "block=four"),
    );
    let unread = run(&folder, &["run", "twice.ptx"], &[]);
    unread
        .fails()
        .begins("error: twice.ptx: line 1: \"four\" is not x");
}

#[test]
fn ptx_with_a_zero_byte_is_refused() {
    let folder = folder("command_run_zero_byte");
    write(&folder, "cut.ptx", format!("{DOUBLE}\0"));
    let line = DOUBLE.matches('\n').count() + 1;
    for command in ["run", "check"] {
        let refused = run(&folder, &[command, "cut.ptx"], &[]);
        let reason = format!("the PTX has a zero byte in line {line}");
        refused.fails().says(&reason);
    }
}

#[test]
fn what_cannot_be_run_is_named() {
    fails(
        "run gpu/kernels/variants.txt",
        "gpu/kernels/variants.txt: a kernel file is a .cu, a .cuh or a .ptx file",
    );
    fails(
        "run gpu/kernels/absent.cu",
        "gpu/kernels/absent.cu: No such file",
    );
    fails(
        "run cuda-sim/kernels/tiled_gemm.cu --block 1",
        "the grid is not stated: write `// launch: grid=… block=…` into the file, or pass --grid and --block",
    );
    fails(
        "run gpu/ptx/vector_add.ptx -D N=1",
        "is PTX, and constant N would come too late",
    );
    fails(
        &format!("{VECTOR_ADD} --kernel add"),
        "there is no kernel \"add\"; the file has vector_add",
    );
    fails(
        &format!("{VECTOR_ADD} --arg i32=1"),
        "kernel vector_add needs 4 arguments; passed: 5; `pass=0,2` in its launch passes",
    );
    fails(&format!("{VECTOR_ADD} --arg i32=x"), "\"x\" is no i32");
    fails(
        &format!("{VECTOR_ADD} --print 3"),
        "argument 3 is no buffer",
    );
    fails(
        &format!("{VECTOR_ADD} --print x"),
        "\"x\" is not an argument's number",
    );
    fails(&format!("{VECTOR_ADD} --out 2"), "write it N=FILE.npy");
    fails(&format!("{VECTOR_ADD} -D =1"), "\"=1\" is not NAME=VALUE");
    let absent = run(
        root(),
        &words(&format!("{VECTOR_ADD} -D BLOCK=32")),
        &[("NVRTC_PATH", "/nowhere")],
    );
    absent.fails().says("/nowhere is not a usable NVRTC");
}

#[test]
fn ptx_shows_resources_and_sources() {
    let plain = gpu(root(), "ptx gpu/kernels/vector_add.cu");
    let committed = fs::read_to_string(root().join("gpu/ptx/vector_add.ptx")).unwrap();
    assert!(plain.success && plain.text == committed, "{}", plain.text);
    assert!(plain.text.contains("// sm_90 vector_add: registers "));

    // The same of the PTX file: its sources are found by their virtual names.
    for file in ["gpu/kernels/vector_add.cu", "gpu/ptx/vector_add.ptx"] {
        let lines = gpu(root(), &format!("ptx {file} --lines"));
        let source =
            "\n// gpu/kernels/vector_add.cu:18: if (i < n) c[i] = a[i] + b[i];\n\t.loc\t1 18 5\n";
        lines.succeeds().says(source);
        let without: Vec<&str> = lines
            .text
            .lines()
            .filter(|line| !line.starts_with("// gpu/kernels/"))
            .collect();
        assert_eq!(without, committed.lines().collect::<Vec<_>>());
    }
}

#[test]
#[ignore = "needs NVRTC"]
fn a_file_of_no_package_is_compiled() {
    let folder = std::env::temp_dir().join(format!("gpu-command-run-{}", std::process::id()));
    fs::create_dir_all(folder.join("kernels")).unwrap();
    write(&folder, "kernels/by.cuh", "constexpr float BY = 0.5f;\n");
    let source = "// launch: grid=1 block=N\n// args: f32[3]=iota\n// define: M=3\n#include \"by.cuh\"\n\
                  __global__ void scale(float* x) {\n    if (threadIdx.x < M) x[threadIdx.x] *= BY;\n}\n";
    write(&folder, "kernels/scale.cu", source.replace('N', "32"));
    let nvrtc = gpu::find_nvrtc::search()
        .unwrap()
        .found
        .expect("NVRTC, which this test needs, is installed");
    let variables = [
        ("NVRTC_PATH", nvrtc.to_str().unwrap()),
        ("GPU_CACHE_DIR", folder.to_str().unwrap()),
    ];

    let whole = run(
        &folder,
        &words("run kernels/scale.cu --kernel scale"),
        &variables,
    );
    whole.succeeds().ends("argument 0, f32[3]: 0 0.5 1\n");
    let part = run(&folder, &words("run kernels/scale.cu -D M=2"), &variables);
    part.succeeds().ends("argument 0, f32[3]: 0 0.5 2\n");
    let ptx = run(&folder, &words("ptx kernels/scale.cu --lines"), &variables);
    ptx.says("\n// kernels/scale.cu:6: if (threadIdx.x < M) x[threadIdx.x] *= BY;");
    ptx.begins("// sm_75 _Z5scalePf: registers ");

    // Reports name a file as the user did.
    let short = ["check", "kernels/scale.cu", "--arg", "f32[1]=iota"];
    let fault = run(&folder, &short, &variables);
    fault
        .says("\n  source  kernels/scale.cu:6\n")
        .says("\nkernels/scale.cu:6\n");
    templates_and_folders_of_headers(&folder, &variables);
    let path = folder.join("kernels/hello.cu");
    let hello = "// launch: grid=1 block=1\n#include <cstdio>\n__global__ void hello() { printf(\"hello\\n\"); }\n";
    fs::write(&path, hello.replace("cstdio", "absent.h")).unwrap();
    let refused = run(root(), &["check", path.to_str().unwrap()], &variables);
    refused
        .says(&format!("{}(2): ", path.display()))
        .says("NVRTC has no \"absent.h\"")
        .says("Leave the line out: printf");
    fs::write(&path, hello).unwrap();
    let printed = run(root(), &["run", path.to_str().unwrap()], &variables);
    printed.succeeds().says("hello\n");
    fs::remove_dir_all(&folder).unwrap();
}

/// An instance of a template, headers in angle brackets beside the file and in another folder, and
/// another architecture.
fn templates_and_folders_of_headers(folder: &Path, variables: &[(&str, &str)]) {
    fs::create_dir_all(folder.join("other")).unwrap();
    write(folder, "other/three.cuh", "constexpr int THREE = 3;\n");
    write(folder, "kernels/two.cuh", "#define TWO 2\n");
    let source = "// launch: grid=1 block=32\n// args: f32[32]=iota\n#include <two.cuh>\n#include <three.cuh>\n\
                  template <int N, typename T> __global__ void scale(T* x) {\n\
                  x[threadIdx.x + 32 * (N == 9)] *= N * TWO * THREE;\n}\n";
    write(folder, "kernels/scales.cu", source);
    let run = |line: &str| run(folder, &words(line), variables);
    let four =
        run("run kernels/scales.cu -I other --kernel scale<4,float> --arch compute_80 --print 0:3");
    let expected = "argument 0, f32[32]: 0 24 48 …\n";
    four.begins("scale<4, float> of kernels/scales.cu, ")
        .ends(expected);
    let fault = run("check kernels/scales.cu -I other --kernel scale<9,float>");
    fault
        .begins("scale<9, float> of ")
        .says("\n  kernel  scale<9, float>\n");
    let fault = run("run kernels/scales.cu -I other --kernel scale<9,float>");
    fault.says("\n  kernel  scale<9, float>\n");
    let none = run("check kernels/scales.cu -I other");
    none.says("the file has none; an instance of a template");
    let missing = run("check kernels/scales.cu --kernel scale<4,float>");
    missing.says("could not open source file \"three.cuh\"");
    // A header of such a folder is a part of what is compiled.
    write(folder, "other/three.cuh", "constexpr int THREE = 5;\n");
    let edited =
        run("run kernels/scales.cu -I other --kernel scale<4,float> --arch compute_80 --print 0:3");
    edited.ends("argument 0, f32[32]: 0 40 80 …\n");
    // A program: its host code is left out, and named. It may use what nvcc includes.
    let main = "#include <cstdio>\n#include <torch/extension.h>\n__global__ void k(int* x) { *x = std::max(1, *x); }\n\
                int main() {\n  int* x; cudaMalloc(&x, 4); k<<<1, 1>>>(x);\n}\n";
    write(folder, "kernels/main.cu", main);
    let program = run("run kernels/main.cu --grid 1 --block 1 --arg i32[1]=zeros");
    program.says("argument 0, i32[1]: 1\n");
    let note = "note: Host code is not compiled: main (kernels/main.cu:4-6).\n";
    assert!(program.errors.contains(note), "{}", program.errors);
    let unmarked = main.replace("std::max(1, *x)", "one()") + "int one() { return 1; }\n";
    write(folder, "kernels/main.cu", unmarked);
    let refused = run("check kernels/main.cu --grid 1 --block 1 --arg i32[1]=zeros");
    let advice = "one, line 7 of kernels/main.cu, is a function of the host: a kernel calls it if it is marked __device__.";
    refused.says(advice);
    let guarded = main.replacen(
        "#include",
        "// launch: grid=1 block=1\n// args: i32[1]=zeros\n#ifndef __CUDACC_RTC__\n#include",
        1,
    );
    let guarded = guarded
        .replace("__global__", "#endif\n__global__")
        .replace("int main", "#ifndef __CUDACC_RTC__\nint main");
    write(folder, "kernels/main.cu", guarded + "#endif\n");
    let ran = run("run kernels/main.cu");
    ran.says("argument 0, i32[1]: 1\n");
}
