//! The program, run as a user runs it, and the device that its parts use.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use gpu_tool::CudaDevice;

/// The device of this process.
pub fn device() -> CudaDevice {
    CudaDevice::new(&gpu::context(0).unwrap())
}

/// Output of a run of the program, and its success.
pub struct Run {
    pub success: bool,
    pub status: Option<i32>,
    /// Standard output, then standard error.
    pub text: String,
    /// Standard error alone.
    pub errors: String,
}

impl Run {
    #[track_caller]
    pub fn succeeds(&self) -> &Self {
        assert!(self.success, "{}", self.text);
        self
    }

    #[track_caller]
    pub fn fails(&self) -> &Self {
        assert!(!self.success, "{}", self.text);
        self
    }

    #[track_caller]
    pub fn begins(&self, words: &str) -> &Self {
        assert!(self.text.starts_with(words), "{words}\n{}", self.text);
        self
    }

    #[track_caller]
    pub fn ends(&self, words: &str) -> &Self {
        assert!(self.text.ends_with(words), "{words}\n{}", self.text);
        self
    }

    #[track_caller]
    pub fn says(&self, words: &str) -> &Self {
        assert!(self.text.contains(words), "{words}\n{}", self.text);
        self
    }

    #[track_caller]
    pub fn omits(&self, words: &str) -> &Self {
        assert!(!self.text.contains(words), "{words}\n{}", self.text);
        self
    }
}

/// Runs the program by a command line.
pub fn gpu(folder: &Path, line: &str) -> Run {
    run(folder, &words(line), &[])
}

pub fn run(folder: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Run {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gpu"));
    let output = command
        .args(arguments)
        .envs(variables.iter().copied())
        .current_dir(folder)
        .output()
        .unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    Run {
        success: output.status.success(),
        status: output.status.code(),
        text: String::from_utf8(output.stdout).unwrap() + &errors,
        errors,
    }
}

/// The arguments of a command line, without the quotes that a shell takes away. None holds a blank.
pub fn words(line: &str) -> Vec<&str> {
    line.split_whitespace()
        .map(|word| word.trim_matches('\''))
        .collect()
}

/// The workspace's root.
pub fn root() -> &'static Path {
    let mut folders = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    folders.nth(2).unwrap()
}

/// A folder for a test's files, empty.
pub fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// Writes a file of a test, and the folders that it lies in. An earlier one is removed: a file that
/// is written again waits for the disk.
pub fn write(folder: &Path, name: &str, text: impl AsRef<[u8]>) {
    let path = folder.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let _ = fs::remove_file(&path);
    fs::write(path, text).unwrap();
}

/// PTX with a launch in its comments: each thread doubles its element of the first argument.
pub const DOUBLE: &str = "\
// launch: grid=2 block=4
// args: f32[8]=iota
// expect 0: f32 0 2 4 6 8 10 12 14
// sm_90 twice: registers 8, spill stores 4, spill loads 12, shared 0
.version 8.4
.target sm_75
.address_size 64
.visible .entry twice(.param .u64 p)
{
	.reg .f32 %f<3>;
	.reg .b32 %r<5>;
	.reg .b64 %d<4>;
	ld.param.u64 %d1, [p];
	mov.u32 %r1, %ctaid.x;
	mov.u32 %r2, %ntid.x;
	mov.u32 %r3, %tid.x;
	mad.lo.s32 %r4, %r1, %r2, %r3;
	mul.wide.s32 %d2, %r4, 4;
	add.s64 %d3, %d1, %d2;
	ld.global.f32 %f1, [%d3];
	add.f32 %f2, %f1, %f1;
	st.global.f32 [%d3], %f2;
	ret;
}
";
