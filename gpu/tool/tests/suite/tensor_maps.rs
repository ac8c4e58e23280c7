//! Tensor maps as arguments: read, written back, refused, and passed to a kernel that copies a box.

use std::path::Path;

use gpu::Backend;
use gpu_launch::{Argument, Invocation, LaunchError, Position, Values};

use crate::common::device;

/// A kernel that copies the box at element 8 of row 2 of a tensor of two dimensions, 256 bytes,
/// with a tensor copy.
const PTX: &str = "\
.version 8.4
.target sm_90
.address_size 64
.visible .entry copy(.param .align 64 .b8 map[128], .param .u64 to)
{
	.shared .align 128 .b8 tile[256];
	.shared .align 8 .b64 barrier;
	.reg .pred %p<3>;
	.reg .b32 %r<8>;
	.reg .b64 %d<8>;
	mov.u32 %r1, %tid.x;
	mov.u32 %r2, barrier;
	mov.u32 %r3, tile;
	setp.ne.s32 %p1, %r1, 0;
	@%p1 bra $ready;
	mbarrier.init.shared::cta.b64 [%r2], 1;
	fence.mbarrier_init.release.cluster;
	mbarrier.arrive.expect_tx.shared::cta.b64 %d1, [%r2], 256;
	mov.b64 %d2, map;
	cvta.param.u64 %d3, %d2;
	mov.u32 %r4, 8;
	mov.u32 %r5, 2;
	cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes
		[%r3], [%d3, {%r4, %r5}], [%r2];
$ready:
	bar.sync 0;
$wait:
	mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0;
	@!%p2 bra $wait;
	shl.b32 %r6, %r1, 2;
	add.s32 %r3, %r3, %r6;
	ld.shared.b32 %r7, [%r3];
	ld.param.u64 %d4, [to];
	cvta.to.global.u64 %d5, %d4;
	mul.wide.u32 %d6, %r1, 4;
	add.s64 %d7, %d5, %d6;
	st.global.b32 [%d7], %r7;
	ret;
}
";

/// False on a GPU that has no tensor maps.
fn has_tensor_maps() -> bool {
    let capability = gpu::context(0).unwrap().compute_capability();
    capability.unwrap() >= (9, 0)
}

fn launched(
    launch: &str,
    arguments: &str,
) -> Result<Vec<(Position, Values)>, LaunchError<gpu::Refusal>> {
    let text = format!("// launch: grid=1 block=64 {launch}\n// args: {arguments}\n");
    Invocation::parse(&text, Path::new(""))?.run(&device(), PTX)
}

/// The box of 8 columns and 8 rows that the kernel copies, as numbers.
fn copied(arguments: &str) -> Vec<f64> {
    let buffers = launched("pass=1,2", arguments);
    let buffers = buffers.unwrap_or_else(|error| panic!("{arguments}: {error}"));
    let (_, to) = buffers
        .iter()
        .find(|(place, _)| place.to_string() == "2")
        .unwrap();
    to.to_f64()
}

/// The box at column 8 and row 2 of a tensor of 16 columns and 16 rows whose elements are numbered,
/// 0 outside of it.
fn numbered(rows: usize) -> Vec<f64> {
    let element = |i: usize| match (2 + i / 8, 8 + i % 8) {
        (row, column) if row < rows => (16 * row + column) as f64,
        _ => 0.0,
    };
    (0..64).map(element).collect()
}

