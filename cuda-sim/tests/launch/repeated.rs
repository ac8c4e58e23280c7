//! Launches that are recorded, and launches of several threads.

use cudarc::driver::{
    PushKernelArg,
    sys::{CUgraphInstantiate_flags, CUstreamCaptureMode},
};

use super::{module, shape};
use crate::common::{Outcome, context, own_context};

#[test]
fn launches_can_be_captured_and_run_again() -> Outcome {
    let context = own_context()?;
    // SAFETY: one stream only.
    unsafe { context.disable_event_tracking() };
    let stream = context.new_stream()?;
    let axpy = module(&context)?.load_function("axpy")?;
    let x = stream.clone_htod(&[1.0f32, 2.0])?;
    let mut y = stream.alloc_zeros::<f32>(2)?;
    stream.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)?;
    {
        let factor = 3.0f32;
        // SAFETY: the arguments are the kernel's.
        unsafe {
            stream
                .launch_builder(&axpy)
                .arg(&mut y)
                .arg(&x)
                .arg(&factor)
                .arg(&2i32)
                .launch(shape(1, 32, 0))
        }?;
    }
    let graph = stream
        .end_capture(CUgraphInstantiate_flags(0))?
        .ok_or("no graph")?;
    assert_eq!(stream.clone_dtoh(&y)?, [0.0, 0.0]);
    graph.launch()?;
    graph.launch()?;
    assert_eq!(stream.clone_dtoh(&y)?, [6.0, 12.0]);
    Ok(())
}

#[test]
fn threads_launch_in_one_stream_in_turn() -> Outcome {
    let context = context()?;
    let stream = context.default_stream();
    let module = module(&context)?;
    let count = module.load_function("count")?;
    std::thread::scope(|scope| {
        let launch = || {
            context.bind_to_thread()?;
            (0..10).try_for_each(|_| {
                // SAFETY: the kernel takes no arguments.
                unsafe { stream.launch_builder(&count).launch(shape(2, 32, 0)) }.map(drop)
            })
        };
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(launch)).collect();
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().expect("no panic"))
    })?;
    let counter = stream.clone_dtoh(&module.get_global("counter", &stream)?)?;
    assert_eq!(
        i32::from_le_bytes(counter.try_into().map_err(|_| "not 4 bytes")?),
        5 + 8 * 10 * 64
    );
    Ok(())
}
