use std::fmt::Display;

use cudarc::driver::CudaViewMut;
use ndarray::{Array2, Array3};
use stage2_naive_cuda::{Call, Kernels, Softmax, SoftmaxShape, Steps};

use super::{HUGE, Limit, buffers, schedules, untouched};
use crate::device::{Device, Tensor};
use crate::problems::Problem as _;
use crate::problems::softmax::{self as table, Axis, Output, Problem};
use crate::report::Part;
use crate::{AnyError, Judge};

/// Softmax of rows.
pub fn softmax(judge: &mut Judge<'_>, device: &Device, own: &impl Steps) {
    for &part in judge.parts() {
        match part {
            Part::Strided => {}
            Part::Arguments => arguments(judge, device, own),
            Part::Counted => counted(judge, device, |x, lse, rows, columns| {
                let shape = Softmax { rows, columns };
                own.run(Call::Softmax { x, lse, shape })
            }),
            Part::Table | Part::Random | Part::Schedules => {
                computed(judge, part, &[Axis::Last], |problem, output| {
                    solve(device, own, problem, output)
                });
            }
        }
    }
}

/// Softmax of the library, over either dimension.
pub fn library_softmax(judge: &mut Judge<'_>, device: &Device, own: &Kernels) {
    for &part in judge.parts() {
        match part {
            Part::Strided => {}
            Part::Arguments => library_arguments(judge, device, own),
            Part::Counted => counted(judge, device, |x, lse, rows, columns| {
                let (batch, axis) = (1, Axis::Last);
                let shape = SoftmaxShape {
                    batch,
                    rows,
                    columns,
                    axis,
                };
                own.softmax(x, Some(lse), &shape)
            }),
            Part::Table | Part::Random | Part::Schedules => {
                computed(
                    judge,
                    part,
                    &[Axis::Last, Axis::NextToLast],
                    |problem, output| library_solve(device, own, problem, output),
                );
            }
        }
    }
}

/// A part that is computed by `solve`, over each of these dimensions.
fn computed(
    judge: &mut Judge<'_>,
    part: Part,
    axes: &[Axis],
    solve: impl Fn(&Problem, &mut Output) -> Result<(), AnyError>,
) {
    for &axis in axes {
        match part {
            Part::Table => judge.problems(part, table::problems(axis), &solve),
            Part::Random => {
                let random = judge.seeds(40).map(|seed| table::random(seed, axis));
                judge.problems(part, random, &solve);
            }
            Part::Schedules => {
                schedules(judge, &format!("seeds_softmax_{axis:?}"), || {
                    let mut values = Vec::new();
                    for problem in (0..4).map(|seed| table::random(seed, axis)) {
                        let mut output = problem.poisoned();
                        solve(&problem, &mut output)?;
                        values.extend(output.y.into_iter().chain(output.lse));
                    }
                    Ok(values)
                });
            }
            Part::Strided | Part::Arguments | Part::Counted => {}
        }
    }
}

/// Computes a problem over the last dimension in device memory.
///
/// # Errors
///
/// Those of the implementation and of the device.
pub fn solve(
    device: &Device,
    own: &impl Steps,
    problem: &Problem,
    output: &mut Output,
) -> Result<(), AnyError> {
    let (batch, rows, columns) = problem.x.dim();
    let mut x = in_place(device, problem);
    let mut lse = device.output((1, 1, batch, rows), problem.layout.of_rows());
    own.run(Call::Softmax {
        x: x.view_mut(),
        lse: lse.view_mut(),
        shape: Softmax {
            rows: batch * rows,
            columns,
        },
    })?;
    output.y = x.read(device)?.remove_axis(ndarray::Axis(0));
    let lse = lse.read(device)?.remove_axis(ndarray::Axis(0));
    output.lse = lse.remove_axis(ndarray::Axis(0));
    Ok(())
}

/// The input, which becomes y: `[1, batch, rows, columns]`.
fn in_place(device: &Device, problem: &Problem) -> Tensor<f32> {
    let x = problem.x.clone().insert_axis(ndarray::Axis(0));
    device.in_place(&x, problem.layout)
}

