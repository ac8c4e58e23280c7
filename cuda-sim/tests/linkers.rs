//! Linkers, and the buffers in which they and modules tell what went wrong, through CUDA's own
//! calls.

use std::{
    ffi::{CStr, CString, c_void},
    ptr,
    sync::Arc,
};

use crate::common::{Outcome, expect_error, own_context};
use cudarc::driver::{
    CudaContext, DriverError, LaunchConfig, PushKernelArg,
    sys::{self, CUresult},
};
use cudarc::nvrtc::Ptx;

type Result<T> = std::result::Result<T, DriverError>;

const HEAD: &str = ".version 7.0\n.target sm_75\n.address_size 64\n";

/// A kernel that stores what `code` leaves in `%r1`.
fn kernel(name: &str, code: &str) -> String {
    format!(
        ".visible .entry {name}(.param .u64 to)\n{{\n.reg .b32 %r<3>;\n.reg .b64 %d<2>;\n.param .b32 a;\n.param .b32 b;\n\
         ld.param.u64 %d1, [to];\n{code}\nst.global.u32 [%d1], %r1;\nret;\n}}\n"
    )
}

/// Code that calls a function with 40, and leaves its result in `%r1`.
fn call(function: &str) -> String {
    format!(
        "mov.u32 %r2, 40;\nst.param.b32 [a], %r2;\ncall.uni (b), {function}, (a);\nld.param.b32 %r1, [b];"
    )
}

/// The declaration of a function as `call` calls it.
fn declared(function: &str) -> String {
    format!(".extern .func (.param .b32 r) {function}(.param .b32 x);\n")
}

/// A function that adds a number.
fn adds(linkage: &str, function: &str, number: u32) -> String {
    format!(
        "{linkage} .func (.param .b32 r) {function}(.param .b32 x)\n{{\n.reg .b32 %r<3>;\n\
         ld.param.b32 %r1, [x];\nadd.s32 %r2, %r1, {number};\nst.param.b32 [r], %r2;\nret;\n}}\n"
    )
}

/// Blocks of one thread.
fn blocks(blocks: u32) -> LaunchConfig {
    LaunchConfig {
        grid_dim: (blocks, 1, 1),
        block_dim: (1, 1, 1),
        shared_mem_bytes: 0,
    }
}

/// Value that a kernel of a linked image stores.
fn stored(context: &Arc<CudaContext>, image: &[u8], name: &str) -> Result<u32> {
    let text = std::str::from_utf8(&image[..image.len() - 1]).expect("a text");
    let kernel = context
        .load_module(Ptx::from_src(text))?
        .load_function(name)?;
    let stream = context.default_stream();
    let mut to = stream.alloc_zeros::<u32>(1)?;
    // SAFETY: the kernel's parameter.
    unsafe {
        let mut launch = stream.launch_builder(&kernel);
        launch.arg(&mut to).launch(blocks(1))?;
    }
    Ok(stream.clone_dtoh(&to)?[0])
}

/// Links texts, and returns the image.
fn link(texts: &[&str]) -> Result<Vec<u8>> {
    let inputs: Vec<_> = texts
        .iter()
        .map(|&text| (sys::CUjitInputType::CU_JIT_INPUT_PTX, text))
        .collect();
    link_inputs(&inputs)
}

/// Adds an input to a live linker.
fn add(linker: sys::CUlinkState, kind: sys::CUjitInputType, text: &str) -> Result<()> {
    let (data, none) = (text.as_ptr().cast_mut().cast(), ptr::null_mut());
    // SAFETY: a text with its length.
    unsafe {
        let name = c"text".as_ptr();
        sys::cuLinkAddData_v2(
            linker,
            kind,
            data,
            text.len(),
            name,
            0,
            ptr::null_mut(),
            none,
        )
    }
    .result()
}

/// Links inputs of several kinds, and returns the image.
fn link_inputs(inputs: &[(sys::CUjitInputType, &str)]) -> Result<Vec<u8>> {
    let mut linker = ptr::null_mut();
    // SAFETY: places for the results; the image is copied before the linker goes.
    unsafe {
        sys::cuLinkCreate_v2(0, ptr::null_mut(), ptr::null_mut(), &mut linker).result()?;
        for &(kind, text) in inputs {
            add(linker, kind, text)?;
        }
        let (mut image, mut bytes) = (ptr::null_mut(), 0);
        sys::cuLinkComplete(linker, &mut image, &mut bytes).result()?;
        let image = std::slice::from_raw_parts(image.cast::<u8>(), bytes).to_vec();
        sys::cuLinkDestroy(linker).result()?;
        Ok(image)
    }
}

