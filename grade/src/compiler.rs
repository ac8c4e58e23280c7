//! Which kernels of a submission need a compiler.

use std::fs;
use std::path::{Path, PathBuf};

use gpu::unit::{Folder, Unit};
use gpu::{find_nvrtc, ptx_file, variants, workspace};

use crate::places::Places;
use crate::tasks::Task;

/// The kernel files of these tasks that were edited and must be compiled, while there is no NVRTC: named from the
/// submission's folder. Empty if there is NVRTC.
///
/// # Errors
///
/// [`gpu::Error::BadNvrtc`] if `NVRTC_PATH` names none; a `variants.txt` that cannot be read.
pub fn missing_for(places: &Places, tasks: &[&Task]) -> Result<Vec<PathBuf>, gpu::Error> {
    if find_nvrtc::search()?.found.is_some() {
        return Ok(Vec::new());
    }
    let mut files = Vec::new();
    for task in tasks {
        let given = places.root.join("exercises").join(task.folder());
        let submitted = places.submission.join(task.folder());
        let Ok(list) = fs::read_to_string(given.join("kernels/variants.txt")) else {
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
