//! The suite of stage 1: attention and the multi-head layer on host arrays.

use ndarray::{Array1, Array2, Array3, Array4};
use stage1_reference::{Attend, MultiHead, MultiHeadAttention, Options};

use super::host;
use crate::problems::multi_head::{Problem, input, layer, problems, random};
use crate::report::{Part, Report};
use crate::{Implementation, Judge};

/// Both tasks, and dropout.
pub fn judge(who: &Implementation<'_>, parts: &[Part], own: &impl MultiHead) -> Report {
    let mut judge = Judge::new(who, parts);
    attention(&mut judge, own);
    dropout(&mut judge, own);
    multi_head(&mut judge, own);
    judge.report()
}

/// Attention.
pub fn attention(judge: &mut Judge<'_>, own: &impl Attend) {
    host::attention(judge, own);
}

/// Attention with dropout, which the task does not ask for.
pub fn dropout(judge: &mut Judge<'_>, own: &impl Attend) {
    host::dropout(judge, own);
}

/// The multi-head layer.
pub fn multi_head<M: MultiHead>(judge: &mut Judge<'_>, own: &M) {
    let solve = |problem: &Problem, output: &mut Array3<f32>| {
        *output = own.multi_head(&problem.layer, problem.x.view(), &problem.options)?;
        Ok::<_, M::Error>(())
    };
    for &part in judge.parts() {
        match part {
            Part::Table => judge.problems(part, problems(), solve),
            Part::Random => {
                let random = judge.seeds(40).map(random);
                judge.problems(part, random, solve);
            }
            Part::Arguments => arguments(judge, own),
            Part::Strided | Part::Schedules | Part::Counted => {}
        }
    }
}

fn arguments<M: MultiHead>(judge: &mut Judge<'_>, own: &M) {
    type Spoil = fn(&mut MultiHeadAttention);
    let bad: [(&str, Spoil, &str); 8] = [
        ("5_heads_of_hidden_16", |layer| layer.heads = 5, "x"),
        ("no_heads", |layer| layer.heads = 0, "x"),
        (
            "w_q_not_square",
            |layer| layer.w_q.weight = Array2::zeros((16, 15)),
            "w_q.weight",
        ),
        (
            "w_k_not_square",
            |layer| layer.w_k.weight = Array2::zeros((15, 16)),
            "w_k.weight",
        ),
        (
            "w_v_empty",
            |layer| layer.w_v.weight = Array2::zeros((0, 0)),
            "w_v.weight",
        ),
        (
            "w_o_of_32_rows",
            |layer| layer.w_o.weight = Array2::zeros((32, 16)),
            "w_o.weight",
        ),
        (
            "b_v_of_1",
            |layer| layer.w_v.bias = Some(Array1::zeros(1)),
            "w_v.bias",
        ),
        (
            "b_o_of_17",
            |layer| layer.w_o.bias = Some(Array1::zeros(17)),
            "w_o.bias",
        ),
    ];
    let plain = Options::default;
    let (x, nothing) = (input(2, 3, 16), input(2, 0, 16));
    let mut refusal =
        |name: &str, argument: &str, layer: &MultiHeadAttention, x: &Array3<f32>, options| {
            judge.refusal(name, argument, M::argument_of, || {
                let result = own.multi_head(layer, x.view(), &options);
                (result.map(|_| ()), true)
            });
        };
    for (name, spoil, argument) in bad {
        let mut layer = layer(16, 4, true);
        spoil(&mut layer);
        refusal(name, argument, &layer, &x, plain());
        let name = format!("{name}_without_tokens");
        refusal(&name, argument, &layer, &nothing, plain());
    }
    let layer = layer(16, 4, true);
    for (name, argument, x, options) in [
        (
            "layer_mask_of_4_keys",
            "mask",
            &x,
            plain().mask(Array4::zeros((2, 4, 3, 4))),
        ),
        ("layer_scale_of_nan", "scale", &x, plain().scale(f32::NAN)),
        (
            "layer_scale_of_infinity",
            "scale",
            &x,
            plain().scale(f32::INFINITY),
        ),
        (
            "layer_scale_of_nan_without_tokens",
            "scale",
            &nothing,
            plain().scale(f32::NAN),
        ),
    ] {
        refusal(name, argument, &layer, x, options);
    }
}
