//! Tests that need a process of their own: other drivers, the time before `cuInit`, contexts that
//! end, `fork`, what is printed.
//!
//! Each test runs this test binary again, for one of the functions marked `ignore`.

use std::{
    env, fs,
    process::Command,
    sync::Arc,
    sync::mpsc::{Receiver, channel},
    time::Duration,
};

use crate::common::{Outcome, context, expect_error, run};
use cudarc::{
    driver::{
        CudaContext, LaunchConfig, result,
        sys::{self, CUresult},
    },
    nvrtc::Ptx,
};

#[test]
fn a_driver_that_was_there_first_is_a_typed_error() {
    run(
        "processes::child_has_another_driver",
        "CUDA_SIM_MEMORY",
        "64",
    );
}

#[test]
#[ignore = "run by the test above"]
fn child_has_another_driver() -> Outcome {
    let folder = env::temp_dir().join(format!("cuda-sim-another-driver-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    let (source, library) = (folder.join("empty.c"), folder.join("libcuda.so"));
    fs::write(&source, "")?;
    let mut compiler = Command::new("cc");
    compiler
        .args(["-shared", "-Wl,-soname,libcuda.so", "-o"])
        .arg(&library)
        .arg(&source);
    assert!(
        compiler.status()?.success(),
        "no C compiler, which Rust needs to link too"
    );
    // SAFETY: an empty library.
    let first = unsafe { libloading::Library::new(&library) }?;
    fs::remove_dir_all(&folder)?;
    assert_eq!(
        cuda_sim::install(),
        Err(cuda_sim::InstallError::AnotherDriver)
    );
    drop(first);
    Ok(())
}

#[test]
fn calls_before_initialisation_are_refused() {
    run("processes::child_is_early", "CUDA_SIM_MEMORY", "64");
}

#[test]
#[ignore = "run by the test above"]
fn child_is_early() -> Outcome {
    cuda_sim::install()?;
    expect_error(
        result::device::get_count(),
        CUresult::CUDA_ERROR_NOT_INITIALIZED,
    );
    result::init()?;
    assert_eq!(result::device::get_count()?, 1);
    Ok(())
}

#[test]
fn released_contexts_leave_nothing_and_can_be_had_again() {
    let told = "cuda-sim: 1 allocation with 1000 bytes of device memory not freed";
    let text = run(
        "processes::child_retains_again",
        "CUDA_SIM_REPORT",
        "stderr",
    );
    assert_eq!(text.matches(told).count(), 1, "{text}");
    // A program that uses the library asks for it.
    for (variable, value) in [("CUDA_SIM_MEMORY", "64"), ("CUDA_SIM_CHECK", "off")] {
        let text = run("processes::child_retains_again", variable, value);
        assert!(!text.contains("not freed"), "{text}");
    }
}

#[test]
#[ignore = "run by the test above"]
fn child_retains_again() -> Outcome {
    let context = context()?;
    let leaked = context.default_stream().alloc_zeros::<u8>(1000)?.leak();
    drop(context);
    let again = CudaContext::new(0)?;
    let (free, total) = again.mem_get_info()?;
    assert_eq!(free, total);
    // SAFETY: refused.
    let copy = unsafe { result::memcpy_dtoh_sync(&mut [0u8], leaked) };
    expect_error(copy, CUresult::CUDA_ERROR_INVALID_VALUE);
    assert_eq!(
        again
            .default_stream()
            .clone_dtoh(&again.default_stream().clone_htod(&[1u8])?)?,
        [1]
    );
    Ok(())
}

#[test]
fn addresses_repeat_from_process_to_process() {
    let address = || {
        let binary = env::current_exe().expect("this test's path");
        let output = Command::new(binary)
            .args([
                "--ignored",
                "--exact",
                "--nocapture",
                "processes::child_prints_an_address",
            ])
            .output()
            .expect("a child process");
        let text = String::from_utf8(output.stdout).expect("text");
        let address = text
            .split("address ")
            .nth(1)
            .and_then(|rest| rest.split_whitespace().next());
        address.expect("an address").to_owned()
    };
    assert_eq!(address(), address());
}

#[test]
#[ignore = "run by the test above"]
fn child_prints_an_address() -> Outcome {
    let stream = context()?.default_stream();
    stream.alloc_zeros::<u8>(1000)?;
    println!("address {:#x}", stream.alloc_zeros::<u8>(100)?.leak());
    Ok(())
}

#[test]
fn a_primary_context_that_ends_takes_nothing_of_its_next_user() {
    run(
        "processes::child_retains_while_another_releases",
        "CUDA_SIM_MEMORY",
        "64",
    );
}

#[test]
#[ignore = "run by the test above: no other test may retain the primary context"]
fn child_retains_while_another_releases() -> Outcome {
    /// Holds up its stream, and so the end of its context, until the next user has made something,
    /// or seems to wait.
    unsafe extern "C" fn linger(made: *mut std::ffi::c_void) {
        // SAFETY: the receiver below, which outlives the context's end, and which nobody else uses.
        let made = unsafe { &*made.cast::<Receiver<()>>() };
        let _ = made.recv_timeout(Duration::from_millis(200));
    }
    let (has_made, made) = channel();
    let first = context()?;
    let handle = first.cu_ctx() as usize;
    // SAFETY: the receiver outlives the thread that waits for the callback.
    unsafe {
        let stream = first.default_stream().cu_stream();
        let data = (&raw const made).cast_mut().cast();
        result::stream::launch_host_function(stream, linger, data)?;
    }
    std::thread::scope(|scope| -> Outcome {
        let releasing = scope.spawn(move || drop(first));
        // SAFETY: the driver checks the handle; it is refused once the context's last user has
        // released it.
        while unsafe { result::ctx::set_current(handle as _) }.is_ok() {
            std::thread::yield_now();
        }
        let second = CudaContext::new(0)?;
        let kept = second.default_stream().clone_htod(&[7u8; 8])?;
        let _ = has_made.send(());
        releasing.join().map_err(|_| "the thread panicked")?;
        assert_eq!(second.default_stream().clone_dtoh(&kept)?, [7; 8]);
        drop(kept);
        Ok(second.check_err()?)
    })
}

#[test]
fn the_buffer_of_printf_keeps_the_latest_messages() {
    let text = run("processes::child_prints_too_much", "CUDA_SIM_CHECK", "on");
    assert!(
        text.contains("the launch printed more than the buffer's 64 bytes"),
        "{text}"
    );
    assert_eq!(
        text.matches("7 messages of printf are lost").count(),
        1,
        "{text}"
    );
    assert_eq!(text.matches("message 7").count(), 1, "{text}");
    assert!(!text.contains("message 0"), "{text}");
}

#[test]
#[ignore = "run by the test above"]
fn child_prints_too_much() -> Outcome {
    let context = context()?;
    let limit = sys::CUlimit::CU_LIMIT_PRINTF_FIFO_SIZE;
    // SAFETY: a limit of the current context.
    unsafe { sys::cuCtxSetLimit(limit, 64).result() }?;
    let format = "message %d...............................\n";
    prints(&context, format.as_bytes(), &["%ctaid.x"], 8)
}

/// Blocks of one thread, each of which prints these arguments of 32 bits, given as PTX has them.
fn prints(context: &Arc<CudaContext>, format: &[u8], arguments: &[&str], blocks: u32) -> Outcome {
    let bytes: Vec<String> = format.iter().map(u8::to_string).collect();
    let stores = arguments.iter().enumerate().map(|(i, argument)| {
        format!(
            "mov.u32 %r1, {argument};\nst.local.u32 [%rd1+{}], %r1;\n",
            4 * i
        )
    });
    let ptx = format!(
        ".version 7.0\n.target sm_70\n.address_size 64\n\
         .extern .func (.param .b32 result) vprintf (.param .b64 format, .param .b64 arguments);\n\
         .global .align 1 .b8 text[{}] = {{{},0}};\n\
         .visible .entry print()\n{{\n.local .align 8 .b8 arguments[{}];\n.reg .b32 %r<3>;\n.reg .b64 %rd<5>;\n\
         mov.u64 %rd1, arguments;\ncvta.local.u64 %rd2, %rd1;\n{}\
         mov.u64 %rd3, text;\ncvta.global.u64 %rd4, %rd3;\n{{\n\
         .param .b64 param0;\nst.param.b64 [param0], %rd4;\n.param .b64 param1;\nst.param.b64 [param1], %rd2;\n\
         .param .b32 retval0;\ncall.uni (retval0), vprintf, (param0, param1);\nld.param.b32 %r2, [retval0];\n}}\nret;\n}}\n",
        format.len() + 1,
        bytes.join(","),
        (4 * arguments.len()).next_multiple_of(8),
        stores.collect::<String>(),
    );
    let module = context.load_module(Ptx::from_src(ptx))?;
    let print = module.load_function("print")?;
    let stream = context.default_stream();
    let shape = LaunchConfig {
        grid_dim: (blocks, 1, 1),
        block_dim: (1, 1, 1),
        shared_mem_bytes: 0,
    };
    // SAFETY: it has no arguments.
    unsafe { stream.launch_builder(&print).launch(shape) }?;
    Ok(())
}

#[test]
fn printf_writes_the_bytes_that_it_is_given() {
    let text = run(
        "processes::child_prints_half_characters",
        "CUDA_SIM_CHECK",
        "on",
    );
    assert!(text.contains("<éé>"), "{text}");
}

#[test]
#[ignore = "run by the test above"]
fn child_prints_half_characters() -> Outcome {
    // Of two characters, the first is in two arguments, and half of the second is in the format.
    prints(&context()?, b"<%c%c\xc3%c>\n", &["195", "169", "169"], 1)
}

#[test]
fn a_forked_child_is_refused_and_does_not_hang() {
    run("processes::child_forks", "CUDA_SIM_MEMORY", "64");
}

#[test]
#[ignore = "run by the test above"]
fn child_forks() -> Outcome {
    let context = context()?;
    let stream = context.default_stream();
    let data = stream.clone_htod(&[7u8; 4])?;
    // SAFETY: the child calls the driver, which is what is tested, and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: as above; no argument is read.
        let codes = unsafe {
            [
                sys::cuInit(0),
                sys::cuCtxSynchronize(),
                sys::cuMemFree_v2(0),
            ]
        };
        let refused = [CUresult::CUDA_ERROR_NOT_INITIALIZED; 3];
        // SAFETY: ends the child without the handlers of its parent.
        unsafe { libc::_exit(i32::from(codes != refused)) };
    }
    let mut status = -1;
    for _ in 0..200 {
        // SAFETY: a place for the result.
        if unsafe { libc::waitpid(child, &mut status, libc::WNOHANG) } == child {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(status, 0, "the child hangs, or its codes were wrong");
    assert_eq!(stream.clone_dtoh(&data)?, [7; 4]);
    Ok(())
}
