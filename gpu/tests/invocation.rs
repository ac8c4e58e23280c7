//! Kernel files that state their launch: what is read, what is refused, and what a launch then gives.

use std::fs;
use std::path::{Path, PathBuf};

use gpu::invocation::{
    Argument, Entry, Init, Invocation, InvocationError, Position, Type, Values, entries,
};

/// A module with two kernels: `scale(float* x, float by, int n)` as C++ names it, and `copy8(const u8*, u8*)`.
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

fn run(text: &str) -> Result<Vec<(Position, Values)>, InvocationError> {
    let ctx = gpu::context(0).unwrap();
    parse(text).run(&ctx, PTX)
}

/// The buffers of a launch whose only one is argument 0.
fn first(values: Values) -> [(Position, Values); 1] {
    [(0.into(), values)]
}

/// What a one-element-per-thread copy of a buffer gives back; `argument` has `bytes` bytes.
fn through_the_device(argument: &str, bytes: usize) -> Values {
    let launch = format!(
        "// launch: grid=1 block={bytes} kernel=copy8\n// args: {argument} u8[{bytes}]=uninit\n"
    );
    let stated = Invocation::parse(&launch, &folder()).unwrap();
    let read = stated.run(&gpu::context(0).unwrap(), PTX);
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

#[test]
fn comments_state_a_launch() {
    let stated = parse(
        "// What it does. launch: this is prose.\n\
         // launch: grid=4,5 block=64 shared=1024 kernel=scale\n\
         // args: f32[8]=iota f32[]={1,-2.5,0x7f800000}\n\
         // args: i32=-7 f16=@half.npy\n\
         // define: TILE=16 OP=a=b\n\
         // bug: out of bounds\n\
         // expect the unexpected: prose\n\
         // expect 0: f32 1 nan\n\
         // expect 0: f32 -0\n\
         int x; // args: not at the start of its line\n\
         x[i] = 1;  // BUG  \n",
    );
    assert_eq!(stated.kernel.as_deref(), Some("scale"));
    assert_eq!(
        (stated.grid, stated.block),
        (Some([4, 5, 1]), Some([64, 1, 1]))
    );
    assert_eq!(stated.shared, 1024);
    let list = Values::from_bits(Type::F32, [0x3f80_0000, 0xc020_0000, 0x7f80_0000]);
    let buffer = |ty, count, init| Argument::Buffer { ty, count, init };
    assert_eq!(
        stated.arguments,
        [
            buffer(Type::F32, Some(8), Init::Iota),
            buffer(Type::F32, Some(3), Init::List(list)),
            Argument::Scalar {
                ty: Type::I32,
                bits: 0xffff_fff9
            },
            buffer(Type::F16, None, Init::File("/folder/half.npy".into())),
        ]
    );
    let constants =
        [("TILE", "16"), ("OP", "a=b")].map(|(name, value)| (name.into(), value.into()));
    assert_eq!(stated.constants, constants);
    assert_eq!(stated.bug.as_deref(), Some("out of bounds"));
    assert_eq!(stated.marked, [11]);

    let [expectation] = &stated.expectations[..] else {
        panic!("{:?}", stated.expectations)
    };
    let values = |bits: [u64; 3]| first(Values::from_bits(Type::F32, bits));
    assert_eq!(
        expectation.compare(&values([0x3f80_0000, 0xff80_0001, 0x8000_0000])),
        Ok(())
    );
    let differs = expectation
        .compare(&values([0x3f80_0001, 0x7f80_0000, 0x8000_0000]))
        .unwrap_err();
    assert_eq!(
        differs.to_string(),
        "argument 0: element 0 is 1.0000001 (0x3f800001), expected 1 (0x3f800000); 2 of 3 elements differ"
    );
    let zero = expectation
        .compare(&values([0x3f80_0000, 0x7fc0_0000, 0]))
        .unwrap_err();
    assert!(
        zero.text
            .starts_with("element 2 is 0 (0x00000000), expected -0 (0x80000000)"),
        "{zero}"
    );
    let short = expectation
        .compare(&first(Values::from_bits(Type::F32, [0])))
        .unwrap_err();
    assert_eq!(
        short.text,
        "3 elements of f32 are expected, it has 1 of f32"
    );
}

#[test]
fn an_expected_value_has_its_tolerance() {
    // Of the value that is expected in `text`, whether `bits` is close enough.
    let allows = |text: &str, bits: u32| {
        let stated = parse(&format!("// expect 0 {text}"));
        let got = first(Values::from_bits(Type::F32, [u64::from(bits)]));
        stated.expectations[0].compare(&got).is_ok()
    };
    assert!(allows("ulp 2: f32 1", 0x3f80_0002) && allows("ulp 2: f32 1", 0x3f7f_fffe));
    assert!(!allows("ulp 2: f32 1", 0x3f80_0003) && !allows("ulp 2: f32 1", 0x3f7f_fffd));
    assert!(!allows("ulp 2: f32 1", 0xbf80_0000));
    assert!(!allows("ulp 2: f32 0", 1) && !allows("ulp 2: f32 0", 0x8000_0000));
    assert!(allows("abs 0.5: f32 1", 0x3fc0_0000) && !allows("abs 0.5: f32 1", 0x3fc0_0001));
    assert!(allows("rel 0.5: f32 -2", 0xc040_0000) && !allows("rel 0.5: f32 -2", 0xc040_0001));
    assert!(allows("abs 1e-9 rel 0.5: f32 -2", 0xc040_0000));
    for special in [0x7f80_0000u32, 0x7fc0_0000] {
        assert!(!allows("ulp 9 abs 1e30 rel 1e30: f32 3e38", special));
        assert!(!allows("ulp 9 abs inf rel 1e30: f32 inf", 0x7f7f_ffff));
    }
    assert!(allows("ulp 1: f32 inf", 0x7f80_0000) && !allows("ulp 1: f32 inf", 0xff80_0000));
    assert!(allows("ulp 1: f32 nan", 0xffc0_0001) && !allows("ulp 1: f32 nan", 0));

    let stated = parse("// expect 0 ulp 2 rel 1e-3: f32 1");
    let far = stated.expectations[0].compare(&first(Values::from_bits(Type::F32, [0])));
    assert_eq!(
        far.unwrap_err().text,
        "element 0 is 0 (0x00000000), expected 1 (0x3f800000) within ulp 2 or rel 1e-3; 1 of 1 elements differ"
    );
}

#[test]
fn a_comment_that_cannot_be_read_is_an_error() {
    let cases = [
        (
            "// launch: grid=4x4",
            "\"4x4\" is not x, x,y or x,y,z in whole numbers",
        ),
        ("// launch: grid=1,2,3,4", "more than three dimensions"),
        (
            "// launch: grid=1 threads=64",
            "\"threads\" is none of grid, block, shared and kernel",
        ),
        ("// launch: grid", "\"grid\" is not KEY=VALUE"),
        ("// launch: shared=-1", "\"-1\" is not a number of bytes"),
        (
            "// args: i32=1 f32",
            "argument 1 (f32): an argument is TYPE=VALUE, TYPE[COUNT]=INIT, {FIELD",
        ),
        ("// args: f33=1", "\"f33\" is no type; there are u8 i8 s8"),
        ("// args: u8=256", "256 is beyond the range of u8"),
        ("// args: i8=-129", "-129 is beyond the range of i8"),
        (
            "// args: u64=18446744073709551616",
            "beyond the range of u64",
        ),
        ("// args: i32=1.5", "\"1.5\" is no i32"),
        ("// args: f32=1e39", "1e39 is beyond the range of f32"),
        ("// args: f16=65520", "65520 is beyond the range of f16"),
        (
            "// args: f16=0x10000",
            "\"0x10000\" is not the bits of a f16",
        ),
        ("// args: f32[4=iota", "the count lacks its closing bracket"),
        (
            "// args: f32[-4]=iota",
            "\"-4\" is not a number of elements",
        ),
        (
            "// args: f32[]=iota",
            "only a list or a file tells the count itself",
        ),
        ("// args: f32[4]=1", "\"1\" is none of zeros"),
        ("// args: f32[4]=random:x", "\"x\" is not a seed"),
        ("// args: f32[4]={1,2,3}", "3 values for 4 elements"),
        ("// args: f32[2]={1,", "a brace is not closed"),
        ("// args: f32[2]={1,2}x", "the list lacks its closing brace"),
        ("// args: f32[2]=@", "@ is not followed by a file's name"),
        ("// define: TILE", "\"TILE\" is not NAME=VALUE"),
        ("// define: =4", "\"=4\" is not NAME=VALUE"),
        ("// expect 0: 1 2", "\"1\" is no type"),
        ("// expect 0: i32 nan", "\"nan\" is no i32"),
        ("// expect 0 ulp 1: i32 1", "i32 has no tolerance"),
        ("// expect 0 ulp -1: f32 1", "\"ulp -1\" is no tolerance"),
        ("// expect 0 abs: f32 1", "\"abs\" is no tolerance"),
        ("// expect 0x: i32 1", "\"0x\" is not an argument's number"),
        ("// expect x: f32 1", "\"x\" is not an argument's number"),
        ("// expect x: 1", "\"x\" is not an argument's number"),
        (
            "// args: f32[1]=ones i32=2\n// expect 1: i32 2",
            "argument 1 (i32=2) is no buffer",
        ),
        (
            "// args: f32[1]=ones\n// expect 0: i32 1",
            "argument 0 is a buffer of f32, not of i32",
        ),
        (
            "// args: {i32=1,f32[1]=ones}\n// expect 0.2: f32 1",
            "there is no argument 0.2",
        ),
        (
            "// expect 0: i32 1\n// expect 0: f32 1",
            "argument 0 was i32 in an earlier line",
        ),
        ("// bug: none\n// bug: none", "the bug is stated twice"),
        (
            "// launch: grid=1\n// launch: grid=1",
            "the launch is stated twice",
        ),
    ];
    for (text, reason) in cases {
        let error = Invocation::parse(text, Path::new(""))
            .unwrap_err()
            .to_string();
        let line = text.lines().count();
        assert!(
            error.starts_with(&format!("line {line}: ")),
            "{text}: {error}"
        );
        assert!(error.contains(reason), "{text}: {error}");
    }
}

#[test]
fn a_misspelt_directive_is_not_ignored() {
    let cases = [
        ("// arg: f32[4]=iota", "args"),
        ("// argss: i32=1 f32=2", "args"),
        ("// agrs: {i32=1}", "args"),
        ("// Args: null", "args"),
        ("//args: f32[4]=iota", "args"),
        ("//  args: f32[4]=iota", "args"),
        ("// args : f32[4]=iota", "args"),
        ("// lauch: grid=1 block=4", "launch"),
        ("// Launches: block=4", "launch"),
        ("//launch: grid=1", "launch"),
        ("// defines: N=4", "define"),
        ("// expects 1: f32 1 2", "expect 1"),
        ("// expected 1.0: f32 1 2", "expect 1.0"),
        ("//expect 0: i32 1", "expect 0"),
        ("// expect: f32 1 2", "expect N"),
        ("// Arch: compute_80", "arch"),
        ("// archs: compute_80", "arch"),
        ("// launch grid=4 block=64", "launch"),
        ("// args f32[4]=iota", "args"),
        ("//define N=4", "define"),
        ("// expect 0 f32 1 2", "expect N"),
    ];
    for (line, meant) in cases {
        let text = format!("// What it does.\n{line}\n");
        let error = Invocation::parse(&text, Path::new("")).unwrap_err();
        let reason = format!("line 2: this would be ignored; write it `// {meant}: …`, from the");
        let error = error.to_string();
        assert!(
            error.starts_with(&reason) && error.contains(line),
            "{error}"
        );
    }
}

#[test]
fn prose_is_no_misspelt_directive() {
    let prose = "// Args:\n//   x: the values, n=4 of them\n// Arguments: x=1 is left alone\n// args are f32=1\n\
                 // Launch: one block for each row; grid=4 will do\n// Expect: nothing\n// Expected 4: of five\n\
                 // expect the unexpected: f32\n// define, if you like: N=4\n// area: n=4\n// are: n=4\n// each: x=1\n\
                 // lunch at noon: grid=1\n// refined: the grid=4\n// arch: compute_80\n// march: compute-bound\n\
                 // launch it with grid=4\n// args i32 and f32\n// define N=4 for this\n// expect 4 of them\n\
                 //\n// :\n// ::\n//: x=1\n// é: x=1\n  // arg: i32=1\nint x; // arg: i32=1\n/// grid=1: x\n";
    assert_eq!(parse(prose), Invocation::default());
}

#[test]
fn buffers_hold_what_is_asked_for() {
    assert_eq!(through_the_device("u8[3]=ones", 3).bytes(), [1, 1, 1]);
    assert_eq!(through_the_device("i16[2]=zeros", 4).bytes(), [0; 4]);
    assert_eq!(
        through_the_device("i64[2]={-1,0x10}", 16).to_f64(),
        [-1.0, 16.0]
    );
    assert_eq!(
        through_the_device("bf16[4]=iota", 8).bytes(),
        [0, 0, 0x80, 0x3f, 0, 0x40, 0x40, 0x40]
    );
    let wrapped = through_the_device("u8[258]=iota", 258);
    assert_eq!(wrapped.to_f64()[255..], [255.0, 0.0, 1.0]);
    let rounded = through_the_device("bf16[260]=iota", 520);
    assert_eq!(rounded.to_f64()[256..], [256.0, 256.0, 258.0, 260.0]);
}

#[test]
fn random_buffers_are_seeded_and_spread() {
    let numbers = |argument: &str, bytes: usize| through_the_device(argument, bytes).to_f64();
    assert_eq!(
        numbers("f32[200]=random:5", 800),
        numbers("f32[200]=random:5", 800)
    );
    assert_ne!(
        numbers("f32[200]=random:5", 800),
        numbers("f32[200]=random:6", 800)
    );
    // Without a seed the argument's number is taken.
    assert_eq!(
        numbers("f32[200]=random", 800),
        numbers("f32[200]=random:0", 800)
    );
    for argument in [
        "f32[200]=random",
        "f16[400]=random",
        "bf16[400]=random",
        "f64[100]=random",
    ] {
        let numbers = numbers(argument, 800);
        assert!(
            numbers.iter().all(|x| (-1.0..1.0).contains(x)),
            "{argument}: {numbers:?}"
        );
        let mean = numbers.iter().sum::<f64>() / numbers.len() as f64;
        let square = numbers.iter().map(|x| x * x).sum::<f64>() / numbers.len() as f64;
        assert!(
            mean.abs() < 0.2 && (square - 1.0 / 3.0).abs() < 0.1,
            "{argument}: {mean} {square}"
        );
    }
    let bytes = numbers("u8[800]=random", 800);
    assert!(bytes.iter().any(|&x| x < 16.0) && bytes.iter().any(|&x| x > 239.0));
}

#[test]
fn a_stated_kernel_runs() {
    let scale = "// launch: grid=2 block=4 kernel=scale\n// args: f32[8]=iota f32=0.5 i32=7\n\
                 // expect 0: f32 0 0.5 1 1.5 2 2.5 3 7\n";
    let read = run(scale).unwrap();
    assert_eq!(read.len(), 1);
    parse(scale).expectations[0].compare(&read).unwrap();

    let empty = run("// launch: grid=1 block=1 kernel=scale\n// args: f32[0]=iota f32=0.5 i32=0\n")
        .unwrap();
    assert!(empty[0].1.is_empty());
}

#[test]
fn kernels_are_found_with_their_parameters() {
    let sizes = |entry: &Entry| {
        let parameters = entry.parameters.iter();
        let sizes = parameters.map(|parameter| (parameter.bytes, parameter.align));
        sizes.collect::<Vec<(usize, usize)>>()
    };
    let found = entries(PTX);
    let found: Vec<_> = found
        .iter()
        .map(|entry| (&*entry.name, sizes(entry)))
        .collect();
    let pairs = |sizes: &[usize]| sizes.iter().map(|&size| (size, size)).collect();
    assert_eq!(
        found,
        [
            ("_Z5scalePffi", pairs(&[8, 4, 4])),
            ("copy8", pairs(&[8, 8]))
        ]
    );
    let found = entries(
        "// .entry no\n.entry a\n{}\n.entry b()\n{ ret; }\n.entry c(.param .align 8 .b8 s[24])",
    );
    let sizes: Vec<_> = found.iter().map(sizes).collect();
    assert_eq!(sizes, [vec![], vec![], vec![(24, 8)]]);
}

#[test]
fn a_parameter_larger_than_memory_is_refused() {
    let ctx = gpu::context(0).unwrap();
    for count in ["18446744073709551615", "99999999999999999999"] {
        let ptx = format!(".visible .entry huge(.param .align 2 .b16 s[{count}])\n{{ ret; }}\n");
        for argument in ["u16=1", "{u16=1}"] {
            let stated = parse(&format!("// launch: grid=1 block=1\n// args: {argument}\n"));
            let error = stated.run(&ctx, &ptx).unwrap_err();
            assert!(
                matches!(
                    error,
                    InvocationError::ArgumentSize {
                        needed: usize::MAX,
                        ..
                    }
                ),
                "{count}: {error}"
            );
        }
    }
}

#[test]
fn what_does_not_fit_the_kernel_is_refused() {
    let grid = "// launch: grid=1 block=1 kernel=scale\n";
    let cases = [
        ("// launch: block=1\n".to_owned(), "the grid is not stated"),
        ("// launch: grid=1\n".to_owned(), "the block is not stated"),
        (
            "// launch: grid=1 block=1\n".to_owned(),
            "name the kernel to launch; the file has scale, copy8",
        ),
        (
            "// launch: grid=1 block=1 kernel=scal\n".to_owned(),
            "there is no kernel \"scal\"",
        ),
        (
            format!("{grid}// args: f32[1]=iota f32=1\n"),
            "kernel scale needs 3 arguments; stated: 2",
        ),
        (
            format!("{grid}// args: f32[1]=iota f64=1 i32=1\n"),
            "argument 1 (f64=1) has 8 bytes, but the parameter of kernel scale has 4",
        ),
        (
            format!("{grid}// args: f32[1]=iota f32=1 i16=-1\n"),
            "argument 2 (i16=-1) has 2 bytes, but the parameter of kernel scale has 4",
        ),
        (
            format!("{grid}// args: f32[1]=iota i32=1 i32=1\n"),
            "argument 1 (i32=1) is an integer or an address, but the parameter of kernel scale is a floating-point number",
        ),
        (
            format!("{grid}// args: f32[1]=iota f32=1 f32=1\n"),
            "argument 2 (f32=1) is a floating-point number, but the parameter of kernel scale is an integer",
        ),
        (
            format!("{grid}// args: f32=@absent.npy f32=1 i32=1\n"),
            "/folder/absent.npy: No such file",
        ),
    ];
    for (text, reason) in cases {
        let error = run(&text).unwrap_err().to_string();
        assert!(error.contains(reason), "{text}{error}");
    }
}

#[test]
fn a_buffer_that_memory_cannot_hold_is_refused() {
    let ctx = gpu::context(0).unwrap();
    let grid = "// launch: grid=1 block=1 kernel=scale\n// args: f32[1]=iota f32=1 i32=1\n";
    for (argument, reason) in [
        (
            "f32[9223372036854775807]=iota",
            "argument 0 (f32[9223372036854775807]) does not fit into memory",
        ),
        (
            "f32[1000000000000]=uninit",
            "making argument 0 (f32[1000000000000]): the driver reports CUDA_ERROR_OUT_OF_MEMORY",
        ),
    ] {
        // A file may not ask for as much.
        let stated = grid.replace("f32[1]=iota", argument);
        let refused = Invocation::parse(&stated, Path::new(""))
            .unwrap_err()
            .to_string();
        assert!(
            refused.contains("bytes together, of at most 67108864"),
            "{refused}"
        );
        let mut stated = parse(grid);
        stated.arguments[0] = Argument::parse(argument).unwrap();
        let error = stated.run(&ctx, PTX).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
}

/// Instances of a template, `scale<4>` and `scale<8>`, and `add<float, true>`; as C++ names them.
const INSTANCES: &str = "\
// instance: scale<FOUR> = _Z5scaleILi4EEvPf
.version 8.4
.target sm_75
.address_size 64
.visible .entry _Z5scaleILi4EEvPf() { ret; }
.visible .entry _Z5scaleILi8EEvPf() { ret; }
.visible .entry _Z3addIfLb1EEvPT_() { ret; }
";

#[test]
fn a_kernel_is_called_by_the_name_in_its_source() {
    let ctx = gpu::context(0).unwrap();
    let called = |name: &str| {
        let stated = parse(&format!("// launch: grid=1 block=1 kernel={name}\n"));
        let prepared = stated.prepare(&ctx, INSTANCES);
        prepared.map(|prepared| prepared.kernel().to_owned())
    };
    for (name, kernel) in [
        ("_Z5scaleILi8EEvPf", "_Z5scaleILi8EEvPf"),
        ("scale<8>", "_Z5scaleILi8EEvPf"),
        ("scale<FOUR>", "_Z5scaleILi4EEvPf"),
        ("add<float,true>", "_Z3addIfLb1EEvPT_"),
        ("add", "_Z3addIfLb1EEvPT_"),
    ] {
        assert_eq!(called(name).unwrap(), kernel, "{name}");
    }
    let both = called("scale").unwrap_err().to_string();
    assert!(
        both.contains("name the kernel to launch; the file has scale<4>, scale<8>"),
        "{both}"
    );
    let none = called("scale<2>").unwrap_err().to_string();
    assert!(
        none.contains("the file has scale<4>, scale<8>, add<float, true>"),
        "{none}"
    );
}

#[test]
fn a_fault_is_the_drivers_error() {
    let error = run("// launch: grid=1 block=8 kernel=scale\n// args: f32[4]=iota f32=1 i32=8\n")
        .unwrap_err();
    let InvocationError::Gpu(gpu::Error::Driver { operation, .. }) = &error else {
        panic!("{error}")
    };
    assert_eq!(operation, "launching kernel scale");
}

#[test]
fn npy_files_are_read_as_numpy_writes_them() {
    // numpy.save of numpy.array([[1, 2], [3, -4]], dtype=numpy.float32), by NumPy 2.
    let mut file =
        b"\x93NUMPY\x01\x00v\x00{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }"
            .to_vec();
    file.resize(127, b' ');
    file.push(b'\n');
    for value in [1.0f32, 2.0, 3.0, -4.0] {
        file.extend(value.to_le_bytes());
    }
    let path = folder().join("two_by_two.npy");
    fs::write(&path, &file).unwrap();
    let argument = "f32=@two_by_two.npy";
    assert_eq!(
        through_the_device(argument, 16).to_f64(),
        [1.0, 2.0, 3.0, -4.0]
    );
    assert_eq!(
        through_the_device(&argument.replace("f32=", "f32[]="), 16).len(),
        4
    );

    let refused = |ty: &str, change: &dyn Fn(Vec<u8>) -> Vec<u8>, reason: &str| {
        let path = folder().join("changed.npy");
        fs::write(&path, change(file.clone())).unwrap();
        let ty = Type::parse(ty).unwrap();
        let error = Values::read_npy(&path, ty).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    };
    let replaced = |from: &'static str, to: &'static str| {
        move |file: Vec<u8>| {
            let at = file
                .windows(from.len())
                .position(|part| part == from.as_bytes())
                .unwrap();
            [&file[..at], to.as_bytes(), &file[at + from.len()..]].concat()
        }
    };
    refused("i32", &|file| file, "its elements are \"<f4\", not i32");
    refused(
        "f32",
        &replaced("<f4", ">f4"),
        "its elements are \">f4\", not f32",
    );
    refused("f32", &replaced("False", "True "), "column-major order");
    refused(
        "f32",
        &replaced("(2, 2)", "(2, 3)"),
        "its header promises 24 bytes, 16 follow",
    );
    refused(
        "f32",
        &replaced("'shape'", "'shade'"),
        "its header has no shape",
    );
    refused("f32", &|file| file[..60].to_vec(), "its header is cut off");
    refused("f32", &|file| file[..7].to_vec(), "it is not a .npy file");
    refused(
        "f32",
        &replaced("NUMPY\x01", "NUMPY\x09"),
        "version 9 of the .npy format is not known",
    );
    refused("f32", &|_| b"text".to_vec(), "it is not a .npy file");
}

#[test]
fn npy_files_are_written_so_that_they_read_back() {
    let path = folder().join("written.npy");
    for (argument, bytes) in [
        ("u8[3]=iota", 3),
        ("f64[5]={1,nan,-inf,0.1,-0}", 40),
        ("bf16[64]=random", 128),
        ("i16[33]=random", 66),
    ] {
        let values = through_the_device(argument, bytes);
        values.write_npy(&path).unwrap();
        assert_eq!(Values::read_npy(&path, values.ty()).unwrap(), values);
        let file = fs::read(&path).unwrap();
        assert_eq!((file.len() - bytes) % 64, 0, "NumPy aligns the elements");
    }
    let nowhere = folder().join("no/such/folder.npy");
    assert!(
        Values::from_bits(Type::U8, [1])
            .write_npy(&nowhere)
            .is_err()
    );
}