#[test]
fn linked_texts_are_one_module() -> Outcome {
    let context = own_context()?;
    let caller = [HEAD, &declared("two"), &kernel("t", &call("two"))].concat();
    let callee = [HEAD, &adds(".visible", "two", 2)].concat();
    for order in [[&caller, &callee], [&callee, &caller]] {
        let image = link(&order.map(String::as_str))?;
        assert_eq!(image.last(), Some(&0));
        assert_eq!(stored(&context, &image, "t")?, 42);
    }
    Ok(())
}

#[test]
fn a_variable_of_one_text_is_used_in_another() -> Outcome {
    let context = own_context()?;
    let read = kernel("t", "ld.global.u32 %r1, [word];");
    let user = [HEAD, ".extern .global .align 4 .u32 word;\n", &read].concat();
    let owner = [HEAD, ".visible .global .align 4 .u32 word = 7;\n"].concat();
    for order in [[&user, &owner], [&owner, &user]] {
        let image = link(&order.map(String::as_str))?;
        assert_eq!(stored(&context, &image, "t")?, 7);
    }
    Ok(())
}

#[test]
fn names_that_are_local_to_a_text_mean_what_they_mean_there() -> Outcome {
    let context = own_context()?;
    let text = |name: &str, number: u32| {
        let code = [
            &call("helper"),
            "ld.global.u32 %r2, [$str];\nadd.u32 %r1, %r1, %r2;",
            "st.shared.u32 [tile], %r1;\nld.shared.u32 %r1, [tile];",
        ]
        .join("\n");
        let variables = format!(
            ".global .align 4 .u32 $str[1] = {{{}}};\n.shared .align 4 .b8 tile[{number}];\n",
            number * 10
        );
        let parts = [
            HEAD,
            &variables,
            &adds("", "helper", number),
            &kernel(name, &code),
        ];
        parts.concat()
    };
    // One of the texts has a function of that name that all may call: it is another.
    let visible = [HEAD, &adds(".visible", "helper", 3)].concat();
    let caller = [HEAD, &declared("helper"), &kernel("third", &call("helper"))].concat();
    let image = link(&[&text("first", 4), &text("second", 400), &visible, &caller])?;
    assert_eq!(stored(&context, &image, "first")?, 40 + 4 + 40);
    assert_eq!(stored(&context, &image, "second")?, 40 + 400 + 4000);
    assert_eq!(stored(&context, &image, "third")?, 43);
    let text = std::str::from_utf8(&image[..image.len() - 1])?;
    let module = context.load_module(Ptx::from_src(text))?;
    for (name, bytes) in [("first", 4), ("second", 400)] {
        let kernel = module.load_function(name)?;
        let shared = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES;
        assert_eq!(kernel.get_attribute(shared)?, bytes);
    }
    // What a linker has made can be linked again.
    let again = link(&[std::str::from_utf8(&image)?, &text_of("fourth", 5)])?;
    assert_eq!(stored(&context, &again, "second")?, 40 + 400 + 4000);
    assert_eq!(stored(&context, &again, "fourth")?, 45);
    Ok(())
}

/// A text with a kernel and a local function `helper`, which adds a number.
fn text_of(name: &str, number: u32) -> String {
    [
        HEAD,
        &adds("", "helper", number),
        &kernel(name, &call("helper")),
    ]
    .concat()
}

#[test]
fn one_of_several_weak_definitions_is_kept() -> Outcome {
    let context = own_context()?;
    let text = |name: &str, linkage: &str, number: u32| {
        let variable = format!("{linkage} .global .align 4 .u32 word = {number};\n");
        let code = [
            &call("f"),
            "ld.global.u32 %r2, [word];\nadd.u32 %r1, %r1, %r2;",
        ]
        .join("\n");
        let parts = [
            HEAD,
            &variable,
            &adds(linkage, "f", number),
            &kernel(name, &code),
        ];
        parts.concat()
    };
    let (first, second) = (text("first", ".weak", 1), text("second", ".weak", 2));
    let third = text("third", ".visible", 3);
    for (texts, number) in [
        (vec![&first, &second], 1),
        (vec![&first, &third, &second], 3),
    ] {
        let texts: Vec<_> = texts.into_iter().map(String::as_str).collect();
        let image = link(&texts)?;
        for name in ["first", "second"] {
            assert_eq!(stored(&context, &image, name)?, 40 + 2 * number);
        }
    }
    Ok(())
}

