//! A fault ends its launch, is reported once, and nothing else.

use std::{ffi::c_void, ptr};

use cudarc::driver::{DevicePtr, DeviceRepr, PushKernelArg, result, sys::CUresult};
use cudarc::nvrtc::Ptx;

use super::{module, shape};
use crate::common::{Outcome, context, expect_error, own_context};

#[test]
fn a_fault_is_reported_once_and_the_next_launch_works() -> Outcome {
    let context = context()?;
    let stream = context.default_stream();
    let store = module(&context)?.load_function("store")?;
    let mut out = stream.alloc_zeros::<i32>(100)?;
    let start = out.device_ptr(&stream).0;
    let mut launch = |index: i64| {
        // SAFETY: the arguments are the kernel's; where it writes is checked by the simulator.
        unsafe {
            stream
                .launch_builder(&store)
                .arg(&mut out)
                .arg(&index)
                .launch(shape(1, 1, 0))
        }
        .map(drop)
    };
    let text = expect_error(launch(100), CUresult::CUDA_ERROR_ILLEGAL_ADDRESS);
    assert!(
        text.contains("store") && text.contains(&format!("{:x}", start + 400)),
        "{text}"
    );
    let fault = cuda_sim::last_fault().ok_or("no fault")?;
    assert_eq!(fault.to_string(), text);
    assert_eq!(cuda_sim::take_fault(), Some(fault));
    assert_eq!(cuda_sim::last_fault(), None);
    stream.synchronize()?;
    launch(99)?;
    assert_eq!(stream.clone_dtoh(&out)?[98..], [0, 1]);
    Ok(())
}

#[test]
fn use_after_free_is_a_fault_of_its_own() -> Outcome {
    let context = context()?;
    let stream = context.default_stream();
    let store = module(&context)?.load_function("store")?;
    let freed = stream.alloc_zeros::<i32>(100)?.leak();
    // SAFETY: leaked above; what the kernel does with it is the subject of the test.
    let launched = unsafe {
        result::free_sync(freed)?;
        stream
            .launch_builder(&store)
            .arg(&freed)
            .arg(&5i64)
            .launch(shape(1, 1, 0))
    };
    let text = expect_error(launched.map(drop), CUresult::CUDA_ERROR_ILLEGAL_ADDRESS);
    assert!(text.contains("freed"), "{text}");
    Ok(())
}

#[test]
fn a_fault_in_a_queue_comes_with_the_next_synchronisation() -> Outcome {
    unsafe extern "C" fn nothing(_: *mut c_void) {}
    let context = own_context()?;
    let stream = context.new_stream()?;
    let store = module(&context)?.load_function("store")?;
    let mut out = stream.alloc_zeros::<i32>(4)?;
    // SAFETY: `nothing` ignores its argument; where the kernel writes is checked by the simulator.
    unsafe {
        result::stream::launch_host_function(stream.cu_stream(), nothing, ptr::null_mut())?;
        stream
            .launch_builder(&store)
            .arg(&mut out)
            .arg(&4i64)
            .launch(shape(1, 1, 0))?;
        stream
            .launch_builder(&store)
            .arg(&mut out)
            .arg(&3i64)
            .launch(shape(1, 1, 0))?;
    }
    expect_error(stream.synchronize(), CUresult::CUDA_ERROR_ILLEGAL_ADDRESS);
    assert!(cuda_sim::take_fault().is_some());
    assert!(cuda_sim::last_launch().is_some(), "of the second launch");
    stream.synchronize()?;
    assert_eq!(stream.clone_dtoh(&out)?, [0, 0, 0, 1]);
    Ok(())
}

/// A structure of a number and an address.
#[derive(Clone, Copy)]
#[repr(C)]
struct Target {
    index: i32,
    place: u64,
}

// SAFETY: plain data with C layout, as the kernel declares it.
unsafe impl DeviceRepr for Target {}