fn library_solve(
    device: &Device,
    own: &Kernels,
    problem: &Problem,
    output: &mut Output,
) -> Result<(), AnyError> {
    let (mut x, mut lse) = (in_place(device, problem), device.upload(&output.lse));
    let (batch, rows, columns) = problem.x.dim();
    let shape = SoftmaxShape {
        batch,
        rows,
        columns,
        axis: problem.axis,
    };
    own.softmax(x.view_mut(), Some(lse.as_view_mut()), &shape)?;
    output.y = x.read(device)?.remove_axis(ndarray::Axis(0));
    Ok(device.read_into(&lse, &mut output.lse)?)
}

fn arguments<S: Steps>(judge: &mut Judge<'_>, device: &Device, own: &S) {
    for (name, argument, lengths, rows, columns) in [
        ("softmax_short_x", "x", [119, 8], 8, 15),
        ("softmax_short_lse", "lse", [120, 7], 8, 15),
        ("softmax_short_lse_of_empty_rows", "lse", [120, 7], 8, 0),
        ("softmax_huge_rows", "rows", [120, 8], HUGE, 1),
        ("softmax_huge_columns", "columns", [120, 8], 8, HUGE),
    ] {
        let [mut x, mut lse] = buffers(device, lengths);
        judge.refusal(name, argument, S::argument_of, || {
            let result = own.run(Call::Softmax {
                x: x.as_view_mut(),
                lse: lse.as_view_mut(),
                shape: Softmax { rows, columns },
            });
            (result, untouched(device, &[&x, &lse]))
        });
    }
}

fn library_arguments(judge: &mut Judge<'_>, device: &Device, own: &Kernels) {
    const LIMIT: usize = (1 << 30) - 1;
    const SIZES: [usize; 3] = [2, 4, 15];
    let over_rows = Axis::NextToLast;
    for (name, argument, lengths, [batch, rows, columns], axis) in [
        ("softmax_short_x", "x", [119, 8], SIZES, Axis::Last),
        ("softmax_short_lse", "lse", [120, 7], SIZES, Axis::Last),
        (
            "softmax_short_lse_of_columns",
            "lse",
            [120, 29],
            SIZES,
            over_rows,
        ),
        (
            "softmax_huge_rows",
            "rows",
            [120, 8],
            [1, HUGE, 1],
            Axis::Last,
        ),
        ("softmax_huge_product", "x", [120, 8], [LIMIT; 3], over_rows),
        // Vectors without elements need no memory, but a block each.
        (
            "softmax_too_many_vectors",
            "grid",
            [1, 1],
            [1 << 20, 1 << 20, 0],
            Axis::Last,
        ),
    ] {
        let [mut x, mut lse] = buffers(device, lengths);
        let shape = SoftmaxShape {
            batch,
            rows,
            columns,
            axis,
        };
        judge.refusal(name, argument, super::argument, || {
            let lse_of_x = (argument != "grid").then(|| lse.as_view_mut());
            let result = own.softmax(x.as_view_mut(), lse_of_x, &shape);
            (result, untouched(device, &[&x, &lse]))
        });
    }
}

/// Elements travel in whole sectors: x is read for the maximum, for the sum and for the quotient,
/// and written twice, as exponentials and as quotients. Each row's lse is a sector of its own.
fn counted<E: Display>(
    judge: &mut Judge<'_>,
    device: &Device,
    compute: impl FnOnce(CudaViewMut<'_, f32>, CudaViewMut<'_, f32>, usize, usize) -> Result<(), E>,
) {
    let (rows, columns) = (128, 1000);
    let mut x = device.upload(&Array3::<f32>::ones((1, rows, columns)));
    let mut lse = device.upload(&Array2::<f32>::zeros((1, rows)));
    let sectors = (rows * columns) as u64 * 4 / 32;
    let limits: [Limit<'_>; 2] = [
        (
            |c| c.global_loads.sectors,
            "softmax_loads",
            "sectors",
            3 * sectors,
        ),
        (
            |c| c.global_stores.sectors,
            "softmax_stores",
            "sectors",
            2 * sectors + rows as u64,
        ),
    ];
    super::counted(judge, &limits, || {
        compute(x.as_view_mut(), lse.as_view_mut(), rows, columns)
    });
}
