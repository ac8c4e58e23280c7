//! Modules: their variables, what cannot be loaded, what unloading ends.

use cudarc::{
    driver::{CudaFunction, DevicePtr, PushKernelArg, result, sys::CUresult},
    nvrtc::Ptx,
};

use super::{module, shape};
use crate::common::{Outcome, context, expect_error, own_context};

#[test]
fn variables_have_initial_values_and_can_be_written() -> Outcome {
    let context = context()?;
    let stream = context.default_stream();
    let module = module(&context)?;
    let (polynomial, count) = (
        module.load_function("polynomial")?,
        module.load_function("count")?,
    );
    let mut out = stream.alloc_zeros::<f32>(3)?;
    // SAFETY: the argument is the kernel's, and has room.
    unsafe {
        stream
            .launch_builder(&polynomial)
            .arg(&mut out)
            .launch(shape(1, 3, 0))
    }?;
    assert_eq!(stream.clone_dtoh(&out)?, [1.0, 10.0, 49.0]);
    let mut symbol = module.get_global("coefficients", &stream)?;
    assert_eq!(symbol.len(), 16);
    // SAFETY: four floats.
    let mut floats = unsafe { symbol.transmute_mut::<f32>(4) }.ok_or("wrong size")?;
    stream.memcpy_htod(&[5.0f32, 0.0, 0.0, 1.0], &mut floats)?;
    // SAFETY: as above; `count` takes none.
    unsafe {
        stream
            .launch_builder(&polynomial)
            .arg(&mut out)
            .launch(shape(1, 3, 0))?;
        stream.launch_builder(&count).launch(shape(3, 64, 0))?;
    }
    assert_eq!(stream.clone_dtoh(&out)?, [5.0, 6.0, 13.0]);
    let counter = stream.clone_dtoh(&module.get_global("counter", &stream)?)?;
    assert_eq!(
        i32::from_le_bytes(counter.try_into().map_err(|_| "not 4 bytes")?),
        5 + 3 * 64
    );
    let missing = module.get_global("nowhere", &stream).map(drop);
    expect_error(missing, CUresult::CUDA_ERROR_NOT_FOUND);
    Ok(())
}

#[test]
fn modules_that_cannot_be_loaded_say_why() -> Outcome {
    let context = context()?;
    let load = |ptx: Ptx| context.load_module(ptx).map(drop);
    let text = expect_error(
        load(Ptx::from_src("this is no PTX")),
        CUresult::CUDA_ERROR_INVALID_PTX,
    );
    assert!(!text.is_empty());
    let machine_code = Ptx::from_binary(b"\x7fELF\x02\x01\x01\x00".to_vec());
    let text = expect_error(load(machine_code), CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU);
    assert!(text.contains("PTX text"), "{text}");
    expect_error(
        load(Ptx::from_binary(vec![0xff, 0xfe, 0])),
        CUresult::CUDA_ERROR_INVALID_IMAGE,
    );
    let text = expect_error(
        load(Ptx::from_file("/nowhere/x.ptx")),
        CUresult::CUDA_ERROR_FILE_NOT_FOUND,
    );
    assert!(text.contains("/nowhere/x.ptx"), "{text}");
    let damaged = std::env::temp_dir().join(format!("cuda-sim-nul-{}.ptx", std::process::id()));
    std::fs::write(
        &damaged,
        ".version 7.0\n.target sm_70\n\0.address_size 64\n",
    )?;
    let refused = load(Ptx::from_file(&damaged));
    std::fs::remove_file(damaged)?;
    let text = expect_error(refused, CUresult::CUDA_ERROR_INVALID_PTX);
    assert!(text.contains("line 3"), "{text}");
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../ptx/driver.ptx");
    let module = context.load_module(Ptx::from_file(file))?;
    let text = expect_error(
        module.load_function("absent").map(drop),
        CUresult::CUDA_ERROR_NOT_FOUND,
    );
    assert!(text.contains("`absent`"), "{text}");
    Ok(())
}

#[test]
fn an_unloaded_modules_functions_and_variables_are_gone() -> Outcome {
    let context = own_context()?;
    let stream = context.default_stream();
    let module = module(&context)?;
    let count: CudaFunction = module.load_function("count")?;
    let function = count.cu_function();
    let address = module.get_global("counter", &stream)?.device_ptr(&stream).0;
    // SAFETY: the driver checks the range.
    unsafe { result::memcpy_dtoh_sync(&mut [0u8; 4], address) }?;
    drop((count, module));
    context.check_err()?;
    // SAFETY: refused.
    let (launched, copied) = unsafe {
        (
            result::launch_kernel(
                function,
                (1, 1, 1),
                (1, 1, 1),
                0,
                stream.cu_stream(),
                &mut [],
            ),
            result::memcpy_dtoh_sync(&mut [0u8; 4], address),
        )
    };
    expect_error(launched, CUresult::CUDA_ERROR_INVALID_HANDLE);
    expect_error(copied, CUresult::CUDA_ERROR_INVALID_VALUE);
    Ok(())
}