#[test]
fn a_bad_address_out_of_a_structure_is_named_by_its_place_there() -> Outcome {
    let context = own_context()?;
    let stream = context.default_stream();
    let ptx = ".version 8.0\n.target sm_75\n.address_size 64\n\
        .visible .entry store(.param .u32 store_param_0, .param .align 8 .b8 store_param_1[16]) {\n\
        .reg .b64 %rd<4>; .reg .b32 %r<2>;\n\
        ld.param.s32 %r1, [store_param_1];\n\
        ld.param.u64 %rd1, [store_param_1+8];\n\
        mul.wide.s32 %rd2, %r1, 4;\n\
        add.s64 %rd3, %rd1, %rd2;\n\
        st.global.u32 [%rd3], %r1;\n\
        ret;\n}";
    let kernel = context
        .load_module(Ptx::from_src(ptx))?
        .load_function("store")?;
    let out = stream.alloc_zeros::<i32>(10)?;
    let target = Target {
        index: 10,
        place: out.device_ptr(&stream).0,
    };
    let mut launch = stream.launch_builder(&kernel);
    launch.arg(&7u32).arg(&target);
    // SAFETY: the arguments are those of the kernel. That it stores behind the buffer is for the
    // simulator to find.
    let result = unsafe { launch.launch(shape(1, 1, 0)) }.and_then(|_| stream.synchronize());
    let text = expect_error(result, CUresult::CUDA_ERROR_ILLEGAL_ADDRESS);
    assert!(
        text.contains("0 bytes past the end of argument 1 (at byte 8), allocation"),
        "{text}"
    );
    Ok(())
}

/// Each thread stores its number to the address that is the argument.
const STORE_ALL: &str = ".version 8.0\n.target sm_75\n.address_size 64\n\
    .visible .entry store_all(.param .u64 store_all_param_0) {\n\
    .reg .b64 %rd<2>; .reg .b32 %r<2>;\n\
    ld.param.u64 %rd1, [store_all_param_0];\n\
    mov.u32 %r1, %tid.x;\n\
    st.global.u32 [%rd1], %r1;\n\
    ret;\n}";

#[test]
fn threads_of_a_warp_that_store_to_one_place_are_of_one_block() -> Outcome {
    let context = own_context()?;
    let stream = context.default_stream();
    let module = context.load_module(Ptx::from_src(STORE_ALL))?;
    let kernel = module.load_function("store_all")?;
    let mut out = stream.alloc_zeros::<u32>(1)?;
    let mut launch = stream.launch_builder(&kernel);
    launch.arg(&mut out);
    // SAFETY: the argument is the kernel's. That its threads race is for the simulator to find.
    let result = unsafe { launch.launch(shape(3, 64, 0)) };
    let text = expect_error(result, CUresult::CUDA_ERROR_LAUNCH_FAILED);
    assert!(
        text.contains("block (0, 0, 0), thread (31, 0, 0)"),
        "{text}"
    );
    assert!(
        text.contains("threads of one warp store different values"),
        "{text}"
    );
    Ok(())
}

#[test]
fn a_null_pointer_is_called_one() -> Outcome {
    let context = own_context()?;
    let stream = context.default_stream();
    let module = context.load_module(Ptx::from_src(STORE_ALL))?;
    let kernel = module.load_function("store_all")?;
    for address in [0u64, 5 * 4] {
        let mut launch = stream.launch_builder(&kernel);
        launch.arg(&address);
        // SAFETY: the argument has the kernel's type. That it is no address is for the simulator to
        // find.
        let result = unsafe { launch.launch(shape(1, 1, 0)) };
        let text = expect_error(result, CUresult::CUDA_ERROR_ILLEGAL_ADDRESS);
        assert!(text.contains("a null pointer, or a number"), "{text}");
    }
    Ok(())
}

#[test]
fn what_was_right_in_the_launch_before_may_be_wrong_now() -> Outcome {
    let context = context()?;
    let stream = context.default_stream();
    let store = module(&context)?.load_function("store")?;
    let buffer = stream.alloc_zeros::<i32>(100)?.leak();
    let launch = || {
        // SAFETY: leaked above; what the kernel does with it after `free_sync` is the subject of
        // the test.
        unsafe {
            stream
                .launch_builder(&store)
                .arg(&buffer)
                .arg(&5i64)
                .launch(shape(1, 1, 0))
        }
        .map(drop)
    };
    launch()?;
    stream.synchronize()?;
    // SAFETY: nothing uses it any more but the launch that is to fail.
    unsafe { result::free_sync(buffer) }?;
    let text = expect_error(launch(), CUresult::CUDA_ERROR_ILLEGAL_ADDRESS);
    assert!(text.contains("freed"), "{text}");

    let sum = module(&context)?.load_function("shared_sum")?;
    let mut out = stream.alloc_zeros::<i32>(1)?;
    let mut launch = |shared| {
        // SAFETY: the argument is the kernel's; shared memory is checked by the simulator.
        unsafe {
            stream
                .launch_builder(&sum)
                .arg(&mut out)
                .launch(shape(1, 32, shared))
        }
        .map(drop)
    };
    launch(128)?;
    let text = expect_error(launch(64), CUresult::CUDA_ERROR_ILLEGAL_ADDRESS);
    assert!(text.contains("shared memory"), "{text}");
    Ok(())
}

