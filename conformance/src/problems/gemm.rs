//! Problems for a batched matrix product.

use ndarray::Array4;
use stage1_reference::Feature;

use super::{Extent, UNWRITTEN, compare, rms};
use crate::compare::{Comparison, Tolerance};
use crate::inputs::{hash, normal, outlier, tensor};
use crate::layout::Layout;
use crate::oracle;

pub use stage2_naive_cuda::Product;

/// `c = a · b` or `c = a · bᵀ`, batched.
#[derive(Debug, Clone)]
pub struct Problem {
    name: String,
    /// `[B, H, m, k]`.
    pub a: Array4<f32>,
    /// `[B, H_b, k, n]` or `[B, H_b, n, k]`, by `product`. Head `h` of `a` meets head `h / (H /
    /// H_b)` of `b`.
    pub b: Array4<f32>,
    /// The place of `b`.
    pub product: Product,
    /// How a, b and c lie in device memory: packed, at odd places, or in longer buffers.
    pub layouts: [Layout; 3],
    /// The values are extreme.
    extreme: bool,
}

/// The product, `[B, H, m, n]`.
pub type Output = Array4<f32>;

/// The distribution of the numbers of a problem.
#[derive(Debug, Clone, Copy)]
enum Values {
    /// Standard normal.
    Normal,
    /// Normal with rare values of ten times the size.
    Outliers,
    /// Normal, and infinite in the last term of the first row and of the first column: a term
    /// that is repeated beyond an edge, times 0, is NaN.
    Infinite,
    /// Normal, and infinite in the first term of the second row and of the second column: what
    /// lies behind the last term of the first, times 0, is NaN.
    InfiniteBehind,
}

/// All problems for one of the products.
pub fn problems(product: Product) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut add = |batches, sizes| {
        problems.push(Problem::new(product, batches, sizes, Values::Normal));
    };
    // m, n, k of one matrix: every size alone, and together.
    for size in [1, 16, 65, 127, 129] {
        for sizes in [[size, 33, 17], [33, size, 17], [33, 17, size], [size; 3]] {
            add([1, 1, 1], sizes);
        }
    }
    // One size that is large. 545 rows make tiles in a number that no group of tiles divides.
    for sizes in [[1, 1000, 65], [65, 1, 1000], [1000, 1, 1], [545, 70, 3]] {
        add([1, 1, 1], sizes);
    }
    // More terms than 16 bits count.
    add([1, 1, 1], [1, 1, 65_537]);
    // Batches, heads, and heads of `a` that share one of `b`.
    for batches in [[3, 1, 1], [1, 5, 5], [2, 4, 4], [2, 4, 2], [2, 6, 1]] {
        add(batches, [17, 33, 19]);
    }
    // More matrices than the y and z dimensions of a grid reach; without terms they take little
    // time.
    add([257, 257, 257], [1, 1, 1]);
    if product == Product::Nn {
        add([1, 1 << 16, 1 << 16], [1, 1, 0]);
    }
    // Nothing to compute, or nothing to add up.
    for sizes in [[0, 5, 7], [5, 0, 7], [5, 7, 0]] {
        add([2, 3, 3], sizes);
    }
    add([0, 3, 3], [5, 7, 9]);
    add([2, 0, 0], [5, 7, 9]);
    for (values, sizes) in [
        (Values::Outliers, [65, 65, 129]),
        (Values::Infinite, [17, 33, 19]),
        (Values::InfiniteBehind, [17, 33, 19]),
    ] {
        problems.push(Problem::new(product, [1, 1, 1], sizes, values));
    }
    // Buffers that go on behind the matrices: c is all zeros, or has its terms.
    for (batches, sizes) in [([2, 3, 3], [5, 7, 0]), ([1, 2, 2], [17, 33, 19])] {
        let problem = Problem::new(product, batches, sizes, Values::Normal);
        problems.push(Problem {
            name: format!("{}_in_longer_buffers", problem.name),
            layouts: [Layout::Longer; 3],
            ..problem
        });
    }
    // Rows that would be vectors of four, if all matrices, or one, did not begin beside one.
    let (odd, packed) = (Layout::Odd, Layout::Packed);
    for (which, layouts) in [
        ("at_odd_places", [odd; 3]),
        ("at_even_places", [Layout::Even; 3]),
        ("a_at_an_odd_place", [odd, packed, packed]),
        ("b_at_an_odd_place", [packed, odd, packed]),
        ("c_at_an_odd_place", [packed, packed, odd]),
    ] {
        let even = Problem::new(product, [1, 2, 2], [32, 32, 48], Values::Normal);
        problems.push(Problem {
            name: format!("{}_{which}", even.name),
            layouts,
            ..even
        });
    }
    problems
}

