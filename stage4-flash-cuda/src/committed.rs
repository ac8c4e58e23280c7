//! Which variants have committed PTX: those of [`HEAD_DIMS`], by every strategy, with every tile of the table.

use std::collections::BTreeSet;

use crate::tiles::{self, Class};
use crate::{Strategy, Variant};

/// The head dimensions with committed PTX: those of the conformance table, and of the table of padding. Any other is
/// compiled when it is first used.
pub const HEAD_DIMS: [usize; 12] = [1, 3, 16, 40, 48, 64, 72, 80, 96, 128, 160, 256];

/// What `kernels/variants.txt` has to be for a table of tiles.
pub fn variants(table: &[Class]) -> String {
    let mut text = "# Committed PTX, one variant a line: the kernel file, then its -D constants. \
                    Follows from tiles.json; `tune` writes both.\n\
                    # naive and tiled\n\
                    mask_scores.cu\n"
        .to_owned();
    let mut seen = BTreeSet::new();
    for strategy in Strategy::ALL {
        text += &format!("# {strategy}\n");
        for head_dim in HEAD_DIMS {
            for class in table {
                let Some(tile) = tiles::choose_from(class, strategy, head_dim) else {
                    continue;
                };
                let variant = Variant {
                    strategy,
                    head_dim,
                    tile,
                };
                if variant.check("committed", class.shared).is_err() {
                    continue;
                }
                let constants = variant.constants();
                let constants = constants
                    .iter()
                    .map(|(name, value)| format!(" {name}={value}"));
                let line = format!("{}{}\n", variant.file(), String::from_iter(constants));
                if seen.insert(line.clone()) {
                    text += &line;
                }
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attention::KERNELS;

    const LIST: &str = include_str!("../kernels/variants.txt");

    #[test]
    fn the_list_follows_from_the_tiles() {
        let expected = variants(tiles::table());
        assert!(
            LIST == expected,
            "kernels/variants.txt should be:\n{expected}"
        );
    }

    /// By the compiler's report: no kernel that the dispatcher may choose keeps a register in memory, on any of them.
    #[test]
    fn no_variant_spills() {
        let mut reports = 0;
        for line in LIST.lines().filter(|line| !line.starts_with('#')) {
            let mut words = line.split(' ');
            let file = words.next().expect("a line has a file");
            let constants: Vec<(&str, &str)> =
                words.filter_map(|word| word.split_once('=')).collect();
            let ptx = KERNELS.ptx(file, &constants);
            let ptx = ptx.unwrap_or_else(|error| panic!("{line}: {error}"));
            let report = gpu::ptx_file::resources(&ptx);
            for architecture in ["sm_75", "sm_80", "sm_90"] {
                let of = report.iter().find(|of| of.architecture == architecture);
                let of = of.unwrap_or_else(|| panic!("{line}: nothing on {architecture}"));
                assert_eq!((of.spill_stores, of.spill_loads), (0, 0), "{line}: {of}");
                reports += 1;
            }
        }
        assert!(reports > 3 * HEAD_DIMS.len());
    }
}
