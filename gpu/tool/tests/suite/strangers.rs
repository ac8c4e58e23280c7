//! Files of strangers, given to the program as an instructor would: nothing outside a kernel's
//! folder is shown, and every run ends soon, in little memory.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::{DOUBLE, Run, folder, words, write};

/// A text that nobody may see, in a folder that is not the kernel's.
const SECRET: &str = "the_secret_of_another_folder";

/// Every run ends within this processor time and this memory.
const SECONDS: u64 = 10;
const KIB: u64 = 1 << 20;

/// A folder with `kernel/` and, outside of it, `secret.txt` and others with its text.
fn place(name: &str) -> (PathBuf, PathBuf) {
    let outside = folder(&format!("strangers-{name}"));
    let own = outside.join("kernel");
    fs::create_dir(&own).unwrap();
    for file in ["secret.txt", "secret.cu", "secret.cuh", "secret.ptx"] {
        write(&outside, file, format!("{SECRET}\n").repeat(40));
    }
    (outside, own)
}

/// Runs the program with time and memory measured.
fn run(folder: &Path, line: &str) -> Run {
    let start = Instant::now();
    let out = folder.join("stdout");
    let err = folder.join("stderr");
    let mut child = Command::new(env!("CARGO_BIN_EXE_gpu"))
        .args(words(line))
        .current_dir(folder)
        .env("GPU_CACHE_DIR", folder.join("cache"))
        .stdin(Stdio::null())
        .stdout(fs::File::create(&out).unwrap())
        .stderr(fs::File::create(&err).unwrap())
        .spawn()
        .unwrap();
    let mut peak = 0;
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        peak = peak.max(resident(child.id()));
        let worked = worked(child.id());
        let waits = start.elapsed() > Duration::from_secs(10 * SECONDS);
        if worked > SECONDS || waits || peak > KIB {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!(
                "{line}: {worked} s of work, {:?}, {peak} KiB",
                start.elapsed()
            );
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let read = |path: &Path| String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned();
    Run {
        success: status.success(),
        status: status.code(),
        text: read(&out) + &read(&err),
        errors: read(&err),
    }
}

/// The most memory that a process has had, KiB.
fn resident(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// Processor time of a process in whole seconds.
fn worked(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let behind_the_name = status.rsplit(')').next().unwrap_or_default();
    let fields = behind_the_name.split_whitespace().skip(11).take(2);
    fields
        .filter_map(|ticks| ticks.parse::<u64>().ok())
        .sum::<u64>()
        / 100
}

/// Runs a file by each command; none may show the secret.
fn all(folder: &Path, file: &str) -> Vec<Run> {
    let lines = ["run", "check --seeds 1", "profile", "ptx --lines"];
    let runs = lines.map(|line| {
        let ran = run(folder, &format!("{line} {file}"));
        ran.omits(SECRET);
        ran
    });
    runs.into()
}

fn fifo(path: &Path) {
    let made = Command::new("mkfifo").arg(path).status().unwrap();
    assert!(made.success());
}

/// PTX that names a source file for its one line, which faults.
fn faulty(source: &str) -> String {
    format!(
        "// launch: grid=1 block=32\n.version 8.4\n.target sm_75\n.address_size 64\n.visible .entry faulty()\n{{\n\
         .reg .b32 %r<3>;\n.reg .b64 %d<2>;\n.loc 1 3 1\nmov.u64 %d1, 64;\nld.global.u32 %r1, [%d1];\nret;\n}}\n\
         .file 1 \"{source}\"\n"
    )
}

#[test]
fn a_source_line_outside_of_the_folder_is_not_shown() {
    let (outside, own) = place("loc");
    write(&own, "own.txt", "one\ntwo\nthis is mine\n");
    symlink("../secret.txt", own.join("link.txt")).unwrap();
    symlink("..", own.join("up")).unwrap();
    let absolute = outside.join("secret.txt").display().to_string();
    for source in [
        &absolute,
        "/k/../secret.txt",
        "../secret.txt",
        "link.txt",
        "up/secret.txt",
        "/etc/passwd",
        ".",
    ] {
        write(&own, "k.ptx", faulty(source));
        for ran in all(&own, "k.ptx") {
            ran.omits("root:");
        }
    }
    // Its own files are shown.
    for source in [
        own.join("own.txt").display().to_string(),
        "own.txt".to_owned(),
    ] {
        write(&own, "k.ptx", faulty(&source));
        let ran = run(&own, "check k.ptx");
        ran.says(">    3 | this is mine");
    }
}

#[test]
fn a_source_of_the_workspace_is_shown_only_of_kernels() {
    let (outside, _) = place("workspace");
    write(&outside, "Cargo.toml", "[workspace]\n");
    let kernels = outside.join("p/kernels");
    fs::create_dir_all(&kernels).unwrap();
    fs::create_dir(outside.join("p/ptx")).unwrap();
    write(&kernels, "k.cu", "one\ntwo\nof a kernel\n");
    write(&kernels, "notes.txt", SECRET);
    symlink("../../secret.cu", kernels.join("link.cu")).unwrap();
    for source in [
        "secret.txt",
        "p/kernels/../../secret.cu",
        "p/kernels/link.cu",
        "p/kernels/notes.txt",
        "Cargo.toml",
    ] {
        write(&outside, "p/ptx/k.ptx", faulty(&format!("/k/{source}")));
        for ran in all(&outside.join("p/ptx"), "k.ptx") {
            ran.omits("[workspace]");
        }
    }
    // A kernel file may be a link to one of another package, and to nothing else.
    let links = outside.join("q/kernels");
    fs::create_dir_all(&links).unwrap();
    symlink("../../p/kernels/k.cu", links.join("k.cu")).unwrap();
    symlink("../../secret.cu", links.join("secret.cu")).unwrap();
    let linked = run(&outside, "ptx q/kernels/k.cu");
    linked.omits("it lies outside");
    for ran in all(&links, "secret.cu") {
        ran.says("it lies outside of the folder");
    }
    write(&outside, "p/ptx/k.ptx", faulty("/k/p/kernels/k.cu"));
    let ran = run(&outside, "check p/ptx/k.ptx");
    ran.says(">    3 | of a kernel");
}

#[test]
fn devices_pipes_and_endless_files_are_refused() {
    let (_, own) = place("devices");
    fifo(&own.join("pipe"));
    fifo(&own.join("pipe.cu"));
    fifo(&own.join("pipe.npy"));
    symlink("/dev/zero", own.join("zero")).unwrap();
    symlink("/dev/zero", own.join("zero.cu")).unwrap();
    symlink("/dev/zero", own.join("zero.npy")).unwrap();
    symlink("loop", own.join("loop")).unwrap();
    let sparse = fs::File::create(own.join("sparse.ptx")).unwrap();
    sparse.set_len(1 << 40).unwrap();
    let sparse = fs::File::create(own.join("sparse.npy")).unwrap();
    sparse.set_len(1 << 40).unwrap();
    fs::create_dir(own.join("folder.cu")).unwrap();
    for file in ["pipe.cu", "zero.cu", "sparse.ptx", "folder.cu"] {
        for ran in all(&own, file) {
            ran.fails();
        }
    }
    for source in [
        "pipe",
        "zero",
        "/dev/zero",
        "/dev/stdin",
        "/proc/self/environ",
        "loop",
        "sparse.npy",
    ] {
        write(&own, "k.ptx", faulty(source));
        all(&own, "k.ptx");
    }
    for file in ["pipe.npy", "zero.npy", "sparse.npy", "/dev/zero", "loop"] {
        let args = format!("// args: f32=@{file}");
        write(&own, "k.ptx", DOUBLE.replace("// args: f32[8]=iota", &args));
        for command in ["run", "check", "profile"] {
            let ran = run(&own, &format!("{command} k.ptx"));
            ran.fails();
        }
    }
    // Of the workspace's search, too.
    fifo(&own.join("Cargo.toml"));
    write(&own, "k.ptx", DOUBLE);
    assert!(all(&own, "k.ptx").iter().all(|ran| ran.success));
    fs::remove_file(own.join("Cargo.toml")).unwrap();
    symlink("/dev/zero", own.join("Cargo.toml")).unwrap();
    assert!(all(&own, "k.ptx").iter().all(|ran| ran.success));
}

#[test]
fn a_kernel_file_that_is_a_link_elsewhere_is_refused() {
    let (outside, own) = place("links");
    write(&outside, "double.ptx", DOUBLE);
    for (link, to) in [
        ("a.ptx", "../secret.ptx"),
        ("a.cu", "../secret.cu"),
        ("b.ptx", "../double.ptx"),
    ] {
        symlink(to, own.join(link)).unwrap();
        for ran in all(&own, link) {
            let refused = ran.text.contains("it lies outside of the folder");
            assert!(!ran.success && refused, "{}", ran.text);
        }
    }
    // Within the folder a link is no matter.
    write(&own, "double.ptx", DOUBLE);
    symlink("double.ptx", own.join("c.ptx")).unwrap();
    assert!(all(&own, "c.ptx").iter().all(|ran| ran.success));
    // Nor is one that the user goes through.
    symlink(&own, outside.join("there")).unwrap();
    assert!(
        all(&outside, "there/double.ptx")
            .iter()
            .all(|ran| ran.success)
    );
}

#[test]
fn a_file_names_arrays_of_its_own_folder() {
    let (outside, own) = place("arrays");
    write(&own, "k.ptx", DOUBLE);
    let saved = run(&own, "run k.ptx --out 0=own.npy");
    saved.succeeds();
    fs::copy(own.join("own.npy"), outside.join("other.npy")).unwrap();
    symlink("../other.npy", own.join("link.npy")).unwrap();
    let of_file = |name: &str| {
        let ptx = DOUBLE.replace("f32[8]=iota", &format!("f32=@{name}"));
        write(&own, "k.ptx", ptx.replace("// expect", "// then"));
        run(&own, "run k.ptx")
    };
    let absolute = outside.join("other.npy").display().to_string();
    for name in [&absolute, "../other.npy", "link.npy"] {
        let ran = of_file(name);
        let refused = ran.text.contains("it lies outside of the folder")
            && ran
                .text
                .contains("an argument of the command line may name it");
        assert!(!ran.success && refused, "{}", ran.text);
    }
    assert!(of_file("own.npy").success);
    // A file that a flag names is the user's.
    let flag = run(&own, &format!("run k.ptx --arg f32=@{absolute}"));
    flag.succeeds();
}

#[test]
fn a_file_may_not_ask_for_much_memory() {
    let (_, own) = place("memory");
    for (args, why) in [
        (
            "f32[1000000000]=ones",
            "4000000000 bytes together, of at most 67108864",
        ),
        ("f32[99999999999999999]=ones", "bytes together, of at most"),
        (
            "f32[10000000]=ones f32[10000000]=zeros",
            "80000000 bytes together",
        ),
        (
            "{f32[10000000]=ones,f32[10000000]=zeros}",
            "80000000 bytes together",
        ),
    ] {
        write(&own, "k.ptx", DOUBLE.replace("f32[8]=iota", args));
        let ran = run(&own, "check k.ptx");
        ran.fails().says(why);
    }
}

#[test]
#[ignore = "needs NVRTC"]
fn a_header_outside_of_the_folder_is_not_read() {
    let (outside, own) = place("headers");
    symlink("../secret.cuh", own.join("link.cuh")).unwrap();
    fifo(&own.join("pipe.cuh"));
    symlink("/dev/zero", own.join("zero.cuh")).unwrap();
    write(&own, "own.cuh", "#include \"../secret.cuh\"\n");
    let absolute = outside.join("secret.txt").display().to_string();
    let kernel = "__global__ void k() {}\n";
    for text in [
        format!("#include \"{absolute}\""),
        format!("#include <{absolute}>"),
        format!("#include < {absolute}>"),
        format!("%:include \"{absolute}\""),
        format!("??=include \"{absolute}\""),
        format!("# /* x\n */ inc\\\nlude \"{absolute}\""),
        format!("#\\u0069nclude \"{absolute}\""),
        format!("#include \"\\x2f{}\"", &absolute[1..]),
        format!("#include \"{absolute}\" // */"),
        format!("/* \n// */ #include \"{absolute}\""),
        format!("const char* s = R\"(/*)\"; \n#include \"{absolute}\"\n//*/"),
        format!("#define NAME \"{absolute}\"\n#include NAME"),
        format!("#define TEXT(x) #x\n#define NAME TEXT({absolute})\n#include NAME"),
        format!("#include_next <{absolute}>"),
        format!("#import <{absolute}>"),
        format!("#embed \"{absolute}\""),
        format!("__device__ const char s[] = {{\n#embed \"{absolute}\"\n}};"),
        format!("#define X #include \"{absolute}\"\nX"),
        format!("_Pragma(\"include \\\"{absolute}\\\"\")"),
        format!("asm(\".include \\\"{absolute}\\\";\");"),
        format!("asm(\"#include \\\"{absolute}\\\"\\n\");"),
        "#include \"../secret.cuh\"".to_owned(),
        "#include <../secret.cuh>".to_owned(),
        "#include \"link.cuh\"".to_owned(),
        "#include \"pipe.cuh\"".to_owned(),
        "#include \"zero.cuh\"".to_owned(),
        "#include \"own.cuh\"".to_owned(),
        "#include \"/dev/zero\"".to_owned(),
        "#include </dev/stdin>".to_owned(),
        "#include \"..\"".to_owned(),
        "#include \"gpu/../../secret.cuh\"".to_owned(),
        "#if __has_include(\"pipe.cuh\")\n#endif".to_owned(),
        "#if __has_\\\ninclude(\"pipe.cuh\")\n#endif".to_owned(),
        "#define JOIN(a, b) a##b\n#if JOIN(__has_, include)(\"pipe.cuh\")\n#endif".to_owned(),
        format!(
            "#define JOIN(a, b) a##b\n#if JOIN(__has_, include)(\"{absolute}\")\n#error {SECRET} is there\n#endif"
        ),
    ] {
        let launch = "// launch: grid=1 block=1\n";
        write(&own, "k.cu", format!("{launch}{text}\n{kernel}"));
        all(&own, "k.cu");
        // As a part of a kernel, where it may be read as code.
        write(
            &own,
            "k.cu",
            format!("{launch}__global__ void k() {{\n{text}\n}}\n"),
        );
        all(&own, "k.cu");
        // As a part of host code, which is blanked, and beside it.
        for program in [
            format!("{launch}int main() {{\n{text}\n}}\n{kernel}"),
            format!("{launch}int main() {{ }} {text}\n{kernel}"),
        ] {
            write(&own, "k.cu", program);
            let ran = run(&own, "ptx --lines k.cu");
            ran.omits(SECRET);
        }
    }
}

/// A file whose macros double: the compiler takes little memory and endless time.
fn doubling() -> String {
    let mut text = "#define X0 a +\n".to_owned();
    for level in 1..40 {
        text += &format!("#define X{level} X{0} X{0}\n", level - 1);
    }
    text += "__global__ void k(int* x, int a) { *x = X39 a; }\n";
    text
}

#[test]
#[ignore = "needs NVRTC"]
fn a_compilation_that_does_not_end_is_stopped() {
    let (_, own) = place("bombs");
    let deep = "template<int A, int B> struct S { static const int v = S<A - 1, B>::v + S<A - 1, B + (1 << (A % 30))>::v; };\n\
                template<int B> struct S<0, B> { static const int v = 1; };\n\
                __global__ void k(int* x) { *x = S<40, 0>::v; }\n";
    for text in [deep, &doubling()] {
        write(&own, "k.cu", format!("// launch: grid=1 block=1\n{text}"));
        for command in ["run", "check", "profile", "ptx"] {
            let ran = run(&own, &format!("{command} k.cu --timeout 3"));
            ran.fails();
            if ran.status == Some(124) {
                ran.says("while compiling");
            }
        }
    }
}

#[test]
#[ignore = "needs NVRTC"]
fn a_compilation_without_timeout_ends_by_its_processor_time() {
    let (_, own) = place("doubling");
    let text = format!("// launch: grid=1 block=1\n{}", doubling());
    write(&own, "k.cu", text);
    let ran = run(&own, "check k.cu");
    let limit =
        "stopped after 8 s of processor time (--timeout SECONDS gives more), while compiling";
    ran.says(limit);
    assert_eq!(ran.status, Some(124));
    // --timeout rules in its place.
    let ran = run(&own, "check k.cu --timeout 9.5");
    let limit = "stopped after 9.5 s, the limit of --timeout, while compiling";
    ran.says(limit);
}
