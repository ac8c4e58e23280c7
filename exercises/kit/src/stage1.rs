//! The calls of stage 1: attention and the multi-head layer, on host arrays.

use ndarray::{Array4, Ix1, Ix2, Ix3, Ix4};
use serde::{Deserialize, Serialize};
use stage1_reference::{Attend, Error, Linear, MultiHead, MultiHeadAttention, Options, Window};

use crate::frame::{Broken, Tensor, Tensors};
use crate::message::Outcome;
use crate::serving::{self, Answer, guarded};

/// A call of [`Attend`] or [`MultiHead`].
#[derive(Serialize, Deserialize, Debug, Clone)]
pub enum Call {
    /// [`Attend::attend`]. Takes q, k, v, and the tensors of the modifiers; gives o and lse.
    Attend(Modifiers),
    /// [`MultiHead::multi_head`]. Takes x, for each of the four maps its weight and, where there is one, its bias, and the
    /// tensors of the modifiers; gives the output.
    MultiHead {
        /// Heads of the layer.
        heads: usize,
        /// Whether `w_q`, `w_k`, `w_v` and `w_o` have a bias.
        biases: [bool; 4],
        /// The options.
        modifiers: Modifiers,
    },
}

/// [`Options`], without their tensors.
#[derive(Serialize, Deserialize, Debug, Clone)]
pub struct Modifiers {
    /// The bits: JSON has no NaN.
    scale: Option<u32>,
    causal: bool,
    /// Left and right.
    window: Option<[usize; 2]>,
    key_lengths: Option<Vec<usize>>,
    /// Whether an additive mask follows.
    mask: bool,
    /// Whether a block-sparse mask follows, a byte for each block.
    blocks: bool,
}

impl Modifiers {
    /// Options, and their tensors.
    pub fn of(options: &Options) -> (Self, Vec<Tensor>) {
        let modifiers = Self {
            scale: options.scale.map(f32::to_bits),
            causal: options.causal,
            window: options.window.map(|window| [window.left, window.right]),
            key_lengths: options.key_lengths.clone(),
            mask: options.mask.is_some(),
            blocks: options.blocks.is_some(),
        };
        let mask = options.mask.as_ref().map(Tensor::of_array);
        let blocks = options.blocks.as_ref();
        let blocks = blocks.map(|blocks| Tensor::of_array(&blocks.mapv(u8::from)));
        (modifiers, mask.into_iter().chain(blocks).collect())
    }

    /// The options.
    ///
    /// # Errors
    ///
    /// [`Broken::Tensor`].
    pub fn options(self, tensors: &mut Tensors) -> Result<Options, Broken> {
        let mut options = Options::default();
        options.scale = self.scale.map(f32::from_bits);
        options.causal = self.causal;
        options.window = self.window.map(|[left, right]| Window { left, right });
        options.key_lengths = self.key_lengths;
        if self.mask {
            options.mask = Some(tensors.array::<f32, Ix4>()?);
        }
        if self.blocks {
            let blocks: Array4<u8> = tensors.array()?;
            options.blocks = Some(blocks.mapv(|block| block != 0));
        }
        Ok(options)
    }
}

/// The argument that an error names.
pub(crate) type ArgumentOf = fn(&Error) -> Option<&str>;

/// Answers calls of the stage's interface.
pub fn serve<M: MultiHead<Error = Error>>(own: M) -> ! {
    serve_any(&own, M::argument_of)
}

fn serve_any(own: &dyn MultiHead<Error = Error>, argument_of: ArgumentOf) -> ! {
    serving::serve(|call, mut tensors, _| match call {
        Call::Attend(modifiers) => attend(own, argument_of, modifiers, tensors),
        Call::MultiHead {
            heads,
            biases,
            modifiers,
        } => {
            let x = tensors.array::<f32, Ix3>()?;
            let mut maps = Vec::new();
            for bias in biases {
                maps.push(Linear {
                    weight: tensors.array::<f32, Ix2>()?,
                    bias: bias.then(|| tensors.array::<f32, Ix1>()).transpose()?,
                });
            }
            let mut maps = maps.into_iter();
            let mut next = || maps.next().expect("there are four");
            let layer = MultiHeadAttention {
                w_q: next(),
                w_k: next(),
                w_v: next(),
                w_o: next(),
                heads,
            };
            let options = modifiers.options(&mut tensors)?;
            let result = guarded(|| own.multi_head(&layer, x.view(), &options));
            Ok(answered(result, argument_of, |y| {
                vec![Tensor::of_array(&y)]
            }))
        }
    })
}

/// Answers [`Call::Attend`].
///
/// # Errors
///
/// [`Broken::Tensor`].
pub(crate) fn attend(
    own: &dyn Attend<Error = Error>,
    argument_of: ArgumentOf,
    modifiers: Modifiers,
    mut tensors: Tensors,
) -> Result<Answer, Broken> {
    let [q, k, v] = [
        tensors.array::<f32, Ix4>()?,
        tensors.array::<f32, Ix4>()?,
        tensors.array::<f32, Ix4>()?,
    ];
    let options = modifiers.options(&mut tensors)?;
    let result = guarded(|| own.attend(q.view(), k.view(), v.view(), &options));
    Ok(answered(result, argument_of, |output| {
        vec![Tensor::of_array(&output.o), Tensor::of_array(&output.lse)]
    }))
}

fn answered<T>(
    result: Result<Result<T, Error>, Outcome>,
    argument_of: ArgumentOf,
    tensors: impl FnOnce(T) -> Vec<Tensor>,
) -> Answer {
    match result {
        Ok(Ok(output)) => Answer::on_host(Outcome::Done, tensors(output)),
        Ok(Err(error)) => {
            let argument = argument_of(&error).map(str::to_owned);
            let text = error.to_string();
            Answer::on_host(Outcome::Refused { argument, text }, Vec::new())
        }
        Err(panicked) => Answer::on_host(panicked, Vec::new()),
    }
}
