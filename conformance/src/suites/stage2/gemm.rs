use ndarray::Array4;
use stage2_naive_cuda::{Gemm, Steps, Strides};

use super::{AnyError, HUGE, Limit, OLD, buffers, schedules, strides, untouched};
use crate::Judge;
use crate::device::Device;
use crate::inputs::{normal, tensor};
use crate::layout::Layout;
use crate::problems::gemm::{Problem, Product, problems, random};
use crate::report::{Claim, Part};

/// Both matrix products.
pub fn gemm(judge: &mut Judge<'_>, device: &Device, own: &impl Steps) {
    for &part in judge.parts() {
        for product in [Product::Nt, Product::Nn] {
            product_part(judge, part, device, own, product);
        }
    }
}

fn product_part(
    judge: &mut Judge<'_>,
    part: Part,
    device: &Device,
    own: &impl Steps,
    product: Product,
) {
    let solve = |problem: &Problem, layouts, output: &mut Array4<f32>| {
        *output = solve(device, own, problem, layouts)?;
        Ok::<_, AnyError>(())
    };
    let packed = [Layout::Packed; 3];
    match part {
        Part::Table => judge.problems(part, problems(product), |problem, output| {
            solve(problem, packed, output)
        }),
        Part::Strided => {
            let heads = |problem: &Problem| problem.a.dim().1 > 1 && problem.a.len() < 10_000;
            for layout in [Layout::SequenceFirst, Layout::Sparse] {
                let some = problems(product).into_iter().filter(heads);
                judge.problems(part, some, |problem, output| {
                    solve(problem, [layout; 3], output)
                });
            }
        }
        Part::Random => {
            for (problem, layouts) in judge.seeds(40).map(|seed| random(product, seed)) {
                judge.problems(part, [problem], |problem, output| {
                    solve(problem, layouts, output)
                });
            }
        }
        Part::Arguments => arguments(judge, device, own, product),
        Part::Schedules => {
            let mut some: Vec<_> = (0..8).map(|seed| random(product, seed)).collect();
            some.retain(|(problem, _)| judge.missing(problem).is_none());
            schedules(judge, &format!("seeds_{}", name(product)), || {
                let mut values = Vec::new();
                for (problem, layouts) in &some {
                    values.extend(self::solve(device, own, problem, *layouts)?);
                }
                Ok(values)
            });
        }
        Part::Counted => counted(judge, device, own, product),
    }
}

fn name(product: Product) -> &'static str {
    match product {
        Product::Nt => "gemm_nt",
        Product::Nn => "gemm_nn",
    }
}

/// Computes a problem in device memory, with these layouts of a, b and c.
///
/// # Errors
///
/// Those of the implementation and of the device, and a sentence if a value beside `c` was changed.
pub fn solve(
    device: &Device,
    own: &impl Steps,
    problem: &Problem,
    layouts: [Layout; 3],
) -> Result<Array4<f32>, AnyError> {
    let (batch, heads, m, k) = problem.a.dim();
    let (_, b_heads, b_rows, b_columns) = problem.b.dim();
    let n = match problem.product {
        Product::Nt => b_rows,
        Product::Nn => b_columns,
    };
    let a = device.input(&problem.a, layouts[0]);
    let b = device.input(&problem.b, layouts[1]);
    let mut c = device.output((batch, heads, m, n), layouts[2]);
    let shape = Gemm {
        batch,
        heads,
        b_heads,
        a: strides(a.strides()),
        b: strides(b.strides()),
        c: strides(c.strides()),
        ..Gemm::nn(m, n, k)
    };
    match problem.product {
        Product::Nt => own.gemm_nt(a.view(), b.view(), c.view_mut(), &shape)?,
        Product::Nn => own.gemm_nn(a.view(), b.view(), c.view_mut(), &shape)?,
    }
    Ok(c.read(device)?)
}