/// Instructions on textures, surfaces and tensors, declarations included. ptxas accepts it.
const TEXTURES: &str = r#".version 8.3
.target sm_90, texmode_independent
.address_size 64
.global .texref image;
.visible .global .texref pair, stack[3];
.global .surfref surface;
.global .samplerref nearest = { addr_mode_0 = clamp_to_border, filter_mode = nearest };
.visible .entry samples(.param .u64 object, .param .u32 n, .param .texref given, .param .surfref written)
{
	.reg .pred %p, %q;
	.reg .b32 %r<8>;
	.reg .f32 %f<8>;
	.reg .b64 %d<4>;
	ld.param.u64 %d1, [object];
	ld.param.u32 %r1, [n];
	mov.u32 %r2, %tid.x;
	setp.ge.u32 %p, %r2, %r1;
	@%p ret;
	tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%d1, nearest, {%f5, %f6}];
	tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}|%q, [image, nearest, {%f5, %f6}], {%r3, %r4};
	tex.1d.v4.s32.s32 {%r3, %r4, %r5, %r6}, [given, nearest, {%r2}];
	tld4.r.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [image, nearest, {%f5, %f6}];
	txq.width.b32 %r3, [image];
	mov.u64 %d2, image;
	suld.b.1d.v4.b32.trap {%r3, %r4, %r5, %r6}, [surface, {%r2}];
	sust.b.2d.b32.trap [written, {%r2, %r1}], {%r3};
	sured.b.add.1d.u32.trap [surface, {%r2}], %r3;
	suq.width.b32 %r3, [surface];
	cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%d1, {%r1, %r2}];
	ret;
}
.visible .entry plain(.param .u64 out)
{
	.reg .b32 %r<2>;
	.reg .b64 %d<2>;
	ld.param.u64 %d1, [out];
	mov.u32 %r1, 7;
	st.global.u32 [%d1], %r1;
	ret;
}
"#;

#[test]
fn a_texture_instruction_faults_only_where_a_thread_reaches_it() -> Outcome {
    let context = context()?;
    let stream = context.default_stream();
    let module = context.load_module(Ptx::from_src(TEXTURES))?;
    let mut out = stream.alloc_zeros::<u32>(1)?;
    let plain = module.load_function("plain")?;
    // SAFETY: the kernel writes one word.
    unsafe {
        stream
            .launch_builder(&plain)
            .arg(&mut out)
            .launch(shape(1, 1, 0))?
    };
    assert_eq!(stream.clone_dtoh(&out)?, [7]);
    let samples = module.load_function("samples")?;
    let launch = |n: u32| {
        // SAFETY: four arguments, as the kernel takes; it writes nothing.
        unsafe {
            stream
                .launch_builder(&samples)
                .arg(&0u64)
                .arg(&n)
                .arg(&0u64)
                .arg(&0u64)
                .launch(shape(1, 32, 0))
        }
        .map(drop)
    };
    launch(0)?;
    let text = expect_error(launch(1), CUresult::CUDA_ERROR_ILLEGAL_INSTRUCTION);
    assert!(
        text.contains("does not know the instruction tex.2d.v4.f32.f32"),
        "{text}"
    );
    // A texture is no memory that the host could copy to.
    let symbol = module.get_global("image", &stream).map(drop);
    expect_error(symbol, CUresult::CUDA_ERROR_NOT_FOUND);
    Ok(())
}

/// Blanks and braces that ptxas does not need, or does not mind.
#[test]
fn blanks_and_braces_are_free() -> Outcome {
    let context = context()?;
    let stream = context.default_stream();
    let text = r#".version 8.3
.target sm_75
.address_size 64
.visible.global.align 16 .b8 unused[4] = {1, 2, 3, 4};
.visible .entry forms(.param.u64.ptr.global.align 4 in, .param .u64 out) .pragma "nounroll";
{
	.reg.pred %p<3>;
	.reg .b32 %r<6>;
	.reg.b64 %d<3>;
	ld.param.u64 %d1, [in];
	ld.param.u64 %d2, [out];
	mov.u32 %r1, %tid.x;
	mad.wide.u32 %d1, %r1, 4, %d1;
	mad.wide.u32 %d2, %r1, 4, %d2;
	setp.lt.u32 %p1, %r1, 3;
	{.reg.b32 f,g;
	mov .b32 f, 0x64;
	mov.b32 {g}, f;
	mov.b32 %r2, {g};}
	@%p1 ld.global .b32 { %r2 }, [ %d1 + 0 ];
	@!%p1 mov.u32 %r3, %r2;
	@%p1 add.u32 %r3, %r2, 1;
	st.global.b32 [ %d2 + 0 ], { %r3 };
	ret;
}
"#;
    let module = context.load_module(Ptx::from_src(text))?;
    let forms = module.load_function("forms")?;
    let input = stream.clone_htod(&[10u32, 20, 30])?;
    let mut out = stream.alloc_zeros::<u32>(4)?;
    // SAFETY: three threads read an element each, four write one.
    unsafe {
        stream
            .launch_builder(&forms)
            .arg(&input)
            .arg(&mut out)
            .launch(shape(1, 4, 0))?
    };
    assert_eq!(stream.clone_dtoh(&out)?, [11, 21, 31, 100]);
    Ok(())
}
