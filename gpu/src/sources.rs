//! Source texts that faults and profiles name.

use std::collections::BTreeMap;

use cuda_sim::Fault;

use crate::unit::{Unit, shown};

/// Source texts of a PTX text, by the file names in faults and profiles.
#[derive(Debug, Clone, Default)]
pub struct Sources(BTreeMap<String, String>);

impl Sources {
    /// The files, by name.
    pub fn files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, text)| (&**name, &**text))
    }

    /// The text of a file.
    pub fn text(&self, file: &str) -> Option<&str> {
        self.0.get(file).map(String::as_str)
    }

    /// No text.
    pub const fn new() -> Sources {
        Sources(BTreeMap::new())
    }

    /// Adds a text under the name of its file.
    pub fn insert(&mut self, file: &str, text: String) {
        self.0.insert(file.to_owned(), text);
    }

    /// Adds the kernel file and the headers of a unit.
    pub fn add(&mut self, unit: &Unit) {
        for header in &unit.headers {
            self.insert(shown(&header.name), header.text.clone());
        }
        self.insert(&unit.path(), unit.source.clone());
    }

    /// The source lines that a fault names, each after a blank line and a line with its place,
    /// between its neighbours and marked by `>`. Empty if their texts are not here.
    pub fn quotes(&self, fault: &Fault) -> String {
        let places = fault.places().into_iter();
        let quotes = places.filter_map(|(file, line)| self.quote(file, *line));
        quotes.map(|quote| format!("\n{quote}")).collect()
    }

    /// A source line between its neighbours.
    fn quote(&self, file: &str, line: u32) -> Option<String> {
        let lines: Vec<&str> = self.text(file)?.lines().collect();
        let index = usize::try_from(line).ok()?.checked_sub(1)?;
        lines.get(index)?;
        let mut text = format!("{file}:{line}\n");
        let first = index.saturating_sub(NEIGHBOURS);
        let quoted = lines.iter().enumerate().skip(first);
        for (at, line) in quoted.take(index + 1 + NEIGHBOURS - first) {
            let mark = if at == index { '>' } else { ' ' };
            text += format!("{mark} {:>4} | {line}", at + 1).trim_end();
            text.push('\n');
        }
        Some(text)
    }
}

/// Source lines quoted before and after the one that a fault names.
const NEIGHBOURS: usize = 2;
