//! What nvcc does for a file and NVRTC does not: headers before it, functions without a mark.

use std::collections::BTreeSet;

use gpu::library_headers;
use gpu::unit::Unit;

use super::declarations::BEFORE_PARENTHESES;
use super::tokens::{Kind, tokens};

/// The header that is included before a program.
const IMPLICIT: &str = "nvcc.h";

/// Headers that nvcc includes before every file.
const OF_NVCC: [&str; 4] = ["cstdint", "cstddef", "cmath", "cstdlib"];

/// Further such headers, and the beginnings of the names of their templates: they are included if a
/// text has such a name.
const TEMPLATES_OF_NVCC: [(&str, &[&str]); 3] = [
    ("algorithm", &["std::min", "std::max", "std::clamp"]),
    ("limits", &["std::numeric_limits"]),
    (
        "type_traits",
        &[
            "std::is_",
            "std::conditional",
            "std::enable_if",
            "std::decay",
            "std::remove_",
            "std::integral_constant",
            "std::bool_constant",
            "std::true_type",
            "std::false_type",
        ],
    ),
];

/// Compiles functions without a mark for the device. Those of the host are left out before.
pub(super) fn mark_all(unit: &mut Unit) {
    let option = "--device-as-default-execution-space".to_owned();
    unit.options.push(option);
}

/// Adds the headers that nvcc includes before a program, and takes missing headers in angle
/// brackets as empty, except CUDA's for kernels.
pub(super) fn add_headers(unit: &mut Unit) {
    for missing in &mut unit.missing {
        missing.is_empty |= !missing.quoted && !library_headers::is_of_device(&missing.include);
    }
    let headers = unit.headers.iter().map(|header| &*header.text);
    let texts: Vec<&str> = headers.chain([&*unit.source]).collect();
    let needed = templates(&texts);
    let mut implicit: String = OF_NVCC
        .into_iter()
        .filter_map(library_headers::text)
        .collect();
    for name in needed {
        let text = library_headers::text(name).unwrap_or_default();
        unit.add_library_header(name, text);
        implicit += &format!("#include <{}>\n", library_headers::given_name(name));
    }
    unit.add_library_header(IMPLICIT, implicit);
    let name = library_headers::given_name(IMPLICIT);
    unit.options.push(format!("--pre-include={name}"));
}

/// The headers of [`TEMPLATES_OF_NVCC`] whose templates the texts name.
fn templates(texts: &[&str]) -> Vec<&'static str> {
    let named = |name: &&str| texts.iter().any(|text| text.contains(*name));
    let needed = TEMPLATES_OF_NVCC.iter();
    let needed = needed.filter(|(_, names)| names.iter().any(named));
    needed.map(|(header, _)| *header).collect()
}

/// True if a text has a `constexpr` function without one of these marks, in a class or outside.
/// nvcc compiles it for host and device.
pub(super) fn has_unmarked_constant_function(text: &str, marks: &BTreeSet<&str>) -> bool {
    let (mut constant, mut marked, mut before) = (false, false, "");
    for token in tokens(text) {
        let word = match token.kind {
            Kind::Word => &text[token.range],
            _ => "",
        };
        match token.kind {
            Kind::Sign(b';' | b'{' | b'}' | b'=') => (constant, marked) = (false, false),
            Kind::Sign(b'(') if constant && !marked && !BEFORE_PARENTHESES.contains(&before) => {
                return true;
            }
            Kind::Word if marks.contains(word) => marked = true,
            Kind::Word => constant |= word == "constexpr" && before != "if",
            _ => {}
        }
        before = word;
    }
    false
}
