//! Structs and vectors as arguments: their fields lie where C puts them, and what does not fit is
//! named by argument and field.

use std::path::Path;

use gpu_launch::{Argument, Invocation, InvocationError, LaunchError, Position, Values};
use gpu_tool::kernel_file::KernelFile;

use crate::common::{device, root};

/// A kernel that copies its second parameter, a struct, into its first, byte by byte.
fn dump(bytes: usize, align: usize) -> String {
    let copies: String = (0..bytes)
        .map(|i| format!("\tld.param.u8 %h1, [s+{i}];\n\tst.global.u8 [%d1+{i}], %h1;\n"))
        .collect();
    format!(
        ".version 8.4\n.target sm_75\n.address_size 64\n\
         .visible .entry dump(.param .u64 out, .param .align {align} .b8 s[{bytes}])\n{{\n\
         \t.reg .b16 %h<2>;\n\t.reg .b64 %d<2>;\n\tld.param.u64 %d1, [out];\n{copies}\tret;\n}}\n"
    )
}

fn launched(
    ptx: &str,
    arguments: &str,
) -> Result<Vec<(Position, Values)>, LaunchError<gpu::Refusal>> {
    let text = format!("// launch: grid=1 block=1\n{arguments}\n");
    Invocation::parse(&text, Path::new(""))?.run(&device(), ptx)
}

/// The bytes of a struct as a kernel sees it.
fn seen(argument: &str, bytes: usize, align: usize) -> Vec<u8> {
    let arguments = format!("// args: u8[{bytes}]=zeros {argument}");
    let buffers = launched(&dump(bytes, align), &arguments);
    let buffers = buffers.unwrap_or_else(|error| panic!("{argument}: {error}"));
    buffers[0].1.bytes().to_vec()
}

#[test]
fn fields_lie_where_c_puts_them() {
    let mut expected = [0u8; 40]; // struct { char; struct { short; long long; char; }; int; }
    expected[0] = 7;
    expected[8..10].copy_from_slice(&(-2i16).to_le_bytes());
    expected[16..24].copy_from_slice(&i64::MIN.to_le_bytes());
    expected[24] = 9;
    expected[32..36].copy_from_slice(&5i32.to_le_bytes());
    let written = "{u8=7,{i16=-2,i64=-9223372036854775808,u8=9},i32=5}";
    assert_eq!(seen(written, 40, 8), expected);
}

#[test]
fn later_scalars_need_only_their_values() {
    let expected: Vec<u8> = [1.5f32, -2.0, 0.25]
        .iter()
        .flat_map(|x| x.to_le_bytes())
        .chain(3u16.to_le_bytes())
        .chain(4u16.to_le_bytes())
        .collect();
    assert_eq!(seen("{f32=1.5,-2,0.25,u16=3,4}", 16, 4), expected);
}

#[test]
fn the_alignment_of_the_struct_adds_to_its_end() {
    // struct __align__(16) { float x, y, z; }
    let bytes = seen("alignas(16){f32=1,2,3}", 16, 16);
    assert_eq!(bytes[8..12], 3.0f32.to_le_bytes());
    assert_eq!(bytes[12..], [0; 4]);
}

#[test]
fn a_compiled_kernel_reads_vectors_and_aligned_structs() {
    let path = root().join("gpu/kernels/parameters_check.cu");
    let file = KernelFile::read(&path).unwrap();
    let ptx = file.compile(&[]).unwrap().ptx; // committed
    let stated = Invocation::parse(file.text(), Path::new("")).unwrap();
    let buffers = stated.run(&device(), &ptx).unwrap();
    let [expected] = &stated.expectations[..] else {
        panic!("{:?}", stated.expectations)
    };
    expected.compare(&buffers).unwrap();
}

#[test]
fn an_argument_that_fits_only_by_its_padding_is_refused() {
    // The parameter is struct { int; float4; }, or one that `__align__(16)` makes longer: nobody
    // can tell which.
    for argument in [
        "{i32=5,{f32=1,2,3,4}}",
        "{i32=5,f32=1,2,3,4}",
        "{i32=1,2,3,4,5,6,7,8}",
    ] {
        let arguments = format!("// args: u8[32]=zeros {argument}");
        let error = launched(&dump(32, 16), &arguments).unwrap_err();
        let misfit = "is aligned to 4 bytes, but the parameter of kernel dump to 16";
        assert!(error.to_string().contains(misfit), "{argument}: {error}");
    }
}

