//! Copies of bytes in a row, and bulk groups.

use super::rig::*;

const EXPECT: &str = "mbarrier.init.shared.b64 [%r0], 1;\nfence.mbarrier_init.release.cluster;\nmbarrier.arrive.expect_tx.shared.b64 _, [%r0], {size};\n";

#[test]
fn device_memory_to_shared_memory() {
    let stream = stream();
    let host = noise(1, 8192);
    let data = stream.clone_htod(&host).unwrap();
    for (size, offset) in [(16, 0), (16, 48), (2048, 16), (4112, 4080)] {
        for form in [
            "shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%d2], {size}, [%r0];",
            "shared::cta.global.mbarrier::complete_tx::bytes [%r1], [%d2], %r20, [%r0];",
            "shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%r1], [%d2], {size}, [%r0], %d3;",
            "shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%r1], [%d2], {size}, [%r0], %h1;",
        ] {
            let body = format!(
                "{EXPECT}mov.u32 %r20, {{size}};\nmov.u16 %h1, 1;\ncp.async.bulk.{form}\n{WAIT}{}",
                dump(size)
            )
            .replace("{size}", &size.to_string());
            let out = stream.alloc_zeros::<u8>(size).unwrap();
            let run = Run {
                data: address(&data, &stream) + offset as u64,
                out: address(&out, &stream),
                shared: 1040,
                ..Run::one(&body)
            };
            assert_eq!(run.launch(), Ok(()), "{form}");
            let got = stream.clone_dtoh(&out).unwrap();
            assert!(got == host[offset..offset + size], "{form}");
        }
    }
}

#[test]
fn shared_memory_to_device_memory() {
    let stream = stream();
    for (size, offset) in [(16, 0), (2064, 32)] {
        for form in ["", ".L2::cache_hint"] {
            let policy = if form.is_empty() { "" } else { ", %d3" };
            let tile = noise(7, size);
            let data = stream.clone_htod(&noise(8, 4096)).unwrap();
            let out = stream.clone_htod(&tile).unwrap();
            let body = format!(
                "{}cp.async.bulk.global.shared::cta.bulk_group{form} [%d2], [%r1], {size}{policy};\n\
                 cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\n",
                undump(size)
            );
            let run = Run {
                data: address(&data, &stream) + offset as u64,
                out: address(&out, &stream),
                ..Run::one(&body)
            };
            assert_eq!(run.launch(), Ok(()));
            let mut wanted = noise(8, 4096);
            wanted[offset..offset + size].copy_from_slice(&tile);
            assert!(stream.clone_dtoh(&data).unwrap() == wanted, "{size} {form}");
        }
    }
}

#[test]
fn within_shared_memory() {
    let stream = stream();
    let tile = noise(7, 256);
    let out = stream.clone_htod(&tile).unwrap();
    let body = format!(
        "{}{EXPECT}add.u32 %r21, %r1, 512;\n\
         cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r21], [%r1], 256, [%r0];\n\
         {WAIT}mov.u32 %r1, %r21;\n{}",
        undump(256),
        dump(256)
    )
    .replace("{size}", "256");
    let run = Run {
        out: address(&out, &stream),
        ..Run::one(&body)
    };
    assert_eq!(run.launch(), Ok(()));
    assert!(stream.clone_dtoh(&out).unwrap() == tile);
}

/// A copy of no bytes does nothing, but needs its barrier.
#[test]
fn no_bytes() {
    let body = format!(
        "{EXPECT}cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%d2], 0, [%r0];\n\
         cp.async.bulk.global.shared::cta.bulk_group [%d2], [%r1], 0;\n{WAIT}cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\n"
    )
    .replace("{size}", "0");
    assert_eq!(Run::one(&body).launch(), Ok(()));
}

