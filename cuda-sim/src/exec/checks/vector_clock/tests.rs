use super::*;
use crate::exec::checks::engines::{Engine, Issue};

#[test]
fn a_barrier_orders_all_that_wait_and_only_what_came_before() {
    let mut order = BlockClocks::default();
    order.start(3, 0);
    let before = order.clock(0);
    assert!(!order.has_seen(1, 0, before));
    order.release([0, 1].into_iter(), [].into_iter(), &Past::default());
    assert!(order.has_seen(1, 0, before));
    assert!(!order.has_seen(2, 0, before));
    assert!(!order.has_seen(1, 0, order.clock(0)));
}

#[test]
fn who_arrives_passes_on_and_learns_nothing() {
    let mut order = BlockClocks::default();
    order.start(2, 0);
    let (producer, consumer) = (order.clock(0), order.clock(1));
    let mut view = Past::default();
    order.arrive(0, &mut view);
    order.release([1].into_iter(), [].into_iter(), &view);
    assert!(order.has_seen(1, 0, producer));
    assert!(!order.has_seen(1, 0, order.clock(0)));
    assert!(!order.has_seen(0, 1, consumer));
}

#[test]
fn what_one_barrier_taught_the_next_passes_on() {
    let mut order = BlockClocks::default();
    order.start(3, 0);
    let first = order.clock(0);
    order.release([0, 1].into_iter(), [].into_iter(), &Past::default());
    order.release([1, 2].into_iter(), [].into_iter(), &Past::default());
    assert!(order.has_seen(2, 0, first));
}

#[test]
fn time_ends_in_a_long_block_and_accuses_nobody() {
    let mut order = BlockClocks::default();
    order.start(2, 0);
    order.now = MAX_TIME - 2;
    for round in 0..5 {
        order.sync_warp(0, u32::MAX, u32::MAX);
        let before = order.clock(0);
        assert!(before <= MAX_TIME);
        order.release([0, 1].into_iter(), [].into_iter(), &Past::default());
        assert!(order.has_seen(1, 0, before), "round {round}");
    }
    assert!(order.is_worn());
}

#[test]
fn lanes_that_meet_in_groups_pass_on_what_they_know() {
    let mut order = BlockClocks::default();
    order.start(2, 0);
    let before = order.clock(1);
    order.sync_warp(1, 0x0000_00ff, u32::MAX);
    let between = order.clock(1);
    order.sync_warp(1, 0x0000_0ff0, u32::MAX);
    let knows = |lane: u32, other: u32, time: u32| order.thread_has_seen(1, lane, 32 + other, time);
    assert!(knows(9, 5, between) && knows(9, 0, before));
    assert!(!knows(9, 0, between) && !knows(0, 9, before));
    assert!(!knows(16, 0, before) && !order.has_met_any(1, 16, before));
    assert!(order.has_met_any(1, 0, before) && !order.has_met_any(1, 0, between));
}

#[test]
fn a_flag_needs_the_fence_before_it() {
    let mut order = BlockClocks::default();
    order.start(2, 0);
    let early = order.clock(0);
    order.write_flag(0, 64);
    order.read_flag(1, 64, None);
    assert!(!order.has_seen(1, 0, early));
    order.fence(0, false);
    order.write_flag(0, 64);
    order.read_flag(1, 68, None);
    assert!(!order.has_seen(1, 0, early));
    order.read_flag(1, 64, None);
    assert!(order.has_seen(1, 0, early));
    assert!(!order.has_seen(1, 0, order.clock(0)));
}

#[test]
fn a_wait_acquires_the_phases_that_are_over() {
    let mut order = BlockClocks::default();
    order.start(2, 0);
    order.start_mbarrier(0, 8);
    let first = order.clock(0);
    order.arrive_at_mbarrier(0, 8, true, false);
    order.pass_mbarrier(1, 8);
    assert!(!order.has_seen(1, 0, first));
    let second = order.clock(0);
    order.arrive_at_mbarrier(0, 8, true, true);
    let third = order.clock(0);
    order.arrive_at_mbarrier(0, 8, true, false);
    order.pass_mbarrier(1, 8);
    assert!(order.has_seen(1, 0, first) && order.has_seen(1, 0, second));
    assert!(!order.has_seen(1, 0, third));
    order.arrive_at_mbarrier(0, 8, false, true);
    order.pass_mbarrier(1, 8);
    assert!(order.has_seen(1, 0, third) && !order.has_seen(1, 0, order.clock(0)));
}

