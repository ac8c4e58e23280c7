//! Matrices in f16: pairs, and fragments of `mma.sync` m16n8k16, which is what each lane of a warp
//! holds.

/// A of 16 rows and columns: four words for each lane.
pub fn left(a: &[f32]) -> Vec<u32> {
    let pair = |row: usize, column: usize| halves([a[16 * row + column], a[16 * row + column + 1]]);
    let lane = |(g, t): (usize, usize)| {
        let places = [
            (g, 2 * t),
            (g + 8, 2 * t),
            (g, 2 * t + 8),
            (g + 8, 2 * t + 8),
        ];
        places.map(|(row, column)| pair(row, column))
    };
    lanes().flat_map(lane).collect()
}

/// B of 16 rows and 64 columns, eight columns after the other: two words for each lane.
pub fn right(b: &[f32]) -> Vec<u32> {
    let pair =
        |row: usize, column: usize| halves([b[64 * row + column], b[64 * row + 64 + column]]);
    let eight = |i: usize| {
        lanes().flat_map(move |(g, t)| [2 * t, 2 * t + 8].map(|row| pair(row, 8 * i + g)))
    };
    (0..8).flat_map(eight).collect()
}

/// Pairs of neighbours.
pub fn pairs(numbers: &[f32]) -> Vec<u32> {
    let pairs = numbers.as_chunks::<2>().0;
    pairs.iter().map(|pair| halves(*pair)).collect()
}

/// D of 16 rows and 64 columns, by rows, of each warp's fragments.
pub fn sums(fragments: &[f32]) -> Vec<f32> {
    let mut sums = vec![0.0; fragments.len()];
    for (at, &sum) in fragments.iter().enumerate() {
        let (warp, i, g, t, j) = (at / 1024, at / 128 % 8, at / 16 % 8, at / 4 % 4, at % 4);
        let (row, column) = (g + 8 * (j / 2), 8 * i + 2 * t + j % 2);
        sums[1024 * warp + 64 * row + column] = sum;
    }
    sums
}

fn lanes() -> impl Iterator<Item = (usize, usize)> {
    (0..32).map(|lane| (lane / 4, lane % 4))
}

/// Two numbers that are zero or normal in f16, and exact.
fn halves(numbers: [f32; 2]) -> u32 {
    let [low, high] = numbers.map(|x| {
        let size = x.abs().to_bits().saturating_sub((127 - 15) << 23) >> 13;
        x.to_bits() >> 16 & 0x8000 | size
    });
    high << 16 | low
}