/// The report of a kernel with this body, whose arguments are the addresses of three buffers of 256
/// bytes, one after the other.
fn report_of(body: &str) -> Result<String, Box<dyn std::error::Error>> {
    let context = own_context()?;
    let stream = context.default_stream();
    let ptx = format!(
        ".version 8.0\n.target sm_75\n.address_size 64\n\
         .visible .entry t(.param .u64 p0, .param .u64 p1, .param .u64 p2) {{\n\
         .reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %d<9>;\n\
         .shared .align 4 .b8 first[64]; .shared .align 4 .b8 tile[256]; .local .align 4 .b8 own[16];\n\
         ld.param.u64 %d0, [p0]; ld.param.u64 %d1, [p1]; mov.u32 %r0, %tid.x; mov.u64 %d2, tile; mov.u64 %d3, own;\n\
         add.u32 %r1, %r0, -1;\n{body}\nret;\n}}"
    );
    let kernel = context
        .load_module(Ptx::from_src(ptx))?
        .load_function("t")?;
    let buffers = [(); 3].map(|()| stream.alloc_zeros::<u32>(64));
    let [a, b, c] = buffers;
    let (a, b, c) = (a?, b?, c?);
    let mut launch = stream.launch_builder(&kernel);
    launch.arg(&a).arg(&b).arg(&c);
    // SAFETY: the arguments are the kernel's. What it does wrong is for the simulator to find.
    let launched = unsafe { launch.launch(shape(1, 64, 0)) };
    let result = launched.and_then(|_| stream.synchronize());
    assert!(result.is_err(), "no fault: {body}");
    Ok(cuda_sim::take_fault().ok_or("no fault")?.to_string())
}

#[test]
fn an_address_between_two_allocations_names_both() -> Outcome {
    // Which allocation is on the other side, and how far away, depends on other tests.
    let number = |text: &str| u64::from_str_radix(text.trim_end_matches(')'), 16).ok();
    let places = |report: &str, first: &str, side: &str| -> Option<()> {
        let fault = number(
            report
                .lines()
                .next()?
                .split_whitespace()
                .nth(6)?
                .trim_start_matches("0x"),
        )?;
        let mut memory = report
            .lines()
            .skip_while(|line| !line.starts_with("  memory"));
        assert!(memory.next()?.contains(first), "{report}");
        let other = memory.next()?.trim();
        let (distance, other) = other.split_once(side)?;
        let (bytes, base) = other.split_once('(')?.1.split_once(" bytes at 0x")?;
        let (bytes, base) = (bytes.parse::<u64>().ok()?, number(base)?);
        let expected = base
            .checked_sub(fault)
            .unwrap_or_else(|| fault - (base + bytes));
        assert_eq!(distance.parse(), Ok(expected), "{report}");
        Some(())
    };
    let behind = report_of("ld.global.u32 %r2, [%d0+256];")?;
    let first = "0 bytes past the end of argument 0";
    places(&behind, first, " bytes before ").ok_or(behind)?;
    let before = report_of("ld.global.u32 %r2, [%d1+-4];")?;
    let first = "4 bytes before argument 1";
    places(&before, first, " bytes past the end of ").ok_or(&*before)?;
    assert!(before.contains("an index went below zero"), "{before}");
    // Far from everything.
    let far = report_of("mov.u64 %d4, 1099511627000;\nld.global.u32 %r2, [%d4];")?;
    assert!(
        far.lines().all(|line| !line.starts_with("          ")),
        "{far}"
    );
    // Within one, in misaligned accesses.
    let odd = report_of("ld.global.u32 %r2, [%d1+2];")?;
    assert!(
        !odd.contains("argument 0") && odd.contains("byte 2 of argument 1"),
        "{odd}"
    );
    Ok(())
}

