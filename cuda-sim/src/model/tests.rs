use super::*;
use crate::device::DEVICES;

fn device(name: &str) -> &'static Device {
    DEVICES
        .iter()
        .find(|device| device.name == name)
        .expect("a device of the table")
}

fn part(time: &ModelledTime, wanted: Resource) -> f64 {
    let found = time.parts.iter().find(|(resource, _)| *resource == wanted);
    found.expect("every resource has a part").1
}

fn close(found: f64, expected: f64) {
    assert!(
        (found / expected - 1.0).abs() < 1e-12,
        "{found}, expected {expected}"
    );
}

fn resources(registers: u32, spills: u32) -> Option<Resources> {
    Some(Resources {
        architecture: 75,
        registers,
        frame: spills,
        spill_stores: spills,
        spill_loads: 2 * spills,
        ignores_setmaxnreg: false,
    })
}

/// `c[i] = a[i] + b[i]` for 2^20 elements, 256 threads a block: 32,768 warps with 12 instructions,
/// a line of 4 sectors a request.
fn vector_add() -> Phase {
    let warps = 1 << 15;
    Phase {
        instructions: 12 * warps,
        fp32: warps,
        global_requests: 3 * warps,
        wavefronts: 3 * warps,
        sectors: 12 * warps,
        ..Phase::default()
    }
}

fn vector_add_work(phase: Phase) -> Work {
    Work {
        phases: vec![phase],
        compulsory_bytes: 12 << 20,
        blocks: 4096,
        threads: 256,
        shared_bytes: 0,
        resources: resources(10, 0),
        local_bytes: 0,
        atomics_at_one_address: 0,
        slowest_warps: 0,
    }
}

#[test]
fn a_vector_addition_waits_for_device_memory() {
    let time = time(device("h100"), &vector_add_work(vector_add()));
    // 4096 blocks over 132 multiprocessors: the busiest has 32 of them, in four rounds of eight.
    assert_eq!(time.blocks_per_multiprocessor, 8);
    assert_eq!(time.occupancy, 1.0);
    close(time.waves, 4096.0 / (132.0 * 8.0));
    close(time.imbalance, 32.0 * 132.0 / 4096.0);
    assert_eq!(time.bound, Resource::Dram);
    close(part(&time, Resource::Dram), 12_582_912.0 / 3.35e12);
    // 393,216 sectors through the whole cache, which is slower than 64 bytes a clock for each
    // multiprocessor.
    close(part(&time, Resource::L2), 12_582_912.0 / (4472.3 * 1.98e9));
    // 32 blocks of 8 warps with 12 instructions, 4 a clock; one addition of 32 lanes each, 128 a
    // clock.
    close(
        part(&time, Resource::Issue),
        32.0 * 8.0 * 12.0 / 4.0 / 1.98e9,
    );
    close(
        part(&time, Resource::Fp32),
        32.0 * 8.0 * 32.0 / 128.0 / 1.98e9,
    );
    assert_eq!(part(&time, Resource::Tensor), 0.0);
    close(time.seconds, 3e-6 + 12_582_912.0 / 3.35e12);
}

/// A product of matrices of 256 × 256, in tiles of 16 × 16, without bank conflicts: 2048 warps,
/// each with 256 multiply- adds, 512 loads and 32 stores of shared memory, and 16 times 8 sectors
/// in and 4 out.
fn tiled_gemm() -> Phase {
    let warps = 2048;
    Phase {
        instructions: 1000 * warps,
        fp32: 256 * warps,
        shared_requests: 544 * warps,
        global_requests: 33 * warps,
        // Two rows of 16 words in each request of global memory.
        wavefronts: (544 + 66) * warps,
        sectors: 132 * warps,
        ..Phase::default()
    }
}

fn tiled_gemm_work(registers: u32) -> Work {
    Work {
        phases: vec![tiled_gemm()],
        compulsory_bytes: 3 * 256 * 256 * 4,
        blocks: 256,
        shared_bytes: 2048,
        resources: resources(registers, 0),
        ..vector_add_work(Phase::default())
    }
}

