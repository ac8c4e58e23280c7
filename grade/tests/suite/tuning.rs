//! The tiles of task `4/tune`.

use std::collections::HashMap;
use std::path::Path;

use conformance::device::Device;
use grade::compiler::edited;
use grade::places::Places;
use grade::tasks::select;
use grade::tuning::{MOST, Measured, PROBLEMS, candidates};
use grade::verdict::Subject;
use stage4_flash_cuda::library::Tile;

/// The tiles of the solution are committed, and the starter has none.
#[test]
fn a_tile_that_a_learner_chooses_may_need_the_compiler() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let tasks = select(Some(4), Some("tune")).unwrap();
    for places in [Places::learner(&root), Places::solution(&root)] {
        assert!(edited(&places, &tasks).is_empty());
    }
    let places = Places {
        subject: Subject::Learner,
        ..Places::solution(&root)
    };
    assert_eq!(edited(&places, &tasks), [Path::new("stage4/src/tune.rs")]);
}

/// Those that are committed are the best, and the task cannot be solved by one tile.
#[test]
#[ignore = "compiles 80 kernels: needs NVRTC, and three minutes"]
fn the_best_tiles_are_the_best_and_none_is_good_everywhere() {
    gpu::simulate().unwrap();
    let device = Device::open();
    let mut ratios: HashMap<Tile, Vec<f64>> = HashMap::new();
    for problem in &PROBLEMS {
        let tiles = candidates(&device, problem.sizes.head_dim).into_iter();
        let rows = tiles.map(|tile| Measured::new(&device, &problem.sizes, tile).unwrap());
        let rows: Vec<Measured> = rows.filter(|row| row.spills() == 0).collect();
        let seconds = |row: &&Measured| row.time.seconds;
        let best = rows.iter().min_by(|a, b| seconds(a).total_cmp(&seconds(b)));
        let best = best.unwrap();
        assert_eq!(best.tile, problem.best, "{}", problem.name);
        for row in &rows {
            let ratio = row.time.seconds / best.time.seconds;
            ratios.entry(row.tile).or_default().push(ratio);
        }
    }
    ratios.retain(|_, ratios| ratios.len() == PROBLEMS.len());
    assert!(!ratios.is_empty());
    for (tile, ratios) in ratios {
        assert!(
            ratios.iter().any(|&ratio| ratio > MOST),
            "{tile}: {ratios:?}"
        );
    }
}
