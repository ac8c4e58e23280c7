//! Runs programs on the simulated CUDA driver, without a change of them.

use std::{
    env,
    ffi::{OsStr, OsString},
    fs::{self, File},
    hash::{DefaultHasher, Hash, Hasher},
    io::{self, Read, Write as _},
    os::unix::{
        self,
        fs::symlink,
        process::{CommandExt, ExitStatusExt},
    },
    path::{Path, PathBuf},
    process::{self, Command, ExitCode, ExitStatus},
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

const USAGE: &str = "\
Runs programs on a simulated CUDA driver.

Usage: cuda-sim run [--] PROGRAM [ARGUMENT]...
       cuda-sim env

  run  runs a program that loads the CUDA driver. Faults of its kernels are reported on standard error.
       Exit code: that of the program; 1 if it is 0 although a kernel had a fault; 127 if there is no such program.
  env  prints the variables for a shell:  eval \"$(cuda-sim env)\"

The variables CUDA_SIM_... choose the device, its memory, the checks and where reports go.
";

/// First words of every report of a fault.
const FAULT: &[u8] = b"cuda-sim: fault: ";

/// The variable that says where reports go.
const REPORT: &str = "CUDA_SIM_REPORT";

/// The variable with the folders in which the dynamic loader looks first.
const LIBRARY_PATH: &str = "LD_LIBRARY_PATH";

fn main() -> ExitCode {
    let arguments: Vec<OsString> = env::args_os().skip(1).collect();
    let words: Vec<&OsStr> = arguments.iter().map(OsString::as_os_str).collect();
    let outcome = match words.as_slice() {
        [command, dashes, program, arguments @ ..] if *command == "run" && *dashes == "--" => {
            run(program, arguments)
        }
        [command, program, arguments @ ..] if *command == "run" && *program != "--" => {
            run(program, arguments)
        }
        [command] if *command == "env" => print_environment(),
        [help] if *help == "--help" || *help == "-h" || *help == "help" => {
            print!("{USAGE}");
            Ok(ExitCode::SUCCESS)
        }
        _ => {
            eprint!("{USAGE}");
            Ok(ExitCode::from(2))
        }
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("cuda-sim: {error}");
        ExitCode::FAILURE
    })
}

/// An error that says what was being done.
fn doing(what: impl std::fmt::Display) -> impl FnOnce(io::Error) -> io::Error {
    move |error| io::Error::new(error.kind(), format!("cannot {what}: {error}"))
}

fn print_environment() -> io::Result<ExitCode> {
    let path = library_path(&driver_folder()?)?;
    // In single quotes a shell takes everything as it is, except the quote.
    println!(
        "export {LIBRARY_PATH}='{}'",
        path.to_string_lossy().replace('\'', "'\\''")
    );
    Ok(ExitCode::SUCCESS)
}

/// Runs a program with the driver first in the loader's path, and shows what the driver reports.
fn run(program: &OsStr, arguments: &[&OsStr]) -> io::Result<ExitCode> {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env(LIBRARY_PATH, library_path(&driver_folder()?)?);
    let reports = match env::var_os(REPORT) {
        Some(_) => None,
        None => Some(Reports::begin()?),
    };
    if let Some(reports) = &reports {
        command.env(REPORT, &reports.path);
    }
    end_with_this_process(&mut command);
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            eprintln!(
                "cuda-sim: there is no program {}",
                program.to_string_lossy()
            );
            return Ok(ExitCode::from(127));
        }
        Err(error) => {
            return Err(doing(format_args!("run {}", program.to_string_lossy()))(
                error,
            ));
        }
    };
    let Some(mut reports) = reports else {
        return Ok(exit_code(child.wait()?, false));
    };
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        reports.show();
        thread::sleep(Duration::from_millis(20));
    };
    reports.show();
    Ok(exit_code(status, reports.have_fault()?))
}

/// Lets the operating system end the program if this process is killed.
fn end_with_this_process(command: &mut Command) {
    let this = process::id();
    let end_with_parent = move || {
        // SAFETY: sets an attribute of the calling process.
        let set = unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM) };
        if set != 0 {
            return Err(io::Error::last_os_error());
        }
        match unix::process::parent_id() == this {
            true => Ok(()),
            // It was killed before the call.
            false => Err(io::Error::from_raw_os_error(libc::ESRCH)),
        }
    };
    // SAFETY: between fork and exec the closure makes two system calls, takes no lock and allocates
    // nothing.
    unsafe { command.pre_exec(end_with_parent) };
}

