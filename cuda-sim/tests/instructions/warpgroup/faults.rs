//! Mistakes around products of warpgroups: each beside what is right.

#![allow(clippy::result_large_err)] // Faults are compared as they are.

use cuda_sim::{FaultKind, ProductRegister, ProductRegister::*, RegisterInFlight};

use super::rig::Case;
use crate::instructions::matrix::random;

const FENCE: &str = "wgmma.fence.sync.aligned;\n";
const COMMIT: &str = "wgmma.commit_group.sync.aligned;\n";
const WAIT: &str = "wgmma.wait_group.sync.aligned 0;\n";

fn case() -> Case {
    Case {
        fragments: true,
        ..Case::new("f16", "f16", "f32", 16)
    }
}

/// Runs a body with lines of `k.cu`; `MMA` is the product.
fn run_of(case: &Case, threads: u32, body: &str) -> Result<(), (FaultKind, Option<u32>)> {
    let mut bits = random(1);
    let matrices = case.matrices(|| bits() & 0x83ff | 0x3800, || 0x3f80_0000);
    let (image, descriptors) = case.shared(&matrices);
    let body = body.replace("MMA", &case.instruction());
    match case.run_body(&body, threads, &image, descriptors, &matrices) {
        Ok(_) => Ok(()),
        Err(fault) => {
            let line = fault.source.as_ref().map(|(_, line)| *line);
            Err((fault.kind, line))
        }
    }
}

fn run(body: &str) -> Result<(), (FaultKind, Option<u32>)> {
    run_of(&case(), 128, body)
}

fn at(line: u32) -> Option<(String, u32)> {
    Some(("k.cu".to_owned(), line))
}

#[track_caller]
fn in_flight(body: &str, register: ProductRegister, write: bool, committed: bool) {
    let register = RegisterInFlight {
        register,
        write,
        committed,
        product: at(31),
    };
    let wanted = (FaultKind::ProductInFlight(register), Some(40));
    assert_eq!(run(body), Err(wanted), "{body}");
}

#[test]
fn registers_of_a_product_belong_to_it_until_the_wait() {
    let product = format!("{FENCE}.loc 1 31 0\nMMA{COMMIT}.loc 1 40 0\n");
    let read = "add.f32 %f100, %f3, %f3;\n";
    let stored = "st.shared.f32 [%r1015], %f3;\n";
    let write = "add.f32 %f2, %f100, %f100;\n";
    let constant = "mov.f32 %f5, 0f3f800000;\n";
    let of_a = "add.u32 %r1001, %r1010, 1;\n";
    let of_a_read = "add.u32 %r900, %r1001, 1;\n";
    let copied = "mov.f32 %f50, %f3;\nadd.f32 %f100, %f50, %f50;\n";
    let copied_twice = "mov.f32 %f50, %f3;\nmov.f32 %f51, %f50;\nadd.f32 %f100, %f51, %f51;\n";
    let set = "mov.f32 %f100, 0f3f800000;\n";
    for (access, register, writes) in [
        (read, Accumulator(3), false),
        (stored, Accumulator(3), false),
        (write, Accumulator(2), true),
        (constant, Accumulator(5), true),
        (of_a, Fragment(1), true),
        (copied, Accumulator(3), false),
        (copied_twice, Accumulator(3), false),
    ] {
        in_flight(
            &format!("{set}{product}{access}{WAIT}"),
            register,
            writes,
            true,
        );
        assert_eq!(
            run(&format!("{set}{product}{WAIT}{access}")),
            Ok(()),
            "{access}"
        );
    }
    assert_eq!(run(&format!("{product}{of_a_read}{WAIT}")), Ok(()));
    // A copy may be thrown away, and a copy that is read behind the wait is one of the result.
    for copy in [
        "mov.f32 %f50, %f3;\nmov.f32 %f50, 0f3f800000;\nadd.f32 %f100, %f50, %f50;\n",
        "mov.f32 %f50, %f3;\nadd.f32 %f50, %f100, %f100;\n",
    ] {
        assert_eq!(
            run(&format!("{set}{product}{copy}{WAIT}")),
            Ok(()),
            "{copy}"
        );
    }
    let behind =
        "mov.f32 %f50, %f3;\nwgmma.wait_group.sync.aligned 0;\nadd.f32 %f100, %f50, %f50;\n";
    assert_eq!(run(&format!("{product}{behind}")), Ok(()));
}

#[test]
fn a_wait_covers_committed_groups_but_the_newest_ones() {
    let read = ".loc 1 40 0\nadd.f32 %f100, %f3, %f3;\n";
    let product = format!("{FENCE}.loc 1 31 0\nMMA");
    in_flight(
        &format!("{product}{WAIT}{read}"),
        Accumulator(3),
        false,
        false,
    );
    let newest = "wgmma.wait_group.sync.aligned 1;\n";
    in_flight(
        &format!("{product}{COMMIT}{newest}{read}"),
        Accumulator(3),
        false,
        true,
    );
    // An empty group is one.
    assert_eq!(
        run(&format!("{product}{COMMIT}{COMMIT}{newest}{read}{WAIT}")),
        Ok(())
    );
    in_flight(
        &format!("{product}{COMMIT}{WAIT}.loc 1 31 0\nMMA{WAIT}{read}"),
        Accumulator(3),
        false,
        false,
    );
}