#[test]
fn a_vector_is_a_field_of_its_own_alignment() {
    // struct { int; float4; }
    let mut expected = [0u8; 32];
    expected[..4].copy_from_slice(&5i32.to_le_bytes());
    for (at, value) in [1.0f32, 2.0, -3.0, 0.5].iter().enumerate() {
        expected[16 + 4 * at..][..4].copy_from_slice(&value.to_le_bytes());
    }
    assert_eq!(seen("{i32=5, f32x4={1, 2, -3, 0.5}}", 32, 16), expected);
    // struct { char; __half2; }
    let halves = [7, 0, 0, 0, 0, 0x3c, 0, 0xc0];
    assert_eq!(seen("{u8=7,f16x2={1,-2}}", 8, 4), halves);
}

#[test]
fn blanks_and_lines_may_part_the_fields() {
    let written = "{{i32=1,\t2}, // args:".replace(" // args:", "\n// args:  i32=3 , 4 }");
    let bytes: Vec<u8> = [1i32, 2, 3, 4]
        .iter()
        .flat_map(|x| x.to_le_bytes())
        .collect();
    assert_eq!(seen(&written, 16, 4), bytes);
}

#[test]
fn a_field_may_be_a_buffer() {
    let ptx = "\
.version 8.4
.target sm_75
.address_size 64
.visible .entry swap(.param .align 8 .b8 s[24])
{
\t.reg .f32 %f<3>;
\t.reg .b64 %d<3>;
\tld.param.u64 %d1, [s+8];
\tld.param.u64 %d2, [s+16];
\tld.global.f32 %f1, [%d1];
\tld.global.f32 %f2, [%d2+4];
\tst.global.f32 [%d1], %f2;
\tst.global.f32 [%d2+4], %f1;
\tret;
}
";
    let arguments = "// args: {i32=1,f32[1]={5},f32[2]=iota}\n\
                     // expect 0.1: f32 1\n// expect 0.2: f32 0 5";
    let buffers = launched(ptx, arguments).unwrap();
    let names: Vec<String> = buffers.iter().map(|(place, _)| place.to_string()).collect();
    assert_eq!(names, ["0.1", "0.2"]);
    let stated = Invocation::parse(arguments, Path::new("")).unwrap();
    let compared: Vec<bool> = stated
        .expectations
        .iter()
        .map(|expected| expected.compare(&buffers).is_ok())
        .collect();
    assert_eq!(compared, [true, true]);
    let scalar = format!("{arguments}\n// expect 0.0: i32 1");
    let error = Invocation::parse(&scalar, Path::new(""))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("argument 0.0 (i32=1) is no buffer"),
        "{error}"
    );
    let no_buffer = |position: &str| {
        let position: Position = position.parse().unwrap();
        position.no_buffer(buffers.iter().map(|(place, _)| place))
    };
    assert_eq!(
        no_buffer("0"),
        "argument 0 is no buffer (its buffers: 0.1, 0.2)"
    );
    assert_eq!(no_buffer("0.0"), "argument 0.0 is no buffer");
}

#[test]
fn random_fields_are_unlike_each_other_and_all_arguments() {
    let nothing = ".version 8.4\n.target sm_75\n.address_size 64\n.visible .entry nothing(\
                   .param .u64 a, .param .align 8 .b8 s[16])\n{\n\tret;\n}\n";
    let buffers = launched(
        nothing,
        "// args: u64[4]=random {u64[4]=random,u64[4]=random}",
    )
    .unwrap();
    let [(_, a), (_, b), (_, c)] = &buffers[..] else {
        panic!("{buffers:?}")
    };
    assert!(a != b && b != c && a != c);
}

#[test]
fn a_value_does_not_go_on_in_the_next_line() {
    let error = launched("", "// args: {i32=1,2\n// args:3,4}").unwrap_err();
    assert!(
        error
            .to_string()
            .contains("field 1 (2 3): \"2 3\" is no i32"),
        "{error}"
    );
}

#[test]
fn structs_lie_within_each_other_up_to_a_limit() {
    let nested = |depth| format!("{}i32=7{}", "{".repeat(depth), "}".repeat(depth));
    assert_eq!(seen(&nested(16), 4, 4), 7i32.to_le_bytes());
    for depth in [17, 30_000] {
        let argument = format!("{{u8=1,{}}}", nested(depth - 1));
        let error = Argument::parse(&argument).unwrap_err();
        assert!(error.starts_with("field 1 ({{{"), "{depth}: {error:.200}");
        assert!(
            error.ends_with(": more than 16 structs lie within each other"),
            "{depth}: {error:.200}"
        );
        assert!(error.len() < 2000, "{depth}: {} bytes", error.len());
        let line = launched("", &format!("// args: {argument}")).unwrap_err();
        let LaunchError::Stated(line) = line else {
            panic!("{line}")
        };
        assert!(matches!(line, InvocationError::BadLine { line: 2, .. }));
    }
}

