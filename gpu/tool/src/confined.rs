//! Runs the compiler in a thread that can open its own files and the system's libraries, and no
//! others.
//!
//! A kernel file is a stranger's, and the search of its text for headers is not enough: macros may
//! put the name of a header together within NVIDIA's own headers, or `__has_include` itself. The
//! operating system's Landlock refuses what remains.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;

use gpu::nvrtc::Nvrtc;

use landlock::{
    AccessFs, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError, path_beneath_rules,
};

/// Files that any library may need.
const SYSTEM: [&str; 5] = [
    "/lib",
    "/lib64",
    "/usr/lib",
    "/usr/lib64",
    "/etc/ld.so.cache",
];

/// The stack of a main thread, bytes: compilers recurse.
const STACK: usize = 8 << 20;

/// Runs `work` with this compiler, in a thread that can read no files but the compiler's own,
/// NVIDIA's headers and the system's libraries.
///
/// # Errors
///
/// [`gpu::Error::BadNvrtc`] if the thread could not be confined; those of `work`.
pub fn with<T: Send>(
    nvrtc: &Nvrtc,
    work: impl FnOnce(&Nvrtc) -> Result<T, gpu::Error> + Send,
) -> Result<T, gpu::Error> {
    let mut readable = nvrtc.headers();
    let own = fs::canonicalize(nvrtc.path());
    readable.extend(own.ok().and_then(|path| path.parent().map(Path::to_owned)));
    confine(&readable, || work(nvrtc)).map_err(|error| gpu::Error::BadNvrtc {
        path: nvrtc.path().to_owned(),
        reason: format!("its thread could not be confined: {error}"),
    })?
}

/// Runs `work` in a thread that can read files of these folders and the system's libraries alone;
/// of any folder, if the operating system has no Landlock.
///
/// # Errors
///
/// The operating system's.
fn confine<T: Send>(folders: &[PathBuf], work: impl FnOnce() -> T + Send) -> io::Result<T> {
    thread::scope(|scope| {
        let confined = || -> Result<T, RulesetError> {
            let system = SYSTEM.iter().map(PathBuf::from);
            let readable = system.chain(folders.iter().cloned());
            Ruleset::default()
                .handle_access(AccessFs::ReadFile)?
                .create()?
                .add_rules(path_beneath_rules(readable, AccessFs::ReadFile))?
                .restrict_self()?;
            Ok(work())
        };
        let thread = thread::Builder::new().stack_size(STACK);
        let ended = thread.spawn_scoped(scope, confined)?.join();
        ended
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            .map_err(io::Error::other)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File};
    use std::process::Command;

    #[test]
    fn only_files_of_the_folders_can_be_opened() {
        let folder = std::env::temp_dir().join(format!("gpu-confined-{}", std::process::id()));
        let (own, other) = (folder.join("own"), folder.join("other"));
        for folder in [&own, &other] {
            fs::create_dir_all(folder).unwrap();
            fs::write(folder.join("file"), "text").unwrap();
        }
        let pipe = other.join("pipe");
        assert!(
            Command::new("mkfifo")
                .arg(&pipe)
                .status()
                .unwrap()
                .success()
        );
        let read = || {
            let reached = fs::read_to_string(own.join("file")).unwrap();
            let refused = [
                fs::read(other.join("file")).map(drop),
                File::open(&pipe).map(drop),
            ];
            (reached, refused.map(|opened| opened.unwrap_err().kind()))
        };
        let (reached, refused) = confine(std::slice::from_ref(&own), read).unwrap();
        assert_eq!(reached, "text");
        assert_eq!(refused, [io::ErrorKind::PermissionDenied; 2]);
        // The rest of the process goes on as before.
        assert_eq!(fs::read(other.join("file")).unwrap(), b"text");
        fs::remove_dir_all(&folder).unwrap();
    }
}
