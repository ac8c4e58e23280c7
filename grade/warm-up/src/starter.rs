//! Starters, and how a file becomes one again.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;

/// The end of the parameters in a file, and what follows it in a starter.
const HEAD_ENDS: &str = "\n) {\n";
const BODY: &str = "    // Your code.\n}\n";

/// The starter that belongs to a solution: they have the same task and parameters.
///
/// # Errors
///
/// The solution cannot be read, or has no kernel.
pub fn starter(solution: &Path) -> anyhow::Result<String> {
    let context = || solution.display().to_string();
    let text = fs::read_to_string(solution).with_context(context)?;
    let (head, _) = text.split_once(HEAD_ENDS).with_context(context)?;
    Ok(format!("{head}{HEAD_ENDS}{BODY}"))
}

/// The sentence of a starter that says what to do.
pub fn task(starter: &str) -> &str {
    let first = starter.lines().next().unwrap_or_default();
    first.strip_prefix("// Task: ").unwrap_or(first)
}

/// Writes the starter to a file. Gives the backup of what was there, if that was another text.
///
/// # Errors
///
/// A file that cannot be read or written. Then nothing was lost.
pub fn reset(path: &Path, starter: &str) -> anyhow::Result<Option<PathBuf>> {
    let context = || path.display().to_string();
    let backup = match fs::read(path) {
        Ok(text) if text == starter.as_bytes() => return Ok(None),
        Ok(text) => Some(keep(path, &text).with_context(context)?),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => return Err(error).with_context(context),
    };
    fs::write(path, starter).with_context(context)?;
    Ok(backup)
}

/// Writes a text beside a file, under a name that nothing has: `1_map.cu.backup1`.
fn keep(path: &Path, text: &[u8]) -> std::io::Result<PathBuf> {
    let mut number = 1;
    loop {
        let backup = path.with_extension(format!("cu.backup{number}"));
        match File::create_new(&backup) {
            Ok(mut file) => return file.write_all(text).map(|()| backup),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => number += 1,
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_kept() {
        let folder = std::env::temp_dir().join(format!("warm-up-reset-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("1_map.cu");
        // A file that was deleted comes back, and there is nothing to keep.
        assert_eq!(reset(&path, "starter").unwrap(), None);
        assert_eq!(reset(&path, "starter").unwrap(), None);
        for (number, own) in ["mine", "mine again"].iter().enumerate() {
            fs::write(&path, own).unwrap();
            let backup = reset(&path, "starter").unwrap().unwrap();
            let name = format!("1_map.cu.backup{}", number + 1);
            assert_eq!(backup, folder.join(name));
            assert_eq!(fs::read_to_string(backup).unwrap(), *own);
            assert_eq!(fs::read_to_string(&path).unwrap(), "starter");
        }
        assert_eq!(
            fs::read_to_string(folder.join("1_map.cu.backup1")).unwrap(),
            "mine"
        );
        fs::remove_dir_all(&folder).unwrap();
    }
}
