//! The variants with committed PTX: all that there are. No kernel is compiled for one head dimension.

use crate::decode::{Variant, constants};
use crate::rungs::{HEAD_MAX, Rows};
use crate::{Dtype, Mode};

/// What `kernels/variants.txt` has to be.
pub fn variants() -> String {
    let mut text = "# Committed PTX, one variant a line: the kernel file, then its -D constants. \
                    src/committed.rs says which.\n"
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
    let mut all = vec![("combine.cu", vec![]), ("advance.cu", vec![])];
    for dtype in Dtype::ALL {
        all.push(("update_cache.cu", constants(dtype.name(), vec![])));
        for rung in [Mode::Naive, Mode::Split, Mode::Grouped].map(|mode| mode.rung(1)) {
            for head_dim in HEAD_MAX {
                for aligned in [true, false] {
                    let rows = Rows {
                        dtype,
                        head_dim,
                        aligned,
                    };
                    let variant = (rung.file(), constants(dtype.name(), rung.constants(rows)));
                    if !all.contains(&variant) {
                        all.push(variant);
                    }
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
        let list = include_str!("../kernels/variants.txt");
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
            for architecture in ["sm_75", "sm_80", "sm_90"] {
                let of = report.iter().find(|of| of.architecture == architecture);
                let of = of.unwrap_or_else(|| panic!("{file}: nothing on {architecture}"));
                let spills = (of.spill_stores, of.spill_loads);
                assert_eq!(spills, (0, 0), "{file} {constants:?}: {of}");
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
        assert!(bytes <= 1_500_000, "{bytes} bytes");
    }
}
