//! A checkpoint's tensors to the weights of a decoder.

use std::cell::RefCell;
use std::collections::BTreeSet;

use super::tensors::{Elements, Tensors};
use super::{Block, Linear, Matrix, Memory, Norm, Weights};
use crate::architecture::{Architecture, NormKind, Positions};
use crate::config::{Config, Layout};
use crate::{Error, ModelFiles};

/// Hugging Face's names of the tensors, without `.weight` and `.bias`.
struct Names {
    /// Stands before all other names but the head's, in some files.
    prefix: &'static str,
    embedding: &'static str,
    positions: &'static str,
    layers: &'static str,
    attention_norm: &'static str,
    /// One tensor, or those of queries, keys and values.
    qkv: &'static [&'static str],
    out: &'static str,
    mlp_norm: &'static str,
    /// One tensor, or those of the gate and of what it multiplies.
    up: &'static [&'static str],
    down: &'static str,
    norm: &'static str,
    /// Weights of linear layers are stored `[in, out]`.
    transposed: bool,
    /// Tensors of a layer that old checkpoints have and that hold no parameters.
    buffers: &'static [&'static str],
}

const GPT2: Names = Names {
    prefix: "transformer.",
    embedding: "wte",
    positions: "wpe",
    layers: "h",
    attention_norm: "ln_1",
    qkv: &["attn.c_attn"],
    out: "attn.c_proj",
    mlp_norm: "ln_2",
    up: &["mlp.c_fc"],
    down: "mlp.c_proj",
    norm: "ln_f",
    transposed: true,
    buffers: &["attn.bias", "attn.masked_bias"],
};

const LLAMA: Names = Names {
    prefix: "model.",
    embedding: "embed_tokens",
    positions: "embed_positions",
    layers: "layers",
    attention_norm: "input_layernorm",
    qkv: &["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"],
    out: "self_attn.o_proj",
    mlp_norm: "post_attention_layernorm",
    up: &["mlp.gate_proj", "mlp.up_proj"],
    down: "mlp.down_proj",
    norm: "norm",
    transposed: false,
    buffers: &["self_attn.rotary_emb.inv_freq"],
};

const HEAD: &str = "lm_head.weight";

impl<M: Memory> Weights<M> {
    /// Reads every parameter from the weights of `files`, checks it and puts it into `memory`, one
    /// after the other: the host holds no more than two copies of one tensor.
    ///
    /// Tensor names are Hugging Face's, with or without the prefix `transformer.` or `model.`.
    /// GPT-2's linear layers, stored `[in, out]`, are transposed. The causal-mask buffers and
    /// rotary tables of old checkpoints are left alone, and so is an `lm_head.weight` that equals
    /// the embedding it is tied to.
    ///
    /// # Errors
    ///
    /// [`Error::SafetensorsSyntax`] for a damaged file, [`Error::TensorTwice`],
    /// [`Error::MissingTensor`], [`Error::TensorShape`], [`Error::TensorDtype`],
    /// [`Error::TensorNotFinite`], [`Error::ExtraTensor`],
    /// [`Error::UntiedHead`]; those of `memory`.
    pub fn load(files: &ModelFiles, config: &Config, memory: &M) -> Result<Self, Error> {
        let tensors = Tensors::open(&files.weights)?;
        let names = match config.layout {
            Layout::Gpt2 => &GPT2,
            Layout::Llama => &LLAMA,
        };
        let architecture = &config.architecture;
        Loader::new(&tensors, names, &Nowhere).check(architecture)?;
        Loader::new(&tensors, names, memory).load(architecture)
    }
}

/// The memory of a loader that only checks.
struct Nowhere;

impl Memory for Nowhere {
    type Matrix = ();
    type Vector = ();

    fn matrix(&self, _: Matrix<Vec<u8>>) -> Result<(), Error> {
        Ok(())
    }

    fn vector(&self, _: Vec<f32>) -> Result<(), Error> {
        Ok(())
    }
}

