//! Which kernels of a submission need a compiler: those that were edited, and the one that a learner chooses tiles for.

use std::path::{Path, PathBuf};

use gpu::ptx_file;
use gpu::unit::{Folder, Unit};
use gpu_tool::{variants, workspace};

use crate::places::Places;
use crate::tasks::Task;
use crate::verdict::Subject;

/// The kernel files of these tasks that were edited, so that no committed PTX is theirs: named from the submission's folder.
/// One whose constants or text cannot be read counts as edited.
pub fn edited(places: &Places, tasks: &[&Task]) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for task in tasks {
        if task.tunes() && chooses(places, task) {
            files.extend(
                task.files
                    .iter()
                    .map(|file| Path::new(&task.folder()).join(file)),
            );
            continue;
        }
        let given = places.root.join("exercises").join(task.folder());
        let submitted = places.submission.join(task.folder());
        let list = |folder: &Path| read_own(&folder.join("kernels"), "variants.txt");
        let Some(list) = list(&submitted).or_else(|| list(&given)) else {
            continue; // a stage without kernels
        };
        let mut add = |file: &str| {
            let file = Path::new(&task.folder()).join(file);
            if !files.contains(&file) {
                files.push(file);
            }
        };
        let Ok(variants) = variants::parse(&list) else {
            task.kernels().for_each(add);
            continue;
        };
        for variant in variants {
            let file = format!("kernels/{}", variant.file);
            if !task.files.contains(&&*file) {
                continue;
            }
            let constants = variant.constants.iter();
            let constants: Vec<_> = constants.map(|(name, value)| (&**name, &**value)).collect();
            let read = |folder: Folder<'_>, name: &str| {
                let own = workspace::read(&submitted.join("kernels"), folder, name);
                Ok(own.or_else(|| workspace::read(&given.join("kernels"), folder, name)))
            };
            // The grader takes no PTX of a learner's.
            let with_ptx: &[&PathBuf] = match places.subject {
                Subject::Learner => &[&given],
                Subject::Solution => &[&submitted, &given],
            };
            let committed = |unit: &Unit| {
                with_ptx.iter().any(|folder| {
                    let ptx = read_own(&folder.join("ptx"), &ptx_file::name(unit));
                    ptx.is_some_and(|ptx| ptx_file::key(&ptx) == Some(&unit.key()))
                })
            };
            match Unit::new(&task.package(), &variant.file, &constants, read) {
                Ok(None) => {} // no such file
                Ok(Some(unit)) if committed(&unit) => {}
                Ok(Some(_)) | Err(_) => add(&file),
            }
        }
    }
    files
}

/// True if a learner has written which tile a kernel has. Few are committed.
fn chooses(places: &Places, task: &Task) -> bool {
    let folder = places.submission.join(task.folder());
    let text = read_own(&folder.join("src"), "tune.rs");
    let to_do = |line: &str| line.contains("todo!") && !line.trim_start().starts_with("//");
    let begun = text.is_some_and(|text| !text.lines().any(to_do));
    begun && places.subject == Subject::Learner
}

/// A file of a submission's folder, which may be a pipe or a link to elsewhere.
fn read_own(folder: &Path, name: &str) -> Option<String> {
    workspace::read(folder, Folder::Own, name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tasks::TASKS;
    use std::fs;
    use std::process::Command;

    #[test]
    fn an_edited_kernel_is_named_and_no_other() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let tasks: Vec<&Task> = TASKS.iter().collect();
        let nothing: [PathBuf; 0] = [];
        assert_eq!(edited(&Places::learner(&root), &tasks), nothing);
        assert_eq!(edited(&Places::solution(&root), &tasks), nothing);

        let folder = std::env::temp_dir().join(format!("grade-compiler-{}", std::process::id()));
        let file = Path::new("stage2/kernels/softmax.cu");
        fs::create_dir_all(folder.join("stage2/kernels")).unwrap();
        let starter = fs::read_to_string(root.join("exercises").join(file)).unwrap();
        let places = Places::submission(&root, "compiler", folder.clone());
        fs::write(folder.join(file), &starter).unwrap();
        assert_eq!(edited(&places, &tasks), nothing);
        fs::write(folder.join(file), starter + "// mine\n").unwrap();
        assert_eq!(edited(&places, &tasks), [file]);
        // PTX of a learner's own is not taken.
        let solved = Places {
            subject: Subject::Learner,
            ..Places::solution(&root)
        };
        assert!(edited(&solved, &tasks).contains(&PathBuf::from(file)));
        let others: Vec<&Task> = TASKS.iter().filter(|task| task.id != "softmax").collect();
        assert_eq!(edited(&places, &others), nothing);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn odd_files_of_a_submission_neither_block_nor_stop_the_others() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let tasks: Vec<&Task> = TASKS.iter().collect();
        let name = format!("grade-odd-files-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let kernels = folder.join("stage2/kernels");
        fs::create_dir_all(&kernels).unwrap();
        let places = Places::submission(&root, "odd", folder.clone());
        let softmax = Path::new("stage2/kernels/softmax.cu");

        fs::write(kernels.join("softmax.cu"), "#include HEADER\n").unwrap();
        assert_eq!(edited(&places, &tasks), [softmax]);
        let list = kernels.join("variants.txt");
        fs::write(&list, "softmax.cu BLOCK\n").unwrap();
        let all = edited(&places, &tasks);
        assert!(all.iter().any(|file| file == softmax), "{all:?}");
        assert!(all.iter().all(|file| file.starts_with("stage2")), "{all:?}");

        // Nobody writes to the pipe: a reading of it would never end.
        fs::remove_file(&list).unwrap();
        let made = Command::new("mkfifo").arg(&list).status();
        assert!(made.unwrap().success());
        assert_eq!(edited(&places, &tasks), [softmax]);
        fs::remove_dir_all(&folder).unwrap();
    }
}