/// A random problem, and layouts of a, b and c: functions of the seed. Heads of `a` share those of
/// `b` only if `grouped`.
pub fn random(product: Product, seed: u64, grouped: bool) -> (Problem, [Layout; 3]) {
    let mut draws = 0;
    let mut draw = |end: usize| {
        draws += 1;
        (hash(seed, draws) % end as u64) as usize
    };
    let b_heads = 1 + draw(2);
    let (batch, group) = (1 + draw(2), 1 + draw(3));
    let batches = [batch, b_heads * if grouped { group } else { 1 }, b_heads];
    let sizes = [0; 3].map(|_| [1 + draw(8), 1 + draw(70)][draw(2)]);
    let layouts = [0; 3].map(|_| Layout::RANDOM[draw(3)]);
    let mut problem = Problem::new(product, batches, sizes, Values::Normal);
    problem.name = format!("seed {seed}: {}, {layouts:?}", problem.name);
    (problem, layouts)
}

impl Problem {
    fn new(
        product: Product,
        [batch, heads, b_heads]: [usize; 3],
        [m, n, k]: [usize; 3],
        values: Values,
    ) -> Self {
        let [b_rows, b_columns] = product.b(n, k);
        let b_label = if b_heads == heads {
            String::new()
        } else {
            format!("_hb{b_heads}")
        };
        let (value_label, value): (_, fn(u64, u64) -> f32) = match values {
            Values::Normal => ("", normal),
            Values::Outliers => ("_outliers", outlier),
            Values::Infinite => ("_infinite", normal),
            Values::InfiniteBehind => ("_infinite_behind", normal),
        };
        let mut problem = Self {
            name: format!("b{batch}_h{heads}{b_label}_m{m}_n{n}_k{k}{value_label}"),
            a: tensor((batch, heads, m, k), 21, value),
            // Not symmetric about 0 either, so that `a` and `b` cannot change places unseen.
            b: tensor((batch, b_heads, b_rows, b_columns), 22, |seed, i| {
                0.5 + value(seed, i)
            }),
            product,
            layouts: [Layout::Packed; 3],
            extreme: !matches!(values, Values::Normal),
        };
        let infinite = match values {
            Values::Infinite => Some((0, k - 1)),
            Values::InfiniteBehind => Some((1, 0)),
            Values::Normal | Values::Outliers => None,
        };
        if let Some((i, term)) = infinite {
            problem.a[[0, 0, i, term]] = f32::INFINITY;
            let [row, column] = product.b(i, term);
            problem.b[[0, 0, row, column]] = f32::INFINITY;
        }
        problem
    }
}

impl super::Problem for Problem {
    type Output = Output;
    type Answer = Array4<f64>;

    fn name(&self) -> &str {
        &self.name
    }

    fn needs(&self) -> Vec<Feature> {
        match self.a.dim().1 == self.b.dim().1 {
            true => Vec::new(),
            false => vec![Feature::GroupedHeads],
        }
    }

    fn needs_care(&self) -> bool {
        let odd = self.layouts != [Layout::Packed; 3];
        self.extreme || odd || self.a.is_empty() || self.b.is_empty()
    }

    fn extent(&self) -> Extent {
        let (batch, heads, _, terms) = self.a.dim();
        Extent {
            matrices: if terms == 0 { 0 } else { batch * heads },
            length: 0,
        }
    }

    fn poisoned(&self) -> Output {
        let (batch, heads, m, _) = self.a.dim();
        let n = match self.product {
            Product::Nn => self.b.dim().3,
            Product::Nt => self.b.dim().2,
        };
        Array4::from_elem((batch, heads, m, n), UNWRITTEN)
    }

    fn answer(&self) -> Array4<f64> {
        match self.product {
            Product::Nn => oracle::gemm(&self.a, &self.b),
            Product::Nt => oracle::gemm(
                &self.a,
                &self.b.view().permuted_axes([0, 1, 3, 2]).to_owned(),
            ),
        }
    }

    fn compare(&self, c: &Output, expected: &Array4<f64>) -> Result<Vec<Comparison>, String> {
        let k = self.a.dim().3;
        let size = (k as f64).sqrt() * rms(&self.a) * rms(&self.b); // of a typical element of c
        let tolerance = Tolerance::of_sum(f32::EPSILON.into(), k).floor(size);
        Ok(vec![compare("c", c, expected, tolerance)?])
    }
}