#[test]
fn a_tiled_product_waits_for_shared_memory() {
    let hopper = time(device("h100"), &tiled_gemm_work(32));
    // Two blocks of 8 warps on the busiest multiprocessor.
    close(hopper.imbalance, 2.0 * 132.0 / 256.0);
    assert_eq!(hopper.bound, Resource::Shared);
    close(
        part(&hopper, Resource::Shared),
        2.0 * 8.0 * (544.0 + 66.0) / 1.98e9,
    );
    close(
        part(&hopper, Resource::LoadStore),
        2.0 * 8.0 * (544.0 + 33.0) / 1.98e9,
    );
    close(
        part(&hopper, Resource::Fp32),
        2.0 * 8.0 * 256.0 / 4.0 / 1.98e9,
    );
    close(
        part(&hopper, Resource::Issue),
        2.0 * 8.0 * 1000.0 / 4.0 / 1.98e9,
    );
    close(part(&hopper, Resource::Dram), 786_432.0 / 3.35e12);
    let pipelines = |clocks: [f64; 4]| clocks.iter().map(|c| c.powi(4)).sum::<f64>().powf(0.25);
    let together = pipelines([250.0, 64.0, 577.0, 610.0]);
    close(hopper.seconds, 3e-6 + 2.0 * 8.0 * together / 1.98e9);

    let turing = time(device("t4"), &tiled_gemm_work(63));
    // 64 registers let four blocks in; the busiest of 40 has seven: four, then three. Two clocks a
    // wavefront, a line and a request.
    assert_eq!(turing.blocks_per_multiprocessor, 4);
    close(turing.imbalance, 7.0 * 40.0 / 256.0);
    assert_eq!(turing.bound, Resource::Shared);
    let together = pipelines([250.0, 128.0, 2.0 * 577.0, 2.0 * 610.0]);
    close(turing.seconds, 3e-6 + 7.0 * 8.0 * together / 1.59e9);
}

#[test]
fn few_warps_take_as_long_as_those_that_hide_latency() {
    let none = Phase::default();
    let instructions = Phase {
        instructions: 16_000,
        ..none
    };
    // 1000 instructions of each warp, each 4 clocks after the one before.
    let work = |phase: &Phase, blocks, threads: u32| Work {
        phases: vec![Phase {
            latency_clocks: 4000 * u64::from(threads / 32) * blocks,
            ..*phase
        }],
        compulsory_bytes: 0,
        blocks,
        threads,
        resources: None,
        ..vector_add_work(none)
    };
    // A block of 16 warps issues four instructions in a clock: as long as one warp alone, 1000
    // times 4 clocks.
    let sixteen = time(device("h100"), &work(&instructions, 1, 512));
    close(part(&sixteen, Resource::Issue), 4000.0 / 1.98e9);
    close(part(&sixteen, Resource::Latency), 4000.0 / 1.98e9);
    // Where warps have roles, a block waits for the slowest: here one with the chains of 16.
    let roles = Work {
        slowest_warps: 16 * 4000,
        ..work(&instructions, 1, 512)
    };
    close(
        part(&time(device("h100"), &roles), Resource::Latency),
        16.0 * 4000.0 / 1.98e9,
    );
    // One warp takes the same time, though it has a sixteenth of the instructions.
    let alone = time(device("h100"), &work(&none, 1, 32));
    close(alone.seconds, 3e-6 + 4000.0 / 1.98e9);
    assert_eq!(alone.bound, Resource::Launch);
    // A block on each multiprocessor, then one more: that multiprocessor has two, at once or one
    // after the other.
    let even = time(device("h100"), &work(&none, 132, 512));
    close(part(&even, Resource::Latency), 4000.0 / 1.98e9);
    let uneven = time(device("h100"), &work(&instructions, 133, 512));
    close(uneven.imbalance, 2.0 * 132.0 / 133.0);
    assert_eq!((uneven.blocks_per_multiprocessor, uneven.rounds), (4, 1));
    let large = time(device("h100"), &work(&none, 133 + 264, 1024));
    assert_eq!((large.blocks_per_multiprocessor, large.rounds), (2, 2));
    close(part(&large, Resource::Latency), 8000.0 / 1.98e9);
}

