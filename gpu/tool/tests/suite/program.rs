//! The parts of the program that keep a workspace: `refresh`, `info`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use gpu::unit::{Folder, Unit};
use gpu::{find_nvrtc, ptx_file};
use gpu_tool::workspace;

use crate::common::{folder, root, run, write};

/// A workspace with one package, `p`, of two variants.
fn workspace(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("program")
        .join(name);
    let _ = fs::remove_dir_all(&root);
    write(&root, "Cargo.toml", "[workspace]\nmembers = [\"p\"]\n");
    write(&root, "p/Cargo.toml", "[package]\nname = \"p\"\n");
    write(&root, "p/kernels/variants.txt", "a.cu\na.cu N=4\n");
    write(
        &root,
        "p/kernels/half.cuh",
        "#pragma once\n__device__ __noinline__ float half_of(float x) { return x / 2; }\n",
    );
    write(
        &root,
        "p/kernels/a.cu",
        "#include \"prelude.cuh\"\n#include \"half.cuh\"\n#ifndef N\n#define N 1\n#endif\n\
         extern \"C\" __global__ void a(float* x) { x[N] = warp_max(half_of(x[0])); }\n",
    );
    root
}

/// The same with files whose keys say that they are current.
fn current_workspace(name: &str) -> PathBuf {
    let root = workspace(name);
    fs::create_dir(root.join("p/ptx")).unwrap();
    let kernels = root.join("p/kernels");
    let read = |folder: Folder<'_>, name: &str| Ok(workspace::read(&kernels, folder, name));
    for constants in [&[][..], &[("N", "4")]] {
        let unit = Unit::new("p", "a.cu", constants, read).unwrap().unwrap();
        let text = format!("// key: {}\n", unit.key());
        write(&root.join("p/ptx"), &ptx_file::name(&unit), text);
    }
    root
}

fn ptx(root: &Path) -> Vec<(String, String)> {
    let entries = fs::read_dir(root.join("p/ptx"))
        .unwrap()
        .map(|entry| entry.unwrap());
    let mut files: Vec<_> = entries
        .map(|entry| {
            (
                entry.file_name().into_string().unwrap(),
                fs::read_to_string(entry.path()).unwrap(),
            )
        })
        .collect();
    files.sort();
    files
}

/// The NVRTC that the tests of this checkout use; the temporary workspaces have none of their own.
fn nvrtc() -> String {
    let path = gpu::find_nvrtc::search()
        .unwrap()
        .found
        .expect("NVRTC, which this test needs, is installed");
    path.into_os_string().into_string().unwrap()
}

#[test]
#[ignore = "needs NVRTC"]
fn two_checkouts_give_the_same_ptx() {
    let (first, second) = (workspace("checkout"), workspace("another/folder/checkout"));
    let nvrtc = nvrtc();
    for root in [&first, &second] {
        let run = run(&root.join("p"), &["refresh"], &[("NVRTC_PATH", &nvrtc)]);
        run.succeeds();
    }
    let files = ptx(&first);
    assert_eq!(files, ptx(&second));
    assert_eq!(
        files
            .iter()
            .map(|(name, _)| name.as_str())
            .collect::<Vec<_>>(),
        ["a-N_4.ptx", "a.ptx"]
    );
    for (name, text) in &files {
        assert!(
            text.contains("\"/k/p/kernels/half.cuh\"")
                && text.contains("\"/k/gpu/kernels/prelude.cuh\""),
            "{text}"
        );
        assert!(
            !text.contains("checkout"),
            "{name} names the folder it was made in"
        );
    }
}