#[test]
fn the_device_runtime_that_is_linked_has_a_barrier_of_the_grid() -> Outcome {
    // Each block stores its number plus one, waits for all, and reads what the next block has
    // stored.
    const CALLER: &str = ".version 7.0\n.target sm_75\n.address_size 64\n\
        .extern .func (.param .b64 r) cudaCGGetIntrinsicHandle(.param .b32 scope);\n\
        .extern .func (.param .b32 r) cudaCGSynchronize(.param .b64 handle, .param .b32 flags);\n\
        .visible .entry t(.param .u64 stored, .param .u64 read)\n{\n.reg .b32 %r<9>;\n.reg .b64 %d<9>;\n\
        .param .b32 scope;\n.param .b64 handle;\n.param .b64 to;\n.param .b32 flags;\n.param .b32 code;\n\
        ld.param.u64 %d1, [stored];\nld.param.u64 %d2, [read];\n\
        mov.u32 %r1, %ctaid.x;\nadd.u32 %r2, %r1, 1;\nmul.wide.u32 %d3, %r1, 4;\nadd.u64 %d4, %d1, %d3;\n\
        st.global.u32 [%d4], %r2;\n\
        mov.u32 %r3, 1;\nst.param.b32 [scope], %r3;\ncall.uni (handle), cudaCGGetIntrinsicHandle, (scope);\n\
        ld.param.b64 %d5, [handle];\nst.param.b64 [to], %d5;\nmov.u32 %r4, 0;\nst.param.b32 [flags], %r4;\n\
        call.uni (code), cudaCGSynchronize, (to, flags);\n\
        mov.u32 %r5, %nctaid.x;\nrem.u32 %r6, %r2, %r5;\nmul.wide.u32 %d6, %r6, 4;\nadd.u64 %d7, %d1, %d6;\n\
        ld.global.u32 %r7, [%d7];\nadd.u64 %d8, %d2, %d3;\nst.global.u32 [%d8], %r7;\nret;\n}\n";
    use sys::CUjitInputType::{CU_JIT_INPUT_LIBRARY, CU_JIT_INPUT_PTX};
    let context = own_context()?;
    let stream = context.default_stream();
    let inputs = [
        (CU_JIT_INPUT_LIBRARY, "!<arch>\ncuda_device_runtime"),
        (CU_JIT_INPUT_PTX, CALLER),
        // Twice: a library is searched for what is missing.
        (CU_JIT_INPUT_LIBRARY, "!<arch>\ncuda_device_runtime"),
    ];
    let image = link_inputs(&inputs)?;
    let text = std::str::from_utf8(&image[..image.len() - 1])?;
    let kernel = context
        .load_module(Ptx::from_src(text))?
        .load_function("t")?;
    let (stored, read) = (stream.alloc_zeros::<u32>(5)?, stream.alloc_zeros::<u32>(5)?);
    for _ in 0..2 {
        // SAFETY: the kernel's parameters, and five elements each.
        unsafe {
            let mut launch = stream.launch_builder(&kernel);
            launch
                .arg(&stored)
                .arg(&read)
                .launch_cooperative(blocks(5))?;
        }
        assert_eq!(stream.clone_dtoh(&read)?, [2, 3, 4, 5, 1]);
    }
    let other = link_inputs(&[
        (CU_JIT_INPUT_LIBRARY, "!<arch>\nother"),
        (CU_JIT_INPUT_PTX, CALLER),
    ]);
    expect_error(other, CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU);
    Ok(())
}

/// Buffers for the log of a linker or a module, and the options that name them.
struct Log {
    info: [u8; 8],
    error: [u8; 40],
    options: [sys::CUjit_option; 5],
    values: [*mut c_void; 5],
}

impl Log {
    fn new() -> Box<Self> {
        use sys::CUjit_option::*;
        let mut log = Box::new(Log {
            info: *b"old text",
            error: [b'x'; 40],
            options: [
                CU_JIT_WALL_TIME,
                CU_JIT_INFO_LOG_BUFFER,
                CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES,
                CU_JIT_ERROR_LOG_BUFFER,
                CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
            ],
            values: [ptr::null_mut(); 5],
        });
        log.values = [
            77 as *mut c_void,
            log.info.as_mut_ptr().cast(),
            8 as *mut c_void,
            log.error.as_mut_ptr().cast(),
            39 as *mut c_void,
        ];
        log
    }

