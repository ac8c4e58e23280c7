//! The eight warm-ups as data: cases with expected values, known mistakes, and the idea in counters.
//!
//! Sums are of small whole numbers, so that every order of additions gives the same bits.

use gpu::profile::Counters;

/// A warm-up: one kernel, one idea.
#[derive(Debug)]
pub struct WarmUp {
    /// The kernel. Its file is `NUMBER_NAME.cu`.
    pub name: &'static str,
    /// The page of the book behind which it stands.
    pub page: &'static str,
    /// Its launches, the most telling first.
    pub cases: fn() -> Vec<Case>,
    /// What counters say against the idea, if so, of a launch with the right values.
    pub idea: fn(&Case, &Counters) -> Option<String>,
}

/// A launch and the values that it must give.
#[derive(Debug)]
pub struct Case {
    /// The names of the sizes, and the sizes.
    pub sizes: Vec<(&'static str, usize)>,
    /// Number of blocks.
    pub grid: [usize; 2],
    /// Threads of a block.
    pub block: [usize; 2],
    /// Arguments before the output, in the words of a kernel file's `// args:`.
    pub inputs: Vec<String>,
    /// The output.
    pub output: Output,
    /// The sizes that the kernel gets behind the output.
    pub passed: Vec<usize>,
    /// Values of known mistakes, each with the mistake as a condition.
    pub mistakes: Vec<(&'static str, Vec<f64>)>,
}

/// The buffer that a kernel writes.
#[derive(Debug)]
pub struct Output {
    /// The parameter.
    pub name: &'static str,
    /// The type of its elements.
    pub ty: &'static str,
    /// Its content before the launch, the same in each element.
    pub before: f64,
    /// Elements of a row, if it is a matrix.
    pub columns: Option<usize>,
    /// Its content after the launch.
    pub expected: Vec<f64>,
}

/// Content of an output before the launch. No expected value is the same.
const BEFORE: f64 = -9999.0;

/// The pages with warm-ups at their end.
const THREADS: &str = "book/text/gpu/threads.md";
const BARRIERS: &str = "book/text/gpu/barriers.md";

/// All warm-ups in their order.
pub static WARM_UPS: [WarmUp; 8] = [
    WarmUp {
        name: "map",
        page: THREADS,
        cases: map,
        idea: one_element_per_thread,
    },
    WarmUp {
        name: "guard",
        page: THREADS,
        cases: guard,
        idea: one_element_per_thread,
    },
    WarmUp {
        name: "two_dimensions",
        page: THREADS,
        cases: two_dimensions,
        idea: lanes_along_rows,
    },
    WarmUp {
        name: "neighbours",
        page: BARRIERS,
        cases: neighbours,
        idea: loaded_once,
    },
    WarmUp {
        name: "transpose",
        page: BARRIERS,
        cases: transpose,
        idea: no_conflicts,
    },
    WarmUp {
        name: "warp_sum",
        page: BARRIERS,
        cases: warp_sum,
        idea: in_registers,
    },
    WarmUp {
        name: "block_sum",
        page: BARRIERS,
        cases: block_sum,
        idea: all_threads_load,
    },
    WarmUp {
        name: "histogram",
        page: BARRIERS,
        cases: histogram,
        idea: counted_in_shared_memory,
    },
];

impl Case {
    fn size(&self, name: &str) -> usize {
        let found = self.sizes.iter().find(|(known, _)| *known == name);
        found.map_or(0, |(_, size)| *size)
    }

    fn blocks(&self) -> usize {
        self.grid[0] * self.grid[1]
    }
}

fn map() -> Vec<Case> {
    let case = |n: usize| {
        let mut x = numbers(n);
        x[..8].copy_from_slice(&[
            f32::NAN,
            f32::INFINITY,
            -0.0,
            1e30,
            1e-30,
            -7.5,
            0.1,
            -1e-42,
        ]);
        let expected: Vec<f64> = x.iter().map(|x| f64::from(x * x)).collect();
        let mistakes = vec![
            (
                "every block computes the elements of block 0",
                kept(&expected, |i| i < 64),
            ),
            (
                "an element is doubled, not squared",
                x.iter().map(|x| f64::from(2.0 * x)).collect(),
            ),
            (
                "an element is copied, not squared",
                x.iter().copied().map(f64::from).collect(),
            ),
        ];
        Case {
            sizes: vec![("n", n)],
            grid: [n / 64, 1],
            block: [64, 1],
            inputs: vec![floats(&x)],
            output: vector(expected),
            passed: vec![],
            mistakes,
        }
    };
    [256, 64, 1024].map(case).into()
}

fn guard() -> Vec<Case> {
    let case = |n: usize| {
        let x = numbers(n);
        let expected: Vec<f64> = x.iter().map(|x| f64::from(2.0 * x)).collect();
        let mistakes = vec![
            (
                "the guard stops one element early",
                kept(&expected, |i| i + 1 < n),
            ),
            (
                "the last block, which is not full, computes nothing",
                kept(&expected, |i| i < n / 128 * 128),
            ),
            (
                "every block computes the elements of block 0",
                kept(&expected, |i| i < 128),
            ),
        ];
        Case {
            sizes: vec![("n", n)],
            grid: [n.div_ceil(128), 1],
            block: [128, 1],
            inputs: vec![floats(&x)],
            output: vector(expected),
            passed: vec![n],
            mistakes,
        }
    };
    [300, 1, 127, 128, 129, 1000].map(case).into()
}

/// Of [`map`] and [`guard`].
fn one_element_per_thread(case: &Case, counters: &Counters) -> Option<String> {
    let (n, requests) = (case.size("n"), counters.global_stores.requests);
    let enough = n.div_ceil(32) as u64;
    (requests > enough).then(|| {
        format!(
            "warps run {requests} store instructions for {n} elements; {enough} suffice if each thread stores its own element"
        )
    })
}

fn two_dimensions() -> Vec<Case> {
    let case = |[rows, columns]: [usize; 2]| {
        let (x, bias) = (numbers(rows * columns), numbers(columns + 7)[7..].to_vec());
        let grid = [columns.div_ceil(32), rows.div_ceil(8)];
        let with = |bias_of: &dyn Fn(usize, usize) -> f32| -> Vec<f64> {
            let elements = x.iter().enumerate();
            let sum = |(i, x): (usize, &f32)| f64::from(x + bias_of(i / columns, i % columns));
            elements.map(sum).collect()
        };
        let expected = with(&|_, column| bias[column]);
        let mut mistakes = vec![
            ("no bias is added", with(&|_, _| 0.0)),
            (
                "x counts the rows and y the columns, while the grid is as wide as the columns",
                kept(&expected, |i| {
                    i % columns < 8 * grid[1] && i / columns < 32 * grid[0]
                }),
            ),
        ];
        if rows <= columns {
            mistakes.push((
                "the bias is that of the row, not of the column",
                with(&|row, _| bias[row]),
            ));
        }
        Case {
            sizes: vec![("rows", rows), ("columns", columns)],
            grid,
            block: [32, 8],
            inputs: vec![floats(&x), floats(&bias)],
            output: Output {
                columns: Some(columns),
                ..vector(expected)
            },
            passed: vec![rows, columns],
            mistakes,
        }
    };
    [[23, 50], [1, 1], [8, 32], [9, 33], [3, 100], [100, 3]]
        .map(case)
        .into()
}

fn lanes_along_rows(case: &Case, counters: &Counters) -> Option<String> {
    let sectors = counters.global_stores.sectors;
    // 32 floats that begin anywhere lie in 5 sectors at most.
    let enough = (case.size("rows") * case.size("columns").div_ceil(32) * 5) as u64;
    (sectors > enough).then(|| {
        format!(
            "stores of warps touch {sectors} sectors; at most {enough} are needed if the lanes of a warp store to neighbouring \
             columns"
        )
    })
}

fn neighbours() -> Vec<Case> {
    let case = |n: usize| {
        let x = numbers(n);
        let at = |i: Option<usize>| i.and_then(|i| x.get(i)).copied().unwrap_or(0.0);
        let sums = |left: &dyn Fn(usize) -> bool, right: &dyn Fn(usize) -> bool| -> Vec<f64> {
            let sum = |i: usize| {
                let before = if left(i) { at(i.checked_sub(1)) } else { 0.0 };
                let after = if right(i) { at(Some(i + 1)) } else { 0.0 };
                f64::from(before + x[i] + after)
            };
            (0..n).map(sum).collect()
        };
        let mistakes = vec![
            (
                "neighbours in another block count as 0",
                sums(&|i| i % 128 != 0, &|i| i % 128 != 127),
            ),
            (
                "the left neighbour in another block counts as 0",
                sums(&|i| i % 128 != 0, &|_| true),
            ),
            (
                "the right neighbour in another block counts as 0",
                sums(&|_| true, &|i| i % 128 != 127),
            ),
            (
                "the right neighbour is left out",
                sums(&|_| true, &|_| false),
            ),
            (
                "the left neighbour is left out",
                sums(&|_| false, &|_| true),
            ),
        ];
        Case {
            sizes: vec![("n", n)],
            grid: [n.div_ceil(128), 1],
            block: [128, 1],
            inputs: vec![floats(&x)],
            output: vector(sums(&|_| true, &|_| true)),
            passed: vec![n],
            mistakes,
        }
    };
    [330, 1, 127, 128, 129, 257].map(case).into()
}

fn loaded_once(case: &Case, counters: &Counters) -> Option<String> {
    let loads = counters.global_loads.bytes / 4;
    let (n, blocks) = (case.size("n"), case.blocks());
    let enough = (n + 2 * blocks) as u64;
    (loads > enough).then(|| {
        format!(
            "threads load {loads} elements from global memory; {n} and 2 for each of {blocks} blocks are {enough}"
        )
    })
}

fn transpose() -> Vec<Case> {
    let case = |[rows, columns]: [usize; 2]| {
        let x = numbers(rows * columns);
        let turned = |i: usize| f64::from(x[i % rows * columns + i / rows]);
        let mut mistakes = vec![(
            "the elements are copied in their order",
            x.iter().copied().map(f64::from).collect(),
        )];
        if rows % 32 == 0 && columns % 32 == 0 {
            let turned_in_block = |i: usize| {
                let (row, column) = (i / rows, i % rows); // of y
                let from = (row / 32 * 32 + column % 32) * columns + column / 32 * 32 + row % 32;
                x.get(from).map_or(BEFORE, |x| f64::from(*x))
            };
            mistakes.push((
                "the elements change places only within a block, and the blocks keep theirs",
                (0..x.len()).map(turned_in_block).collect(),
            ));
        }
        Case {
            sizes: vec![("rows", rows), ("columns", columns)],
            grid: [columns.div_ceil(32), rows.div_ceil(32)],
            block: [32, 32],
            inputs: vec![floats(&x)],
            output: Output {
                columns: Some(rows),
                ..vector((0..x.len()).map(turned).collect())
            },
            passed: vec![rows, columns],
            mistakes,
        }
    };
    [[64, 96], [1, 1], [33, 31], [40, 70]].map(case).into()
}

fn no_conflicts(case: &Case, counters: &Counters) -> Option<String> {
    let shared = counters.shared();
    if shared.wavefronts > shared.ideal {
        return Some(format!(
            "shared memory has bank conflicts: {} wavefronts, {} without conflicts",
            shared.wavefronts, shared.ideal
        ));
    }
    let (rows, columns) = (case.size("rows"), case.size("columns"));
    if rows % 8 != 0 || columns % 8 != 0 {
        return None; // rows do not begin with a sector
    }
    let enough = (rows * columns / 8) as u64;
    let kinds = [
        ("loads", counters.global_loads.sectors),
        ("stores", counters.global_stores.sectors),
    ];
    let (kind, sectors) = kinds.into_iter().find(|(_, sectors)| *sectors > enough)?;
    Some(format!(
        "{kind} of warps touch {sectors} sectors; {enough} suffice if a warp's lanes have neighbouring elements of a row"
    ))
}

fn warp_sum() -> Vec<Case> {
    let case = |[rows, columns]: [usize; 2]| {
        let mistakes = [
            ("only the first element is stored", some_of(|i| i == 0)),
            ("the step of 16 lanes is left out", some_of(|i| i < 16)),
            ("the step of 1 lane is left out", some_of(|i| i % 2 == 0)),
        ];
        sum(rows, columns, 32, mistakes)
    };
    [[5, 32], [1, 1], [3, 20], [2, 31]].map(case).into()
}

fn in_registers(case: &Case, counters: &Counters) -> Option<String> {
    let (shared, loads) = (counters.shared().requests, counters.global_loads.requests);
    let rows = case.size("rows");
    if shared > 0 {
        return Some(format!(
            "warps run {shared} instructions on shared memory; a shuffle needs none"
        ));
    }
    (loads > 2 * rows as u64).then(|| {
        format!("warps run {loads} load instructions for {rows} rows; one per row suffices if each lane loads its own element")
    })
}

fn block_sum() -> Vec<Case> {
    let case = |[rows, columns]: [usize; 2]| {
        let mistakes = [
            (
                "only the first 256 elements are added",
                some_of(|i| i < 256),
            ),
            (
                "only the sum of the first warp is stored",
                some_of(|i| i % 256 < 32),
            ),
            (
                "only the sum of thread 0 is stored",
                some_of(|i| i % 256 == 0),
            ),
        ];
        sum(rows, columns, 256, mistakes)
    };
    [[3, 1000], [1, 1], [2, 255], [2, 256], [2, 257], [1, 33]]
        .map(case)
        .into()
}

/// Twice the loads are no objection: lanes that leave an unrolled loop early run the rest of it by themselves.
fn all_threads_load(case: &Case, counters: &Counters) -> Option<String> {
    let loads = counters.global_loads.requests;
    let (rows, columns) = (case.size("rows"), case.size("columns"));
    let enough = (rows * columns.div_ceil(32)) as u64;
    (loads > 2 * enough).then(|| {
        format!(
            "warps run {loads} load instructions for {rows} rows of {columns} elements; {enough} suffice if each lane loads its own \
             elements"
        )
    })
}

/// True for the elements of a row that a mistake adds.
type Part = fn(usize) -> bool;

fn some_of(part: Part) -> Part {
    part
}

/// A case of sums of rows, one block each.
fn sum<const N: usize>(
    rows: usize,
    columns: usize,
    block: usize,
    mistakes: [(&'static str, Part); N],
) -> Case {
    let x = numbers(rows * columns);
    let sums = |part: Part| -> Vec<f64> {
        let rows = x.chunks(columns).map(|row| row.iter().enumerate());
        rows.map(|row| {
            let added = row.filter(|(i, _)| part(*i));
            added.map(|(_, x)| f64::from(*x)).sum()
        })
        .collect()
    };
    Case {
        sizes: vec![("rows", rows), ("columns", columns)],
        grid: [rows, 1],
        block: [block, 1],
        inputs: vec![floats(&x)],
        output: vector(sums(|_| true)),
        passed: vec![columns],
        mistakes: mistakes.map(|(what, part)| (what, sums(part))).into(),
    }
}

fn histogram() -> Vec<Case> {
    let case = |(n, values): (usize, usize)| {
        let x: Vec<usize> = (0..n).map(|i| (i * i + 3 * i + 63) % values).collect();
        let counts = |x: &[usize]| -> Vec<f64> {
            let count = |v| x.iter().filter(|x| **x == v).count() as f64;
            (0..64).map(count).collect()
        };
        Case {
            sizes: vec![("n", n), ("different values", values)],
            grid: [n.div_ceil(256), 1],
            block: [256, 1],
            inputs: vec![list("i32", &x)],
            output: Output {
                name: "counts",
                ty: "i32",
                before: 0.0,
                columns: None,
                expected: counts(&x),
            },
            passed: vec![n],
            mistakes: vec![
                ("only full blocks count", counts(&x[..n / 256 * 256])),
                ("only block 0 counts", counts(&x[..n.min(256)])),
            ],
        }
    };
    [(1000, 64), (1, 64), (256, 64), (257, 61), (300, 1)]
        .map(case)
        .into()
}

fn counted_in_shared_memory(case: &Case, counters: &Counters) -> Option<String> {
    let additions = counters.global_atomics.bytes / 4;
    let blocks = case.blocks();
    let enough = (64 * blocks) as u64;
    (additions > enough).then(|| {
        format!(
            "threads run {additions} atomic additions to global memory; 64 for each of {blocks} blocks are {enough}"
        )
    })
}

/// Whole numbers from -50 to 50 without a pattern that matches a block or a row.
fn numbers(n: usize) -> Vec<f32> {
    let number = |i: usize| ((i * i * 7 + i * 37 + 11) % 101) as f32 - 50.0;
    (0..n).map(number).collect()
}

/// The expected values where `computed`, and else what was there before.
fn kept(expected: &[f64], computed: impl Fn(usize) -> bool) -> Vec<f64> {
    let values = expected.iter().enumerate();
    let value = |(i, value): (usize, &f64)| if computed(i) { *value } else { BEFORE };
    values.map(value).collect()
}

fn vector(expected: Vec<f64>) -> Output {
    Output {
        name: "y",
        ty: "f32",
        before: BEFORE,
        columns: None,
        expected,
    }
}

fn floats(values: &[f32]) -> String {
    list("f32", values)
}

fn list<T: ToString>(ty: &str, values: &[T]) -> String {
    let values: Vec<String> = values.iter().map(ToString::to_string).collect();
    format!("{ty}[{}]={{{}}}", values.len(), values.join(","))
}
