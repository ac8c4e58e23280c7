//! The variants with committed PTX: those of [`HEAD_DIMS`], by every strategy, with every tile of the table, and [`LADDER`].

use std::collections::BTreeSet;

use crate::tiles::{Class, Dtype, Tile};
use crate::{Strategy, Variant};

/// The head dimensions with committed PTX: those of the conformance table, of the table of padding, and of the storyteller.
/// Any other is compiled when it is first used, unless [`Strategy::Padded`] computes it: its kernels take every head
/// dimension up to theirs, and they are all here.
pub const HEAD_DIMS: [usize; 13] = [1, 3, 16, 32, 40, 48, 64, 72, 80, 96, 128, 160, 256];

/// The rungs that `ladder` compares, at D = 64. Rung 3 has another tile than rung 2, so rung 2 is also there with it.
pub const LADDER: [Variant; 5] = [
    Variant::new(Strategy::Flash, 64, Tile::new(32, 32, 256)),
    Variant::new(Strategy::Exact, 64, Tile::new(32, 32, 256)),
    Variant::new(Strategy::Exact, 64, Tile::new(64, 32, 128)),
    Variant::new(Strategy::RegisterTiled, 64, Tile::new(64, 32, 128)),
    Variant::new(Strategy::RegisterTiled, 64, Tile::new(64, 64, 128)),
];

/// What `kernels/variants.txt` has to be for a table of tiles.
pub fn variants(table: &[Class]) -> String {
    let mut text = "# Committed PTX, one variant a line: the kernel file, then its -D constants. \
                    Follows from tiles.json; `tune` writes both.\n"
        .to_owned();
    let mut seen = BTreeSet::new();
    let mut add = |variant: &Variant| {
        let constants = variant.constants().into_iter();
        let constants = constants.map(|(name, value)| format!(" {name}={value}"));
        let line = format!("{}{}\n", variant.file(), String::from_iter(constants));
        if seen.insert(line.clone()) {
            text += &line;
        }
    };
    for strategy in Strategy::ALL {
        for head_dim in HEAD_DIMS {
            for class in table {
                let Some(entry) = class.entry(Dtype::F32, strategy, head_dim) else {
                    continue;
                };
                let variant = Variant::new(strategy, head_dim, entry.tile);
                if variant.check("committed", class.shared).is_ok() {
                    add(&variant);
                }
            }
        }
    }
    LADDER.iter().for_each(add);
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attention::KERNELS;

    const LIST: &str = include_str!("../kernels/variants.txt");

    #[test]
    fn the_list_follows_from_the_tiles() {
        let expected = variants(crate::tiles::table());
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
