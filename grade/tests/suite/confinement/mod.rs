//! Ways out of the sandbox, from a build and from a run: all fail in it, and succeed without it. And builds without end.

use std::cell::Cell;
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{self, Command};
use std::time::Duration;

use exercise_kit::message::{Request, Run};
use grade::child::compiler::{Compiler, Error};
use grade::child::{Child, Deadline, Limits, Lost, Program, note};

/// What no submission may read. It is Rust, so that `include!` takes it.
const SECRET: &str = "pub const NUMBER: u32 = 4711;\n";

/// Ways to open a file while a library is compiled: a name, and the source. `@` is the folder around that of the submission,
/// `#` the number of the grader's process, `%` that of a file which it has open.
const OF_A_BUILD: [(&str, &str); 11] = [
    (
        "a text",
        r#"pub const TEXT: &str = include_str!("@/secret");"#,
    ),
    (
        "bytes",
        r#"pub const BYTES: &[u8] = include_bytes!("@/secret");"#,
    ),
    ("Rust", r#"include!("@/secret");"#),
    ("a module", r#"#[path = "@/secret"] pub mod secret;"#),
    (
        "the folder above",
        r#"pub const TEXT: &str = include_str!("../secret");"#,
    ),
    ("a link", r#"pub const TEXT: &str = include_str!("link");"#),
    ("documentation", r#"#![doc = include_str!("@/secret")]"#),
    (
        "the assembler",
        r#"core::arch::global_asm!(".incbin \"@/secret\"");"#,
    ),
    (
        "a system's file",
        r#"pub const BYTES: &[u8] = include_bytes!("/etc/passwd");"#,
    ),
    (
        "the grader's environment",
        r#"pub const BYTES: &[u8] = include_bytes!("/proc/#/environ");"#,
    ),
    (
        "the grader's open file",
        r#"pub const BYTES: &[u8] = include_bytes!("/proc/#/fd/%");"#,
    ),
];

/// Ways to open a file from a program: names and expressions, which are true if it is open.
const OF_A_RUN: [(&str, &str); 13] = [
    ("a path", r#"fs::read("@/secret").is_ok()"#),
    ("the folder above", r#"fs::read("../secret").is_ok()"#),
    (
        "writing",
        r#"OpenOptions::new().append(true).open("@/secret").is_ok()"#,
    ),
    ("a new file", r#"fs::write("@/new", "").is_ok()"#),
    (
        "a link",
        r#"symlink("@/secret", "link").is_ok() && fs::read("link").is_ok()"#,
    ),
    (
        "a hard link",
        r#"fs::hard_link("@/secret", "hard").is_ok() && fs::read("hard").is_ok()"#,
    ),
    (
        "renaming",
        r#"fs::rename("@/to-rename", "renamed").is_ok() && fs::read("renamed").is_ok()"#,
    ),
    ("a folder's list", r#"fs::read_dir("@").is_ok()"#),
    ("a system's file", r#"fs::read("/etc/passwd").is_ok()"#),
    (
        "the grader's environment",
        r#"fs::read("/proc/#/environ").is_ok()"#,
    ),
    (
        "the grader's open file",
        r#"fs::read("/proc/#/fd/%").is_ok()"#,
    ),
    ("an inherited file", r#"from_descriptor(%)"#),
    (
        "another program",
        r#"Command::new("/bin/cat").arg("@/secret").output().is_ok_and(|it| it.status.success())"#,
    ),
];

const MINUTE: Duration = Duration::from_secs(60);

/// Files around a submission, and one that stays open for every process that this one starts.
struct Folder {
    path: PathBuf,
    open: File,
}

impl Folder {
    fn new(name: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = fs::remove_dir_all(&path);
        for folder in ["submission", "output"] {
            fs::create_dir_all(path.join(folder)).unwrap();
        }
        for secret in ["secret", "to-rename"] {
            fs::write(path.join(secret), SECRET).unwrap();
        }
        symlink(path.join("secret"), path.join("submission/link")).unwrap();
        let open = File::open(path.join("secret")).unwrap();
        // SAFETY: numbers only. The flag with which exec closes a file is taken off.
        let done = unsafe { libc::fcntl(open.as_raw_fd(), libc::F_SETFD, 0) };
        assert_eq!(done, 0);
        Self { path, open }
    }

    /// Compiles this source.
    fn compile(&self, kind: &str, source: &str, confined: bool) -> Result<(), Error> {
        self.compile_in(MINUTE, kind, source, confined)
    }

    /// Compiles this source, in at most so much processor time.
    fn compile_in(
        &self,
        work: Duration,
        kind: &str,
        source: &str,
        confined: bool,
    ) -> Result<(), Error> {
        let folder = self.path.join("submission");
        let source = source
            .replace('@', self.path.to_str().unwrap())
            .replace('%', &self.open.as_raw_fd().to_string())
            .replace("/proc/#", &format!("/proc/{}", process::id()));
        fs::write(folder.join("source.rs"), source).unwrap();
        let toolchain = Command::new("rustc")
            .args(["--print", "sysroot"])
            .output()
            .unwrap();
        let toolchain = String::from_utf8(toolchain.stdout).unwrap();
        let output = self.path.join("output");
        let compiler = Compiler {
            toolchain: Path::new(toolchain.trim_end()),
            folder: &folder,
            readable: &[&folder],
            output: &output,
            work,
            confined,
            cost: &Cell::default(),
        };
        let arguments = [
            "--edition=2024",
            "--error-format=json",
            &format!("--crate-type={kind}"),
            "--out-dir",
            output.to_str().unwrap(),
            "source.rs",
        ];
        compiler.run(&arguments.map(str::to_owned), &[])
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

#[test]
fn a_build_opens_no_file_of_others() {
    let folder = Folder::new("ways-of-a-build");
    for (way, source) in OF_A_BUILD {
        let open = folder.compile("lib", source, false);
        assert!(open.is_ok(), "{way}: without the sandbox: {open:?}");
        if note().is_none() {
            let Err(Error::Refused { headline, messages }) = folder.compile("lib", source, true)
            else {
                panic!("{way} opens it");
            };
            assert!(!messages.contains("4711"), "{way}: {headline}: {messages}");
        }
    }
    // The linker takes a text for a script, and shows what it does not understand. It looks for it from a folder of its own.
    let library = "../".repeat(32) + folder.path.join("secret").to_str().unwrap();
    let source = format!(
        "#[link(name = {library:?}, kind = \"dylib\", modifiers = \"+verbatim\")] unsafe extern \"C\" {{}} fn main() {{}}"
    );
    for confined in [false, true] {
        let Err(Error::Refused { messages, .. }) = folder.compile("bin", &source, confined) else {
            panic!("a script of the linker is no error");
        };
        let shown = messages.contains("4711");
        assert!(
            shown != confined || note().is_some(),
            "{confined}: {messages}"
        );
    }
}

#[test]
fn a_program_opens_no_file_of_others() {
    let folder = Folder::new("ways-of-a-run");
    let ways = OF_A_RUN.map(|(way, open)| format!("println!(\"{way}: {{}}\", {open});\n"));
    let source = include_str!("program.rs").replace("WAYS", &ways.concat());
    folder.compile("bin", &source, true).unwrap();
    let program = Program {
        path: folder.path.join("output/source"),
        cache: folder.path.join("cache"),
    };
    let empty = || {
        let _ = fs::remove_dir_all(&program.cache);
        fs::create_dir_all(&program.cache).unwrap();
    };
    let report = |answer| {
        OF_A_RUN
            .map(|(way, _)| format!("{way}: {answer}\n"))
            .concat()
    };

    if note().is_none() {
        empty();
        let mut child = Child::start(&program, &Limits::default(), false).unwrap();
        let request = Request {
            call: (),
            run: Run::default(),
        };
        child
            .call(&request, MINUTE, Deadline::new(MINUTE), &mut |_| {})
            .unwrap_err();
        assert_eq!(child.finish(), report(false));
    }
    empty();
    let mut unconfined = Command::new(&program.path);
    let output = unconfined.current_dir(&program.cache).output().unwrap();
    assert_eq!(String::from_utf8(output.stderr).unwrap(), report(true));
}

#[test]
fn a_call_that_goes_on_without_end_is_stopped() {
    let folder = Folder::new("goes-on");
    folder
        .compile("bin", include_str!("goes_on.rs"), true)
        .unwrap();
    let program = Program {
        path: folder.path.join("output/source"),
        cache: folder.path.join("cache"),
    };
    fs::create_dir_all(&program.cache).unwrap();
    let mut child = Child::start(&program, &Limits::default(), false).unwrap();
    let request = Request {
        call: (),
        run: Run::default(),
    };
    let (mut heard, limit) = (0, Duration::from_millis(500));
    let lost = child.call(&request, limit, Deadline::new(MINUTE), &mut |_| heard += 1);
    assert!(matches!(lost, Err(Lost::TimedOut(_))), "{lost:?}");
    assert!(heard > 0);
}

#[test]
fn a_build_knows_nothing_of_the_graders_environment() {
    let folder = Folder::new("environment");
    for name in ["HOME", "CARGO_MANIFEST_DIR"] {
        assert!(std::env::var_os(name).is_some(), "{name}");
        let source = format!("const _: () = assert!(option_env!({name:?}).is_none());");
        folder.compile("lib", &source, true).unwrap();
    }
}

#[test]
fn a_build_without_end_is_stopped() {
    let folder = Folder::new("endless");
    let endless = "#![allow(long_running_const_eval)] pub const _: () = loop {};";
    let stopped = folder.compile_in(Duration::from_secs(1), "lib", endless, true);
    assert_eq!(
        stopped.unwrap_err().to_string(),
        "the compiler was stopped: it worked for 1 s"
    );
    let reason = |source| folder.compile("lib", source, true).unwrap_err().to_string();
    let large = "pub static LARGE: [u8; 10 << 30] = [1; 10 << 30];";
    assert!(reason(large).contains("memory"), "{}", reason(large));
    let growing = r#"#![recursion_limit = "512"]
        macro_rules! grow { ($($x:tt)*) => { grow!($($x)* $($x)*); } }
        grow!(a b c d);"#;
    let why = reason(growing);
    assert!(why.contains("memory allocation of"), "{why}");
    let errors = r#"macro_rules! ten { ($m:ident $($x:tt)*) => {
            $m!($($x)*); $m!($($x)*); $m!($($x)*); $m!($($x)*); $m!($($x)*);
            $m!($($x)*); $m!($($x)*); $m!($($x)*); $m!($($x)*); $m!($($x)*);
        } }
        macro_rules! one { () => { compile_error!("one of many"); } }
        ten!(ten ten ten ten one);"#;
    assert_eq!(
        reason(errors),
        "the compiler was stopped: it wrote 16 MiB of messages"
    );
}
