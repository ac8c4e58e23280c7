//! Loads of which only some bytes are used: `.pragma "used_bytes_mask …"`. Bounds, freed and
//! unwritten memory and races are looked for in used bytes alone; alignment and traffic are those
//! of the whole load.

// A fault is large, but there is at most one per launch.
#![allow(clippy::result_large_err)]

use std::sync::Arc;

use cuda_sim::{Fault, FaultKind, LaunchProfile};
use cudarc::driver::{CudaContext, CudaSlice, CudaStream, DevicePtr, LaunchConfig, PushKernelArg};
use cudarc::nvrtc::Ptx;

const HEAD: &str = ".version 8.3\n.target sm_75\n.address_size 64\n\
    .visible .entry t(.param .u64 in, .param .u64 out)\n{\n\
    .reg .pred %p<4>;\n.reg .b16 %h<8>;\n.reg .b32 %i, %r<8>;\n.reg .f32 %f<8>;\n.reg .b64 %in, %out, %d<8>;\n\
    ld.param.u64 %in, [in];\nld.param.u64 %out, [out];\nmov.u32 %i, %tid.x;\n";

/// Elements 4 to 6 of seven floats.
const TAIL: &str = ".pragma \"used_bytes_mask 4095\";\nld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%in+16];\n\
    add.f32 %f1, %f1, %f2;\nadd.f32 %f1, %f1, %f3;\nst.global.f32 [%out], %f1;\n";

fn stream() -> Arc<CudaStream> {
    cuda_sim::install().unwrap();
    CudaContext::new(0).unwrap().default_stream()
}

/// Runs `body` with the addresses of its input and of its output; `blocks` blocks of `threads`
/// threads.
fn launch(
    stream: &Arc<CudaStream>,
    body: &str,
    shape: (u32, u32),
    addresses: [u64; 2],
) -> Result<(), Fault> {
    let text = format!("{HEAD}{body}ret;\n}}\n");
    let loaded = stream.context().load_module(Ptx::from_src(text));
    let module = loaded.unwrap_or_else(|e| panic!("{body}: {e}"));
    let kernel = module.load_function("t").unwrap();
    let mut launch = stream.launch_builder(&kernel);
    addresses.iter().for_each(|address| {
        launch.arg(address);
    });
    let config = LaunchConfig {
        grid_dim: (shape.0, 1, 1),
        block_dim: (shape.1, 1, 1),
        shared_mem_bytes: 0,
    };
    // SAFETY: two addresses, as the kernel takes; what it does wrong, the simulator catches.
    match unsafe { launch.launch(config) } {
        Ok(_) => Ok(()),
        Err(_) => Err(cuda_sim::take_fault().expect("a fault was reported")),
    }
}

/// `elements` floats of device memory, of which those of `values` are written.
fn memory(stream: &Arc<CudaStream>, elements: usize, values: &[f32]) -> CudaSlice<f32> {
    // SAFETY: what is not written is the subject of the tests.
    let mut slice = unsafe { stream.alloc::<f32>(elements) }.unwrap();
    if !values.is_empty() {
        stream
            .memcpy_htod(values, &mut slice.slice_mut(..values.len()))
            .unwrap();
    }
    slice
}

fn address(slice: &CudaSlice<f32>) -> u64 {
    slice.device_ptr(slice.stream()).0
}

const SEVEN: [f32; 7] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0];

/// Runs `body` with one thread on a buffer of `elements` floats, the first of which are `values`;
/// what it stores.
fn run(body: &str, elements: usize, values: &[f32]) -> Result<f32, Fault> {
    let stream = stream();
    let input = memory(&stream, elements, values);
    let out = stream.alloc_zeros::<f32>(8).unwrap();
    launch(&stream, body, (1, 1), [address(&input), address(&out)])?;
    Ok(stream.clone_dtoh(&out).unwrap()[0])
}

