//! Settings, which a process reads once: the variables `CUDA_SIM_…`, and the limit of address
//! space.
//!
//! Each test runs this program again, for one of the functions marked `ignore`, with its own
//! environment.

use std::env;

use crate::common::{Outcome, context, expect_error, run, run_within};
use cudarc::{
    driver::{
        LaunchConfig, PushKernelArg,
        sys::{CUdevice_attribute as Attribute, CUresult},
    },
    nvrtc::Ptx,
};

#[test]
fn the_memory_limit_is_a_setting() {
    run("settings::child_has_64_mib", "CUDA_SIM_MEMORY", "64");
}

#[test]
#[ignore = "run by the test above"]
fn child_has_64_mib() -> Outcome {
    let context = context()?;
    assert_eq!(context.total_mem()?, 64 << 20);
    let stream = context.default_stream();
    let half = stream.alloc_zeros::<u8>(32 << 20)?;
    expect_error(
        stream.alloc_zeros::<u8>((32 << 20) + 1),
        CUresult::CUDA_ERROR_OUT_OF_MEMORY,
    );
    drop(half);
    stream.alloc_zeros::<u8>(64 << 20)?;
    Ok(())
}

#[test]
fn a_limit_of_address_space_leaves_less_device_memory() {
    run_within(2_000_000, "settings::child_has_little_address_space");
    run_within(
        2_000_000,
        "settings::child_asks_for_more_than_there_are_addresses",
    );
}

#[test]
#[ignore = "run by the test above"]
fn child_has_little_address_space() -> Outcome {
    let context = context()?;
    let (free, total) = context.mem_get_info()?;
    assert_eq!((free, total), (context.total_mem()?, free));
    assert!((48 << 20..64 << 20).contains(&total), "{total}");
    // Half of the addresses are left to the program, less what the harness and its threads take.
    let mut program = Vec::<u8>::new();
    program.try_reserve_exact(800 << 20)?;
    drop(program);
    let stream = context.default_stream();
    let text = expect_error(
        stream.alloc_zeros::<u8>(total + 1),
        CUresult::CUDA_ERROR_OUT_OF_MEMORY,
    );
    assert!(text.contains("ulimit -v"), "{text}");
    for _ in 0..3 {
        let all = stream.alloc_zeros::<u8>(total)?;
        assert_eq!(stream.clone_dtoh(&all.slice(total - 1..))?, [0]);
    }
    let module = context.load_module(Ptx::from_src(include_str!("../ptx/driver.ptx")))?;
    let store = module.load_function("store")?;
    let mut data = stream.alloc_zeros::<u32>(1)?;
    // SAFETY: the arguments are those of the kernel.
    unsafe {
        let mut launch = stream.launch_builder(&store);
        launch
            .arg(&mut data)
            .arg(&0u64)
            .launch(LaunchConfig::for_num_elems(1))
    }?;
    assert_eq!(stream.clone_dtoh(&data)?, [1]);
    Ok(())
}

#[test]
#[ignore = "run by the test above"]
fn child_asks_for_more_than_there_are_addresses() {
    // SAFETY: no other thread reads the environment meanwhile.
    unsafe { env::set_var("CUDA_SIM_MEMORY", "1024") };
    let error = cuda_sim::install().expect_err("too much");
    assert!(
        matches!(error, cuda_sim::InstallError::Memory { .. }),
        "{error:?}"
    );
}

#[test]
fn a_setting_with_a_wrong_value_is_a_typed_error() {
    for (name, value) in [
        ("CUDA_SIM_THREADS", "0"),
        ("CUDA_SIM_MEMORY", "lots"),
        ("CUDA_SIM_BUDGET", "x"),
        ("CUDA_SIM_SEED", "abc"),
        ("CUDA_SIM_CHECK", "maybe"),
        ("CUDA_SIM_MMA", "slow"),
        ("CUDA_SIM_DEVICE", "v100"),
    ] {
        let text = run("settings::child_is_refused", name, value);
        let told = format!("{name} is `{value}`: it must be ");
        assert_eq!(text.matches(&told).count(), 2, "{text}");
    }
}