struct Loader<'t, 'f, M> {
    tensors: &'t Tensors<'f>,
    names: &'static Names,
    prefix: &'static str,
    memory: &'t M,
    /// The tensors that were asked for, by a loader that only checks: it reads none.
    checked: Option<RefCell<BTreeSet<String>>>,
}

impl Loader<'_, '_, Nowhere> {
    /// Goes through all tensors as if to load them: names, shapes and dtypes. A tensor that
    /// nothing reads would be left out of the model silently, for example a bias that the config
    /// does not tell of: it is refused.
    fn check(mut self, architecture: &Architecture) -> Result<(), Error> {
        self.checked = Some(RefCell::default());
        self.load(architecture)?;
        let checked = self.checked.take().unwrap_or_default().into_inner();
        let buffers: BTreeSet<String> = (0..architecture.layers)
            .flat_map(|layer| self.names.buffers.iter().map(move |part| (layer, part)))
            .map(|(layer, part)| self.layer_name(layer, part))
            .collect();
        let known = |name: &str| checked.contains(name) || buffers.contains(name) || name == HEAD;
        if let Some(tensor) = self.tensors.names().find(|name| !known(name)) {
            return Err(Error::ExtraTensor {
                file: self.tensors.file_of(tensor),
                tensor: tensor.to_owned(),
                layers: architecture.layers,
            });
        }
        match architecture.tied && self.tensors.has(HEAD) {
            true => self.refuse_untied_head([architecture.vocab, architecture.hidden]),
            false => Ok(()),
        }
    }

    fn refuse_untied_head(&self, shape: [usize; 2]) -> Result<(), Error> {
        let embedding = self.name(self.names.embedding) + ".weight";
        let (head, table) = (
            self.tensors.read(HEAD, &shape)?,
            self.tensors.read(&embedding, &shape)?,
        );
        if head.dtype != table.dtype || head.bytes != table.bytes {
            return Err(Error::UntiedHead {
                file: self.tensors.file_of(HEAD),
                embedding,
            });
        }
        Ok(())
    }
}

impl<'t, 'f, M: Memory> Loader<'t, 'f, M> {
    fn new(tensors: &'t Tensors<'f>, names: &'static Names, memory: &'t M) -> Self {
        let prefixed = tensors.names().any(|name| name.starts_with(names.prefix));
        Self {
            tensors,
            names,
            prefix: if prefixed { names.prefix } else { "" },
            memory,
            checked: None,
        }
    }

    fn load(&self, architecture: &Architecture) -> Result<Weights<M>, Error> {
        let Architecture {
            layers,
            hidden,
            vocab,
            context,
            ..
        } = *architecture;
        let table = |name: &str, rows| {
            let name = self.name(name) + ".weight";
            self.matrix(&name, rows, hidden)
        };
        Ok(Weights {
            embedding: table(self.names.embedding, vocab)?,
            positions: match architecture.positions {
                Positions::Learned => Some(table(self.names.positions, context)?),
                Positions::Rope(_) => None,
            },
            blocks: (0..layers)
                .map(|layer| self.block(layer, architecture))
                .collect::<Result<_, _>>()?,
            norm: self.norm(&self.name(self.names.norm), architecture)?,
            head: match architecture.tied {
                true => None,
                false => Some(self.matrix(HEAD, vocab, hidden)?),
            },
        })
    }