#[test]
fn unused_bytes_may_lie_behind_the_end() {
    assert_eq!(run(TAIL, 7, &SEVEN), Ok(18.0));
    let fault = run(TAIL, 6, &SEVEN[..6]).unwrap_err();
    assert!(matches!(fault.kind, FaultKind::OutOfBounds(_)), "{fault}");
    let all = TAIL.replace(".pragma \"used_bytes_mask 4095\";\n", "");
    let fault = run(&all, 7, &SEVEN).unwrap_err();
    assert!(matches!(fault.kind, FaultKind::OutOfBounds(_)), "{fault}");
}

#[test]
fn the_first_used_byte_is_what_must_be_inside() {
    // Of a generic address, and of a mask with a hole.
    let body = TAIL
        .replace("ld.global", "ld")
        .replace("4095", "0xf0f")
        .replace("add.f32 %f1, %f1, %f2", "add.f32 %f1, %f1, 0f00000000");
    assert_eq!(run(&body, 7, &SEVEN), Ok(12.0));
    let behind = TAIL.replace("[%in+16]", "[%in+32]");
    let fault = run(&behind, 7, &SEVEN).unwrap_err();
    assert!(matches!(fault.kind, FaultKind::OutOfBounds(_)), "{fault}");
}

#[test]
fn the_whole_load_must_be_aligned() {
    let body = TAIL.replace("[%in+16]", "[%in+4]");
    let fault = run(&body, 8, &SEVEN).unwrap_err();
    assert!(matches!(fault.kind, FaultKind::Misaligned(_)), "{fault}");
}

#[test]
fn unused_bytes_need_not_be_written() {
    assert_eq!(run(TAIL, 8, &SEVEN), Ok(18.0));
    let fault = run(TAIL, 8, &SEVEN[..6]).unwrap_err();
    let FaultKind::UninitialisedRead(read) = &fault.kind else {
        panic!("{fault}")
    };
    let access = &read.access;
    let start = access.nearest.as_ref().unwrap().start;
    assert_eq!((access.address - start, access.bytes), (24, 4));
}

#[test]
fn freed_neighbours_are_no_use_after_free() {
    let stream = stream();
    let out = memory(&stream, 8, &[]);
    let [before, input, behind] = [(); 3].map(|()| memory(&stream, 7, &SEVEN));
    let here = address(&input);
    drop((before, behind));
    launch(&stream, TAIL, (1, 1), [here, address(&out)]).unwrap();
    drop(input);
    let fault = launch(&stream, TAIL, (1, 1), [here, address(&out)]).unwrap_err();
    assert!(matches!(fault.kind, FaultKind::UseAfterFree(_)), "{fault}");
}

/// Block 0 loads the first part of 16 bytes, and block 1 writes another.
#[test]
fn blocks_may_write_what_others_do_not_use() {
    let both = |written: u32| {
        let body = format!(
            "mov.u32 %r1, %ctaid.x;\nsetp.ne.u32 %p1, %r1, 0;\n@%p1 bra other;\n{}ret;\n\
             other:\nst.global.f32 [%in+{written}], 0f3f800000;\n",
            TAIL.replace("[%in+16]", "[%in]"),
        );
        let stream = stream();
        let (input, out) = (memory(&stream, 4, &SEVEN[..4]), memory(&stream, 8, &[]));
        launch(&stream, &body, (2, 1), [address(&input), address(&out)])
    };
    assert_eq!(both(12), Ok(()));
    let fault = both(8).unwrap_err();
    assert!(matches!(fault.kind, FaultKind::Race(_)), "{fault}");
}

