//! `model.safetensors`: every tensor of a GPT-2, checked against the config before any of it is used.

use safetensors::{Dtype, SafeTensors};

use crate::{Config, Error, ModelFiles};

/// The parameters of a GPT-2. `T` is `Vec<f32>` when just read, and a device array when uploaded.
///
/// Shapes are written with `V` = vocab_size, `C` = n_embd, `F` = n_inner; all are row-major `f32`. The weight
/// of a linear layer is `[in, out]` (GPT-2's "Conv1D"), so that `y = x · weight + bias`.
#[derive(Debug)]
pub struct Weights<T> {
    /// Token embedding `[V, C]`; its transpose is the output matrix too.
    pub wte: T,
    /// Position embedding `[n_ctx, C]`.
    pub wpe: T,
    /// The transformer blocks, first to last.
    pub blocks: Vec<Block<T>>,
    /// The last layer norm, `[C]`.
    pub ln_f: Affine<T>,
}

/// The parameters of one transformer block.
#[derive(Debug)]
pub struct Block<T> {
    /// Layer norm before attention, `[C]`.
    pub ln_1: Affine<T>,
    /// Projection to queries, keys and values side by side, `[C, 3C]`.
    pub attn_qkv: Affine<T>,
    /// Projection of the attention output, `[C, C]`.
    pub attn_out: Affine<T>,
    /// Layer norm before the feed-forward part, `[C]`.
    pub ln_2: Affine<T>,
    /// First linear layer of the feed-forward part, `[C, F]`.
    pub mlp_in: Affine<T>,
    /// Second linear layer of the feed-forward part, `[F, C]`.
    pub mlp_out: Affine<T>,
}

/// A weight and a bias: of a linear layer, or of a layer norm.
#[derive(Debug)]
pub struct Affine<T> {
    /// `[in, out]` of a linear layer, `[C]` of a layer norm.
    pub weight: T,
    /// `[out]` or `[C]`.
    pub bias: T,
}

impl Weights<Vec<f32>> {
    /// Reads every parameter from the `model.safetensors` of `files` and checks it.
    ///
    /// Tensor names are Hugging Face's, with or without the prefix `transformer.`. The causal-mask buffers of
    /// old checkpoints (`h.0.attn.bias`) are left alone, and so is an `lm_head.weight` that equals `wte`.
    ///
    /// # Errors
    ///
    /// [`Error::SafetensorsSyntax`] for a damaged file, [`Error::MissingTensor`], [`Error::TensorShape`],
    /// [`Error::TensorDtype`] (only `F32` is supported), [`Error::TensorNotFinite`], [`Error::ExtraBlock`],
    /// [`Error::UntiedHead`].
    pub fn load(files: &ModelFiles, config: &Config) -> Result<Self, Error> {
        let file = files.name_of("model.safetensors");
        let source = TensorFile::open(&files.weights, &file)?;
        source.refuse_extra_blocks(config.n_layer)?;
        source.refuse_untied_head()?;

        let (c, f) = (config.n_embd, config.n_inner);
        let norm = |name: &str| source.affine(name, &[c]);
        let block = |index: usize| {
            let name = |part: &str| format!("h.{index}.{part}");
            Ok(Block {
                ln_1: norm(&name("ln_1"))?,
                attn_qkv: source.affine(&name("attn.c_attn"), &[c, 3 * c])?,
                attn_out: source.affine(&name("attn.c_proj"), &[c, c])?,
                ln_2: norm(&name("ln_2"))?,
                mlp_in: source.affine(&name("mlp.c_fc"), &[c, f])?,
                mlp_out: source.affine(&name("mlp.c_proj"), &[f, c])?,
            })
        };
        Ok(Self {
            wte: source.tensor("wte.weight", &[config.vocab_size, c])?,
            wpe: source.tensor("wpe.weight", &[config.n_ctx, c])?,
            blocks: (0..config.n_layer)
                .map(block)
                .collect::<Result<_, Error>>()?,
            ln_f: norm("ln_f")?,
        })
    }
}

