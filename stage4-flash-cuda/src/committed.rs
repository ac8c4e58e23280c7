//! The variants with committed PTX, which are the lines of `kernels/variants.txt`.

use std::collections::BTreeSet;

use crate::library::tiles::Class;
use crate::library::{PADDED, PADDED_WITH_DROPOUT, Tile, tensor_cores, warpgroups};
use crate::{BackwardKernel, Format, Rung, Variant};

/// The head dimensions for which the library's kernel has committed PTX with the tile of every
/// class of devices. Any other is compiled when it is first used; without a compiler it is padded
/// to the next of [`PADDED`].
pub const HEAD_DIMS: [usize; 4] = [32, 40, 64, 128];

/// The lines of `ladder`, at D = 64. Each changes one thing: the tile, or the kernel; the library's
/// kernel has its own tile.
pub const LADDER: [Variant; 5] = [
    Variant::rung(Rung::Flash, 64),
    other_tile(Rung::Flash, 64),
    Variant::rung(Rung::RegisterTiles, 64),
    Variant::rung(Rung::AsyncCopy, 64),
    Variant::library(64, Tile::new(64, 64, 128)),
];

/// The lines of `ladder --f16`, at D = 128: the last rung in f32, those in f16, and the library's
/// kernels. From rung 4 to rung 7 each changes one thing, as those of [`LADDER`] do; rungs 8 to 10
/// have other threads or tiles, too.
pub const LADDER_F16: [Variant; 11] = [
    Variant::rung(Rung::AsyncCopy, 128),
    Variant::rung(Rung::Mma, 128),
    Variant::rung(Rung::Swizzle, 128),
    Variant::rung(Rung::Pipeline, 128),
    other_tile(Rung::Reuse, 128),
    Variant::rung(Rung::Reuse, 128),
    Variant::rung(Rung::Tma, 128),
    Variant::rung(Rung::Wgmma, 128),
    Variant::rung(Rung::PingPong, 128),
    Variant::tensor_cores(Format::F16, 128),
    Variant::warpgroups(Format::F16, 128),
];

/// The library's kernel with the tiles of task `4/tune`: of all that `cargo grade tune` tries, and
/// that do not spill, those with the shortest modelled time on an H100 at its three problems. A
/// test of the grader tries them all.
pub const TUNED: [Variant; 3] = [
    Variant::library(64, Tile::new(32, 128, 128)),
    Variant::library(64, Tile::new(128, 128, 256)),
    Variant::library(128, Tile::new(64, 128, 128)),
];

/// A rung with its other tile.
const fn other_tile(rung: Rung, head_dim: usize) -> Variant {
    let tile = rung.other_tile(head_dim).expect("it has one");
    Variant::rung(rung, head_dim).with_tile(tile)
}

