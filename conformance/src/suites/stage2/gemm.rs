use std::fmt::Display;

use cudarc::driver::{CudaView, CudaViewMut};
use ndarray::Array4;
use stage2_naive_cuda::{Call, Gemm, GemmShape, Kernels, Steps, Strides};

use super::{HUGE, Limit, OLD, buffers, schedules, strides, untouched};
use crate::device::Device;
use crate::inputs::{normal, tensor};
use crate::layout::Layout;
use crate::problems::gemm::{Problem, Product, problems, random};
use crate::report::{Claim, Part};
use crate::{AnyError, Judge};

const PRODUCTS: [Product; 2] = [Product::Nt, Product::Nn];

/// Both matrix products of packed tensors.
pub fn gemm(judge: &mut Judge<'_>, device: &Device, own: &impl Steps) {
    for &part in judge.parts() {
        for product in PRODUCTS {
            match part {
                Part::Strided => {}
                Part::Arguments => arguments(judge, device, own, product),
                Part::Counted => counted(judge, device, product, |a, b, c, n| {
                    let (batch, m, k) = (1, n, n);
                    let shape = Gemm {
                        product,
                        batch,
                        m,
                        n,
                        k,
                    };
                    own.run(Call::Gemm { a, b, c, shape })
                }),
                Part::Table | Part::Random | Part::Schedules => {
                    computed(judge, part, product, false, |problem, _| {
                        solve(device, own, problem)
                    });
                }
            }
        }
    }
}

/// Both matrix products of the library: strides, and heads of `a` that share those of `b`.
pub fn library_gemm(judge: &mut Judge<'_>, device: &Device, own: &Kernels) {
    for &part in judge.parts() {
        for product in PRODUCTS {
            match part {
                Part::Arguments => library_arguments(judge, device, own, product),
                Part::Counted => counted(judge, device, product, |a, b, c, n| {
                    let square = GemmShape::nn(n, n, n);
                    own.gemm(a, b, c, &GemmShape { product, ..square })
                }),
                Part::Table | Part::Strided | Part::Random | Part::Schedules => {
                    computed(judge, part, product, true, |problem, layouts| {
                        library_solve(device, own, problem, layouts)
                    });
                }
            }
        }
    }
}

/// A part that is computed by `solve`, with these layouts of a, b and c.
fn computed(
    judge: &mut Judge<'_>,
    part: Part,
    product: Product,
    grouped: bool,
    solve: impl Fn(&Problem, [Layout; 3]) -> Result<Array4<f32>, AnyError>,
) {
    let fill = |problem: &Problem, layouts, output: &mut Array4<f32>| {
        *output = solve(problem, layouts)?;
        Ok::<_, AnyError>(())
    };
    match part {
        Part::Table => judge.problems(part, problems(product), |problem, output| {
            fill(problem, problem.layouts, output)
        }),
        Part::Strided => {
            let heads = |problem: &Problem| problem.a.dim().1 > 1 && problem.a.len() < 10_000;
            for layout in [Layout::SequenceFirst, Layout::Sparse] {
                let some = problems(product).into_iter().filter(heads);
                judge.problems(part, some, |problem, output| {
                    fill(problem, [layout; 3], output)
                });
            }
        }
        Part::Random => {
            for (problem, layouts) in judge.seeds(40).map(|seed| random(product, seed, grouped)) {
                judge.problems(part, [problem], |problem, output| {
                    fill(problem, layouts, output)
                });
            }
        }
        Part::Schedules => schedules(judge, &format!("seeds_{}", name(product)), || {
            let mut values = Vec::new();
            for (problem, layouts) in (0..8).map(|seed| random(product, seed, grouped)) {
                values.extend(solve(&problem, layouts)?);
            }
            Ok(values)
        }),
        Part::Arguments | Part::Counted => {}
    }
}

fn name(product: Product) -> &'static str {
    match product {
        Product::Nt => "gemm_nt",
        Product::Nn => "gemm_nn",
    }
}

/// Sizes of a problem: B, H, H_b, m, n and k.
fn sizes(problem: &Problem) -> [usize; 6] {
    let (batch, heads, m, k) = problem.a.dim();
    let (_, b_heads, b_rows, b_columns) = problem.b.dim();
    let n = match problem.product {
        Product::Nt => b_rows,
        Product::Nn => b_columns,
    };
    [batch, heads, b_heads, m, n, k]
}

/// Computes a problem in device memory, packed. Each head of each batch is a matrix of its own.
///
/// # Errors
///
/// Those of the implementation and of the device. Heads of `a` that share one of `b` are one.
pub fn solve(
    device: &Device,
    own: &impl Steps,
    problem: &Problem,
) -> Result<Array4<f32>, AnyError> {
    let [batch, heads, b_heads, m, n, k] = sizes(problem);
    if heads != b_heads {
        return Err("packed products have no grouped heads".into());
    }
    let [a_layout, b_layout, c_layout] = problem.layouts;
    let (a, b) = (
        device.input(&problem.a, a_layout),
        device.input(&problem.b, b_layout),
    );
    let mut c = device.output((batch, heads, m, n), c_layout);
    own.run(Call::Gemm {
        a: a.view(),
        b: b.view(),
        c: c.view_mut(),
        shape: Gemm {
            product: problem.product,
            batch: batch * heads,
            m,
            n,
            k,
        },
    })?;
    Ok(c.read(device)?)
}

