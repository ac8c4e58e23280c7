//! The table itself.

use stage1_reference::Dropout;

use super::row::{Axes, Blocks, Mask, Row, Sign, Values};

const SHARED: Mask = Mask::Random(Axes::ALL[0]);
const PER_HEAD: Mask = Mask::Random(Axes::ALL[1]);
const PER_BATCH: Mask = Mask::Random(Axes::ALL[2]);
const PER_BOTH: Mask = Mask::Random(Axes::ALL[3]);
const NO_BOUND: usize = usize::MAX;

/// All problems, as their descriptions.
pub(super) fn rows() -> Vec<Row> {
    [
        sizes(),
        grouped_heads(),
        empty(),
        additive_masks(),
        windows(),
        key_lengths(),
        block_sparse(),
        combinations(),
        nasty_values(),
    ]
    .concat()
}

/// One tile, and many that are whole.
pub(super) fn whole() -> Vec<Row> {
    let both = Values::Huge(Sign::Both);
    vec![
        Row::new(1, 1, 32, 32, 64),
        Row::new(2, 3, 32, 32, 64),
        Row::new(1, 2, 32, 32, 128),
        Row::new(1, 2, 32, 32, 64).values(both),
        Row::new(1, 2, 64, 64, 64),
        Row::new(2, 2, 64, 256, 64),
        Row::new(1, 2, 192, 128, 128),
        Row::new(1, 2, 64, 128, 64).values(both),
        Row::new(1, 2, 64, 384, 64).values(Values::Rising),
        Row::new(1, 2, 64, 256, 64).values(Values::Step78),
        Row::new(1, 1, 64, 1024, 64).values(Values::Late),
    ]
}

/// Logits below the lowest number of half precision, and a mask.
pub(super) fn below_half() -> Row {
    let minus = Values::Huge(Sign::Minus);
    Row::new(1, 1, 33, 33, 64).values(minus).scale(1.0).causal()
}

/// Logits that grow from one tile of keys to another by so much that a maximum that lags behind
/// leaves weights beyond half precision.
pub(super) fn step_11() -> Row {
    Row::new(1, 2, 17, 257, 64).values(Values::Step11)
}

/// Neighbouring queries whose logits are far from each other.
pub(super) fn rows_apart() -> Row {
    Row::new(1, 2, 17, 65, 64).values(Values::RowsApart)
}

/// With dropout: several probabilities, seeds and offsets, the last of which wrap around, and
/// every other option.
pub(super) fn with_dropout() -> Vec<(Row, Dropout)> {
    let dropout = |probability, seed, offset| Dropout {
        probability,
        seed,
        offset,
    };
    let tenth = dropout(0.1, 1, 0);
    let plain = Row::new(2, 3, 65, 129, 64);
    let mut rows: Vec<(Row, Dropout)> = [
        tenth,
        dropout(0.1, 2, 0),
        dropout(0.1, 1 << 32, 0),
        dropout(0.1, 1, 6),
        dropout(0.1, 1, u64::from(u32::MAX) - 2),
        dropout(0.1, u64::MAX, u64::MAX - 2),
        dropout(0.0, 1, 0),
        dropout(0.999, 1, 0),
    ]
    .map(|dropout| (plain, dropout))
    .to_vec();
    for nk in [0, 1, 2, 3, 63] {
        rows.push((Row::new(1, 2, 5, nk, 40), dropout(0.3, 3, 0)));
    }
    let (half, random) = (dropout(0.5, 4, 9), Blocks::Random(Axes::ALL[3]));
    for row in [
        Row::new(0, 2, 5, 7, 40),
        Row::new(1, 4, 1, 129, 64),
        Row::new(1, 2, 129, 65, 40).causal(),
        Row::new(1, 2, 70, 131, 128).causal(),
        Row::new(2, 6, 33, 70, 64).kv_heads(2).causal(),
        Row::new(7, 2, 33, 129, 64).lengths(),
        Row::new(2, 2, 65, 130, 40).mask(PER_HEAD).causal(),
        Row::new(1, 2, 65, 129, 64).window(20, 5),
        Row::new(2, 2, 130, 200, 64).blocks(random),
    ] {
        rows.push((row, half));
    }
    let everything = Row::new(3, 4, 65, 129, 128).kv_heads(2).scale(0.2);
    let everything = everything.blocks(random).mask(PER_BOTH);
    rows.push((everything.window(100, 3).lengths(), tenth));
    rows
}

