//! Contents of a unit; its key depends on all of them.

use gpu::unit::{Folder, Unit};

/// A package with a kernel that includes two headers, one of them through the other, and names a
/// third in a comment.
fn read(folder: Folder<'_>, name: &str) -> Result<Option<String>, gpu::Error> {
    if folder != Folder::Own {
        return Ok(None);
    }
    let text = match name {
        "a.cu" => {
            "#include \"tile.cuh\"\n  #  include \"prelude.cuh\"\n// see \"other.cuh\"\nint x;\n"
        }
        "tile.cuh" => "#include \"row.cuh\"\n#include <missing>\n",
        "row.cuh" => "#include \"tile.cuh\"\n",
        "other.cuh" => "not included\n",
        _ => return Ok(None),
    };
    Ok(Some(text.to_owned()))
}

fn unit(constants: &[(&str, &str)]) -> Unit {
    Unit::new("p", "a.cu", constants, read).unwrap().unwrap()
}

#[test]
fn the_byte_order_mark_of_a_file_is_left_out() {
    let marked = |folder: Folder<'_>, name: &str| {
        let text = read(folder, name)?;
        Ok(text.map(|text| format!("\u{feff}{text}")))
    };
    let marked = Unit::new("p", "a.cu", &[], marked).unwrap().unwrap();
    assert_eq!(marked.source, unit(&[]).source);
    assert_eq!(marked.key(), unit(&[]).key());
}

#[test]
fn headers_are_found_through_headers_and_bear_virtual_names() {
    let unit = unit(&[]);
    let names: Vec<&str> = unit
        .headers
        .iter()
        .map(|header| header.name.as_str())
        .collect();
    assert_eq!(
        names,
        [
            "/k/gpu/kernels/prelude.cuh",
            "/k/p/kernels/row.cuh",
            "/k/p/kernels/tile.cuh"
        ]
    );
    assert_eq!(unit.virtual_name(), "/k/p/kernels/a.cu");
    assert_eq!(unit.path(), "p/kernels/a.cu");
}

#[test]
fn the_key_does_not_depend_on_the_order_of_constants() {
    assert_eq!(
        unit(&[("A", "1"), ("B", "2")]).key(),
        unit(&[("B", "2"), ("A", "1")]).key()
    );
    assert_eq!(unit(&[]).key().len(), 64);
}

#[test]
fn the_key_depends_on_all_that_the_compiler_sees() {
    let changed = |package: &str, file: &'static str, from: &'static str, to: &'static str| {
        let edited = move |folder: Folder<'_>, name: &str| {
            let text = read(folder, name)?;
            Ok(if name == file {
                text.map(|text| text.replace(from, to))
            } else {
                text
            })
        };
        Unit::new(package, "a.cu", &[("A", "1")], edited)
            .unwrap()
            .unwrap()
            .key()
    };
    let mut keys = vec![
        unit(&[("A", "1")]).key(),
        unit(&[("A", "2")]).key(),
        unit(&[("A", "1"), ("B", "")]).key(),
        changed("q", "", "", ""),
        changed("p", "a.cu", "int x", "int y"),
        changed(
            "p",
            "a.cu",
            "#include \"tile",
            "// arch: compute_80\n#include \"tile",
        ),
        changed("p", "row.cuh", "\n", "\n\n"),
    ];
    assert_eq!(changed("p", "", "", ""), keys[0]);
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), 7);
}

#[test]
fn the_key_depends_on_the_name_alone() {
    let key = |package: &str, file: &str| {
        let read = |_: Folder<'_>, _: &str| Ok(Some("int x;\n".to_owned()));
        Unit::new(package, file, &[], read).unwrap().unwrap().key()
    };
    assert_ne!(key("p", "a.cu"), key("p", "b.cu"));
    assert_ne!(key("p", "a.cu"), key("q", "a.cu"));
}

/// A kernel of package `upper` that includes a header of package `lower`, which includes one beside
/// it. Both packages have a `problem.cuh`.
fn read_two_packages(folder: Folder<'_>, name: &str) -> Result<Option<String>, gpu::Error> {
    let text = match (folder, name) {
        (Folder::Own, "a.cu") => "#include \"problem.cuh\"\n#include \"lower/mask.cuh\"\n",
        (Folder::Own, "problem.cuh") => "struct Problem {};\n",
        (Folder::Own, "b.cu") => "#include \"lower/none.cuh\"\n",
        (Folder::Own, "c.cu") => "#include \"lower/c.h\"\n#include \"none.cuh\"\n",
        (Folder::Package("lower"), "mask.cuh") => {
            "#pragma once\n#include \"prelude.cuh\"\n # include \"problem.cuh\" // sizes\n"
        }
        (Folder::Package("lower"), "problem.cuh") => "#include \"mask.cuh\"\n",
        _ => return Ok(None),
    };
    Ok(Some(text.to_owned()))
}

#[test]
fn a_header_of_another_package_is_included_by_its_package() {
    let unit = Unit::new("upper", "a.cu", &[], read_two_packages);
    let unit = unit.unwrap().unwrap();
    let headers = unit.headers.iter();
    let headers: Vec<_> = headers
        .map(|header| (&*header.include, &*header.name, &*header.text))
        .collect();
    assert_eq!(
        headers[..2],
        [
            (
                "lower/mask.cuh",
                "/k/lower/kernels/mask.cuh",
                "#pragma once\n#include \"prelude.cuh\"\n # include \"lower/problem.cuh\" // sizes\n"
            ),
            (
                "lower/problem.cuh",
                "/k/lower/kernels/problem.cuh",
                "#include \"lower/mask.cuh\"\n"
            ),
        ]
    );
    let rest: Vec<_> = headers[2..].iter().map(|header| header.1).collect();
    assert_eq!(
        rest,
        ["/k/gpu/kernels/prelude.cuh", "/k/upper/kernels/problem.cuh"]
    );
}

#[test]
fn the_key_depends_on_headers_of_other_packages() {
    let key = |edited: &str| {
        let read = |folder: Folder<'_>, name: &str| {
            let text = read_two_packages(folder, name)?;
            let edit = folder == Folder::Package("lower") && name == edited;
            Ok(text.map(|text| if edit { text + "\n" } else { text }))
        };
        Unit::new("upper", "a.cu", &[], read)
            .unwrap()
            .unwrap()
            .key()
    };
    let (mask, problem, none) = (key("mask.cuh"), key("problem.cuh"), key(""));
    assert!(mask != problem && mask != none && problem != none);
}

#[test]
fn a_missing_header_of_another_package_is_named() {
    let error = Unit::new("upper", "b.cu", &[], read_two_packages).unwrap_err();
    assert!(
        matches!(&error, gpu::Error::NoSuchHeader { file, header }
            if file == "upper/kernels/b.cu" && header == "lower/none.cuh"),
        "{error}"
    );
    // The compiler reports other names than <package>/<file>.cuh.
    let unit = Unit::new("upper", "c.cu", &[], read_two_packages);
    assert!(unit.unwrap().unwrap().headers.is_empty());
}