#[test]
fn what_cannot_be_read_is_named_by_argument_and_field() {
    let cases = [
        (
            "i32=1 {i32=1,f33=2}",
            "argument 1 ({i32=1,f33=2}): field 1 (f33=2): \"f33\" is no type",
        ),
        ("{i32=1,2.5}", "field 1 (2.5): \"2.5\" is no i32"),
        (
            "{{u8=1,256}}",
            "field 0 ({u8=1,256}): field 1 (256): 256 is beyond the range of u8",
        ),
        ("{1,2}", "field 0 (1): a field is TYPE=VALUE"),
        ("{f32[1]=ones,2}", "field 1 (2): a field is TYPE=VALUE"),
        ("{null,2}", "field 1 (2): a field is TYPE=VALUE"),
        ("{}", "field 0 (): a field is TYPE=VALUE"),
        ("{i32=1}2", "the struct lacks its closing brace"),
        ("{i32=1", "line 2: a brace is not closed"),
        ("i32=1}", "\"1}\" is no i32"),
        (
            "{u8=1,f32x4={1,2,3}}",
            "field 1 (f32x4={1,2,3}): 3 values for a f32x4",
        ),
        ("f32x4=1,2,3,4", "\"1,2,3,4\" is not values in braces"),
        ("f32x4={1,2,3,4", "line 2: a brace is not closed"),
        ("f32x4={1,2,3,4}5", "the list lacks its closing brace"),
        ("u8x2={1,256}", "256 is beyond the range of u8"),
        ("f32x1={1}", "a vector is f32x2, f32x3 or f32x4"),
        ("f32x={1}", "a vector is f32x2, f32x3 or f32x4"),
        ("maxi=1", "\"maxi\" is no type"),
        (
            "f32x4[8]=iota",
            "a buffer of vectors is one of their elements, f32[COUNT]=INIT",
        ),
        ("{f32x2={1,2},3}", "field 1 (3): a field is TYPE=VALUE"),
        ("alignas(12){i32=1}", "\"12\" is no alignment"),
        ("alignas(0){i32=1}", "\"0\" is no alignment"),
        ("alignas(8192){i32=1}", "\"8192\" is no alignment"),
        (
            "alignas(16)i32=1",
            "alignas(…) stands right before the braces",
        ),
        ("alignas(16", "alignas(…) stands right before the braces"),
    ];
    for (arguments, reason) in cases {
        let error = launched("", &format!("// args: {arguments}")).unwrap_err();
        assert!(
            matches!(
                error,
                LaunchError::Stated(InvocationError::BadLine { line: 2, .. })
            ),
            "{arguments}: {error}"
        );
        assert!(error.to_string().contains(reason), "{arguments}: {error}");
    }
}

#[test]
fn a_struct_of_another_size_is_refused() {
    let refused = |argument: &str, bytes| {
        let arguments = format!("// args: u8[8]=zeros {argument}");
        launched(&dump(bytes, 8), &arguments)
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        refused("{i64=1,i32=2}", 24),
        "argument 1 ({i64=1,i32=2}) has 16 bytes, but the parameter of kernel dump has 24"
    );
    assert_eq!(
        refused("u64=1", 24),
        "argument 1 (u64=1) has 8 bytes, but the parameter of kernel dump has 24: a struct, written with its fields in \
         braces, like {i64=4096,64,1,f32=0.5}"
    );
    assert_eq!(
        refused("{i32=1,2,3,4,5,6}", 24),
        "argument 1 ({i32=1,i32=2,i32=3,i32=4,i32=5,i32=6}) is aligned to 4 bytes, but the parameter of kernel dump to 8: CUDA's vectors are \
         written like f32x4={1,2,3,4}, a struct with __align__(8) like alignas(8){f32=1,2}"
    );
    assert_eq!(
        refused("f32x4={1,2,3,4}", 16),
        "argument 1 (f32x4={1,2,3,4}) is aligned to 16 bytes, but the parameter of kernel dump to 8"
    );
    let fields = vec!["0"; 512].join(",");
    assert_eq!(
        refused(&format!("{{i64=0,{fields}}}"), 4104),
        "parameter 1 of kernel dump has 4104 bytes; more than 4096 are not passed"
    );
}

#[test]
fn a_struct_that_no_launch_passes_may_be_large() {
    let fields = ["1"; 600].join(",");
    let text = format!("// launch: grid=1 block=1 pass=\n// args: {{i64={fields}}}\n");
    let ptx = ".version 8.4\n.target sm_75\n.address_size 64\n.visible .entry nothing() { ret; }\n";
    let stated = Invocation::parse(&text, Path::new("")).unwrap();
    assert!(stated.run(&device(), ptx).unwrap().is_empty());
}