    /// The text of the error. The lengths that were written are those of the texts.
    fn error(&self) -> &str {
        assert_eq!(self.info[0], 0);
        assert_eq!(self.error[39], b'x');
        let text = CStr::from_bytes_until_nul(&self.error).expect("a zero byte");
        let lengths = [self.values[0], self.values[2], self.values[4]];
        assert_eq!(
            lengths.map(|value| value as usize),
            [0, 0, text.count_bytes()]
        );
        text.to_str().expect("UTF-8")
    }
}

#[test]
fn what_cannot_be_loaded_says_why_also_in_the_programs_buffer() -> Outcome {
    let _context = own_context()?;
    let load = |text: &CStr| {
        let mut log = Log::new();
        let mut module = ptr::null_mut();
        // SAFETY: a zero-terminated text; buffers of the sizes that are given.
        let outcome = unsafe {
            let (options, values) = (log.options.as_mut_ptr(), log.values.as_mut_ptr());
            sys::cuModuleLoadDataEx(&mut module, text.as_ptr().cast(), 5, options, values)
        };
        (outcome.result(), log)
    };
    let (refused, log) = load(c"this is no PTX");
    let text = expect_error(refused, CUresult::CUDA_ERROR_INVALID_PTX);
    assert_eq!(log.error(), &text[..text.len().min(38)]);
    let (loaded, log) = load(&CString::new(HEAD)?);
    loaded?;
    assert_eq!(log.error(), "");
    // A library's file, which is not there.
    let mut log = Log::new();
    let mut library = ptr::null_mut();
    // SAFETY: a zero-terminated text; buffers of the sizes that are given.
    let refused = unsafe {
        sys::cuLibraryLoadFromFile(
            &mut library,
            c"/nowhere/kernel.ptx".as_ptr(),
            log.options.as_mut_ptr(),
            log.values.as_mut_ptr(),
            5,
            ptr::null_mut(),
            ptr::null_mut(),
            0,
        )
    };
    expect_error(refused.result(), CUresult::CUDA_ERROR_FILE_NOT_FOUND);
    assert!(
        log.error().starts_with("/nowhere/kernel.ptx"),
        "{}",
        log.error()
    );
    Ok(())
}

#[test]
fn what_cannot_be_linked_says_why_also_in_the_programs_buffer() -> Outcome {
    let _context = own_context()?;
    expect_error(link(&[]), CUresult::CUDA_ERROR_INVALID_VALUE);
    let text = expect_error(
        link(&["\x7fELF machine code"]),
        CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU,
    );
    assert!(text.contains("PTX text"), "{text}");
    let twice = [HEAD, &adds(".visible", "f", 1)].concat();
    let undefined = [HEAD, ".extern .global .align 4 .u32 word;\n"].concat();
    let broken = [HEAD, ".visible .entry"].concat();
    let later = [HEAD, ".func f()\n{\ncp.async.wait_all;\nret;\n}\n"].concat();
    let higher = twice.replace("sm_75", "sm_80");
    for (texts, said) in [
        ([&twice, &twice], "`f`"),
        ([&twice, &undefined], "word"),
        ([&twice, &broken], "input 2"),
        ([&higher, &later], "input 2"),
    ] {
        let mut log = Log::new();
        let mut linker = ptr::null_mut();
        let (mut image, mut bytes) = (ptr::null_mut(), 0);
        // SAFETY: texts with their lengths, places for results, buffers of the sizes that are
        // given.
        let refused = unsafe {
            let (options, values) = (log.options.as_mut_ptr(), log.values.as_mut_ptr());
            sys::cuLinkCreate_v2(5, options, values, &mut linker).result()?;
            for text in texts {
                add(linker, sys::CUjitInputType::CU_JIT_INPUT_PTX, text)?;
            }
            assert_eq!(log.error(), "");
            sys::cuLinkComplete(linker, &mut image, &mut bytes)
        };
        let text = expect_error(refused.result(), CUresult::CUDA_ERROR_INVALID_PTX);
        assert!(text.contains(said), "{text}");
        assert_eq!(log.error(), &text[..text.len().min(38)]);
        // SAFETY: a live linker.
        unsafe { sys::cuLinkDestroy(linker) }.result()?;
    }
    Ok(())
}