#[test]
#[ignore = "run by the test above"]
fn child_is_refused() -> Outcome {
    let error = cuda_sim::install().expect_err("a wrong value");
    assert!(
        matches!(error, cuda_sim::InstallError::Setting { .. }),
        "{error:?}"
    );
    println!("install: {error}");
    // A program that does not call `install` gets it from `cuInit`.
    unsafe extern "C" {
        fn cuInit(flags: u32) -> u32;
        fn cuGetErrorString(code: u32, text: *mut *const std::ffi::c_char) -> u32;
    }
    // SAFETY: the functions of the driver, which are linked to this test; the text is
    // zero-terminated.
    let text = unsafe {
        assert_eq!(cuInit(0), CUresult::CUDA_ERROR_OPERATING_SYSTEM as u32);
        let mut text = std::ptr::null();
        assert_eq!(
            cuGetErrorString(CUresult::CUDA_ERROR_OPERATING_SYSTEM as u32, &mut text),
            0
        );
        std::ffi::CStr::from_ptr(text)
    };
    println!("cuInit: {}", text.to_string_lossy());
    Ok(())
}

/// Expected of a child with `CUDA_SIM_DEVICE`: name, compute capability, multiprocessors, threads
/// of one and registers of `count` by the committed report.
const DEVICES: [(&str, i32, i32, i32, i32); 9] = [
    ("h100", 90, 132, 2048, 8),
    ("h200", 90, 132, 2048, 8),
    ("a100", 80, 108, 2048, 8),
    ("rtx4090", 89, 128, 1536, 8),
    ("t4", 75, 40, 1024, 5),
    ("a6000", 86, 84, 1536, 8),
    ("rtx3090", 86, 82, 1536, 8),
    ("rtx5090", 120, 170, 1536, 8),
    ("rtx2080s", 75, 48, 1024, 5),
];

#[test]
fn the_device_is_a_setting() {
    for (name, ..) in DEVICES {
        run("settings::child_is_a_device", "CUDA_SIM_DEVICE", name);
    }
}

#[test]
#[ignore = "run by the test above"]
fn child_is_a_device() -> Outcome {
    let chosen = env::var("CUDA_SIM_DEVICE")?;
    let (name, capability, multiprocessors, threads, registers) = DEVICES
        .into_iter()
        .find(|device| device.0 == chosen)
        .ok_or("a device of the table")?;
    let context = context()?;
    assert_eq!(context.name()?, format!("cuda-sim ({name})"));
    let attribute = |attribute| context.attribute(attribute);
    assert_eq!(
        (
            context.compute_capability()?,
            attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
            attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR)?,
        ),
        ((capability / 10, capability % 10), multiprocessors, threads)
    );
    let module = context.load_module(Ptx::from_src(include_str!("../ptx/driver.ptx")))?;
    let axpy = module.load_function("axpy")?;
    let count = module.load_function("count")?;
    assert_eq!(
        (count.num_regs()?, count.binary_version()?),
        (registers, capability)
    );
    assert_eq!(
        axpy.occupancy_max_active_blocks_per_multiprocessor(512, 0, None)?,
        threads as u32 / 512
    );
    let stream = context.default_stream();
    let x = stream.clone_htod(&[1.0f32; 64])?;
    let mut y = stream.clone_htod(&[2.0f32; 64])?;
    // SAFETY: the arguments are those of the kernel.
    unsafe {
        stream
            .launch_builder(&axpy)
            .arg(&mut y)
            .arg(&x)
            .arg(&3.0f32)
            .arg(&64i32)
            .launch(LaunchConfig::for_num_elems(64))
    }?;
    assert_eq!(stream.clone_dtoh(&y)?, [5.0; 64]);
    assert_eq!(cuda_sim::last_launch().ok_or("a launch")?.time.device, name);
    for (target, least, only) in [
        ("sm_75", 75, false),
        ("sm_80", 80, false),
        ("sm_89", 89, false),
        ("sm_90", 90, false),
        ("sm_90a", 90, true),
        ("sm_100", 100, false),
        ("sm_120f", 120, true),
    ] {
        let ptx = format!(".version 8.4\n.target {target}\n.address_size 64\n");
        let loaded = context.load_module(Ptx::from_src(ptx));
        if if only {
            capability == least
        } else {
            capability >= least
        } {
            loaded?;
        } else {
            let text = expect_error(loaded.map(drop), CUresult::CUDA_ERROR_INVALID_PTX);
            assert!(
                text.contains(&format!("cuda-sim ({name}) is sm_{capability}")),
                "{text}"
            );
        }
    }
    Ok(())
}

