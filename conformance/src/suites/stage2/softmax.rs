use ndarray::{Array2, Array3};
use stage2_naive_cuda::{Axis, Softmax, Steps};

use super::{AnyError, HUGE, Limit, buffers, schedules, untouched};
use crate::Judge;
use crate::device::Device;
use crate::problems::Problem as _;
use crate::problems::softmax::{self as table, Output, Problem};
use crate::report::Part;

/// Softmax over either dimension.
pub fn softmax(judge: &mut Judge<'_>, device: &Device, own: &impl Steps) {
    for &part in judge.parts() {
        let solve = |problem: &Problem, output: &mut Output| solve(device, own, problem, output);
        match part {
            Part::Table => judge.problems(part, table::problems(), solve),
            Part::Random => {
                let random = judge.seeds(40).map(table::random);
                judge.problems(part, random, solve);
            }
            Part::Arguments => arguments(judge, device, own),
            Part::Schedules => schedules(judge, "seeds_softmax", || {
                let mut values = Vec::new();
                for problem in (0..4).map(table::random) {
                    let mut output = problem.poisoned();
                    solve(&problem, &mut output)?;
                    values.extend(output.y.into_iter().chain(output.lse));
                }
                Ok(values)
            }),
            Part::Counted => counted(judge, device, own),
            Part::Strided => {}
        }
    }
}

fn axis(axis: table::Axis) -> Axis {
    match axis {
        table::Axis::Last => Axis::Last,
        table::Axis::NextToLast => Axis::NextToLast,
    }
}

/// Computes a problem in device memory.
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
    let (mut x, mut lse) = (device.upload(&problem.x), device.upload(&output.lse));
    let (batch, rows, columns) = problem.x.dim();
    let shape = Softmax {
        batch,
        rows,
        columns,
        axis: axis(problem.axis),
    };
    own.softmax(x.as_view_mut(), Some(lse.as_view_mut()), &shape)?;
    device.read_into(&x, &mut output.y)?;
    Ok(device.read_into(&lse, &mut output.lse)?)
}

fn arguments<S: Steps>(judge: &mut Judge<'_>, device: &Device, own: &S) {
    const LIMIT: usize = (1 << 30) - 1;
    for (name, argument, lengths, [batch, rows, columns], axis) in [
        ("softmax_short_x", "x", [119, 8], [2, 4, 15], Axis::Last),
        ("softmax_short_lse", "lse", [120, 7], [2, 4, 15], Axis::Last),
        (
            "softmax_short_lse_of_columns",
            "lse",
            [120, 29],
            [2, 4, 15],
            Axis::NextToLast,
        ),
        (
            "softmax_huge_rows",
            "rows",
            [120, 8],
            [1, HUGE, 1],
            Axis::Last,
        ),
        (
            "softmax_huge_product",
            "x",
            [120, 8],
            [LIMIT; 3],
            Axis::NextToLast,
        ),
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
        let shape = Softmax {
            batch,
            rows,
            columns,
            axis,
        };
        judge.refusal(name, argument, S::argument_of, || {
            let of_x = (argument != "grid").then(|| lse.as_view_mut());
            let result = own.softmax(x.as_view_mut(), of_x, &shape);
            (result, untouched(device, &[&x, &lse]))
        });
    }
}

/// Elements travel in whole sectors: x is read for the maximum, for the sum and for the quotient, and written twice, as
/// exponentials and as quotients. Each row's lse is a sector of its own.
fn counted(judge: &mut Judge<'_>, device: &Device, own: &impl Steps) {
    let (batch, rows, columns) = (2, 64, 1000);
    let mut x = device.upload(&Array3::<f32>::ones((batch, rows, columns)));
    let mut lse = device.upload(&Array2::<f32>::zeros((batch, rows)));
    let shape = Softmax {
        batch,
        rows,
        columns,
        axis: Axis::Last,
    };
    let sectors = (batch * rows * columns) as u64 * 4 / 32;
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
            2 * sectors + (batch * rows) as u64,
        ),
    ];
    super::counted(judge, &limits, || {
        own.softmax(x.as_view_mut(), Some(lse.as_view_mut()), &shape)
    });
}
