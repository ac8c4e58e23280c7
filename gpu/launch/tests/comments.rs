//! Comments of kernel files: read, misspelt, refused.

use std::path::Path;

use gpu_launch::{Argument, Init, Invocation, Position, Type, Values};

fn parse(text: &str) -> Invocation {
    Invocation::parse(text, Path::new("/folder")).unwrap()
}

/// The buffers of a launch whose only one is argument 0.
fn first(values: Values) -> [(Position, Values); 1] {
    [(0.into(), values)]
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
    let [launch] = &stated.launches[..] else {
        panic!("{:?}", stated.launches)
    };
    assert_eq!(launch.kernel.as_deref(), Some("scale"));
    assert_eq!(
        (launch.grid, launch.block),
        (Some([4, 5, 1]), Some([64, 1, 1]))
    );
    assert_eq!((launch.shared, &launch.pass), (1024, &None));
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
            "\"threads\" is none of grid, block, shared, cooperative, kernel and pass",
        ),
        ("// launch: grid", "\"grid\" is not KEY=VALUE"),
        (
            "// launch: cooperative=maybe",
            "cooperative is yes or no, not \"maybe\"",
        ),
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
            "// launch: grid=1\n// launch: grid=1 pass=0,x",
            "\"0,x\" is not numbers of arguments, like 0,2",
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
                 // Launch: one block for each row; grid=4 will do\n// Expect: nothing\n\
                 // Expected 4: of five\n\
                 // expect the unexpected: f32\n// define, if you like: N=4\n// area: n=4\n// are: n=4\n// each: x=1\n\
                 // lunch at noon: grid=1\n// refined: the grid=4\n// arch: compute_80\n\
                 // march: compute-bound\n\
                 // launch it with grid=4\n// args i32 and f32\n// define N=4 for this\n\
                 // expect 4 of them\n\
                 //\n// :\n// ::\n//: x=1\n// é: x=1\n  // arg: i32=1\nint x; // arg: i32=1\n\
                 /// grid=1: x\n";
    assert_eq!(parse(prose), Invocation::default());
}
