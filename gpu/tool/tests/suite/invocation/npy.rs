//! NumPy's files, read and written.

use std::fs;

use gpu_launch::{Type, Values};

use super::{folder, through_the_device};

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

/// numpy.save of numpy.arange(4).astype(ml_dtypes.bfloat16), by NumPy 2.4 and ml_dtypes 0.6.
#[test]
fn bf16_is_read_as_ml_dtypes_writes_it() {
    let mut file =
        b"\x93NUMPY\x01\x00v\x00{'descr': '<V2', 'fortran_order': False, 'shape': (4,), }".to_vec();
    file.resize(127, b' ');
    file.push(b'\n');
    file.extend(b"\x00\x00\x80?\x00@@@");
    let path = folder().join("bf16.npy");
    fs::write(&path, &file).unwrap();
    let values = Values::read_npy(&path, Type::Bf16).unwrap();
    assert_eq!(values.to_f64(), [0.0, 1.0, 2.0, 3.0]);
    assert!(Values::read_npy(&path, Type::F16).is_err());
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