/// The sizes at which tiles begin, end and overflow.
fn sizes() -> Vec<Row> {
    let mut rows = Vec::new();
    for n in [1, 65, 127, 129] {
        rows.extend(Row::new(1, 2, n, n, 64).both());
    }
    for n in [63, 64, 128] {
        rows.extend(Row::new(1, 1, n, n, 16).both());
    }
    rows.extend(Row::new(1, 1, 1000, 1000, 16).both());
    for d in [1, 3, 40, 64, 72, 80, 96, 128, 160, 256] {
        rows.push(Row::new(1, 2, 17, 33, d));
    }
    // nq ≠ nk. With nq > nk the causal mask leaves the first queries without a key.
    for (nq, nk) in [
        (1, 129),
        (1, 1000),
        (65, 129),
        (127, 128),
        (129, 65),
        (129, 1),
        (1000, 65),
    ] {
        rows.extend(Row::new(1, 2, nq, nk, 16).both());
    }
    for scale in [0.0, 1.5, -0.5] {
        rows.push(Row::new(1, 2, 17, 65, 16).scale(scale));
    }
    rows
}

/// Batches and heads; grouped-query and multi-query attention.
fn grouped_heads() -> Vec<Row> {
    let mut rows = vec![Row::new(3, 4, 17, 33, 16)];
    for kv_heads in [1, 2, 3] {
        rows.extend(Row::new(2, 6, 33, 65, 16).kv_heads(kv_heads).both());
    }
    for kv_heads in [1, 2] {
        rows.extend(Row::new(1, 8, 17, 65, 64).kv_heads(kv_heads).both());
    }
    rows
}

/// Nothing to compute, and nothing to see.
fn empty() -> Vec<Row> {
    let sizes = [
        (0, 2, 5, 7),
        (2, 0, 5, 7),
        (2, 2, 0, 7),
        (2, 2, 5, 0),
        (2, 2, 0, 0),
    ];
    let rows = sizes.map(|(batch, heads, nq, nk)| {
        let row = Row::new(batch, heads, nq, nk, 16);
        let masks = row
            .mask(SHARED)
            .window(2, 1)
            .lengths()
            .blocks(Blocks::Checkerboard);
        [row, row.causal(), masks]
    });
    rows.concat()
}

/// Additive masks, repeated along every combination of axes.
fn additive_masks() -> Vec<Row> {
    let mut rows = Vec::new();
    for mask in [SHARED, PER_HEAD, PER_BATCH, PER_BOTH] {
        rows.push(Row::new(2, 3, 33, 65, 16).mask(mask));
    }
    rows.extend(
        Row::new(2, 4, 65, 33, 16)
            .kv_heads(2)
            .mask(Mask::EmptyRows)
            .both(),
    );
    rows.push(Row::new(1, 2, 129, 127, 16).mask(PER_BOTH).causal());
    rows.push(Row::new(1, 2, 17, 33, 16).mask(Mask::Everything));
    rows.extend(Row::new(1, 2, 65, 200, 16).mask(Mask::LateKeys).both());
    rows.push(Row::new(1, 2, 65, 129, 16).mask(Mask::Lowest));
    rows
}

fn windows() -> Vec<Row> {
    let mut rows = Vec::new();
    for (left, right) in [(0, 0), (0, 5), (7, 0), (1000, 1000)] {
        rows.push(Row::new(1, 2, 129, 129, 16).window(left, right));
    }
    // As wide as a tile, and one beside it.
    for (left, right) in [(63, 0), (64, 0), (65, 64)] {
        rows.push(Row::new(1, 1, 257, 257, 16).window(left, right));
    }
    rows.push(Row::new(1, 2, 65, 65, 16).window(7, 5).causal());
    rows.push(Row::new(1, 2, 65, 65, 16).window(NO_BOUND, 0));
    rows.push(Row::new(1, 2, 65, 65, 16).window(3, NO_BOUND));
    rows.push(Row::new(1, 2, 65, 65, 64).window(7, 5));
    for (nq, nk, left, right) in [
        (1, 129, 0, 0),
        (1, 129, 70, 0),
        (65, 257, 7, 5),
        (257, 65, 7, 5),
        (7, 3, 0, 0),
    ] {
        rows.push(Row::new(1, 2, nq, nk, 16).window(left, right));
    }
    rows
}

