//! The README's table of classes.

use std::collections::BTreeMap;

use crate::common::kernels;

#[test]
fn the_table_of_classes_counts_the_files() {
    let mut counts = BTreeMap::new();
    for kernel in kernels("") {
        *counts.entry(kernel.class().to_owned()).or_insert(0) += 1;
        let (class, marked) = (kernel.class(), &kernel.invocation.marked);
        let prefix = match class {
            "none" => "clean_".to_owned(),
            class => format!("bug_{}_", class.replace(' ', "_")),
        };
        assert!(kernel.file.starts_with(&prefix), "{}: {class}", kernel.file);
        let unmarked = matches!(class, "none" | "launch limit" | "wrong result");
        assert_eq!(marked.is_empty(), unmarked, "{}: {marked:?}", kernel.file);
    }
    let table = include_str!("../README.md")
        .lines()
        .filter_map(|line| {
            let mut cells = line.strip_prefix("| ")?.split(" | ");
            Some((cells.next()?.to_owned(), cells.next()?.parse().ok()?))
        })
        .collect::<BTreeMap<String, i32>>();
    assert_eq!(table, counts);
}