#[test]
fn pipelines_that_are_busy_alike_slow_each_other_down() {
    let parts = |times: [f64; 4]| {
        let [issue, fp32, latency, dram] = times;
        [
            (Resource::Launch, 1.0),
            (Resource::Issue, issue),
            (Resource::Fp32, fp32),
            (Resource::Latency, latency),
            (Resource::Dram, dram),
        ]
    };
    for (times, expected) in [
        ([0.0, 0.0, 0.0, 0.0], 1.0),
        ([2.0, 0.0, 0.0, 0.0], 3.0),
        // (2⁴ + 2⁴)^¼, (2⁴ + 1)^¼
        ([2.0, 2.0, 0.0, 0.0], 1.0 + 32f64.sqrt().sqrt()),
        ([2.0, 1.0, 0.0, 0.0], 1.0 + 17f64.sqrt().sqrt()),
        // Latency and device memory do not slow them down.
        ([2.0, 2.0, 2.3, 0.0], 1.0 + 32f64.sqrt().sqrt()),
        ([2.0, 2.0, 2.0, 3.0], 4.0),
        ([2.0, 2.0, 5.0, 3.0], 6.0),
    ] {
        close(ModelledTime::seconds_of(&parts(times)), expected);
    }
}

#[test]
fn phases_of_a_block_follow_each_other() {
    // A copy of 1000 clocks latency, a product of 1000 clocks of issue, for each of 132 blocks.
    let copy = Phase {
        latency_clocks: 132 * 8 * 1000,
        later_wavefronts: 132 * 500,
        wavefronts: 132 * 500,
        ..Phase::default()
    };
    let product = Phase {
        instructions: 132 * 4000,
        latency_clocks: 132 * 8 * 10,
        ..Phase::default()
    };
    let work = |phases: &[Phase], times: u64| Work {
        phases: phases.iter().map(|phase| phase.repeated(times)).collect(),
        compulsory_bytes: 0,
        blocks: 132 * times,
        ..vector_add_work(Phase::default())
    };
    let seconds = |work| time(device("h100"), &work).seconds - LAUNCH_SECONDS;
    // Without a barrier the latency overlaps with the rest: 1000 clocks of issue, beside 500 of the
    // copy's wavefronts.
    let mut both = copy;
    both += product;
    let together = 1000.0 * (17.0f64 / 16.0).sqrt().sqrt();
    close(seconds(work(&[both], 1)), together / 1.98e9);
    // A block alone takes the sum; with more, one copies while another computes.
    let apart = [copy, product];
    close(seconds(work(&apart, 1)), 2000.0 / 1.98e9);
    close(seconds(work(&apart, 2)), 2.0 * together / 1.98e9);
    close(seconds(work(&apart, 4)), 4.0 * together / 1.98e9);
}

#[test]
fn the_first_level_cache_keeps_what_it_has() {
    // Each of 264 blocks reads the same 1000 sectors: twice as many blocks as caches.
    let work = |sectors: u64, compulsory_bytes| Work {
        phases: vec![Phase {
            sectors: 264 * sectors,
            ..Phase::default()
        }],
        compulsory_bytes,
        blocks: 264,
        resources: None,
        ..vector_add_work(Phase::default())
    };
    let shared = time(device("h100"), &work(1000, 32_000));
    let l2_rate = 4472.3 * 1.98e9;
    close(part(&shared, Resource::L2), 132.0 * 32_000.0 / l2_rate);
    // Where no block reads what another one reads, all of it comes from there.
    let all = time(device("h100"), &work(1000, 264 * 320_000));
    close(part(&all, Resource::L2), 264.0 * 32_000.0 / l2_rate);
}