/// Lengths of nk, 0, 1, and around a tile's; the padding holds NaN.
fn key_lengths() -> Vec<Row> {
    let mut rows = Vec::new();
    rows.extend(Row::new(7, 2, 33, 129, 16).lengths().both());
    rows.push(Row::new(7, 4, 1, 129, 16).kv_heads(2).lengths());
    rows.push(Row::new(7, 1, 129, 129, 16).lengths().causal());
    rows.push(Row::new(7, 1, 65, 33, 64).lengths());
    rows.push(Row::new(7, 1, 65, 129, 16).lengths().window(40, 3));
    rows
}

fn block_sparse() -> Vec<Row> {
    let mut rows = Vec::new();
    rows.push(Row::new(1, 2, 129, 65, 16).blocks(Blocks::All));
    rows.push(Row::new(1, 2, 65, 129, 16).blocks(Blocks::None));
    rows.extend(
        Row::new(1, 1, 257, 257, 16)
            .blocks(Blocks::Checkerboard)
            .both(),
    );
    for axes in Axes::ALL {
        rows.push(Row::new(2, 2, 130, 200, 16).blocks(Blocks::Random(axes)));
    }
    rows.push(Row::new(1, 2, 200, 130, 64).blocks(Blocks::Random(Axes::ALL[3])));
    rows.push(Row::new(1, 2, 1, 200, 16).blocks(Blocks::Random(Axes::ALL[1])));
    rows
}

/// The masks together.
fn combinations() -> Vec<Row> {
    let random = Blocks::Random(Axes::ALL[3]);
    let mut rows = vec![
        Row::new(2, 2, 130, 130, 16).blocks(random).causal(),
        Row::new(2, 2, 65, 200, 16).blocks(random).window(90, 10),
        Row::new(7, 1, 65, 200, 16).blocks(random).lengths(),
        Row::new(2, 2, 65, 200, 16).blocks(random).mask(PER_BATCH),
        Row::new(2, 2, 65, 130, 16).mask(PER_HEAD).window(20, 5),
        Row::new(7, 2, 17, 130, 16).mask(PER_BATCH).lengths(),
    ];
    let everything = |row: Row| row.blocks(random).mask(PER_BOTH).window(100, 3).lengths();
    rows.extend(everything(Row::new(7, 8, 33, 193, 16).kv_heads(2).scale(0.5)).both());
    for d in [3, 72, 128, 256] {
        rows.push(everything(Row::new(3, 2, 65, 129, d).kv_heads(1)).causal());
    }
    rows
}

/// Inputs that break a careless softmax.
fn nasty_values() -> Vec<Row> {
    let mut rows = Vec::new();
    let row = Row::new(1, 2, 65, 129, 64);
    for sign in [Sign::Plus, Sign::Minus, Sign::Both] {
        rows.extend(row.values(Values::Huge(sign)).both());
    }
    // With a negative scale the largest product is the least logit.
    let both = Values::Huge(Sign::Both);
    rows.push(Row::new(1, 1, 17, 65, 64).values(both).scale(-0.125));
    let change = Values::Huge(Sign::Change);
    rows.push(Row::new(1, 1, 33, 33, 64).values(change).causal());
    rows.push(Row::new(1, 1, 17, 129, 64).values(Values::Plus85));
    // More keys than a tile has.
    rows.extend(Row::new(1, 2, 9, 1100, 64).values(Values::Late).both());
    rows.push(Row::new(1, 2, 9, 400, 64).values(Values::Rising));
    rows.push(row.values(Values::Huge(Sign::Plus)).mask(Mask::EmptyRows));
    rows.push(row.values(Values::Huge(Sign::Minus)).window(7, 0));
    rows.extend(row.values(Values::OneHot).both());
    rows.extend(Row::new(1, 2, 129, 127, 64).values(Values::Outliers).both());
    rows.push(Row::new(1, 1, 257, 257, 128).values(Values::Outliers));
    rows
}
