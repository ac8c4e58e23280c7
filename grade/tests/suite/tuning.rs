//! The tiles of task `4/tune`.

use std::collections::HashMap;

use conformance::device::Device;
use grade::tuning::{MOST, Measured, PROBLEMS, candidates};
use stage4_flash_cuda::library::Tile;

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
