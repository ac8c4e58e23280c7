//! `cuTensorMapEncodeTiled` and `cuTensorMapReplaceAddress`: each argument that they refuse, and
//! how the text names it.

use std::ffi::{CStr, c_char, c_void};
use std::ptr;

use cudarc::driver::sys::{self, CUresult};
use libloading::Library;

use crate::common::{Outcome, context};

/// Arguments as the C interface takes them.
#[derive(Clone, Copy)]
struct Arguments {
    map: *mut u64,
    element: u32,
    rank: u32,
    address: u64,
    sizes: [u64; 5],
    strides: [u64; 4],
    box_sizes: [u32; 5],
    element_strides: [u32; 5],
    interleave: u32,
    swizzle: u32,
    l2_promotion: u32,
    fill: u32,
}

#[repr(align(64))]
struct Place([u64; 24]);

type Encode = unsafe extern "C" fn(
    *mut u64,
    u32,
    u32,
    u64,
    *const u64,
    *const u64,
    *const u32,
    *const u32,
    u32,
    u32,
    u32,
    u32,
) -> CUresult;

impl Arguments {
    fn encode(&self, encode: Encode) -> CUresult {
        // SAFETY: the arrays have as many elements as any rank.
        unsafe {
            encode(
                self.map,
                self.element,
                self.rank,
                self.address,
                self.sizes.as_ptr(),
                self.strides.as_ptr(),
                self.box_sizes.as_ptr(),
                self.element_strides.as_ptr(),
                self.interleave,
                self.swizzle,
                self.l2_promotion,
                self.fill,
            )
        }
    }
}

fn text(code: CUresult) -> String {
    let mut text: *const c_char = ptr::null();
    // SAFETY: the text is a constant one, or stays until many others were asked for.
    unsafe {
        let _ = sys::cuGetErrorString(code, &mut text);
        CStr::from_ptr(text).to_string_lossy().into_owned()
    }
}

#[test]
fn each_bad_argument_is_named() -> Outcome {
    let _context = context()?;
    // SAFETY: the library that `install` has loaded.
    let library = unsafe { Library::new("libcuda.so") }?;
    // SAFETY: the function's type.
    let encode: Encode = unsafe { *library.get(b"cuTensorMapEncodeTiled")? };
    let mut place = Place([0; 24]);
    let good = Arguments {
        map: place.0.as_mut_ptr(),
        element: 6,
        rank: 5,
        address: 0x10_0000,
        sizes: [64, 1 << 32, 3, 4, 5],
        strides: [128, 256, (1 << 40) - 16, 0],
        box_sizes: [32, 256, 1, 2, 3],
        element_strides: [1, 8, 1, 1, 1],
        interleave: 0,
        swizzle: 2,
        l2_promotion: 3,
        fill: 1,
    };
    assert_eq!(good.encode(encode), CUresult::CUDA_SUCCESS);
    let invalid = CUresult::CUDA_ERROR_INVALID_VALUE;
    let unsupported = CUresult::CUDA_ERROR_NOT_SUPPORTED;
    type Change = fn(&mut Arguments);
    let cases: [(Change, CUresult, &str); 36] = [
        (|a| a.map = ptr::null_mut(), invalid, "tensorMap is null"),
        (
            |a| a.map = a.map.wrapping_add(4),
            invalid,
            "tensorMap is 0x",
        ),
        (|a| a.element = 13, unsupported, "4-bit"),
        (|a| a.element = 15, unsupported, "6-bit"),
        (|a| a.element = 16, invalid, "tensorDataType is 16"),
        (|a| a.rank = 0, invalid, "tensorRank is 0"),
        (|a| a.rank = 6, invalid, "tensorRank is 6"),
        (
            |a| a.address = 0x10_0008,
            invalid,
            "globalAddress is 0x100008",
        ),
        (|a| a.sizes[0] = 0, invalid, "globalDim[0] is 0"),
        (
            |a| a.sizes[4] = (1 << 32) + 1,
            invalid,
            "globalDim[4] is 4294967297",
        ),
        (|a| a.strides[0] = 8, invalid, "globalStrides[0] is 0x8"),
        (
            |a| a.strides[2] = 1 << 40,
            invalid,
            "globalStrides[2] is 1099511627776",
        ),
        (|a| a.strides[3] = 120, invalid, "globalStrides[3] is 0x78"),
        (|a| a.box_sizes[1] = 0, invalid, "boxDim[1] is 0"),
        (|a| a.box_sizes[4] = 257, invalid, "boxDim[4] is 257"),
        (
            |a| a.box_sizes[0] = 4,
            invalid,
            "boxDim[0] is 4 elements, 8 bytes",
        ),
        (
            |a| a.box_sizes[0] = 40,
            invalid,
            "boxDim[0] is 40 elements, 80 bytes, more than the 64 bytes of swizzle",
        ),
        (
            |a| a.element_strides[1] = 0,
            invalid,
            "elementStrides[1] is 0",
        ),
        (
            |a| a.element_strides[2] = 9,
            invalid,
            "elementStrides[2] is 9",
        ),
        (|a| a.interleave = 1, unsupported, "interleaved tensors"),
        (|a| a.interleave = 2, unsupported, "interleaved tensors"),
        (|a| a.interleave = 3, invalid, "interleave is 3"),
        (|a| a.swizzle = 4, unsupported, "swizzles of pieces"),
        (|a| a.swizzle = 6, unsupported, "swizzles of pieces"),
        (|a| a.swizzle = 7, invalid, "swizzle is 7"),
        (
            |a| a.swizzle = 1,
            invalid,
            "more than the 32 bytes of swizzle",
        ),
        (|a| a.l2_promotion = 4, invalid, "l2Promotion is 4"),
        (|a| a.fill = 2, invalid, "oobFill is 2"),
        (|a| a.element = 0, invalid, "oobFill asks for NaN"),
        (|a| a.element = 1, invalid, "oobFill asks for NaN"),
        (|a| a.element = 3, invalid, "oobFill asks for NaN"),
        (|a| a.element = 5, invalid, "oobFill asks for NaN"),
        // What is not looked at: dimensions behind the rank.
        (
            |a| (a.rank, a.strides[1], a.sizes[2]) = (2, 1, 0),
            CUresult::CUDA_SUCCESS,
            "",
        ),
        (
            |a| (a.rank, a.box_sizes[1]) = (1, 0),
            CUresult::CUDA_SUCCESS,
            "",
        ),
        (
            |a| (a.swizzle, a.box_sizes[0]) = (0, 256),
            CUresult::CUDA_SUCCESS,
            "",
        ),
        (
            |a| (a.swizzle, a.box_sizes[0]) = (3, 64),
            CUresult::CUDA_SUCCESS,
            "",
        ),
    ];
    for (i, (change, code, words)) in cases.into_iter().enumerate() {
        let mut arguments = good;
        change(&mut arguments);
        assert_eq!(arguments.encode(encode), code, "case {i}: {words}");
        if code != CUresult::CUDA_SUCCESS {
            let text = text(code);
            assert!(text.contains(words), "case {i}: {text}");
        }
    }
    type Lists = unsafe extern "C" fn(
        *mut u64,
        u32,
        u32,
        u64,
        usize,
        usize,
        usize,
        usize,
        u32,
        u32,
        u32,
        u32,
    ) -> CUresult;
    // SAFETY: the function's type, with addresses as numbers.
    let with_lists: Lists = unsafe { *library.get(b"cuTensorMapEncodeTiled")? };
    let lists = [
        good.sizes.as_ptr() as usize,
        good.strides.as_ptr() as usize,
        good.box_sizes.as_ptr() as usize,
        good.element_strides.as_ptr() as usize,
    ];
    for (missing, name) in ["globalDim", "globalStrides", "boxDim", "elementStrides"]
        .into_iter()
        .enumerate()
    {
        let mut given = lists;
        given[missing] = 0;
        let [sizes, strides, boxes, steps] = given;
        // SAFETY: each list is null or long enough.
        let code = unsafe {
            with_lists(
                good.map,
                6,
                5,
                good.address,
                sizes,
                strides,
                boxes,
                steps,
                0,
                2,
                0,
                0,
            )
        };
        assert_eq!(code, invalid);
        assert!(
            text(code).contains(&format!("{name} is null")),
            "{}",
            text(code)
        );
    }
    Ok(())
}

