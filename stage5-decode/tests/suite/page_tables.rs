//! Page tables: each error, and random operations against a `Vec` of tokens for each sequence.

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};

use gpu::arguments::MAX_SIZE;
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use stage5_decode::paged::{BatchTables, PageCopy, PageError, PageTables, SequenceId};

const PAGES: usize = 40;
const PAGE_SIZE: usize = 16;

#[test]
fn sizes_of_pages_and_pools_are_checked() {
    for actual in [0, 15, 257] {
        let error = PageTables::new(1, actual).unwrap_err();
        assert_eq!(error, PageError::PageSize { actual });
    }
    for page_size in [16, 17, 256] {
        let limit = MAX_SIZE / page_size;
        let error = PageTables::new(limit + 1, page_size).unwrap_err();
        let actual = limit + 1;
        let expected = PageError::TooManyPages {
            page_size,
            limit,
            actual,
        };
        assert_eq!(error, expected);
    }
    assert_eq!(PageTables::new(0, 16).unwrap().pages(), 0);
}

#[test]
fn out_of_pages_leaves_every_sequence_intact() {
    let mut tables = PageTables::new(4, 16).unwrap();
    let [a, b] = [tables.create(), tables.create()];
    tables.append(&[(a, 20), (b, 20)]).unwrap();
    tables.append(&[(a, 12)]).unwrap(); // 32 tokens: both pages of a are full, none is free
    refuses(
        &mut tables,
        |tables| tables.append(&[(b, 1), (a, 1)]),
        PageError::OutOfPages { needed: 1, free: 0 },
    );
    refuses(
        &mut tables,
        |tables| tables.append(&[(a, usize::MAX), (b, usize::MAX)]),
        PageError::OutOfPages {
            needed: 2 * (usize::MAX / 16 + 1 - 2),
            free: 0,
        },
    );
    tables.append(&[(b, 12)]).unwrap(); // b had room
}

#[test]
fn pages_of_copy_on_write_count() {
    let mut tables = PageTables::new(3, 16).unwrap();
    let a = tables.create();
    tables.append(&[(a, 1)]).unwrap();
    let [b, c] = [tables.fork(a).unwrap(), tables.fork(a).unwrap()];
    let [d, e] = [tables.fork(b).unwrap(), tables.fork(c).unwrap()];
    assert_eq!(
        (tables.references(0), tables.references(3)),
        (Some(5), None)
    );
    refuses(
        &mut tables,
        |tables| tables.append(&[(a, 1), (b, 1), (c, 1)]),
        PageError::OutOfPages { needed: 3, free: 2 },
    );
    tables.free(d).unwrap();
    tables.free(e).unwrap();
    // Three hold the page: two take another, and the last writes in place.
    let copies = tables.append(&[(c, 15), (a, 15), (b, 15)]).unwrap();
    assert_eq!(copies, [1, 2].map(|to| PageCopy { from: 0, to }));
    assert_eq!(tables.table(b).unwrap(), [0]);
    refuses(
        &mut tables,
        |tables| tables.append(&[(b, 1)]),
        PageError::OutOfPages { needed: 1, free: 0 },
    );
}

#[test]
fn full_pages_and_empty_appends_copy_nothing() {
    let mut tables = PageTables::new(4, 16).unwrap();
    let a = tables.create();
    tables.append(&[(a, 16)]).unwrap();
    let b = tables.fork(a).unwrap();
    assert_eq!(tables.append(&[(a, 0), (b, 0)]).unwrap(), []);
    assert_eq!(tables.append(&[(a, 1), (b, 1)]).unwrap(), []);
    assert_eq!(tables.table(a).unwrap(), [0, 1]);
    assert_eq!(tables.table(b).unwrap(), [0, 2]);
    let c = tables.fork(b).unwrap();
    assert_eq!(tables.append(&[(b, 0), (c, 0)]).unwrap(), []);
}