/// The text of `kernels/variants.txt` for a table of tiles.
pub fn variants(table: &[Class]) -> String {
    let mut text = "# Committed PTX, one variant a line: the kernel file, then its -D constants. \
                    The lines of library/attention.cu follow from tiles.json; `tune` writes \
                    both files.\n"
        .to_owned();
    let rungs = Rung::ALL.into_iter().flat_map(|rung| {
        let head_dims = rung.head_dims().iter();
        head_dims.map(move |&head_dim| Variant::rung(rung, head_dim))
    });
    let tuned = HEAD_DIMS.into_iter().flat_map(|head_dim| {
        let tiles = table.iter().map(move |class| class.entry(head_dim).tile);
        tiles.map(move |tile| Variant::library(head_dim, tile))
    });
    // `Variant::padded`, for this table.
    let tile = |head_dim| table[0].entry(head_dim).tile;
    let padded = PADDED.map(|head_dim| Variant::library(head_dim, tile(head_dim)));
    let half = Format::ALL.into_iter().flat_map(|format| {
        let sizes = tensor_cores::PADDED.into_iter();
        sizes.map(move |head_dim| Variant::tensor_cores(format, head_dim))
    });
    let hopper = Format::ALL.into_iter().flat_map(|format| {
        let sizes = warpgroups::PADDED.into_iter();
        sizes.map(move |head_dim| Variant::warpgroups(format, head_dim))
    });
    let converting = Format::ALL.into_iter().flat_map(|format| {
        let sizes = tensor_cores::PADDED.into_iter();
        sizes.map(move |head_dim| Variant::library(head_dim, tile(head_dim)).converting(format))
    });
    let dropout = PADDED_WITH_DROPOUT;
    let dropout = dropout.map(|head_dim| Variant::library(head_dim, tile(head_dim)).with_dropout());
    let mut seen = BTreeSet::new();
    for variant in rungs
        .chain(tuned)
        .chain(padded)
        .chain(half)
        .chain(hopper)
        .chain(converting)
        .chain(LADDER)
        .chain(LADDER_F16)
        .chain(TUNED)
        .chain(dropout)
    {
        let line = format!("{variant}\n");
        if seen.insert(line.clone()) {
            text += &line;
        }
    }
    let rungs = [BackwardKernel::RECOMPUTE, BackwardKernel::MMA];
    let rungs = rungs.map(|kernels| (kernels, &Rung::HEAD_DIMS[..]));
    let formats = [None, Some(Format::F16), Some(Format::Bf16)];
    let library = formats.map(BackwardKernel::library);
    let tensor_cores = Format::ALL.map(BackwardKernel::tensor_cores);
    let library = library.into_iter().chain(tensor_cores);
    let library = library.map(|kernels| (kernels, kernels[1].padded()));
    let naive = ([BackwardKernel::SoftmaxGradient; 3], &[0][..]);
    let dropout = BackwardKernel::library(None).map(BackwardKernel::with_dropout);
    let others = [naive, (dropout, &PADDED_WITH_DROPOUT)];
    for (kernels, head_dims) in rungs.into_iter().chain(library).chain(others) {
        for (kernel, &head_dim) in kernels
            .iter()
            .flat_map(|k| head_dims.iter().map(move |d| (k, d)))
        {
            let mut line = kernel.file().to_owned();
            for (name, value) in kernel.constants(head_dim) {
                line += &format!(" {name}={value}");
            }
            line += "\n";
            if seen.insert(line.clone()) {
                text += &line;
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
        let expected = variants(crate::library::tiles::table());
        assert!(
            LIST == expected,
            "kernels/variants.txt should be:\n{expected}"
        );
    }

    #[test]
    fn a_rung_runs_where_its_file_says() {
        const DEVICES: [(i32, i32); 6] = [(7, 5), (8, 0), (8, 9), (9, 0), (10, 0), (12, 0)];
        for rung in Rung::ALL {
            let kernel = format!("{}/kernels/{}", env!("CARGO_MANIFEST_DIR"), rung.file());
            let kernel = std::fs::read_to_string(kernel).expect("the file of a rung");
            let arch = kernel
                .lines()
                .find_map(|line| line.strip_prefix("// arch: "));
            let expected: fn((i32, i32)) -> bool = match arch {
                None => |_| true,
                Some("compute_80") => |device| device >= (8, 0),
                Some("compute_90a") => |device| device == (9, 0),
                Some(other) => panic!("{rung}: {other}"),
            };
            for device in DEVICES {
                assert_eq!(rung.runs_on(device), expected(device), "{rung}, {device:?}");
            }
        }
    }

    /// By the compiler's report: no committed kernel keeps a register in
    /// memory, on any architecture.
    #[test]
    fn no_variant_spills() {
        for line in LIST.lines().filter(|line| !line.starts_with('#')) {
            let mut words = line.split(' ');
            let file = words.next().expect("a line has a file");
            let constants: Vec<(&str, &str)> =
                words.filter_map(|word| word.split_once('=')).collect();
            let report = KERNELS.resources(file, &constants);
            let report = report.unwrap_or_else(|error| panic!("{line}: {error}"));
            let mut architectures = vec!["sm_75", "sm_80", "sm_90"];
            let kernel = format!("{}/kernels/{file}", env!("CARGO_MANIFEST_DIR"));
            let kernel = std::fs::read_to_string(kernel).expect("a file of the list");
            if kernel.contains("// arch: compute_80") {
                architectures.remove(0);
            }
            if kernel.contains("// arch: compute_90a") {
                architectures = vec!["sm_90a"];
            }
            let reported = Vec::from_iter(report.iter().map(|resources| &*resources.architecture));
            assert_eq!(reported, architectures, "{line}");
            for resources in &report {
                let spills = (resources.spill_stores, resources.spill_loads);
                assert_eq!(spills, (0, 0), "{line}: {resources}");
            }
        }
    }
}