/// Thread 0 loads the first part of the last 16 bytes, and a thread of another warp writes
/// `written`.
fn in_shared_memory(bytes: u32, initial: u32, written: u32) -> Result<(), Fault> {
    let body = format!(
        ".shared .align 16 .b8 s[{bytes}];\nmov.u32 %r2, s;\nshl.b32 %r1, %i, 2;\nadd.u32 %r2, %r2, %r1;\n\
         setp.lt.u32 %p1, %i, {initial};\n@%p1 st.shared.u32 [%r2], %i;\nbar.sync 0;\n\
         setp.eq.u32 %p2, %i, 63;\n@%p2 st.shared.u32 [s+{written}], %i;\n\
         setp.eq.u32 %p3, %i, 0;\n.pragma \"used_bytes_mask 4095\";\n\
         @%p3 ld.shared.v4.b32 {{%r3, %r4, %r5, %r6}}, [s+16];\n\
         @%p3 st.global.b32 [%out], %r5;\n"
    );
    let stream = stream();
    let out = memory(&stream, 8, &[]);
    launch(&stream, &body, (1, 64), [0, address(&out)])
}

#[test]
fn shared_memory_is_watched_in_used_bytes_alone() {
    // Behind the end, not written, and written meanwhile.
    assert_eq!(in_shared_memory(28, 7, 0), Ok(()));
    assert_eq!(in_shared_memory(32, 7, 0), Ok(()));
    assert_eq!(in_shared_memory(32, 7, 28), Ok(()));
    let kind = |outcome: Result<(), Fault>| outcome.unwrap_err().kind;
    let short = kind(in_shared_memory(24, 6, 0));
    assert!(matches!(short, FaultKind::OutOfBounds(_)), "{short:?}");
    let unwritten = kind(in_shared_memory(32, 6, 0));
    assert!(
        matches!(unwritten, FaultKind::UninitialisedRead(_)),
        "{unwritten:?}"
    );
    let race = kind(in_shared_memory(32, 7, 24));
    assert!(matches!(race, FaultKind::Race(_)), "{race:?}");
}

#[test]
fn local_memory_is_watched_in_used_bytes_alone() {
    let body = |written: u32| {
        let stores: String = (0..written)
            .map(|i| format!("st.local.f32 [own+{}], 0f40000000;\n", 4 * i))
            .collect();
        format!(
            ".local .align 16 .b8 own[28];\n{stores}{}",
            TAIL.replace("global.v4", "local.v4").replace("%in", "own")
        )
    };
    assert_eq!(run(&body(7), 1, &[]), Ok(6.0));
    let fault = run(&body(6), 1, &[]).unwrap_err();
    assert!(
        matches!(fault.kind, FaultKind::UninitialisedRead(_)),
        "{fault}"
    );
}

#[test]
fn a_register_for_unused_bytes_stays_unset() {
    let fault = run(&TAIL.replace("[%out], %f1", "[%out], %f4"), 8, &SEVEN).unwrap_err();
    assert_eq!(fault.kind, FaultKind::UninitialisedRegister);
    let set_before = format!("mov.f32 %f4, 0f40400000;\n{TAIL}");
    let set_before = set_before.replace("[%out], %f1", "[%out], %f4");
    assert_eq!(run(&set_before, 8, &SEVEN), Ok(3.0));
}

/// A parameter is there whole. NVRTC 12.4 states masks of parameters that leave out what it uses.
#[test]
fn parameters_are_loaded_whole() {
    let body = ".pragma \"used_bytes_mask 240\";\nld.param.v2.u32 {%r1, %r2}, [in];\n\
        mov.b64 %d1, {%r1, %r2};\nld.global.f32 %f1, [%d1];\nst.global.f32 [%out], %f1;\n";
    assert_eq!(run(body, 7, &SEVEN), Ok(1.0));
}