#[test]
#[ignore = "needs NVRTC"]
fn check_lists_what_differs_and_changes_nothing() {
    let root = workspace("check");
    let nvrtc = nvrtc();
    let run = |arguments: &[&str]| run(&root, arguments, &[("NVRTC_PATH", &nvrtc)]);

    let absent = run(&["refresh", "--check"]);
    absent
        .fails()
        .says("write p/ptx/a-N_4.ptx\nwrite p/ptx/a.ptx");
    assert!(!root.join("p/ptx").exists());
    assert!(run(&["refresh"]).success);
    assert!(run(&["refresh", "--check"]).success);

    write(&root, "p/ptx/a.ptx", "edited");
    write(&root, "p/ptx/old.ptx", "");
    write(&root, "p/ptx/README.md", "");
    let before = ptx(&root);
    let stale = run(&["refresh", "--check"]);
    stale
        .fails()
        .says("write p/ptx/a.ptx\ndelete p/ptx/old.ptx");
    stale.omits("N_4").omits("README");
    assert_eq!(ptx(&root), before);
    assert!(run(&["refresh"]).success);

    // The resource report takes a compilation for each architecture: `--all` compares it.
    let path = root.join("p/ptx/a.ptx");
    let good = fs::read_to_string(&path).unwrap();
    let edited = good.replacen("registers ", "registers 1", 1);
    assert_ne!(edited, good);
    fs::write(&path, edited).unwrap();
    assert!(run(&["refresh", "--check"]).success);
    run(&["refresh", "--check", "--all"])
        .fails()
        .says("write p/ptx/a.ptx");
    let report = |line: &&str| line.starts_with("// sm_");
    let lines = good.split_inclusive('\n');
    let without: String = lines.filter(|line| !report(line)).collect();
    assert_ne!(without, good);
    fs::write(&path, without).unwrap();
    run(&["refresh", "--check"])
        .fails()
        .says("write p/ptx/a.ptx");
    fs::write(&path, good).unwrap();

    let names: Vec<String> = ptx(&root).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["README.md", "a-N_4.ptx", "a.ptx"]);
}

#[test]
#[ignore = "needs NVRTC"]
fn only_what_is_stale_is_compiled() {
    let root = workspace("stale");
    let nvrtc = nvrtc();
    let run = |arguments: &[&str]| run(&root, arguments, &[("NVRTC_PATH", &nvrtc)]).text;

    let first = run(&["refresh"]);
    assert!(
        first.contains("1 of 2: p/kernels/a.cu N=4 (")
            && first.contains("2 of 2: p/kernels/a.cu ("),
        "{first}"
    );
    assert_eq!(run(&["refresh"]), "committed PTX is current: 2 files\n");

    // A file that is not what its key says is beyond `refresh`, not beyond `refresh --all`.
    let path = root.join("p/ptx/a.ptx");
    let good = fs::read_to_string(&path).unwrap();
    fs::write(&path, good.clone() + "// edited\n").unwrap();
    assert_eq!(run(&["refresh"]), "committed PTX is current: 2 files\n");
    assert!(run(&["refresh", "--check"]).contains(" refresh --all` would\nwrite p/ptx/a.ptx\n"));
    assert!(run(&["refresh", "--all"]).starts_with("write p/ptx/a.ptx\n"));
    assert_eq!(fs::read_to_string(&path).unwrap(), good);

    // An edit of a header makes all that include it stale.
    let header = root.join("p/kernels/half.cuh");
    let text = fs::read_to_string(&header).unwrap();
    fs::write(&header, text.replace("x / 2", "x / 3")).unwrap();
    let edited = run(&["refresh"]);
    assert!(edited.contains("2 of 2: p/kernels/a.cu ("), "{edited}");

    write(&root, "p/kernels/variants.txt", "a.cu\na.cu N=8\n");
    let third = run(&["refresh"]);
    assert!(third.contains("1 of 1: p/kernels/a.cu N=8 ("), "{third}");
    assert!(
        third.starts_with("write p/ptx/a-N_8.ptx\ndelete p/ptx/a-N_4.ptx\n"),
        "{third}"
    );
}

#[test]
fn what_is_current_needs_no_compiler() {
    let root = current_workspace("current");
    let run = || run(&root, &["refresh"], &[("NVRTC_PATH", "/nowhere")]);
    let current = run();
    current.succeeds();
    assert_eq!(current.text, "committed PTX is current: 2 files\n");

    let header = root.join("p/kernels/half.cuh");
    let text = fs::read_to_string(&header).unwrap();
    fs::write(&header, text.replace("x / 2", "x / 3")).unwrap();
    let edited = run();
    edited.fails().says("/nowhere");
}