#[test]
fn only_a_tensor_map_gets_another_address() -> Outcome {
    let _context = context()?;
    let mut map = sys::CUtensorMap { opaque: [7; 16] };
    let replace = |map: &mut sys::CUtensorMap, address: usize| {
        // SAFETY: a place for a tensor map.
        let code = unsafe { sys::cuTensorMapReplaceAddress(map, address as *mut c_void) };
        let text = text(code);
        (code, text)
    };
    let (code, text) = replace(&mut map, 256);
    assert_eq!(code, CUresult::CUDA_ERROR_INVALID_VALUE);
    assert!(text.contains("tensorMap holds no tensor map"), "{text}");
    let tensor = super::rig::Tensor::dense(super::rig::ELEMENTS[2], &[32], &[32]);
    let mut map = tensor.encode(256).0;
    let (code, text) = replace(&mut map, 264);
    assert_eq!(code, CUresult::CUDA_ERROR_INVALID_VALUE);
    assert!(text.contains("globalAddress is 0x108"), "{text}");
    assert_eq!(replace(&mut map, 512).0, CUresult::CUDA_SUCCESS);
    assert_eq!(map, tensor.encode(512).0);
    Ok(())
}

#[test]
fn the_functions_are_found_by_name_and_version() -> Outcome {
    let _context = context()?;
    for name in [
        c"cuTensorMapEncodeTiled",
        c"cuTensorMapReplaceAddress",
        c"cuTensorMapEncodeIm2col",
        c"cuTensorMapEncodeIm2colWide",
    ] {
        let mut address: *mut c_void = ptr::null_mut();
        let mut found = sys::CUdriverProcAddressQueryResult::CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
        // SAFETY: places for what is asked for.
        let code =
            unsafe { sys::cuGetProcAddress_v2(name.as_ptr(), &mut address, 12000, 0, &mut found) };
        assert_eq!(code, CUresult::CUDA_SUCCESS);
        assert!(!address.is_null(), "{name:?}");
    }
    Ok(())
}