/// Elements of which a part is used, into registers of every width: that part is extended or not as
/// in any load.
#[test]
fn parts_of_elements_are_loaded() {
    let values = [f32::from_bits(0x8382_8180), f32::from_bits(0x8786_8584)];
    let get = |mask: u32, load: &str, store: &str| {
        let body =
            format!(".pragma \"used_bytes_mask {mask}\";\n{load};\nst.global.b64 [%out], {store};");
        let stream = stream();
        let (input, out) = (memory(&stream, 2, &values), memory(&stream, 8, &[]));
        launch(&stream, &body, (1, 1), [address(&input), address(&out)]).unwrap();
        let out = stream.clone_dtoh(&out.slice(..2)).unwrap();
        u64::from(out[0].to_bits()) | u64::from(out[1].to_bits()) << 32
    };
    assert_eq!(
        get(0x7, "ld.global.u32 %d1, [%in]", "%d1") & 0xff_ffff,
        0x82_8180
    );
    assert_eq!(
        get(0x8, "ld.global.s32 %d1, [%in]", "%d1") >> 24,
        0xff_ffff_ff83
    );
    assert_eq!(
        get(0x3f, "ld.global.u64 %d1, [%in]", "%d1") & 0xffff_ffff_ffff,
        0x8584_8382_8180
    );
    assert_eq!(
        get(0x4, "ld.global.v4.s8 {%d1, %d2, %d3, %d4}, [%in]", "%d3"),
        0xffff_ffff_ffff_ff82
    );
    assert_eq!(
        get(0x0c, "ld.global.v2.u16 {%d1, %d2}, [%in]", "%d2"),
        0x8382
    );
    // All are used, or the mask says no more than the type.
    assert_eq!(
        get(u32::MAX, "ld.global.b64 %d1, [%in]", "%d1"),
        0x8786_8584_8382_8180
    );
}

#[test]
fn a_pragma_is_about_the_next_instruction_only() {
    let later = TAIL.replace("4095\";\n", "4095\";\nmov.u32 %r1, 0;\n");
    let fault = run(&later, 7, &SEVEN).unwrap_err();
    assert!(matches!(fault.kind, FaultKind::OutOfBounds(_)), "{fault}");
    let line = TAIL.replace("4095\";\n", "4095\";\n.loc 1 2 3\nbehind:\n");
    assert_eq!(run(&line, 7, &SEVEN), Ok(18.0));
    // Without a used byte it does nothing; a store is a store.
    let nothing = ".pragma \"used_bytes_mask 0\";\nld.global.f32 %f1, [%in+400];\n";
    let store =
        "mov.f32 %f1, 0f40000000;\n.pragma \"used_bytes_mask 0\";\nst.global.f32 [%out], %f1;\n";
    assert_eq!(run(&format!("{nothing}{store}"), 7, &SEVEN), Ok(2.0));
}

#[test]
fn parameters_may_be_used_in_part() {
    let body = ".pragma \"used_bytes_mask 0xff\";\nld.param.v2.u64 {%d1, %d2}, [in];\n\
        .pragma \"used_bytes_mask 0xff\";\nld.param.v4.b32 {%r1, %r2, %r3, %r4}, [in];\n\
        ld.global.f32 %f1, [%d1];\nst.global.f32 [%out], %f1;\n";
    assert_eq!(run(body, 1, &[5.0]), Ok(5.0));
}

#[test]
fn traffic_is_that_of_the_whole_load() {
    let stream = stream();
    let record = "mul.wide.u32 %d1, %i, 16;\nadd.s64 %in, %in, %d1;\n";
    let body = format!("{record}{}", TAIL.replace("[%in+16]", "[%in]"));
    let whole = body.replace("4095", "65535");
    let traffic = |body: &str, elements: usize| {
        let values = vec![1.0; elements];
        let (input, out) = (memory(&stream, elements, &values), memory(&stream, 8, &[]));
        let addresses = [address(&input), address(&out)];
        let (outcome, launches) = cuda_sim::profile(|| launch(&stream, body, (1, 32), addresses));
        outcome.unwrap();
        let LaunchProfile {
            total,
            compulsory_read_bytes,
            ..
        } = &launches[0];
        (total.global_loads, *compulsory_read_bytes)
    };
    assert_eq!(traffic(&body, 127), traffic(&whole, 128));
}

/// The driver refuses a mask that is none.
#[test]
fn a_mask_that_is_no_number_is_refused() {
    let context = stream().context().clone();
    let text = format!("{HEAD}.pragma \"used_bytes_mask all\";\nret;\n}}\n");
    let error = context.load_module(Ptx::from_src(text)).unwrap_err();
    assert!(error.to_string().contains("used bytes"), "{error}");
}