#[test]
fn a_kernel_gets_the_map_of_another_argument() {
    if !has_tensor_maps() {
        return;
    }
    let to = "i32[64]=uninit";
    let packed = format!("i32[256]=iota tensormap{{0,16x16,box=8x8}} {to}");
    assert_eq!(copied(&packed), numbered(16));
    // Rows of the tensor end before the box does.
    let cut = format!("i32[256]=iota tensormap{{0,16x5,box=8x8}} {to}");
    assert_eq!(copied(&cut), numbered(5));
    // Every other row of the matrix is a row of the tensor.
    let apart = format!("i32[512]=iota tensormap{{0,16x16,box=8x8,strides=128}} {to}");
    let doubled: Vec<f64> = (0..64)
        .map(|i| f64::from(32 * (2 + i / 8) + 8 + i % 8))
        .collect();
    assert_eq!(copied(&apart), doubled);
    // 16-byte pieces of 32-byte rows swap places by bit 7 of their address.
    let swizzled = format!("i32[256]=iota tensormap{{0,16x16,box=8x8,swizzle=32}} {to}");
    let numbers = numbered(16);
    let swapped: Vec<f64> = (0..64).map(|i| numbers[i ^ (i >> 5 & 1) << 2]).collect();
    assert_eq!(copied(&swizzled), swapped);
    // NaN outside of a tensor of floats.
    let filled = "f32[256]=ones tensormap{0,16x5,box=8x8,fill=nan} f32[64]=uninit";
    let numbers = copied(filled);
    assert!(numbers[..24].iter().all(|x| *x == 1.0), "{numbers:?}");
    assert!(numbers[24..].iter().all(|x| x.is_nan()), "{numbers:?}");
}

#[test]
fn a_map_may_describe_a_later_buffer_and_a_field() {
    if !has_tensor_maps() {
        return;
    }
    let later = "tensormap{1,16x16,box=8x8} i32[256]=iota i32[64]=uninit";
    let buffers = launched("pass=0,2", later).unwrap();
    assert_eq!(buffers[1].1.to_f64(), numbered(16));
    let field = "{i32=1,i32[256]=iota} tensormap{0.1, 16x16,\n// args: box=8x8} i32[64]=uninit";
    assert_eq!(copied(field), numbered(16));
}

#[test]
fn a_map_may_say_more_than_its_buffer_holds() {
    if gpu::backend().unwrap() == Backend::Cuda {
        return; // an access out of bounds would end all that the process has on a GPU
    }
    let error = launched(
        "pass=1,2",
        "i32[64]=iota tensormap{0,16x16,box=8x8} i32[64]=uninit",
    );
    let error = error.unwrap_err().to_string();
    assert!(error.contains("out-of-bounds"), "{error}");
}

#[test]
fn a_map_is_written_back_as_it_was_read() {
    for written in [
        "tensormap{0,64,box=64}",
        "tensormap{2.1,64x8x4x2x1,box=64x8x1x1x1}",
        "tensormap{0,8x4x2,box=8x4x2,strides=64x0}",
        "tensormap{0,64x8,box=64x8,every=1x2,type=tf32,swizzle=128,fill=nan,interleave=16,l2=256}",
        "tensormap{3,64x8,box=64x8,type=f32_ftz,swizzle=64,interleave=32,l2=64}",
        "tensormap{3,64x8,box=64x8,type=tf32_ftz,swizzle=32,l2=128}",
    ] {
        let read = Argument::parse(written).unwrap();
        assert_eq!(read.to_string(), written);
        assert_eq!(Argument::parse(&read.to_string()), Ok(read));
    }
    let blanks = Argument::parse("tensormap{ 0, 64x8 ,\tbox=64x8, swizzle=none }").unwrap();
    assert_eq!(blanks.to_string(), "tensormap{0,64x8,box=64x8}");
}