#[test]
fn a_relaxed_arrival_releases_what_came_before_the_fence() {
    let mut order = BlockClocks::default();
    order.start(2, 0);
    order.start_mbarrier(0, 8);
    let first = order.clock(0);
    order.fence(0, false);
    let second = order.clock(0);
    order.arrive_at_mbarrier(0, 8, false, true);
    order.pass_mbarrier(1, 8);
    assert!(order.has_seen(1, 0, first) && !order.has_seen(1, 0, second));
}

const COPY: Engine = Engine::Barrier(8);

#[test]
fn who_waits_for_the_phase_of_a_copy_comes_behind_it_and_nobody_else() {
    let mut order = BlockClocks::default();
    order.start(3, 0);
    order.start_mbarrier(0, 8);
    let (engine, _) = order.begin_async(COPY, 0..1, (0, 3)).unwrap();
    let copied = order.clock(engine);
    order.release([0, 1, 2].into_iter(), [].into_iter(), &Past::default());
    assert!(order.has_open_engines());
    assert!((0..3).all(|warp| !order.has_seen(warp, engine, copied)));
    assert!((0..3).all(|warp| order.floor(warp) < copied));
    order.complete_on_mbarrier(8, Some((engine, copied)), false);
    order.pass_mbarrier(1, 8);
    assert!(!order.has_seen(1, engine, copied));
    order.arrive_at_mbarrier(0, 8, true, true);
    order.pass_mbarrier(1, 8);
    assert!(order.has_seen(1, engine, copied) && !order.has_seen(2, engine, copied));
    order.release([1, 2].into_iter(), [].into_iter(), &Past::default());
    assert!(order.has_seen(2, engine, copied) && !order.has_seen(0, engine, copied));
    assert!(order.has_open_engines());
    order.pass_mbarrier(0, 8);
    assert!(!order.has_open_engines());
}

#[test]
fn a_copy_sees_what_its_issuer_saw_and_its_proxy_what_a_fence_passed_on() {
    let mut order = BlockClocks::default();
    order.start(2, 0);
    let stored = order.clock(1);
    order.release([0, 1].into_iter(), [].into_iter(), &Past::default());
    let (engine, _) = order.begin_async(COPY, 0..1, (0, 3)).unwrap();
    assert!(order.has_seen(engine, 1, stored) && !order.proxy_sees(engine, 32, stored));
    // By the issuer, behind the barrier.
    order.fence_proxy(0);
    let late = order.clock(1);
    order.begin_async(COPY, 0..1, (0, 3));
    assert!(order.proxy_sees(engine, 32, stored) && !order.proxy_sees(engine, 32, late));
    // By the writer, before it.
    order.fence_proxy(1);
    order.release([0, 1].into_iter(), [].into_iter(), &Past::default());
    order.begin_async(COPY, 0..1, (0, 3));
    assert!(order.proxy_sees(engine, 32, late));
}

#[test]
fn copies_of_one_engine_are_not_ordered() {
    let mut order = BlockClocks::default();
    order.start(1, 0);
    let (engine, first) = order.begin_async(COPY, 0..1, (7, 3)).unwrap();
    let begun = order.clock(engine);
    let (_, second) = order.begin_async(COPY, 0..1, (9, 3)).unwrap();
    assert!(first != second && !order.has_seen(engine, engine, begun));
    assert_eq!(
        order.unfinished().collect::<Vec<_>>(),
        [(
            COPY,
            Issue {
                pc: 9,
                thread: 3,
                block: None
            }
        )]
    );
    order.wait_async(0, engine, begun);
    assert_eq!(
        order.unfinished().collect::<Vec<_>>(),
        [(
            COPY,
            Issue {
                pc: 9,
                thread: 3,
                block: None
            }
        )]
    );
    order.wait_async(0, engine, order.clock(engine));
    assert_eq!(order.unfinished().count(), 0);
}

#[test]
fn only_a_fence_for_the_device_releases_to_other_blocks() {
    let mut order = BlockClocks::default();
    order.start(2, 0);
    order.serial = 7;
    let early = order.clock(0);
    order.fence(0, false);
    assert!(order.write_flag(0, 64).has_only_times_of(7));
    order.fence(0, true);
    let mut other = BlockClocks::default();
    other.start(2, order.now());
    assert!(!other.other_blocks(1).knows(7, 0, early));
    other.read_flag(1, 64, Some(order.write_flag(0, 64)));
    let knows =
        |other: &BlockClocks, warp, block, by| other.other_blocks(warp).knows(block, by, early);
    assert!(knows(&other, 1, 7, 0) && !knows(&other, 0, 7, 0));
    assert!(!knows(&other, 1, 7, 1) && !knows(&other, 1, 6, 0));
    other.release([0, 1].into_iter(), [].into_iter(), &Past::default());
    assert!(knows(&other, 0, 7, 0));
    assert!(!other.other_blocks(0).knows(7, 0, order.clock(0)));
}

