//! The calls of stage 1: attention and the multi-head layer, on host arrays.

use serde::{Deserialize, Serialize};
use stage1_reference::{Attend, Error, Linear, MultiHead, MultiHeadAttention, Options};

use crate::frame::{Broken, Tensor};
use crate::memory;
use crate::message::Outcome;
use crate::serving::{self, Answer, guarded};

/// A call of [`Attend`] or [`MultiHead`].
#[derive(Serialize, Deserialize, Debug, Clone)]
pub enum Call {
    /// [`Attend::attend`]. Gives o and lse.
    Attend(Attention),
    /// [`MultiHead::multi_head`]. Gives the output.
    MultiHead {
        /// The input.
        x: Tensor,
        /// Weight and bias of `w_q`, `w_k`, `w_v` and `w_o`.
        maps: Box<[(Tensor, Option<Tensor>); 4]>,
        /// Heads of the layer.
        heads: usize,
        /// The options.
        options: Options,
    },
}

/// The arguments of [`Attend::attend`].
#[derive(Serialize, Deserialize, Debug, Clone)]
pub struct Attention {
    /// Queries.
    pub q: Tensor,
    /// Keys.
    pub k: Tensor,
    /// Values.
    pub v: Tensor,
    /// The options.
    pub options: Options,
}

/// Reader of the argument that an error names.
pub(crate) type ArgumentOf = fn(&Error) -> Option<&str>;

/// Answers calls of the stage's interface.
pub fn serve<M: MultiHead<Error = Error>>(own: M) -> ! {
    serve_any(&own, M::argument_of)
}

fn serve_any(own: &dyn MultiHead<Error = Error>, argument_of: ArgumentOf) -> ! {
    serving::serve(|call, run| match call {
        Call::Attend(attention) => attend(own, argument_of, &attention),
        Call::MultiHead {
            x,
            maps,
            heads,
            options,
        } => {
            let map = |(weight, bias): &(Tensor, Option<Tensor>)| {
                Ok::<_, Broken>(Linear {
                    weight: weight.array()?,
                    bias: bias.as_ref().map(Tensor::array).transpose()?,
                })
            };
            let [w_q, w_k, w_v, w_o] = maps.each_ref().map(map);
            let mut layer = MultiHeadAttention {
                w_q: w_q?,
                w_k: w_k?,
                w_v: w_v?,
                w_o: w_o?,
                heads,
            };
            let x = x.array()?;
            if run.checks {
                // Other weights at the same addresses, of which nothing may be kept.
                negate(&mut layer);
                let _ = guarded(|| own.multi_head(&layer, x.view(), &options));
                negate(&mut layer);
            }
            let result = guarded(|| own.multi_head(&layer, x.view(), &options));
            Ok(answered(result, argument_of, |y| {
                vec![Tensor::from_array(&y)]
            }))
        }
    })
}

fn negate(layer: &mut MultiHeadAttention) {
    for map in [
        &mut layer.w_q,
        &mut layer.w_k,
        &mut layer.w_v,
        &mut layer.w_o,
    ] {
        map.weight.mapv_inplace(|weight| -weight);
    }
}

/// Answers [`Call::Attend`].
///
/// # Errors
///
/// [`Broken::Tensor`].
pub(crate) fn attend(
    own: &dyn Attend<Error = Error>,
    argument_of: ArgumentOf,
    Attention { q, k, v, options }: &Attention,
) -> Result<Answer, Broken> {
    let (q, k, v) = (q.array()?, k.array()?, v.array()?);
    let (peak, result) =
        memory::peak(|| guarded(|| own.attend(q.view(), k.view(), v.view(), options)));
    let answer = answered(result, argument_of, |output| {
        vec![
            Tensor::from_array(&output.o),
            Tensor::from_array(&output.lse),
        ]
    });
    Ok(Answer { peak, ..answer })
}

fn answered<T>(
    result: Result<Result<T, Error>, Outcome>,
    argument_of: ArgumentOf,
    outputs: impl FnOnce(T) -> Vec<Tensor>,
) -> Answer {
    match result {
        Ok(Ok(output)) => Answer::on_host(Outcome::Done, outputs(output)),
        Ok(Err(error)) => {
            let argument = argument_of(&error).map(str::to_owned);
            let text = error.to_string();
            Answer::on_host(Outcome::Refused { argument, text }, Vec::new())
        }
        Err(panicked) => Answer::on_host(panicked, Vec::new()),
    }
}