#[test]
fn sequences_are_checked() {
    let mut tables = PageTables::new(4, 16).unwrap();
    let [a, b] = [tables.create(), tables.create()];
    tables.append(&[(a, 1), (b, 1)]).unwrap();
    tables.free(b).unwrap();
    let c = tables.create();
    assert_ne!(b, c, "a freed sequence does not come back");
    let unknown = PageError::UnknownSequence { sequence: b };
    refuses(
        &mut tables,
        |tables| tables.append(&[(a, 1), (b, 1)]),
        unknown.clone(),
    );
    refuses(
        &mut tables,
        |tables| tables.append(&[(b, 0)]),
        unknown.clone(),
    );
    refuses(&mut tables, |tables| tables.fork(b), unknown.clone());
    refuses(&mut tables, |tables| tables.truncate(b, 0), unknown.clone());
    refuses(&mut tables, |tables| tables.free(b), unknown.clone());
    assert_eq!(tables.table(b), Err(unknown.clone()));
    assert_eq!(tables.length(b), Err(unknown.clone()));
    assert_eq!(tables.batch(&[a, b]), Err(unknown));
    let repeated = PageError::RepeatedSequence { sequence: a };
    refuses(
        &mut tables,
        |tables| tables.append(&[(a, 1), (c, 1), (a, 1)]),
        repeated,
    );
}

#[test]
fn a_batch_is_padded() {
    let mut tables = PageTables::new(4, 16).unwrap();
    let [a, b, c] = [tables.create(), tables.create(), tables.create()];
    tables.append(&[(a, 17)]).unwrap();
    tables.append(&[(b, 3)]).unwrap();
    let expected = BatchTables {
        entries: vec![2, -1, -1, -1, 0, 1, 2, -1],
        columns: 2,
        lengths: vec![3, 0, 17, 3],
    };
    assert_eq!(tables.batch(&[b, c, a, b]).unwrap(), expected);
    assert_eq!(tables.batch(&[]).unwrap(), BatchTables::default());
}

/// The operation returns the error, and changes nothing.
fn refuses<T: std::fmt::Debug>(
    tables: &mut PageTables,
    operation: impl FnOnce(&mut PageTables) -> Result<T, PageError>,
    expected: PageError,
) {
    let before = tables.clone();
    assert_eq!(operation(tables).unwrap_err(), expected);
    assert_eq!(*tables, before);
}

/// 10,000 operations: 50 runs of 200, the same in every test run.
#[test]
fn random_operations_lose_and_alias_no_token() {
    let config = Config {
        cases: 50,
        failure_persistence: None,
        ..Config::default()
    };
    let random = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let [refused, copied] = [Cell::new(0), Cell::new(0)];
    TestRunner::new_with_rng(config, random)
        .run(&prop::collection::vec(operation(), 200), |operations| {
            let mut model = Model::new();
            for operation in &operations {
                model.apply(operation)?;
                model.check()?;
            }
            refused.set(refused.get() + model.refused);
            copied.set(copied.get() + model.copied);
            Ok(())
        })
        .unwrap_or_else(|error| panic!("{error}"));
    let (refused, copied) = (refused.get(), copied.get());
    assert!(refused > 100 && copied > 100, "{refused} {copied}");
}

/// An operation on sequences that are chosen by a random index.
#[derive(Debug, Clone)]
enum Operation {
    Create,
    /// To each sequence as many tokens as stand beside it.
    Append(Vec<(Index, usize)>),
    Fork(Index),
    /// To this length.
    Truncate(Index, usize),
    Free(Index),
}

fn operation() -> impl Strategy<Value = Operation> {
    let index = any::<Index>;
    let batch = prop::collection::vec((index(), 0..40usize), 1..5);
    prop_oneof![
        2 => Just(Operation::Create),
        8 => batch.prop_map(Operation::Append),
        3 => index().prop_map(Operation::Fork),
        1 => (index(), 0..100usize).prop_map(|(index, length)| Operation::Truncate(index, length)),
        3 => index().prop_map(Operation::Free),
    ]
}

/// Page tables beside the tokens of each sequence, and a pool in host memory that gets
/// the copies and the writes.
struct Model {
    tables: PageTables,
    sequences: Vec<(SequenceId, Vec<u32>)>,
    pool: Vec<u32>,
    /// Tokens so far; each is another number.
    tokens: u32,
    /// Appends for which there were not pages enough.
    refused: usize,
    copied: usize,
}

impl Model {
    fn new() -> Self {
        Self {
            tables: PageTables::new(PAGES, PAGE_SIZE).unwrap(),
            sequences: Vec::new(),
            pool: vec![u32::MAX; PAGES * PAGE_SIZE],
            tokens: 0,
            refused: 0,
            copied: 0,
        }
    }