fn library_solve(
    device: &Device,
    own: &Kernels,
    problem: &Problem,
    layouts: [Layout; 3],
) -> Result<Array4<f32>, AnyError> {
    let [batch, heads, b_heads, m, n, k] = sizes(problem);
    let a = device.input(&problem.a, layouts[0]);
    let b = device.input(&problem.b, layouts[1]);
    let mut c = device.output((batch, heads, m, n), layouts[2]);
    let shape = GemmShape {
        product: problem.product,
        batch,
        heads,
        b_heads,
        a: strides(a.strides()),
        b: strides(b.strides()),
        c: strides(c.strides()),
        ..GemmShape::nn(m, n, k)
    };
    own.gemm(a.view(), b.view(), c.view_mut(), &shape)?;
    Ok(c.read(device)?)
}

fn arguments<S: Steps>(judge: &mut Judge<'_>, device: &Device, own: &S, product: Product) {
    /// Elements of `a` [8, 6, 5], `b` [8, 5, 3] and `c` [8, 6, 3].
    const LENGTHS: [usize; 3] = [240, 120, 144];
    let fits = Gemm {
        product,
        batch: 8,
        m: 6,
        n: 3,
        k: 5,
    };
    let bad = [
        ("short_a", "a", [239, 120, 144], fits),
        ("short_b", "b", [240, 119, 144], fits),
        ("short_c", "c", [240, 120, 143], fits),
        (
            "short_c_without_terms",
            "c",
            [240, 120, 143],
            Gemm { k: 0, ..fits },
        ),
        (
            "short_b_without_rows",
            "b",
            [240, 119, 144],
            Gemm { m: 0, ..fits },
        ),
        ("batch", "a", LENGTHS, Gemm { batch: 9, ..fits }),
        ("m", "a", LENGTHS, Gemm { m: 7, ..fits }),
        ("n", "b", LENGTHS, Gemm { n: 4, ..fits }),
        ("k", "a", LENGTHS, Gemm { k: 6, ..fits }),
        ("huge_m", "m", LENGTHS, Gemm { m: HUGE, ..fits }),
        (
            "just_too_large_m",
            "m",
            LENGTHS,
            Gemm { m: 1 << 30, ..fits },
        ),
        (
            "huge_batch",
            "batch",
            LENGTHS,
            Gemm {
                batch: HUGE,
                ..fits
            },
        ),
    ];
    for (case, argument, lengths, shape) in bad {
        let [a, b, mut c] = buffers(device, lengths);
        let name = format!("{}_{case}", name(product));
        judge.refusal(&name, argument, S::argument_of, || {
            let result = own.run(Call::Gemm {
                a: a.as_view(),
                b: b.as_view(),
                c: c.as_view_mut(),
                shape,
            });
            (result, untouched(device, &[&c]))
        });
    }
    let [a, b, mut c] = buffers(device, LENGTHS);
    let result = own.run(Call::Gemm {
        a: a.as_view(),
        b: b.as_view(),
        c: c.as_view_mut(),
        shape: fits,
    });
    accepts(judge, device, product, result, &c);
}

/// Claims that arguments that fit exactly are not refused.
fn accepts(
    judge: &mut Judge<'_>,
    device: &Device,
    product: Product,
    result: Result<(), impl std::error::Error>,
    c: &cudarc::driver::CudaSlice<f32>,
) {
    let expected = 5.0 * OLD * OLD;
    let right = device
        .read(c)
        .is_ok_and(|c| c.iter().all(|&x| x == expected));
    let claim = Claim {
        expected: format!("c = {expected}"),
        holds: result.is_ok() && right,
        actual: result.map_or_else(|error| error.to_string(), |()| "another c".to_owned()),
    };
    judge.claim(Part::Arguments, format!("accepts_{}", name(product)), claim);
}

fn library_arguments(judge: &mut Judge<'_>, device: &Device, own: &Kernels, product: Product) {
    /// Elements of `a` [2, 4, 6, 5], `b` [2, 2, 5, 3] and `c` [2, 4, 6, 3].
    const LENGTHS: [usize; 3] = [240, 60, 144];
    type Spoil = fn(&mut GemmShape);
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
    let [b_rows, b_columns] = product.b(3, 5);
    let fits = GemmShape {
        product,
        batch: 2,
        heads: 4,
        b_heads: 2,
        a: Strides::packed(4, 6, 5),
        b: Strides::packed(2, b_rows, b_columns),
        c: Strides::packed(4, 6, 3),
        ..GemmShape::nn(6, 3, 5)
    };
    let [a, b, mut c] = buffers(device, LENGTHS);
    for (case, argument, spoil) in bad {
        let mut shape = fits;
        spoil(&mut shape);
        let name = format!("{}_{case}", name(product));
        judge.refusal(&name, argument, super::argument, || {
            let result = own.gemm(a.as_view(), b.as_view(), c.as_view_mut(), &shape);
            (result, untouched(device, &[&c]))
        });
    }
    let result = own.gemm(a.as_view(), b.as_view(), c.as_view_mut(), &fits);
    accepts(judge, device, product, result, &c);
}

/// A tiled product: each element is loaded once for a tile of 16 rows or columns of c, and c is
/// written once.
fn counted<E: Display>(
    judge: &mut Judge<'_>,
    device: &Device,
    product: Product,
    compute: impl FnOnce(
        CudaView<'_, f32>,
        CudaView<'_, f32>,
        CudaViewMut<'_, f32>,
        usize,
    ) -> Result<(), E>,
) {
    const N: usize = 128;
    let [a, b] = [1, 2].map(|seed| device.upload(&tensor(N * N, seed, normal)));
    let mut c = device.upload(&tensor(N * N, 3, normal));
    let n = N as u64;
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
        compute(a.as_view(), b.as_view(), c.as_view_mut(), N)
    });
}
