//! Dropout in device memory, or its refusal where it is lacked. No exercise is asked for it.

use stage1_reference::Sizes;
use stage4_flash_cuda::{BackwardInputs, Fused, FusedBackward, Gradients, Inputs, Outputs, Shape};

use super::SEEDS;
use super::backward::{PACKED, solve_both};
use crate::device::Device;
use crate::layout::Layout;
use crate::problems::attention::{Problem, with_dropout};
use crate::problems::gradients;
use crate::report::Part;
use crate::suites::host::bad_dropout;
use crate::suites::stage2::{OLD, under_seeds, untouched};
use crate::{AnyError, Element, Judge};

/// Layouts of q, k, v and o.
const STRIDED: [Layout; 4] = [
    Layout::SequenceFirst,
    Layout::Cache,
    Layout::Sparse,
    Layout::SequenceFirst,
];

/// Sizes of calls that must be refused, and the elements of each of their tensors.
const REFUSED: Sizes = Sizes {
    batch: 1,
    heads: 1,
    kv_heads: 1,
    nq: 2,
    nk: 2,
    head_dim: 16,
};
const ELEMENTS: usize = 32;

/// Attention with dropout, on tensors of `T`.
pub fn forward<T: Element, F: Fused<T>>(judge: &mut Judge<'_>, device: &Device, own: &F) {
    let solve = |layouts| {
        move |problem: &Problem, output: &mut _| {
            *output = super::solve(device, own, problem, layouts)?;
            Ok::<_, AnyError>(())
        }
    };
    let problems = problems::<T>();
    let problems = || problems.iter().cloned();
    for &part in judge.parts() {
        match part {
            Part::Table => judge.problems(part, problems(), solve(PACKED)),
            Part::Strided => judge.problems(part, problems().step_by(5), solve(STRIDED)),
            Part::Arguments => {
                let tensor = device.filled::<T>(OLD, ELEMENTS);
                let mut o = device.filled::<T>(OLD, ELEMENTS);
                for (name, dropout, argument) in bad_dropout(judge.lacks()) {
                    let shape = Shape {
                        dropout: Some(dropout),
                        ..Shape::packed(REFUSED)
                    };
                    judge.refusal(name, argument, F::argument_of, || {
                        let view = || tensor.as_view();
                        let outputs = Outputs {
                            o: o.as_view_mut(),
                            lse: None,
                        };
                        let result =
                            own.forward(Inputs::new(view(), view(), view()), outputs, &shape);
                        (result, untouched(device, &[&o]))
                    });
                }
            }
            Part::Schedules => under_seeds(judge, "seeds_dropout", SEEDS, || {
                let mut values = Vec::new();
                for problem in problems().step_by(6) {
                    let output = super::solve(device, own, &problem, PACKED)?;
                    values.extend(output.o.into_iter().chain(output.lse));
                }
                Ok(values)
            }),
            Part::Random | Part::Counted => {}
        }
    }
}

/// The backward pass with dropout, on tensors of `T`. `forward` computes o and lse in f32.
pub fn backward<T: Element, F: FusedBackward<T>>(
    judge: &mut Judge<'_>,
    device: &Device,
    forward: &impl Fused<T>,
    own: &F,
) {
    let solve = |layouts| {
        move |problem: &gradients::Problem, output: &mut _| {
            *output = solve_both(device, forward, own, problem, layouts)?;
            Ok::<_, AnyError>(())
        }
    };
    let problems = Vec::from_iter(problems::<T>().into_iter().map(gradients::Problem::new));
    let problems = || problems.iter().cloned();
    for &part in judge.parts() {
        match part {
            Part::Table => judge.problems(part, problems(), solve(PACKED)),
            Part::Strided => judge.problems(part, problems().step_by(5), solve(STRIDED)),
            Part::Arguments => {
                let tensor = device.filled::<T>(OLD, ELEMENTS);
                let [mut dq, mut dk, mut dv] = [(); 3].map(|()| tensor.clone());
                let lse = device.filled::<f32>(OLD, ELEMENTS);
                for (name, dropout, argument) in bad_dropout(judge.lacks()) {
                    let shape = Shape {
                        dropout: Some(dropout),
                        ..Shape::packed(REFUSED)
                    };
                    judge.refusal(name, argument, F::argument_of, || {
                        let view = || tensor.as_view();
                        let inputs = BackwardInputs {
                            forward: Inputs::new(view(), view(), view()),
                            o: view(),
                            lse: lse.as_view(),
                            d_o: view(),
                        };
                        let gradients = Gradients {
                            dq: dq.as_view_mut(),
                            dk: dk.as_view_mut(),
                            dv: dv.as_view_mut(),
                        };
                        let result = own.backward(inputs, gradients, &shape);
                        (result, untouched(device, &[&dq, &dk, &dv]))
                    });
                }
            }
            Part::Schedules => under_seeds(judge, "seeds_dropout_backward", SEEDS, || {
                let mut values = Vec::new();
                for problem in problems().step_by(6) {
                    let gradients = solve_both(device, forward, own, &problem, PACKED)?;
                    let all = [gradients.dq, gradients.dk, gradients.dv];
                    values.extend(all.into_iter().flatten());
                }
                Ok(values)
            }),
            Part::Random | Part::Counted => {}
        }
    }
}

fn problems<T: Element>() -> Vec<Problem> {
    let problems = with_dropout().into_iter();
    problems
        .map(|problem| problem.stored_in(T::DTYPE))
        .collect()
}