fn arguments<S: Steps>(judge: &mut Judge<'_>, device: &Device, own: &S, product: Product) {
    /// Elements of `a` [2, 4, 6, 5], `b` [2, 2, 5, 3] and `c` [2, 4, 6, 3].
    const LENGTHS: [usize; 3] = [240, 60, 144];
    type Spoil = fn(&mut Gemm);
    let bad: [(&str, &str, Spoil); 17] = [
        ("a_rows", "a", |shape| shape.a.row = 6),
        ("a_heads", "a", |shape| shape.a.head += 1),
        ("a_batches", "a", |shape| shape.a.batch = HUGE),
        ("b_rows", "b", |shape| shape.b.row += 1),
        ("b_heads", "b", |shape| shape.b_heads = 4),
        ("c_rows", "c", |shape| shape.c.row = 4),
        ("c_overlapping_rows", "c", |shape| shape.c.row = 2),
        ("c_overlapping_heads", "c", |shape| shape.c.head = 17),
        ("c_the_same_for_all_batches", "c", |shape| shape.c.batch = 0),
        ("m", "a", |shape| shape.m = 7),
        ("n", "b", |shape| shape.n = 4),
        ("k", "a", |shape| shape.k = 6),
        ("huge_m", "m", |shape| shape.m = HUGE),
        ("just_too_large_m", "m", |shape| shape.m = 1 << 30),
        ("huge_batch", "batch", |shape| shape.batch = HUGE),
        ("group", "heads", |shape| shape.b_heads = 3),
        ("no_heads_of_b", "heads", |shape| shape.b_heads = 0),
    ];
    let b = match product {
        Product::Nt => Strides::packed(2, 3, 5),
        Product::Nn => Strides::packed(2, 5, 3),
    };
    let fits = Gemm {
        batch: 2,
        heads: 4,
        b_heads: 2,
        a: Strides::packed(4, 6, 5),
        b,
        c: Strides::packed(4, 6, 3),
        ..Gemm::nn(6, 3, 5)
    };
    let [a, b, mut c] = buffers(device, LENGTHS);
    let mut call = |shape: &Gemm| {
        let (a, b) = (a.as_view(), b.as_view());
        let result = match product {
            Product::Nt => own.gemm_nt(a, b, c.as_view_mut(), shape),
            Product::Nn => own.gemm_nn(a, b, c.as_view_mut(), shape),
        };
        (result, untouched(device, &[&c]))
    };
    for (case, argument, spoil) in bad {
        let mut shape = fits;
        spoil(&mut shape);
        let name = format!("{}_{case}", name(product));
        judge.refusal(&name, argument, S::argument_of, || call(&shape));
    }
    // What fits exactly is not refused.
    let (result, _) = call(&fits);
    let expected = 5.0 * OLD * OLD;
    let right = device
        .read(&c)
        .is_ok_and(|c| c.iter().all(|&x| x == expected));
    let claim = Claim {
        expected: format!("c = {expected}"),
        holds: result.is_ok() && right,
        actual: result.map_or_else(|error| error.to_string(), |()| "another c".to_owned()),
    };
    judge.claim(Part::Arguments, format!("accepts_{}", name(product)), claim);
}

/// A tiled product: each element is loaded once for a tile of 16 rows or columns of c, and c is written once.
fn counted(judge: &mut Judge<'_>, device: &Device, own: &impl Steps, product: Product) {
    const N: usize = 128;
    let [a, b] = [1, 2].map(|seed| device.upload(&tensor(N * N, seed, normal)));
    let mut c = device.upload(&tensor(N * N, 3, normal));
    let (shape, n) = (Gemm::nn(N, N, N), N as u64);
    let name = name(product);
    let [loads, stores, flops] = ["loads", "stores", "flops"].map(|what| format!("{name}_{what}"));
    let limits: [Limit<'_>; 3] = [
        (
            |c| c.global_loads.sectors,
            &loads,
            "sectors",
            2 * n * n * n / 16 / 8,
        ),
        (|c| c.global_stores.sectors, &stores, "sectors", n * n / 8),
        (|c| c.flops_f32, &flops, "FLOPs", 2 * n * n * n),
    ];
    super::counted(judge, &limits, || {
        let (a, b) = (a.as_view(), b.as_view());
        match product {
            Product::Nt => own.gemm_nt(a, b, c.as_view_mut(), &shape),
            Product::Nn => own.gemm_nn(a, b, c.as_view_mut(), &shape),
        }
    });
}
