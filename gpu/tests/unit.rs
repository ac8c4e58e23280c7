//! What a unit contains, and that its key depends on all of it.

use gpu::unit::Unit;

/// A package with a kernel that includes two headers, one of them through the other, and names a third in a comment.
fn read(name: &str) -> Result<Option<String>, gpu::Error> {
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
fn headers_are_found_through_headers_and_bear_virtual_names() {
    let unit = unit(&[]);
    let names: Vec<&str> = unit
        .headers()
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
        let edited = move |name: &str| {
            let text = read(name)?;
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
        let read = |_: &str| Ok(Some("int x;\n".to_owned()));
        Unit::new(package, file, &[], read).unwrap().unwrap().key()
    };
    assert_ne!(key("p", "a.cu"), key("p", "b.cu"));
    assert_ne!(key("p", "a.cu"), key("q", "a.cu"));
}