#[test]
fn local_memory_is_gone_or_stays_in_the_first_level_cache_if_it_fits() {
    let local = Phase {
        local_requests: 1 << 15,
        local_sectors: 4 << 15,
        ..Phase::default()
    };
    let find = |resources, local_bytes| {
        let work = Work {
            resources,
            local_bytes,
            ..vector_add_work(local)
        };
        let time = time(device("h100"), &work);
        [Resource::Shared, Resource::L2].map(|resource| part(&time, resource))
    };
    // On the busiest multiprocessor, 32 blocks of 8 warps, a line each.
    let [lines, l2] = [256.0 / 1.98e9, (4 << 15) as f64 * 32.0 / (4472.3 * 1.98e9)];
    // The report says that no array is left.
    assert_eq!(find(resources(10, 0), 64), [0.0, 0.0]);
    let frame = |frame| resources(10, 0).map(|report| Resources { frame, ..report });
    // 2048 threads with 64 bytes each, or with 256.
    let close_to = |found: [f64; 2], expected: [f64; 2]| {
        close(found[0], expected[0]);
        assert!((found[1] - expected[1]).abs() <= 1e-12 * expected[1]);
    };
    close_to(find(frame(64), 64), [lines, 0.0]);
    close_to(find(frame(256), 256), [lines, l2]);
    // Without a report the PTX's own size counts.
    close_to(find(None, 64), [lines, 0.0]);
}

#[test]
fn spilled_registers_are_lines_and_traffic_of_the_second_level_cache_if_they_do_not_fit() {
    let spill = |bytes| {
        let mut work = vector_add_work(Phase::default());
        work.resources = resources(32, bytes);
        time(device("h100"), &work)
    };
    // 4 bytes out and 8 in, for each of 2^20 threads, of which 2048 are resident.
    let few = spill(4);
    close(
        part(&few, Resource::Shared),
        few.imbalance * 12_582_912.0 / (132.0 * 128.0 * 1.98e9),
    );
    assert_eq!(part(&few, Resource::L2), 0.0);
    let many = spill(400);
    close(
        part(&many, Resource::L2),
        100.0 * 12_582_912.0 / (4472.3 * 1.98e9),
    );
}

#[test]
fn atomic_operations_on_one_address_take_turns() {
    let mut work = vector_add_work(Phase::default());
    work.atomics_at_one_address = 1 << 20;
    let time = time(device("h100"), &work);
    close(part(&time, Resource::L2), (1 << 20) as f64 / 1.98e9);
    assert_eq!(time.bound, Resource::L2);
}

#[test]
fn a_launch_behind_another_starts_sooner_and_the_second_longest_part_is_known() {
    let time = time(device("h100"), &tiled_gemm_work(32));
    close(time.seconds_behind(false), time.seconds);
    close(time.seconds_behind(true), time.seconds - 1e-6);
    let [longest, second] = time.longest_two();
    close(longest, time.seconds - 3e-6);
    // One of the two blocks of the busiest multiprocessor alone.
    close(second, longest / 2.0);
}

#[test]
fn more_work_and_smaller_devices_never_take_less() {
    let (small, large) = (vector_add(), vector_add().repeated(2));
    for device in &DEVICES {
        let base = time(device, &vector_add_work(small));
        for work in [
            vector_add_work(large),
            Work {
                compulsory_bytes: 24 << 20,
                ..vector_add_work(small)
            },
            Work {
                resources: resources(255, 0),
                ..vector_add_work(small)
            },
            Work {
                resources: resources(10, 64),
                ..vector_add_work(small)
            },
        ] {
            let more = time(device, &work);
            assert!(more.seconds >= base.seconds, "{}", device.name);
            for (less, more) in base.parts.iter().zip(&more.parts) {
                assert!(more.1 >= less.1, "{}: {:?}", device.name, less.0);
            }
        }
        // The same block once more on a grid that grows.
        let mut last = 0.0;
        for blocks in 1..2000 {
            let cost = blocks as f64
                * ModelledTime::distribution(blocks as f64, f64::from(device.multiprocessors), 3.0)
                    .0;
            // The product rounds.
            assert!(
                cost >= last * (1.0 - 1e-12),
                "{}: {blocks} blocks",
                device.name
            );
            last = cost;
        }
    }
    let seconds = |name| time(device(name), &vector_add_work(small)).seconds;
    assert!(seconds("h200") < seconds("h100") && seconds("h100") < seconds("a100"));
    assert!(seconds("a100") < seconds("rtx4090") && seconds("rtx4090") < seconds("t4"));
}