#[test]
fn products_of_one_shape_follow_each_other() {
    let twice = format!("{FENCE}MMA MMA{COMMIT} MMA{COMMIT}{WAIT} MMA{COMMIT}{WAIT}");
    assert_eq!(run(&twice), Ok(()));
    // As compilers rotate the registers of a loop.
    let mut loops = format!("mov.u32 %r900, 0;\n{FENCE}again:\n");
    for i in 0..8 {
        loops += &format!("mov.f32 %f{i}, %f{};\n", 60 + i);
    }
    loops += "MMA";
    loops += COMMIT;
    for i in 0..8 {
        loops += &format!("mov.f32 %f{}, %f{i};\n", 60 + i);
    }
    loops += "add.u32 %r900, %r900, 1;\nsetp.lt.u32 %p5, %r900, 3;\n@%p5 bra again;\n";
    let set: String = (60..68)
        .map(|i| format!("mov.f32 %f{i}, 0f00000000;\n"))
        .collect();
    assert_eq!(run(&format!("{set}{loops}{WAIT}")), Ok(()));
    // Of another shape, the product before must have ended, and a fence follows.
    let other = Case {
        columns: 8,
        ..case()
    };
    let other = format!(".loc 1 40 0\n{}{COMMIT}", other.instruction());
    let product = format!("{FENCE}.loc 1 31 0\nMMA{COMMIT}");
    in_flight(
        &format!("{product}{FENCE}{other}"),
        Accumulator(0),
        true,
        true,
    );
    assert_eq!(run(&format!("{product}{WAIT}{FENCE}{other}{WAIT}")), Ok(()));
    let unfenced = FaultKind::MissingProductFence {
        access: at(31),
        register: Some(Accumulator(0)),
    };
    assert_eq!(
        run(&format!("{product}{WAIT}{other}{WAIT}")),
        Err((unfenced, Some(40)))
    );
    // Accumulators that are the A of the next product.
    let mixed = case().instruction().replace("%r1000,", "%r950,");
    let half = Case {
        sums: "f16",
        ..case()
    };
    let first = half.instruction().replace("{%r0, ", "{%r950, ");
    let body = format!(
        "mov.u32 %r1, 0;\nmov.u32 %r2, 0;\nmov.u32 %r3, 0;\nmov.u32 %r950, 0;\n{FENCE}.loc 1 31 0\n{first}{COMMIT}.loc 1 40 0\n{mixed}"
    );
    in_flight(&body, Accumulator(0), false, true);
}

#[test]
fn a_fence_comes_before_the_first_product_and_behind_accesses() {
    let unfenced = |register: Option<ProductRegister>| {
        let access = at(31);
        let kind = FaultKind::MissingProductFence {
            access: register.and(access),
            register,
        };
        Err((kind, Some(40)))
    };
    let product = format!(".loc 1 40 0\nMMA{COMMIT}{WAIT}");
    assert_eq!(run(&product), unfenced(None));
    for (access, register) in [
        ("add.f32 %f1, %f2, %f2;\n", Accumulator(1)),
        ("add.f32 %f100, %f6, %f6;\n", Accumulator(6)),
        ("ld.shared.f32 %f7, [%r1013];\n", Accumulator(7)),
        ("add.u32 %r1000, %r1010, 1;\n", Fragment(0)),
        (
            "add.f32 %f50, %f2, %f2;\nmov.f32 %f4, %f50;\n",
            Accumulator(2),
        ),
    ] {
        let access = format!(".loc 1 31 0\n{access}");
        assert_eq!(
            run(&format!("{FENCE}{access}{product}")),
            unfenced(Some(register)),
            "{access}"
        );
        let right = format!("{FENCE}{access}{FENCE}{product}");
        assert_eq!(run(&right), Ok(()), "{access}");
        // Between two products.
        assert_eq!(
            run(&format!("{FENCE}MMA{COMMIT}{WAIT}{access}{product}")),
            unfenced(Some(register)),
            "{access}"
        );
    }
    for harmless in [
        "add.u32 %r900, %r1000, 1;\n",
        "mov.f32 %f100, %f6;\n",
        "mov.f32 %f6, 0f00000000;\n",
        "add.f32 %f100, %f101, %f101;\n",
    ] {
        let body = format!("mov.f32 %f101, 0f00000000;\n{FENCE}{harmless}{product}");
        assert_eq!(run(&body), Ok(()), "{harmless}");
    }
}