#[test]
fn modelled_time_does_not_depend_on_the_number_of_threads() {
    let bits = |threads| {
        let text = run(
            "settings::child_prints_modelled_time",
            "CUDA_SIM_THREADS",
            threads,
        );
        let found = text.split("modelled ").nth(1);
        let bits = found.and_then(|rest| rest.split_whitespace().next());
        bits.expect("a time").to_owned()
    };
    assert_eq!(bits("1"), bits("3"));
}

#[test]
#[ignore = "run by the test above"]
fn child_prints_modelled_time() -> Outcome {
    let context = context()?;
    let stream = context.default_stream();
    let module = context.load_module(Ptx::from_src(include_str!("../ptx/tiled_gemm.ptx")))?;
    let (a, b) = (
        stream.clone_htod(&[1.0f32; 128 * 128])?,
        stream.clone_htod(&[1.0f32; 128 * 128])?,
    );
    let mut c = stream.alloc_zeros::<f32>(128 * 128)?;
    let shape = LaunchConfig {
        grid_dim: (8, 8, 1),
        block_dim: (16, 16, 1),
        shared_mem_bytes: 0,
    };
    let kernel = module.load_function("tiled_gemm")?;
    // SAFETY: the arguments are those of the kernel.
    unsafe {
        stream
            .launch_builder(&kernel)
            .arg(&a)
            .arg(&b)
            .arg(&mut c)
            .arg(&128i32)
            .launch(shape)
    }?;
    let time = cuda_sim::last_launch().ok_or("a launch")?.time;
    println!("modelled {:016x}", time.seconds.to_bits());
    Ok(())
}

#[test]
fn the_budget_of_a_launch_is_a_setting_and_does_not_depend_on_the_number_of_threads() {
    let report = |threads| {
        let text = run(
            "settings::child_runs_a_long_launch",
            "CUDA_SIM_THREADS",
            threads,
        );
        let found = text.split("report: ").nth(1);
        found
            .and_then(|rest| rest.lines().next())
            .expect("a report")
            .to_owned()
    };
    let alone = report("1");
    assert!(alone.contains("LongLaunch { budget: 5000 }"), "{alone}");
    assert_eq!(alone, report("4"));
}

#[test]
#[ignore = "run by the test above"]
fn child_runs_a_long_launch() -> Outcome {
    // SAFETY: no other thread reads the environment meanwhile.
    unsafe { env::set_var("CUDA_SIM_LAUNCH_BUDGET", "5000") };
    let context = context()?;
    let stream = context.default_stream();
    let module = context.load_module(Ptx::from_src(include_str!("../ptx/driver.ptx")))?;
    let axpy = module.load_function("axpy")?;
    let x = stream.clone_htod(&vec![1.0f32; 1 << 16])?;
    let mut y = stream.clone_htod(&vec![2.0f32; 1 << 16])?;
    let mut run = |elements: i32| {
        let mut launch = stream.launch_builder(&axpy);
        launch.arg(&mut y).arg(&x).arg(&3.0f32).arg(&elements);
        // SAFETY: the arguments are those of the kernel.
        unsafe { launch.launch(LaunchConfig::for_num_elems(elements as u32)) }.map(|_| ())
    };
    run(1024)?;
    expect_error(run(1 << 16), CUresult::CUDA_ERROR_LAUNCH_TIMEOUT);
    println!("report: {:?}", cuda_sim::take_fault());
    Ok(run(1024)?)
}