#[test]
fn what_cannot_be_read_is_refused() {
    let cases = [
        (
            "i32=1 tensormap{0,64x8}",
            "argument 1 (tensormap{0,64x8}): it lacks its box",
        ),
        ("tensormap{}", "\"\" is not an argument's number"),
        (
            "tensormap{x,64,box=64}",
            "\"x\" is not an argument's number",
        ),
        ("tensormap{0}", "sizes: \"\" is not numbers from 1"),
        (
            "tensormap{0,64x0,box=64x8}",
            "sizes: \"64x0\" is not numbers",
        ),
        ("tensormap{0,64x-1,box=64x8}", "sizes: \"64x-1\" is not"),
        (
            "tensormap{0,1x1x1x1x1x1,box=1x1x1x1x1x1}",
            "a tensor has 1 to 5 dimensions, not 6",
        ),
        ("tensormap{0,64x8,box=0x8}", "box: \"0x8\" is not numbers"),
        (
            "tensormap{0,64x8,box=64}",
            "box: 64 has 1 dimensions, the tensor 2",
        ),
        (
            "tensormap{0,64x8,box=64x8,every=1}",
            "every: 1 has 1 dimensions, the tensor 2",
        ),
        (
            "tensormap{0,64x8,box=64x8,every=0x1}",
            "every: \"0x1\" is not numbers",
        ),
        (
            "tensormap{0,64x8,box=64x8,strides=2x128}",
            "strides: 2x128 has 2 strides, a tensor of 2 dimensions 1",
        ),
        (
            "tensormap{0,64x8,box=64x8,strides=f}",
            "strides: \"f\" is not bytes",
        ),
        (
            "tensormap{0,64x8,box=64x8,swizzle=256}",
            "swizzle: \"256\" is none of none, 32, 64, 128",
        ),
        (
            "tensormap{0,64x8,box=64x8,type=f16}",
            "type: \"f16\" is none of tf32, tf32_ftz, f32_ftz",
        ),
        (
            "tensormap{0,64x8,box=64x8,fill=ones}",
            "fill: \"ones\" is none of zeros, nan",
        ),
        (
            "tensormap{0,64x8,box=64x8,interleave=8}",
            "interleave: \"8\" is none of none, 16, 32",
        ),
        (
            "tensormap{0,64x8,box=64x8,l2=32}",
            "l2: \"32\" is none of none, 64, 128, 256",
        ),
        ("tensormap{0,64x8,box=64x8,box=64x8}", "box is stated twice"),
        ("tensormap{0,64x8,64x8}", "\"64x8\" is not KEY=VALUE"),
        ("tensormap{0,64x8,size=64}", "size: a key is box, swizzle"),
        (
            "{i32=1,tensormap{0,64,box=64}}",
            "field 1 (tensormap{0,64,box=64}): a tensor map is an argument, no field of a struct",
        ),
        ("tensormap{0,64,box=64", "a brace is not closed"),
    ];
    for (arguments, expected) in cases {
        let error = Invocation::parse(&format!("// args: {arguments}\n"), Path::new(""));
        let error = error.unwrap_err().to_string();
        assert!(error.contains(expected), "{arguments}: {error}");
    }
    let misspelt = Invocation::parse("// arg: tensormap{0, 64, box=64}\n", Path::new(""));
    let error = misspelt.unwrap_err().to_string();
    assert!(error.contains("write it `// args: …`"), "{error}");
}

#[test]
fn a_map_that_does_not_fit_the_arguments_is_refused() {
    if !has_tensor_maps() {
        return;
    }
    let cases = [
        (
            "i32[256]=iota tensormap{5,16x16,box=8x8} i32[64]=zeros",
            "argument 1 (tensormap{5,16x16,box=8x8}): there is no argument 5",
        ),
        (
            "{i32=1,i32[8]=zeros} tensormap{0,16x16,box=8x8} i32[64]=zeros",
            "argument 1 (tensormap{0,16x16,box=8x8}): argument 0 is no buffer (its buffers: 0.1)",
        ),
        (
            "i32=1 tensormap{1,16x16,box=8x8} i32[64]=zeros",
            "argument 1 (tensormap{1,16x16,box=8x8}): argument 1 is no buffer",
        ),
        (
            "f16[256]=iota tensormap{0,16x16,box=8x8,type=tf32} i32[64]=zeros",
            "elements of tf32 have 4 bytes, those of argument 0 (f16) 2",
        ),
        (
            "i32[256]=iota i32=1 i32[64]=zeros",
            "a tensor map, written like tensormap{",
        ),
    ];
    for (arguments, expected) in cases {
        let error = launched("pass=1,2", arguments).unwrap_err().to_string();
        assert!(error.contains(expected), "{arguments}: {error}");
    }
}

#[test]
fn the_refusal_of_the_driver_names_the_argument() {
    if !has_tensor_maps() {
        return;
    }
    let word = "tensormap{0,16x16,box=8x257}";
    let arguments = format!("i32[256]=iota {word} i32[64]=zeros");
    let error = launched("pass=1,2", &arguments).unwrap_err().to_string();
    assert!(error.contains(&format!("argument 1 ({word})")), "{error}");
    assert!(error.contains("CUDA_ERROR_INVALID_VALUE"), "{error}");
}