#[test]
fn copies_of_written_registers_are_as_unfenced_as_they() {
    let body = format!(
        "{FENCE}.loc 1 31 0\nadd.f32 %f50, %f2, %f2;\nmov.f32 %f4, %f50;\n{FENCE}.loc 1 40 0\nMMA{COMMIT}{WAIT}"
    );
    assert_eq!(run(&body), Ok(()));
}

/// The text of the fault of a warpgroup, and the line of the other warp.
#[track_caller]
fn out_of_step(threads: u32, body: &str) -> (String, Option<u32>) {
    match run_of(&case(), threads, body) {
        Err((FaultKind::WarpgroupOutOfStep { what, other }, _)) => {
            (what, other.map(|(_, line)| line))
        }
        other => panic!("{body}: {other:?}"),
    }
}

#[test]
fn the_four_warps_come_to_one_product() {
    let product = format!("MMA{COMMIT}{WAIT}");
    // Warp 3 goes to `away`.
    let split = "shr.u32 %r900, %r1010, 5;\nsetp.eq.u32 %p5, %r900, 3;\n@%p5 bra away;\n";
    let apart = |there: &str| {
        format!(
            "{FENCE}{split}.loc 1 31 0\n{product}bra done;\naway:\n.loc 1 40 0\n{there}\ndone:\n"
        )
    };
    let (what, line) = out_of_step(128, &apart(&product));
    assert!(what.contains("is at another wgmma.mma_async"), "{what}");
    assert!(matches!(line, Some(31 | 40)), "{line:?}");
    let (what, _) = out_of_step(128, &apart("exit;"));
    assert!(what.contains("warp 3 has ended"), "{what}");
    let (what, line) = out_of_step(128, &apart("bar.sync 1, 128;"));
    assert!(what.contains("warp 3 waits elsewhere"), "{what}");
    assert_eq!(line, Some(40));
    let (what, _) = out_of_step(96, &format!("{FENCE}{product}"));
    assert!(what.contains("has 3 warps"), "{what}");
    // The second warpgroup has a path of its own, and a barrier of all of them may be between.
    let second = "setp.ge.u32 %p5, %r1010, 128;\n@%p5 bra away;\n";
    let body = format!("{FENCE}{second}{product}bra done;\naway:\n{product}done:\nbar.sync 0;\n");
    assert_eq!(run_of(&case(), 256, &body), Ok(()));
}

#[test]
fn all_threads_have_one_descriptor_and_one_scale() {
    let (what, _) = out_of_step(
        128,
        &format!(
            "cvt.u64.u32 %d9, %r1010;\nshr.u64 %d9, %d9, 6;\nadd.s64 %d21, %d21, %d9;\n{FENCE}MMA"
        ),
    );
    assert!(what.contains("different descriptors of B"), "{what}");
    let (what, _) = out_of_step(128, &format!("setp.eq.u32 %p1, %r1010, 77;\n{FENCE}MMA"));
    assert!(what.contains("scale-d"), "{what}");
    let lost =
        format!("{FENCE}setp.eq.u32 %p5, %r1010, 40;\n@%p5 bra done;\nMMA{COMMIT}{WAIT}done:\n");
    match run(&lost) {
        Err((FaultKind::MissingLanes { .. }, _)) => {}
        other => panic!("{other:?}"),
    }
}

#[test]
fn tiles_beyond_shared_memory_are_named() {
    let shifted = format!("add.s64 %d21, %d21, 0x3000;\n{FENCE}MMA");
    match run(&shifted) {
        Err((FaultKind::BadDescriptor { what }, _)) => {
            for part in [
                "B",
                "start address 0x3",
                "stride byte offset 1024",
                "swizzle of 128 bytes",
            ] {
                assert!(what.contains(part), "{what}");
            }
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn accumulators_may_be_unset_where_scale_d_is_false() {
    let product = case().instruction().replace("%f7}", "%f150}");
    let body =
        |scale: &str| format!("setp.eq.u32 %p1, 0, {scale};\n{FENCE}{product}{COMMIT}{WAIT}");
    assert_eq!(run(&body("1")), Ok(()));
    let kind = run(&body("0")).unwrap_err().0;
    assert_eq!(kind, FaultKind::UninitialisedRegister);
}

#[test]
fn sparse_products_are_unknown() {
    let sparse = case().instruction().replace("mma_async", "mma_async.sp");
    match run(&format!("{FENCE}{sparse}")) {
        Err((FaultKind::UnknownInstruction { text }, _)) => {
            assert!(text.contains("wgmma.mma_async.sp.sync"), "{text}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn nothing_is_kept_where_checks_are_off() {
    cuda_sim::set_checks(Some(false));
    let result = run(&format!("MMA add.f32 %f100, %f3, %f3;\n{COMMIT}{WAIT}"));
    cuda_sim::set_checks(None);
    assert_eq!(result, Ok(()));
}
