//! Random sizes, options and layouts in device memory, through both rungs.

mod support;

use stage4_flash_cuda::committed::HEAD_DIMS;
use stage4_flash_cuda::{Mode, Strategy};
use support::{Device, Modes, Random, assert_rung_2};

/// Problems for each strategy; a problem's seed chooses everything but its head dimension, which goes round.
const PROBLEMS: u64 = 200;

#[test]
fn rung_1_on_random_problems() {
    let device = Device::open();
    let modes = [Strategy::Exact, Strategy::Split, Strategy::Padded]
        .map(|strategy| device.attention(Mode::FusedBy(strategy)));
    let mut solved = 0;
    for seed in 0..PROBLEMS {
        let problem = Random::new(seed << 8, HEAD_DIMS[seed as usize % HEAD_DIMS.len()]);
        // The first of the three that can have this head dimension, beginning with another one each round.
        let round = seed as usize / HEAD_DIMS.len();
        let able = (0..3).map(|i| &modes[(round + i) % 3]);
        let mut able = able.filter(|mode| mode.variant(problem.sizes.head_dim).is_ok());
        let attention = able.next().expect("Split can have any");
        let output = problem.solve(&device, attention);
        problem.judge(&output.unwrap_or_else(|error| panic!("{}: {error}", problem.name)));
        solved += 1;
    }
    assert_eq!(solved, PROBLEMS);
}

#[test]
fn rung_2_on_random_problems() {
    let device = Device::open();
    let attention = device.attention(Mode::Fused);
    for seed in 0..PROBLEMS {
        let problem = Random::new((seed << 8) + 99, HEAD_DIMS[seed as usize % HEAD_DIMS.len()]);
        assert_rung_2(&attention, problem.sizes.head_dim);
        let output = problem.solve(&device, &attention);
        problem.judge(&output.unwrap_or_else(|error| panic!("{}: {error}", problem.name)));
    }
}
