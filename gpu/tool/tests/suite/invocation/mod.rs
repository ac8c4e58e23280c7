//! Kernel files that state their launch: what a launch gives, and what is refused.

mod launches;
mod npy;

use std::fs;
use std::path::{Path, PathBuf};

use gpu_launch::{Invocation, LaunchError, Position, Values};

use crate::common::device;

/// A module with two kernels: `scale(float* x, float by, int n)` as C++ names it, and `copy8(const
/// u8*, u8*)`.
const PTX: &str = "\
.version 8.4
.target sm_75
.address_size 64
.visible .entry _Z5scalePffi(
	.param .u64 p0, // the vector
	.param .f32 p1,
	.param .u32 p2
)
{
	.reg .pred %p<2>;
	.reg .f32 %f<4>;
	.reg .b32 %r<6>;
	.reg .b64 %d<4>;
	ld.param.u64 %d1, [p0];
	ld.param.f32 %f1, [p1];
	ld.param.u32 %r1, [p2];
	mov.u32 %r2, %ctaid.x;
	mov.u32 %r3, %ntid.x;
	mov.u32 %r4, %tid.x;
	mad.lo.s32 %r5, %r2, %r3, %r4;
	setp.ge.s32 %p1, %r5, %r1;
	@%p1 ret;
	mul.wide.s32 %d2, %r5, 4;
	add.s64 %d3, %d1, %d2;
	ld.global.f32 %f2, [%d3];
	mul.f32 %f3, %f2, %f1;
	st.global.f32 [%d3], %f3;
	ret;
}
.visible .entry copy8(.param .u64 .ptr .global .align 1 q0, .param .u64 q1)
{
	.reg .b16 %h<2>;
	.reg .b32 %r<2>;
	.reg .b64 %d<6>;
	ld.param.u64 %d1, [q0];
	ld.param.u64 %d2, [q1];
	mov.u32 %r1, %tid.x;
	cvt.u64.u32 %d3, %r1;
	add.s64 %d4, %d1, %d3;
	add.s64 %d5, %d2, %d3;
	ld.global.u8 %h1, [%d4];
	st.global.u8 [%d5], %h1;
	ret;
}
";

fn parse(text: &str) -> Invocation {
    Invocation::parse(text, Path::new("/folder")).unwrap()
}

fn run(text: &str) -> Result<Vec<(Position, Values)>, LaunchError<gpu::Refusal>> {
    parse(text).run(&device(), PTX)
}

/// Result of a one-element-per-thread copy of a buffer; `argument` has `bytes` bytes.
fn through_the_device(argument: &str, bytes: usize) -> Values {
    let launch = format!(
        "// launch: grid=1 block={bytes} kernel=copy8\n// args: {argument} u8[{bytes}]=uninit\n"
    );
    let stated = Invocation::parse(&launch, &folder()).unwrap();
    let read = stated.run(&device(), PTX);
    let mut read = read.unwrap_or_else(|error| panic!("{argument}: {error}"));
    let ((_, copy), (_, original)) = (read.pop().unwrap(), read.pop().unwrap());
    assert_eq!(copy.bytes(), original.bytes());
    original
}

fn folder() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("invocation");
    fs::create_dir_all(&folder).unwrap();
    folder
}
