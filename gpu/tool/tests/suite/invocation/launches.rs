//! Launches as they are stated: buffers, kernels and their parameters, what does not fit.

use std::path::Path;

use gpu_launch::{Argument, Entry, Invocation, InvocationError, LaunchError, entries};

use super::{PTX, parse, run, through_the_device};
use crate::common::device;

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
fn several_launches_run_in_order_on_the_same_arguments() {
    let launches = |second: &str| {
        format!(
            "// launch: grid=2 block=4 kernel=scale pass=0,1,2\n// launch: grid=1 block=8 kernel=scale {second}\n\
             // args: f32[8]=iota f32=0.5 i32=7 f32=4\n// expect 0: f32 0 2 4 6 8 10 12 7\n"
        )
    };
    let twice = launches("pass=0,3,2");
    let read = run(&twice).unwrap();
    parse(&twice).expectations[0].compare(&read).unwrap();
    assert!(matches!(
        run(&launches("pass=0,4,2")).unwrap_err(),
        LaunchError::Stated(InvocationError::NoSuchArgument { number: 4, .. })
    ));
    assert!(matches!(
        run(&launches("")).unwrap_err(),
        LaunchError::Stated(InvocationError::ArgumentCount { arguments: 4, .. })
    ));
}

/// `count(u32*)` adds 1 to a `__device__` variable and stores it; `nothing()`.
const COUNTING: &str = "\
.version 8.4
.target sm_75
.address_size 64
.global .align 4 .u32 counter = 40;
.visible .entry count(.param .u64 c0)
{
	.reg .b32 %r<3>;
	.reg .b64 %d<2>;
	ld.param.u64 %d1, [c0];
	ld.global.u32 %r1, [counter];
	add.u32 %r2, %r1, 1;
	st.global.u32 [counter], %r2;
	st.global.u32 [%d1], %r2;
	ret;
}
.visible .entry nothing()
{
	ret;
}
";

#[test]
fn launches_share_device_variables_and_may_pass_nothing() {
    let counted = "// launch: grid=1 block=1 kernel=count\n// launch: grid=1 block=1 kernel=nothing pass=\n\
                   // launch: grid=1 block=1 kernel=count\n// args: u32[1]=uninit\n\
                   // expect 0: u32 42\n";
    for _ in 0..2 {
        let read = parse(counted).run(&device(), COUNTING);
        parse(counted).expectations[0]
            .compare(&read.unwrap())
            .unwrap();
    }
    let launch = "// launch: grid=1 block=1 kernel=count\n";
    assert_eq!(parse(&launch.repeat(64)).launches.len(), 64);
    let error = Invocation::parse(&launch.repeat(65), Path::new("")).unwrap_err();
    assert!(
        matches!(error, InvocationError::BadLine { line: 65, .. }),
        "{error}"
    );
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
    let device = device();
    for count in ["18446744073709551615", "99999999999999999999"] {
        let ptx = format!(".visible .entry huge(.param .align 2 .b16 s[{count}])\n{{ ret; }}\n");
        for argument in ["u16=1", "{u16=1}"] {
            let stated = parse(&format!("// launch: grid=1 block=1\n// args: {argument}\n"));
            let error = stated.run(&device, &ptx).unwrap_err();
            let misfit = format!("the parameter of kernel huge has {}", usize::MAX);
            assert!(error.to_string().contains(&misfit), "{count}: {error}");
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
            "kernel scale needs 3 arguments; passed: 2",
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
    let device = device();
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
        let error = stated.run(&device, PTX).unwrap_err().to_string();
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
    let device = device();
    let called = |name: &str| {
        let stated = parse(&format!("// launch: grid=1 block=1 kernel={name}\n"));
        let prepared = stated.prepare(&device, INSTANCES);
        prepared.map(|prepared| prepared.kernels().collect::<String>())
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
fn what_the_driver_refuses_is_its_error() {
    let error =
        run("// launch: grid=1 block=2048 kernel=scale\n// args: f32[4]=iota f32=1 i32=4\n")
            .unwrap_err();
    let LaunchError::Device { operation, .. } = &error else {
        panic!("{error}")
    };
    assert_eq!(operation, "launching kernel scale");
}