fn exit_code(status: ExitStatus, fault: bool) -> ExitCode {
    let code = status
        .code()
        .unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    match u8::try_from(code) {
        Ok(0) if fault => ExitCode::FAILURE,
        Ok(code) => ExitCode::from(code),
        Err(_) => ExitCode::FAILURE,
    }
}

/// The file to which the driver writes its reports while a program runs.
struct Reports {
    path: PathBuf,
    /// Open at the end of what was shown.
    file: File,
}

impl Reports {
    fn begin() -> io::Result<Self> {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let name = format!("cuda-sim-report-{}-{}", process::id(), now.as_nanos());
        let path = env::temp_dir().join(name);
        let create = || {
            File::create_new(&path)?;
            File::open(&path)
        };
        let file = create().map_err(doing(format_args!("create {}", path.display())))?;
        Ok(Self { path, file })
    }

    /// Shows what has been written since the last time. If nobody reads it, the program goes on.
    fn show(&mut self) {
        let mut new = Vec::new();
        if self.file.read_to_end(&mut new).is_ok() {
            let _ = io::stderr().write_all(&new);
        }
    }

    /// True if one of them is of a fault.
    fn have_fault(&self) -> io::Result<bool> {
        let all = fs::read(&self.path)?;
        Ok(all.windows(FAULT.len()).any(|bytes| bytes == FAULT))
    }
}

impl Drop for Reports {
    fn drop(&mut self) {
        // What stays behind is a small file among temporary ones.
        let _ = fs::remove_file(&self.path);
    }
}

/// The folder of the driver, before those that the environment names.
fn library_path(folder: &Path) -> io::Result<OsString> {
    let given = env::var_os(LIBRARY_PATH).unwrap_or_default();
    let given =
        env::split_paths(&given).filter(|path| !path.as_os_str().is_empty() && path != folder);
    env::join_paths([folder.to_owned()].into_iter().chain(given)).map_err(io::Error::other)
}

/// A folder with the driver under the names that programs load, and with nothing else: beside the
/// library or, if another user has installed it, among the user's cached files.
fn driver_folder() -> io::Result<PathBuf> {
    let library = library()?;
    let beside = library.with_file_name("cuda-sim-driver");
    link_driver(&library, beside).or_else(|error| match cache_folder(&library) {
        Some(folder) => link_driver(&library, folder),
        None => Err(error),
    })
}

/// The folder for a library among the user's cached files, if the environment says where these are.
fn cache_folder(library: &Path) -> Option<PathBuf> {
    let mut hash = DefaultHasher::new();
    library.hash(&mut hash);
    let given = env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || Some(PathBuf::from(env::var_os("HOME")?).join(".cache"));
    let cache = given.filter(|path| path.is_absolute()).or_else(home)?;
    Some(cache.join(format!("cuda-sim-driver-{:016x}", hash.finish())))
}

/// Links a library into a folder, under the names that programs load.
fn link_driver(library: &Path, folder: PathBuf) -> io::Result<PathBuf> {
    fs::create_dir_all(&folder).map_err(doing(format_args!("create {}", folder.display())))?;
    for name in ["libcuda.so", "libcuda.so.1"] {
        let link = folder.join(name);
        if fs::read_link(&link).is_ok_and(|target| target == library) {
            continue;
        }
        // Put in place at once, for programs that start at the same time.
        let new = folder.join(format!("{name}.{}", process::id()));
        symlink(library, &new)
            .and_then(|()| fs::rename(&new, &link))
            .map_err(doing(format_args!("create {}", link.display())))?;
    }
    Ok(folder)
}

/// The library: where cargo puts it, or where the wheel does.
fn library() -> io::Result<PathBuf> {
    let program = env::current_exe()?;
    let folder = program.parent().unwrap_or(Path::new("."));
    let places = [
        "deps/libcuda.so",
        "libcuda.so",
        "../lib/cuda-sim/libcuda.so",
    ];
    let mut places = places.iter().map(|place| folder.join(place));
    let found = places.find(|place| place.is_file());
    let found = found.ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::NotFound,
            format!("no libcuda.so belongs to {}", program.display()),
        )
    })?;
    found.canonicalize()
}
