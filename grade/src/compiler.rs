//! Which kernels of a submission need a compiler.

use std::fs;
use std::path::{Path, PathBuf};

use gpu::unit::{Folder, Unit};
use gpu::{ptx_file, variants, workspace};

use crate::places::Places;
use crate::tasks::Task;

/// The kernel files of these tasks that were edited, so that no committed PTX is theirs: named from the submission's folder.
///
/// # Errors
///
/// A `variants.txt` that cannot be read.
pub fn edited(places: &Places, tasks: &[&Task]) -> Result<Vec<PathBuf>, gpu::Error> {
    let mut files = Vec::new();
    for task in tasks {
        let given = places.root.join("exercises").join(task.folder());
        let submitted = places.submission.join(task.folder());
        let list = |folder: &Path| fs::read_to_string(folder.join("kernels/variants.txt"));
        let Ok(list) = list(&submitted).or_else(|_| list(&given)) else {
            continue; // a stage without kernels
        };
        for variant in variants::parse(&list)? {
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
            let unit = Unit::new(&task.package(), &variant.file, &constants, read)?;
            let file = Path::new(&task.folder()).join(file);
            let committed = |unit: &Unit| {
                [&submitted, &given].into_iter().any(|folder| {
                    let ptx = folder.join("ptx").join(ptx_file::name(unit));
                    let ptx = fs::read_to_string(ptx).unwrap_or_default();
                    ptx_file::key(&ptx) == Some(&unit.key())
                })
            };
            if unit.is_some_and(|unit| !committed(&unit)) && !files.contains(&file) {
                files.push(file);
            }
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tasks::TASKS;

    #[test]
    fn an_edited_kernel_is_named_and_no_other() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let tasks: Vec<&Task> = TASKS.iter().collect();
        let nothing: [PathBuf; 0] = [];
        assert_eq!(edited(&Places::learner(&root), &tasks).unwrap(), nothing);
        assert_eq!(edited(&Places::solution(&root), &tasks).unwrap(), nothing);

        let folder = std::env::temp_dir().join(format!("grade-compiler-{}", std::process::id()));
        let file = Path::new("stage2/kernels/softmax.cu");
        fs::create_dir_all(folder.join("stage2/kernels")).unwrap();
        let starter = fs::read_to_string(root.join("exercises").join(file)).unwrap();
        let places = Places::submission(&root, "compiler", folder.clone());
        fs::write(folder.join(file), &starter).unwrap();
        assert_eq!(edited(&places, &tasks).unwrap(), nothing);
        fs::write(folder.join(file), starter + "// mine\n").unwrap();
        assert_eq!(edited(&places, &tasks).unwrap(), [file]);
        let others: Vec<&Task> = TASKS.iter().filter(|task| task.id != "softmax").collect();
        assert_eq!(edited(&places, &others).unwrap(), nothing);
        fs::remove_dir_all(&folder).unwrap();
    }
}
