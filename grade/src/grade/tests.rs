use super::*;
use crate::tasks::TASKS;
use std::io;
use std::path::Path;

#[test]
fn what_is_not_the_learners_fault_is_not_graded() {
    let text = || "text".to_owned();
    for error in [
        BuildError::Foreign("/file".into()),
        BuildError::Files(io::Error::other("disk full")),
        BuildError::Compiler(compiler::Error::System(io::Error::other("no memory"))),
        BuildError::Course(course::Error::Cargo(text())),
    ] {
        assert_eq!(
            unbuilt(&TASKS[0], &error).not_graded,
            Some(error.to_string())
        );
    }
    let refused = compiler::Error::Refused {
        headline: text(),
        messages: text(),
    };
    for error in [refused, compiler::Error::Stopped(text())] {
        let results = unbuilt(&TASKS[0], &BuildError::Compiler(error));
        assert_eq!(results.not_graded, None);
    }
}

#[test]
fn a_task_in_part_begun_says_what_is_left() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let folder = std::env::temp_dir().join(format!("grade-begun-{}", std::process::id()));
    let task = TASKS.iter().find(|task| task.is_called("2/softmax"));
    let task = task.unwrap();
    for file in task.files {
        let path = folder.join(task.folder()).join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::copy(root.join("exercises").join(task.folder()).join(file), path).unwrap();
    }
    let places = Places::submission(&root, "begun", folder.clone());
    let panic = "panicked at softmax.rs:36: not yet implemented: TODO, task softmax: the launch";
    let [kernel, launch] =
        ["kernels/softmax.cu", "src/softmax.rs"].map(|file| format!("exercises/stage2/{file}"));
    let neither = format!("Not begun: write {kernel}, {launch}.");
    assert_eq!(not_begun(&places, task, panic), neither);
    fs::write(folder.join("stage2/kernels/softmax.cu"), "written").unwrap();
    let left = format!(
        "Not begun: write the launch in {launch}, which still says `todo!`; {kernel} is written."
    );
    assert_eq!(not_begun(&places, task, panic), left);
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_secret_seed_is_in_no_text() {
    let text = "seed 1: b2_r3 and seed 12: b3";
    let hidden = "random 0: b2_r3 and random 11: b3";
    assert_eq!(without_seeds(text, 1, 12), hidden);
}

#[test]
fn dates_are_those_of_the_calendar() {
    for (seconds, expected) in [
        (0, "1970-01-01T00:00:00Z"),
        (951_782_399, "2000-02-28T23:59:59Z"),
        (951_782_400, "2000-02-29T00:00:00Z"),
        (1_709_251_200, "2024-03-01T00:00:00Z"),
        (1_798_761_599, "2026-12-31T23:59:59Z"),
    ] {
        assert_eq!(date(UNIX_EPOCH + Duration::from_secs(seconds)), expected);
    }
}