#[test]
fn copies_take_their_bytes_over_the_rate() {
    close(host_copy_seconds(device("h100"), 64_000_000), 3e-6 + 1e-3);
    close(host_copy_seconds(device("t4"), 16_000_000), 3e-6 + 1e-3);
    close(device_copy_seconds(device("t4"), 320_000_000), 3e-6 + 1e-3);
}

/// The rows of the table in `MODEL.md`, from the devices.
fn table() -> Vec<String> {
    let row = |name: &str, value: &dyn Fn(&Device) -> String| {
        let values: Vec<String> = DEVICES.iter().map(value).collect();
        format!("| {name} | {} |", values.join(" | "))
    };
    vec![
        row("product", &|d| d.product.to_owned()),
        row("compute capability", &|d| {
            format!("{}.{}", d.capability.number / 10, d.capability.number % 10)
        }),
        row("multiprocessors", &|d| d.multiprocessors.to_string()),
        row("clock, MHz", &|d| (d.clock_khz / 1000).to_string()),
        row("threads per multiprocessor", &|d| {
            d.capability.max_threads_per_multiprocessor.to_string()
        }),
        row("blocks per multiprocessor", &|d| {
            d.capability.max_blocks_per_multiprocessor.to_string()
        }),
        row("shared memory per multiprocessor, KiB", &|d| {
            (d.capability.shared_per_multiprocessor >> 10).to_string()
        }),
        row("shared memory per block, KiB", &|d| {
            (d.capability.shared_per_block_optin >> 10).to_string()
        }),
        row("L1 and shared memory, KiB", &|d| {
            (d.capability.l1_bytes >> 10).to_string()
        }),
        row("f32 lanes", &|d| d.capability.fp32_lanes.to_string()),
        row("f64 lanes", &|d| d.capability.fp64_lanes.to_string()),
        row("special function lanes", &|d| {
            d.capability.special_lanes.to_string()
        }),
        row("tensor core multiply-adds, f16", &|d| {
            d.capability.tensor_fmas.to_string()
        }),
        row("tensor core multiply-adds, tf32", &|d| {
            d.capability.tensor_tf32_fmas.to_string()
        }),
        row("tensor core multiply-adds, f64", &|d| {
            d.capability.tensor_f64_fmas.to_string()
        }),
        row("tensor core multiply-adds, 8-bit integers", &|d| {
            d.capability.tensor_int8_fmas.to_string()
        }),
        row("share of them for `mma.sync`, but f64", &|d| {
            let share = format!("{:.3}", d.capability.mma_sync_share);
            share.trim_end_matches(".000").to_owned()
        }),
        row("load/store lanes", &|d| {
            d.capability.load_store_lanes.to_string()
        }),
        row("L1 and shared memory, bytes per clock", &|d| {
            d.capability.shared_bytes_per_clock.to_string()
        }),
        row("L2, MiB", &|d| (d.l2_bytes >> 20).to_string()),
        row("L2, bytes per clock", &|d| d.l2_bytes_per_clock.to_string()),
        row("DRAM, GiB", &|d| (d.memory_bytes >> 30).to_string()),
        row("DRAM, GB/s", &|d| {
            (d.dram_bytes_per_second / 1e9).to_string()
        }),
        row("host link, GB/s", &|d| {
            (d.host_bytes_per_second / 1e9).to_string()
        }),
    ]
}

#[test]
fn the_page_shows_the_constants_that_are_used() {
    let page = include_str!("../../MODEL.md");
    for row in table() {
        assert!(page.contains(&row), "MODEL.md lacks this row:\n{row}");
    }
    for constant in [
        format!("{} µs", LAUNCH_SECONDS * 1e6),
        format!("{} µs less", QUEUED_SECONDS * 1e6),
        format!("{L2_PORT_BYTES} bytes"),
        format!("{LINE} bytes"),
    ] {
        assert!(page.contains(&constant), "MODEL.md lacks {constant}");
    }
}