/// Bytes may come before they are expected, and a phase ends with the last ones.
#[test]
fn bytes_of_several_copies_end_a_phase_together() {
    let stream = stream();
    let data = stream.clone_htod(&noise(1, 256)).unwrap();
    let out = stream.alloc_zeros::<u32>(4).unwrap();
    let copy = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%d2], {size}, [%r0];\n";
    let test = |at: u32| {
        format!(
            "mbarrier.test_wait.parity.shared.b64 %p1, [%r0], 0;\nselp.u32 %r30, 1, 0, %p1;\nst.global.u32 [%d3+{at}], %r30;\n"
        )
    };
    let body = format!(
        "mbarrier.init.shared.b64 [%r0], 1;\nfence.mbarrier_init.release.cluster;\n{}{}mbarrier.arrive.expect_tx.shared.b64 _, [%r0], 96;\n{}{}{}",
        copy.replace("{size}", "64"),
        test(0),
        test(4),
        // To another place: copies to one place race.
        copy.replace("{size}", "32").replace("[%r1]", "[%r1+64]"),
        test(8),
    );
    let run = Run {
        data: address(&data, &stream),
        out: address(&out, &stream),
        ..Run::one(&body)
    };
    assert_eq!(run.launch(), Ok(()));
    assert_eq!(stream.clone_dtoh(&out).unwrap()[..3], [0, 0, 1]);
}

/// Each lane of a warp copies for itself, the highest lane last.
#[test]
fn lanes_copy_in_lane_order() {
    let stream = stream();
    let host = noise(4, 512);
    let data = stream.clone_htod(&host).unwrap();
    let out = stream.alloc_zeros::<u8>(512).unwrap();
    let body = format!(
        "setp.ne.u32 %p3, %r9, 0;\n@%p3 bra READY;\n{EXPECT}READY:\nbar.warp.sync -1;\n\
         mul.lo.u32 %r20, %r9, 16;\nadd.u32 %r21, %r1, %r20;\ncvt.u64.u32 %d5, %r20;\nadd.u64 %d5, %d2, %d5;\n\
         cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r21], [%d5], 16, [%r0];\n\
         {WAIT}@%p3 bra DONE;\n{}\nDONE:",
        dump(512)
    )
    .replace("{size}", "512");
    let run = Run {
        data: address(&data, &stream),
        out: address(&out, &stream),
        threads: 32,
        ..Run::one(&body)
    };
    assert_eq!(run.launch(), Ok(()));
    assert!(stream.clone_dtoh(&out).unwrap() == host);
    // All of them to one place.
    let data = stream.clone_htod(&[0u8; 16]).unwrap();
    let body = "mul.lo.u32 %r20, %r9, 16;\nadd.u32 %r21, %r1, %r20;\nst.shared.v4.u32 [%r21], {%r9, %r9, %r9, %r9};\n\
        cp.async.bulk.global.shared::cta.bulk_group [%d2], [%r21], 16;\n\
        cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\n";
    let run = Run {
        data: address(&data, &stream),
        threads: 32,
        ..Run::one(body)
    };
    cuda_sim::set_checks(Some(false));
    let result = run.launch();
    cuda_sim::set_checks(None);
    assert_eq!(result, Ok(()));
    assert!(stream.clone_dtoh(&data).unwrap() == [31, 0, 0, 0].repeat(4));
}

/// Prefetches change nothing, but their addresses are looked at (`faults.rs`).
#[test]
fn prefetches() {
    let stream = stream();
    let tensor = Tensor::dense(ELEMENTS[2], &[32, 4], &[32, 4]);
    let data = stream.clone_htod(&noise(1, 512)).unwrap();
    let map = tensor.encode(address(&data, &stream));
    for form in [
        "cp.async.bulk.prefetch.L2.global [%d2], 512;",
        "cp.async.bulk.prefetch.L2.global.L2::cache_hint [%d2], 512, %d3;",
        "cp.async.bulk.prefetch.tensor.2d.L2.global [%d1, {%r2, %r3}];",
        "cp.async.bulk.prefetch.tensor.2d.L2.global.tile.L2::cache_hint [%d1, {%r2, %r3}], %d3;",
        "prefetch.tensormap [%d1];",
        "prefetch.param.tensormap [%d0];",
        "prefetch.param.tensormap [map];",
    ] {
        let run = Run {
            map,
            data: address(&data, &stream),
            first: &[1, 1],
            ..Run::one(form)
        };
        assert_eq!(run.launch(), Ok(()), "{form}");
    }
    let got = stream.clone_dtoh(&data).unwrap();
    assert!(got == noise(1, 512));
}