#[test]
fn an_unsigned_index_below_zero_is_called_one() -> Outcome {
    let wrapped = "an unsigned index went below zero";
    for (body, memory) in [
        // In 64 bits, as a compiler makes tile[threadIdx.x - 1]: 2^32 - 1 elements behind the
        // start.
        (
            "mad.wide.u32 %d4, %r1, 4, %d2; ld.shared.u32 %r2, [%d4];",
            "4 bytes before shared array tile (256 bytes)",
        ),
        (
            "mad.wide.u32 %d4, %r1, 8, %d2; ld.shared.u64 %d5, [%d4];",
            "8 bytes before shared array tile (256 bytes)",
        ),
        (
            "mad.wide.u32 %d4, %r1, 4, %d0; ld.global.u32 %r2, [%d4];",
            "4 bytes before argument 0, allocation",
        ),
        (
            "mad.wide.u32 %d4, %r1, 1, %d1; st.global.u8 [%d4], %r2;",
            "1 bytes before argument 1, allocation",
        ),
        (
            "mad.wide.u32 %d4, %r1, 4, %d3; ld.local.u32 %r2, [%d4];",
            "4 bytes before the 16 bytes of local memory",
        ),
    ] {
        let text = report_of(body)?;
        assert!(
            text.contains(memory) && text.contains(wrapped),
            "{body}\n{text}"
        );
    }
    // In 32 bits, shared memory itself wraps.
    let text = report_of("mov.u32 %r3, first; add.u32 %r3, %r3, -4; ld.shared.u32 %r2, [%r3];")?;
    assert!(text.contains("4 bytes before shared array first"), "{text}");
    // 64-bit addresses below zero.
    let text = report_of("mov.u64 %d4, first; add.u64 %d4, %d4, -8; ld.shared.u32 %r2, [%d4];")?;
    assert!(text.contains("8 bytes before shared array first"), "{text}");
    assert!(text.contains("an index went below zero"), "{text}");
    // An index that is just too large.
    let text = report_of("mad.wide.u32 %d4, %r0, 4, %d2; ld.shared.u32 %r2, [%d4+256];")?;
    assert!(
        text.contains("0 bytes past the end of shared array tile"),
        "{text}"
    );
    assert!(!text.contains("below zero"), "{text}");
    Ok(())
}

#[test]
fn a_race_of_neighbours_may_be_an_index_one_too_far() -> Outcome {
    let hint = "or an index is one too far";
    // Each thread writes its own element and the next one.
    let overlap = "mad.wide.u32 %d4, %r0, 4, %d0; st.global.u32 [%d4], %r0; setp.lt.u32 %p1, %r0, 31;\n\
                   @%p1 st.global.u32 [%d4+4], %r0;";
    let text = report_of(overlap)?;
    assert!(text.contains("race") && text.contains(hint), "{text}");
    // All threads write one element.
    let text = report_of("st.global.u32 [%d0], %r0;")?;
    assert!(text.contains("race") && !text.contains(hint), "{text}");
    Ok(())
}

#[test]
fn an_unset_read_may_be_due_to_a_barrier_that_not_all_threads_take() -> Outcome {
    // Warp 0 runs first, goes past the barrier, and reads what warp 1 is to write.
    let body = "setp.lt.u32 %p1, %r0, 32; mad.wide.u32 %d4, %r0, 4, %d2; st.shared.u32 [%d4], %r0;\n\
                @%p1 bra PAST;\nbar.sync 0;\nPAST:\nxor.b32 %r2, %r0, 32; mad.wide.u32 %d4, %r2, 4, %d2;\n\
                ld.shared.u32 %r3, [%d4]; st.global.u32 [%d0], %r3;";
    let text = report_of(body)?;
    assert!(
        text.starts_with("read of memory that nobody wrote"),
        "{text}"
    );
    assert!(
        text.contains("; or not all threads of the block come to the __syncthreads()"),
        "{text}"
    );
    // With a barrier for all, it is in no report.
    let body = body
        .replace("@%p1 bra PAST;\n", "")
        .replace("[%d4];", "[%d4+-256];");
    let text = report_of(&body)?;
    assert!(!text.contains("not all threads"), "{text}");
    Ok(())
}

#[test]
fn each_class_has_a_page_that_the_readme_and_the_report_name() -> Outcome {
    let package = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let readme = std::fs::read_to_string(package.join("README.md"))?;
    let table: Vec<&str> = readme.lines().filter(|l| l.starts_with("| [")).collect();
    let mut pages = 0;
    for page in std::fs::read_dir(package.join("findings"))? {
        let path = page?.path();
        let name = path.file_name().ok_or("a name")?.to_string_lossy();
        let text = std::fs::read_to_string(&path)?;
        for heading in ["# ", "\n## On a GPU\n", "\n## The rule\n"] {
            assert!(text.contains(heading), "{name}: {heading}");
        }
        let link = format!("(findings/{name})");
        assert!(table.iter().any(|row| row.contains(&link)), "{name}");
        pages += 1;
    }
    assert_eq!(readme.matches("(findings/").count(), pages);
    let text = report_of("trap;")?;
    assert!(
        text.ends_with("\n  page    cuda-sim/findings/trap.md"),
        "{text}"
    );
    Ok(())
}