#[test]
#[ignore = "needs NVRTC"]
fn a_change_that_fails_is_told_after_those_that_were_made() {
    let root = workspace("fails");
    fs::create_dir_all(root.join("p/ptx/a.ptx")).unwrap(); // a folder is not replaced
    write(&root, "p/ptx/b.ptx", "");
    let run = run(&root, &["refresh"], &[("NVRTC_PATH", &nvrtc())]);
    let told = "write p/ptx/a-N_4.ptx\n";
    let error = "error: cannot write p/ptx/a.ptx; the changes listed before were made";
    assert!(
        !run.success && run.text.starts_with(told) && run.errors.contains(error),
        "{}",
        run.text
    );
    let left = |name: &str| root.join("p/ptx").join(name).is_file();
    assert!(left("a-N_4.ptx") && left("b.ptx"));
}

#[test]
#[ignore = "needs NVRTC"]
fn a_kernel_that_does_not_compile_leaves_the_committed_files_alone() {
    let root = workspace("broken");
    // `a.cu` compiles, and comes first.
    write(&root, "p/kernels/b.cu", "nonsense\n");
    write(&root, "p/kernels/variants.txt", "a.cu\nb.cu\n");
    fs::create_dir(root.join("p/ptx")).unwrap();
    write(&root, "p/ptx/a.ptx", "stale");
    write(&root, "p/ptx/old.ptx", "");
    let before = ptx(&root);
    let run = run(&root, &["refresh"], &[("NVRTC_PATH", &nvrtc())]);
    run.fails()
        .says("1 of 2: p/kernels/a.cu (")
        .says("no file was changed")
        .says("p/kernels/b.cu(1): error");
    assert_eq!(ptx(&root), before);
}

/// The compiler's thread may not read the manifest that tells which command runs the program.
#[test]
#[ignore = "needs NVRTC"]
fn advice_names_the_command_of_this_workspace() {
    let file = folder("advice").join("half.cu");
    fs::write(&file, "__global__ void k(__half* x) {}\n").unwrap();
    let run = run(root(), &["ptx", file.to_str().unwrap()], &[]);
    run.fails()
        .says("`cargo gpu fetch-nvrtc --headers` installs");
}

#[test]
fn a_library_that_is_not_nvrtc_is_refused() {
    let root = workspace("not_nvrtc");
    let other = root.join("libnvrtc.so.12");
    fs::write(&other, "text").unwrap();
    let run = run(
        &root,
        &["refresh"],
        &[("NVRTC_PATH", other.to_str().unwrap())],
    );
    run.fails()
        .says("is not a usable NVRTC: dlopen failed: ")
        .says("too short");
}

#[test]
fn outside_a_workspace_refresh_says_so() {
    let run = run(Path::new("/"), &["refresh", "--check"], &[]);
    run.fails().says("no Cargo.toml with [workspace]");
}

#[test]
fn outside_a_workspace_the_compiler_is_that_of_the_workspace_built_in() {
    let elsewhere = std::env::temp_dir().join(format!("gpu-elsewhere-{}", std::process::id()));
    fs::create_dir_all(&elsewhere).unwrap();
    let source = "// launch: grid=1 block=1\n__global__ void nothing() {}\n";
    write(&elsewhere, "nothing.cu", source);
    let mut variables = [
        "PATH",
        "NVRTC_PATH",
        "CUDA_HOME",
        "CUDA_PATH",
        "VIRTUAL_ENV",
    ]
    .map(|name| (name, ""));
    variables[0].1 = "/nowhere"; // no pip
    let cache = elsewhere.join("cache");
    let with_cache: Vec<_> = variables
        .into_iter()
        .chain([("GPU_CACHE_DIR", cache.to_str().unwrap())])
        .collect();
    let fetch = run(&elsewhere, &["fetch-nvrtc"], &variables);
    let ran = run(&elsewhere, &["run", "nothing.cu"], &with_cache);
    fs::remove_dir_all(&elsewhere).unwrap();

    let own = root().join(find_nvrtc::WORKSPACE_FOLDER);
    if fetch.success {
        fetch.says(own.to_str().unwrap());
        ran.succeeds();
    } else {
        fetch.says("takes Python 3 with pip");
    }
    if !ran.success {
        let looked = format!("Looked in:\n  {}/", own.display());
        ran.begins("error: nothing.cu needs a compiler, and NVRTC is not installed.")
            .says(&looked);
    }
}

