//! Products that run while asynchronous copies are under way, and loads of matrices.

use cuda_sim::{Class, LaunchProfile};

use super::rig::{File, Rig};

/// A product, of zeros.
const PRODUCT: &str = "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 \
                       {%f0, %f1, %f2, %f3}, {%r0, %r1}, {%r2}, {%f0, %f1, %f2, %f3};\n";

/// A copy of `bytes` bytes by each thread, `offset` bytes into the array.
fn copy(offset: u32, bytes: u32) -> String {
    format!("cp.async.cg.shared.global [%r3 + {offset}], [%rd0], 16, {bytes};\n")
}

/// The profile of one warp.
fn profile_of(body: &str) -> LaunchProfile {
    let ptx = format!(
        ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 a) {{\n\
         .reg .b32 %r<9>; .reg .b64 %rd<3>; .reg .f32 %f<4>; .shared .align 16 .b8 s[1024];\n\
         mov.f32 %f0, 0f00000000; mov.f32 %f1, %f0; mov.f32 %f2, %f0; mov.f32 %f3, %f0;\n\
         mov.u32 %r0, 0; mov.u32 %r1, 0; mov.u32 %r2, 0; mov.u32 %r4, %tid.x; mov.u32 %r5, s;\n\
         ld.param.u64 %rd0, [a]; mad.lo.u32 %r3, %r4, 16, %r5;\n{body}\nret;\n}}\n"
    );
    let file = File {
        source: "",
        ptx: ptx.leak(),
    };
    let rig = Rig::open();
    let a = rig.zeros::<f32>(4);
    rig.launch(&file, "k", [(1, 1), (32, 1)], &[rig.buffer(&a)])
}

/// The instructions of tensor cores that run during copies, of all that run, for one warp.
fn during(body: &str) -> [u64; 2] {
    let profile = profile_of(body);
    [
        profile.tensor_during_copies,
        profile.total.of(Class::Tensor),
    ]
}

#[test]
fn a_product_overlaps_copies_that_nobody_has_waited_for() {
    let (copy, other, empty) = (copy(0, 16), copy(512, 16), copy(0, 0));
    let (commit, wait) = ("cp.async.commit_group;\n", "cp.async.wait_group ");
    for (body, expected) in [
        (PRODUCT.to_owned(), [0, 1]),
        (
            format!("{copy}{PRODUCT}{commit}{PRODUCT}{wait}0;{PRODUCT}"),
            [2, 3],
        ),
        (
            format!("{copy}{commit}{PRODUCT}cp.async.wait_all;{PRODUCT}"),
            [1, 2],
        ),
        // A copy in no group: only `wait_all` waits for it.
        (
            format!("{copy}{wait}0;{PRODUCT}cp.async.wait_all;{PRODUCT}"),
            [1, 2],
        ),
        // The newest group may be under way. One without copies is no copy.
        (
            format!("{copy}{commit}{other}{commit}{wait}1;{PRODUCT}{wait}0;"),
            [1, 1],
        ),
        (format!("{copy}{commit}{commit}{wait}1;{PRODUCT}"), [0, 1]),
        // Zeros alone travel nowhere.
        (format!("{empty}{commit}{PRODUCT}{wait}0;"), [0, 1]),
    ] {
        assert_eq!(during(&body), expected, "{body}");
    }
}

#[test]
fn bytes_of_asynchronous_copies_are_those_of_lanes_that_copy_any() {
    // 32 lanes, 16 bytes each; a load of 4 bytes each is no copy, and zeros alone are none.
    let (copy, other, empty) = (copy(0, 16), copy(512, 16), copy(0, 0));
    let wait = "cp.async.wait_all;\n";
    let load = "ld.global.u32 %r6, [%rd0];\n";
    for (body, copied, loaded) in [
        (format!("{copy}{wait}"), 512, 512),
        (format!("{copy}{other}{wait}{load}"), 1024, 1152),
        (format!("{empty}{wait}"), 0, 0),
        (load.to_owned(), 0, 128),
    ] {
        let total = profile_of(&body).total;
        let counted = [total.bytes_copied, total.global_loads.bytes];
        assert_eq!(counted, [copied, loaded], "{body}");
    }
}