    fn block(&self, layer: usize, architecture: &Architecture) -> Result<Block<M>, Error> {
        let Architecture {
            heads,
            kv_heads,
            head_dim,
            hidden,
            inner,
            biases,
            ..
        } = *architecture;
        let names = &self.names;
        let name = |part: &str| self.layer_name(layer, part);
        let linear = |parts: &[(&str, usize)], inputs: usize, bias: bool| {
            let parts: Vec<_> = parts
                .iter()
                .map(|&(part, rows)| (name(part), rows))
                .collect();
            self.linear(&parts, inputs, bias)
        };
        let (q, kv) = (heads * head_dim, kv_heads * head_dim);
        let qkv: &[(&str, usize)] = match *names.qkv {
            [q_name, k, v] => &[(q_name, q), (k, kv), (v, kv)],
            _ => &[(names.qkv[0], q + 2 * kv)],
        };
        let up: &[(&str, usize)] = match *names.up {
            [gate, up] => &[(gate, inner), (up, inner)],
            _ => &[(names.up[0], inner)],
        };
        Ok(Block {
            attention_norm: self.norm(&name(names.attention_norm), architecture)?,
            qkv: linear(qkv, hidden, biases.qkv)?,
            out: linear(&[(names.out, hidden)], q, biases.out)?,
            mlp_norm: self.norm(&name(names.mlp_norm), architecture)?,
            up: linear(up, hidden, biases.mlp)?,
            down: linear(&[(names.down, hidden)], inner, biases.mlp)?,
        })
    }

    /// A linear layer whose rows are those of several tensors, one behind the other.
    fn linear(
        &self,
        parts: &[(String, usize)],
        inputs: usize,
        bias: bool,
    ) -> Result<Linear<M>, Error> {
        let mut weight: Option<Elements> = None;
        for (name, rows) in parts {
            let name = format!("{name}.weight");
            let part = match self.names.transposed {
                true => self.read(&name, &[inputs, *rows])?.transposed(inputs),
                false => self.read(&name, &[*rows, inputs])?,
            };
            match &mut weight {
                None => weight = Some(part),
                Some(first) if first.dtype == part.dtype => {
                    first.bytes.extend_from_slice(&part.bytes)
                }
                Some(first) => {
                    return Err(Error::TensorDtype {
                        file: self.tensors.file_of(&name),
                        tensor: name,
                        found: part.dtype.to_string(),
                        expected: first.dtype.name(),
                    });
                }
            }
        }
        let rows = parts.iter().map(|(_, rows)| rows).sum();
        let Elements { dtype, bytes } = weight.unwrap_or(Elements {
            dtype: stage5_decode::Dtype::F32,
            bytes: Vec::new(),
        });
        let weight = self.memory.matrix(Matrix {
            dtype,
            rows,
            columns: inputs,
            bytes,
        })?;
        let bias = match bias {
            true => {
                let mut values = Vec::with_capacity(rows);
                for (name, rows) in parts {
                    let part = self.read(&format!("{name}.bias"), &[*rows])?;
                    values.extend(part.to_f32());
                }
                Some(self.memory.vector(values)?)
            }
            false => None,
        };
        Ok(Linear { weight, bias })
    }

    fn norm(&self, name: &str, architecture: &Architecture) -> Result<Norm<M>, Error> {
        let vector = |part: &str| {
            let values = self.read(&format!("{name}.{part}"), &[architecture.hidden])?;
            self.memory.vector(values.to_f32())
        };
        Ok(Norm {
            weight: vector("weight")?,
            bias: match architecture.norm {
                NormKind::LayerNorm => Some(vector("bias")?),
                NormKind::RmsNorm => None,
            },
        })
    }

    fn matrix(&self, name: &str, rows: usize, columns: usize) -> Result<M::Matrix, Error> {
        let Elements { dtype, bytes } = self.read(name, &[rows, columns])?;
        self.memory.matrix(Matrix {
            dtype,
            rows,
            columns,
            bytes,
        })
    }

    fn name(&self, part: &str) -> String {
        format!("{}{part}", self.prefix)
    }

    fn layer_name(&self, layer: usize, part: &str) -> String {
        self.name(&format!("{}.{layer}.{part}", self.names.layers))
    }

    fn read(&self, name: &str, shape: &[usize]) -> Result<Elements, Error> {
        match &self.checked {
            None => self.tensors.read(name, shape),
            Some(checked) => {
                let dtype = self.tensors.check(name, shape)?;
                checked.borrow_mut().insert(name.to_owned());
                let bytes = Vec::new();
                Ok(Elements { dtype, bytes })
            }
        }
    }
}