    fn apply(&mut self, operation: &Operation) -> Result<(), TestCaseError> {
        match operation {
            Operation::Create => self.sequences.push((self.tables.create(), Vec::new())),
            _ if self.sequences.is_empty() => {}
            Operation::Append(batch) => {
                let rows = batch.iter().map(|(index, new)| {
                    let row = index.index(self.sequences.len());
                    (row, *new)
                });
                self.append(&Vec::from_iter(BTreeMap::from_iter(rows)))?;
            }
            Operation::Fork(index) => {
                let (sequence, tokens) = index.get(&self.sequences).clone();
                let free = self.tables.free_pages();
                let fork = self.tables.fork(sequence).unwrap();
                prop_assert_eq!(self.tables.free_pages(), free);
                self.sequences.push((fork, tokens));
            }
            Operation::Truncate(index, length) => {
                let row = index.index(self.sequences.len());
                let (sequence, model) = &mut self.sequences[row];
                self.tables.truncate(*sequence, *length).unwrap();
                model.truncate(*length);
            }
            Operation::Free(index) => {
                let row = index.index(self.sequences.len());
                let (sequence, _) = self.sequences.swap_remove(row);
                self.tables.free(sequence).unwrap();
                let unknown = Err(PageError::UnknownSequence { sequence });
                prop_assert_eq!(self.tables.append(&[(sequence, 1)]), unknown);
            }
        }
        Ok(())
    }

    /// Appends new tokens to sequences, given by their rows in `self.sequences`: copies pages, then
    /// writes the tokens, as a device would.
    fn append(&mut self, rows: &[(usize, usize)]) -> Result<(), TestCaseError> {
        let batch = Vec::from_iter(rows.iter().map(|&(row, new)| (self.sequences[row].0, new)));
        let before = self.tables.clone();
        let (needed, free) = (self.needed(rows), before.free_pages());
        let copies = match self.tables.append(&batch) {
            Ok(copies) => copies,
            Err(error) => {
                prop_assert!(needed > free);
                prop_assert_eq!(error, PageError::OutOfPages { needed, free });
                prop_assert_eq!(&self.tables, &before);
                self.refused += 1;
                return Ok(());
            }
        };
        prop_assert_eq!(self.tables.free_pages() + needed, free);
        self.copied += copies.len();
        for PageCopy { from, to } in copies {
            let [from, to] = [from, to].map(|page| page as usize * PAGE_SIZE);
            self.pool.copy_within(from..from + PAGE_SIZE, to);
        }
        for &(row, new) in rows {
            let (sequence, model) = &mut self.sequences[row];
            let table = self.tables.table(*sequence).unwrap();
            for _ in 0..new {
                let (page, slot) = (model.len() / PAGE_SIZE, model.len() % PAGE_SIZE);
                self.pool[table[page] as usize * PAGE_SIZE + slot] = self.tokens;
                model.push(self.tokens);
                self.tokens += 1;
            }
        }
        Ok(())
    }

    /// Pages that an append takes: for its tokens, and for all but one holder of a page
    /// that they are written to.
    fn needed(&self, rows: &[(usize, usize)]) -> usize {
        let (mut needed, mut writers) = (0, HashMap::<u32, u32>::new());
        for &(row, new) in rows {
            let (sequence, model) = &self.sequences[row];
            let table = self.tables.table(*sequence).unwrap();
            needed += (model.len() + new).div_ceil(PAGE_SIZE) - table.len();
            if new > 0 && model.len() % PAGE_SIZE > 0 {
                *writers.entry(*table.last().unwrap()).or_default() += 1;
            }
        }
        let copies = writers.into_iter().map(|(page, writers)| {
            let holders = self.tables.references(page).unwrap();
            writers.min(holders - 1) as usize
        });
        needed + copies.sum::<usize>()
    }

    /// Each sequence has its tokens, each page as many references as tables hold it, and
    /// each other page is free.
    fn check(&self) -> Result<(), TestCaseError> {
        let mut holders = HashMap::<u32, u32>::new();
        for (sequence, model) in &self.sequences {
            let table = self.tables.table(*sequence).unwrap();
            let slots = table.iter().flat_map(|&page| {
                let first = page as usize * PAGE_SIZE;
                &self.pool[first..first + PAGE_SIZE]
            });
            prop_assert_eq!(self.tables.length(*sequence), Ok(model.len()));
            prop_assert_eq!(table.len(), model.len().div_ceil(PAGE_SIZE));
            prop_assert!(slots.take(model.len()).eq(model), "{}", sequence);
            for &page in table {
                *holders.entry(page).or_default() += 1;
            }
        }
        for page in 0..PAGES as u32 {
            let expected = holders.get(&page).copied().unwrap_or(0);
            prop_assert_eq!(self.tables.references(page), Some(expected));
        }
        prop_assert_eq!(self.tables.free_pages() + holders.len(), PAGES);
        Ok(())
    }
}