impl<T> Weights<T> {
    /// The same parameters, each passed through `f`: how they get onto the device.
    ///
    /// # Errors
    ///
    /// The first error of `f`.
    pub fn try_map<U, E>(self, mut f: impl FnMut(T) -> Result<U, E>) -> Result<Weights<U>, E> {
        let mut affine = |pair: Affine<T>| {
            Ok(Affine {
                weight: f(pair.weight)?,
                bias: f(pair.bias)?,
            })
        };
        let mut blocks = Vec::with_capacity(self.blocks.len());
        for block in self.blocks {
            blocks.push(Block {
                ln_1: affine(block.ln_1)?,
                attn_qkv: affine(block.attn_qkv)?,
                attn_out: affine(block.attn_out)?,
                ln_2: affine(block.ln_2)?,
                mlp_in: affine(block.mlp_in)?,
                mlp_out: affine(block.mlp_out)?,
            });
        }
        let ln_f = affine(self.ln_f)?;
        Ok(Weights {
            wte: f(self.wte)?,
            wpe: f(self.wpe)?,
            blocks,
            ln_f,
        })
    }
}

/// A safetensors file whose header holds together, and the prefix of its tensor names.
struct TensorFile<'a> {
    tensors: SafeTensors<'a>,
    prefix: &'static str,
    file: &'a str,
}

impl<'a> TensorFile<'a> {
    fn open(bytes: &'a [u8], file: &'a str) -> Result<Self, Error> {
        let tensors =
            SafeTensors::deserialize(bytes).map_err(|source| Error::SafetensorsSyntax {
                file: file.to_owned(),
                bytes: bytes.len(),
                source,
            })?;
        let prefixed = tensors
            .names()
            .iter()
            .any(|name| name.starts_with("transformer."));
        Ok(Self {
            tensors,
            prefix: if prefixed { "transformer." } else { "" },
            file,
        })
    }

    /// A linear layer with a weight of shape `weight` (`[in, out]`), or a layer norm (`[C]`).
    fn affine(&self, name: &str, weight: &[usize]) -> Result<Affine<Vec<f32>>, Error> {
        Ok(Affine {
            weight: self.tensor(&format!("{name}.weight"), weight)?,
            bias: self.tensor(&format!("{name}.bias"), &weight[weight.len() - 1..])?,
        })
    }

    fn tensor(&self, name: &str, expected: &[usize]) -> Result<Vec<f32>, Error> {
        let tensor = format!("{}{name}", self.prefix);
        let file = self.file.to_owned();
        let Ok(view) = self.tensors.tensor(&tensor) else {
            return Err(Error::MissingTensor { file, tensor });
        };
        if view.dtype() != Dtype::F32 {
            return Err(Error::TensorDtype {
                file,
                tensor,
                found: view.dtype().to_string(),
            });
        }
        if view.shape() != expected {
            let (found, expected) = (view.shape().to_vec(), expected.to_vec());
            return Err(Error::TensorShape {
                file,
                tensor,
                found,
                expected,
            });
        }
        // The values are copied one by one because safetensors aligns nothing within the file.
        let (values, _) = view.data().as_chunks::<4>();
        let values: Vec<f32> = values
            .iter()
            .map(|bytes| f32::from_le_bytes(*bytes))
            .collect();
        if let Some(index) = values.iter().position(|value| !value.is_finite()) {
            return Err(Error::TensorNotFinite {
                file,
                tensor,
                found: values[index],
                index,
            });
        }
        Ok(values)
    }

    /// A config that counts too few blocks would silently run a shorter model.
    fn refuse_extra_blocks(&self, n_layer: usize) -> Result<(), Error> {
        for name in self.tensors.names() {
            let block = name
                .strip_prefix(self.prefix)
                .and_then(|rest| rest.strip_prefix("h."));
            let index = block.and_then(|rest| rest.split('.').next()?.parse::<usize>().ok());
            if index.is_some_and(|index| index >= n_layer) {
                let (file, tensor) = (self.file.to_owned(), name.to_owned());
                return Err(Error::ExtraBlock {
                    file,
                    tensor,
                    n_layer,
                });
            }
        }
        Ok(())
    }

    fn refuse_untied_head(&self) -> Result<(), Error> {
        let embedding = format!("{}wte.weight", self.prefix);
        match (
            self.tensors.tensor("lm_head.weight"),
            self.tensors.tensor(&embedding),
        ) {
            (Ok(head), Ok(wte)) if head.data() != wte.data() => Err(Error::UntiedHead {
                file: self.file.to_owned(),
                embedding,
            }),
            _ => Ok(()),
        }
    }
}
