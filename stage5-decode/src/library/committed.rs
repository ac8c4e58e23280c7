//! The variants with committed PTX: all that there are. No kernel is
//! compiled for one head dimension.

use super::{HEAD_MAX, Rows, Variant, kernel, variant};
use crate::decode::{UPDATE, element};
use crate::{Dtype, Rung};

/// The kernels of the ladder in f32, and those of the library that know no element type.
const PLAIN: [&str; 7] = [
    "update_cache.cu",
    "1_decode.cu",
    "2_split.cu",
    "3_grouped.cu",
    "combine.cu",
    "library/combine.cu",
    "library/advance.cu",
];

/// The text that `kernels/variants.txt` has to have.
pub fn variants() -> String {
    let mut text = "# Committed PTX, one variant a line: the kernel file, then its -D constants. \
                    src/library/committed.rs says which.\n"
        .to_owned();
    for (file, constants) in all() {
        text += file;
        for (name, value) in constants {
            text += &format!(" {name}={value}");
        }
        text += "\n";
    }
    text
}

fn all() -> Vec<Variant> {
    let mut all = Vec::from(PLAIN.map(|file| (file, vec![])));
    all.extend([64, 128].map(|max| (Rung::Mma.file(), Rung::Mma.constants(max))));
    for dtype in Dtype::ALL {
        all.push((UPDATE, element(dtype)));
        for (queries, tensor_cores) in [(1, false), (2, false), (2, true)] {
            for head_dim in HEAD_MAX {
                let rows = Rows {
                    dtype,
                    head_dim,
                    aligned: true,
                    tensor_cores,
                };
                let variant = variant(kernel(rows, queries), rows);
                if !all.contains(&variant) {
                    all.push(variant);
                }
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::KERNELS;

    #[test]
    fn the_list_is_current() {
        let expected = variants();
        let list = include_str!("../../kernels/variants.txt");
        assert!(
            list == expected,
            "kernels/variants.txt should be:\n{expected}"
        );
    }

    /// By the compiler's report: no kernel keeps a register in memory, on any of these.
    #[test]
    fn no_variant_spills() {
        for (file, constants) in all() {
            let borrowed = constants.iter().map(|(name, value)| (*name, &**value));
            let ptx = KERNELS.ptx(file, &Vec::from_iter(borrowed));
            let ptx = ptx.unwrap_or_else(|error| panic!("{file} {constants:?}: {error}"));
            let report = gpu::ptx_file::resources(&ptx);
            let needs_80 = ptx.contains("\n.target sm_80");
            let architectures = ["sm_75", "sm_80", "sm_90"];
            for architecture in &architectures[usize::from(needs_80)..] {
                let line = report
                    .iter()
                    .find(|line| line.architecture == *architecture);
                let line = line.unwrap_or_else(|| panic!("{file}: nothing on {architecture}"));
                let spills = (line.spill_stores, line.spill_loads);
                assert_eq!(spills, (0, 0), "{file} {constants:?}: {line}");
            }
        }
    }

    #[test]
    fn committed_ptx_takes_little_room() {
        let sizes = all().into_iter().map(|(file, constants)| {
            let borrowed = constants.iter().map(|(name, value)| (*name, &**value));
            let ptx = KERNELS.ptx(file, &Vec::from_iter(borrowed));
            ptx.unwrap_or_else(|error| panic!("{error}")).len()
        });
        let bytes: usize = sizes.sum();
        assert!(bytes <= 1_800_000, "{bytes} bytes");
    }
}