#[test]
fn a_fence_before_a_barrier_and_a_flag_behind_it_release() {
    let mut order = BlockClocks::default();
    order.start(2, 0);
    order.serial = 7;
    let early = order.clock(1);
    order.fence(1, true);
    order.release([0, 1].into_iter(), [].into_iter(), &Past::default());
    assert!(order.write_flag(0, 64).knows(7, 1, early));
}

/// Warp 0 tells another block, whose answer warp 1 gets: so it knows what warp 0 did.
#[test]
fn what_others_know_of_the_own_block_comes_back() {
    let mut order = BlockClocks::default();
    order.start(2, 0);
    order.serial = 7;
    let before = order.clock(0);
    order.fence(0, true);
    let told = order.write_flag(0, 64).clone();
    assert!(!order.has_seen(1, 0, before));
    order.read_flag(1, 128, Some(&told));
    assert!(order.has_seen(1, 0, before) && !order.has_seen(1, 0, order.clock(0)));
}

/// A visitor knows of the block what its own warp knows; what it did there is known to those who
/// hear of it.
#[test]
fn visitors_are_ordered_by_what_their_warps_know() {
    let [mut here, mut there] = [3, 4].map(|serial| {
        let mut order = BlockClocks::default();
        order.start(2, 0);
        order.serial = serial;
        order
    });
    let before = there.clock(1);
    let come = |here: &mut BlockClocks, there: &mut BlockClocks, warp| {
        let visitor = here.set_out(0, warp, true);
        let (place, _) = there.receive(&visitor, visitor.engine(), 5).unwrap();
        here.come_back(warp, &there.send_off(place));
        place
    };
    let place = come(&mut here, &mut there, 0);
    let visited = there.clock(place);
    assert!(!there.has_seen(place, 1, before) && !there.has_seen(1, place, visited));
    // The block tells warp 0 of the other one, but not its warp 1.
    there.fence(1, true);
    here.read_flag(0, 64, Some(there.write_flag(1, 64)));
    let place = come(&mut here, &mut there, 0);
    assert!(there.has_seen(place, 1, before) && there.has_seen(place, place, visited));
    let other = come(&mut here, &mut there, 1);
    assert!(other != place && !there.has_seen(other, 1, before));
    assert!(!there.has_seen(other, place, visited));
    // The own barrier tells it.
    here.release([0, 1].into_iter(), [].into_iter(), &Past::default());
    let other = come(&mut here, &mut there, 1);
    assert!(there.has_seen(other, 1, before) && there.has_seen(other, place, visited));
    // Warp 0 leaves a flag there, and warp 1 finds it.
    let left = here.clock(0);
    let visitor = here.set_out(0, 0, true);
    let (place, _) = there.receive(&visitor, visitor.engine(), 5).unwrap();
    there.fence(place, true);
    there.write_flag(place, 256);
    let visitor = here.set_out(0, 1, false);
    let (finder, _) = there.receive(&visitor, visitor.engine(), 5).unwrap();
    there.read_flag(finder, 256, None);
    assert!(!here.has_seen(1, 0, left));
    here.come_back(1, &there.send_off(finder));
    assert!(here.has_seen(1, 0, left));
    // What the visitors did comes back with what they release.
    let last = there.clock(other);
    here.fence(1, true);
    there.read_flag(0, 128, Some(here.write_flag(1, 128)));
    assert!(there.has_seen(0, other, last) && !there.has_seen(1, other, last));
}

/// Where there is no place for it, all know all.
#[test]
fn a_visitor_without_a_place_is_never_accused() {
    let mut here = BlockClocks::default();
    here.start(1, 0);
    let mut there = BlockClocks::default();
    there.start(32, 0);
    there.serial = 1;
    let visitor = here.set_out(0, 0, false);
    assert!(there.receive(&visitor, visitor.engine(), 5).is_none());
    let before = there.clock(9);
    let knowledge = there.meet(&visitor);
    assert!(knowledge.knows(1, 9, before) && !knowledge.knows(1, 9, there.clock(9)));
}