#[test]
fn info_tells_of_a_device_that_cannot_be_had() {
    let root = workspace("info");
    let run = run(&root, &["info"], &[("GPU", "tpu")]);
    run.succeeds().says("GPU=tpu names no device");
    let stale = "committed PTX: p 0 (2 stale); `cargo run --manifest-path ";
    run.says(stale)
        .says("/gpu/tool/Cargo.toml -- refresh` compiles");
}

#[test]
fn info_counts_what_is_stale() {
    let root = current_workspace("info-stale");
    let info = || run(&root, &["info"], &[("GPU", "sim")]).text;
    assert!(info().contains("committed PTX: p 2\n"), "{}", info());
    let kernel = root.join("p/kernels/a.cu");
    let text = fs::read_to_string(&kernel).unwrap();
    fs::write(&kernel, text + "// edited\n").unwrap();
    assert!(
        info().contains("committed PTX: p 2 (2 stale); `"),
        "{}",
        info()
    );
}

/// Adds package `q` to a workspace: its kernel includes a header of `p` that the kernels of `p` do
/// not.
fn with_package_above(root: &Path) {
    write(
        root,
        "p/kernels/third.cuh",
        "__device__ __noinline__ float third_of(float x) { return x / 3; }\n",
    );
    write(root, "q/Cargo.toml", "[package]\nname = \"q\"\n");
    write(root, "q/kernels/variants.txt", "b.cu\n");
    write(
        root,
        "q/kernels/b.cu",
        "#include \"p/third.cuh\"\nextern \"C\" __global__ void b(float* x) { x[0] = third_of(x[1]); }\n",
    );
}

#[test]
fn an_edited_header_makes_kernels_of_packages_above_stale() {
    let root = current_workspace("header");
    with_package_above(&root);
    let kernels = root.join("q/kernels");
    let read = |folder: Folder<'_>, name: &str| Ok(workspace::read(&kernels, folder, name));
    let unit = Unit::new("q", "b.cu", &[], read).unwrap().unwrap();
    fs::create_dir(root.join("q/ptx")).unwrap();
    write(&root, "q/ptx/b.ptx", format!("// key: {}\n", unit.key()));
    let refresh = || run(&root, &["refresh"], &[("NVRTC_PATH", "/none")]);
    let current = refresh();
    current.succeeds().says("committed PTX is current: 3 files");
    write(&root, "p/kernels/third.cuh", "// edited\n");
    assert!(!refresh().success, "it needs the compiler now");
    fs::remove_file(root.join("p/kernels/third.cuh")).unwrap();
    let missing = refresh();
    missing.says("q/kernels/b.cu includes \"p/third.cuh\", which is not there");
}

#[test]
#[ignore = "needs NVRTC"]
fn kernels_of_packages_above_are_compiled_with_their_headers() {
    let root = workspace("above");
    with_package_above(&root);
    let nvrtc = nvrtc();
    let run = |arguments: &[&str]| run(&root, arguments, &[("NVRTC_PATH", &nvrtc)]);
    let refreshed = run(&["refresh"]);
    refreshed.succeeds();
    let ptx = fs::read_to_string(root.join("q/ptx/b.ptx")).unwrap();
    assert!(ptx.contains("\"/k/p/kernels/third.cuh\""), "{ptx}");
    let shown = run(&["ptx", "q/kernels/b.cu", "--lines"]);
    shown.says("// p/kernels/third.cuh:1: __device__");
}

#[test]
fn a_reader_that_stops_is_no_error() {
    let kernel = "run gpu/kernels/vector_add.cu --arg f32[8]=iota --arg f32[8]=ones --arg f32[8]=uninit --arg i32=8";
    for line in ["info", kernel] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_gpu"))
            .args(line.split(' '))
            .current_dir(root())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take()); // every write fails from here on
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{line}: {output:?}");
        assert!(output.stderr.is_empty(), "{line}: {output:?}");
    }
}
