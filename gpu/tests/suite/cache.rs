//! The disk cache gives back what was compiled, and never what is torn.

use std::fs;
use std::path::{Path, PathBuf};

use gpu::cache::read_or;

/// An empty folder of this test's own.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("cache")
        .join(name);
    let _ = fs::remove_dir_all(&folder);
    folder
}

/// The text from the cache, and true if it had to compile.
fn get(folder: &Path, ptx: &str) -> (String, bool) {
    let mut compiled = false;
    let given = read_or(folder, "a.ptx", || {
        compiled = true;
        Ok::<_, ()>(ptx.to_owned())
    });
    (given.unwrap(), compiled)
}

#[test]
fn a_kernel_is_compiled_once() {
    let folder = folder("once");
    assert_eq!(
        get(&folder, "first\ntext"),
        ("first\ntext".to_owned(), true)
    );
    assert_eq!(get(&folder, "second"), ("first\ntext".to_owned(), false));
    assert_eq!(
        fs::read_dir(&folder).unwrap().count(),
        1,
        "no temporary file stays"
    );
}

#[test]
fn a_torn_or_edited_file_is_replaced() {
    let folder = folder("torn");
    get(&folder, "text\nof a kernel\n");
    let file = folder.join("a.ptx");
    let whole = fs::read(&file).unwrap();
    let mut edited = whole.clone();
    *edited.last_mut().unwrap() = b' ';
    let cut = whole.len() - 5;
    for damaged in [&whole[..cut], &whole[..10], &[], &edited, &[0xff, 0xfe]] {
        fs::write(&file, damaged).unwrap();
        assert_eq!(get(&folder, "new"), ("new".to_owned(), true));
        assert_eq!(get(&folder, "other"), ("new".to_owned(), false));
    }
}

#[test]
fn a_folder_that_cannot_be_written_is_no_error() {
    let blocked = folder("blocked");
    fs::create_dir_all(blocked.parent().unwrap()).unwrap();
    fs::write(&blocked, "a file where the folder should be").unwrap_or_default();
    assert_eq!(get(&blocked, "text"), ("text".to_owned(), true));
    assert_eq!(get(&blocked, "text"), ("text".to_owned(), true));
    fs::remove_file(&blocked).unwrap();
}

#[test]
fn a_failed_compilation_leaves_nothing() {
    let folder = folder("failed");
    assert_eq!(read_or(&folder, "a.ptx", || Err("no")), Err("no"));
    assert!(!folder.exists());
}
