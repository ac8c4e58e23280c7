//! The parameters of a decoder: `model.safetensors`, every tensor checked against the config before any is used.

use std::fmt::Debug;
use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream};
use safetensors::SafeTensors;
use stage5_decode::Dtype;

use crate::{Config, Error, ModelFiles};

/// The parameters of a decoder, in the memory of the host or of a device.
///
/// Letters in shapes are those of [`Architecture`](crate::Architecture). Every matrix is row-major and keeps the dtype of its file; vectors
/// are f32.
#[derive(Debug)]
pub struct Weights<M: Memory> {
    /// Token embedding `[V, C]`.
    pub embedding: M::Matrix,
    /// Position embedding `[context, C]`, if positions are learned.
    pub positions: Option<M::Matrix>,
    /// The transformer blocks, first to last.
    pub blocks: Vec<Block<M>>,
    /// The last norm.
    pub norm: Norm<M>,
    /// The output matrix `[V, C]`; `None` if it is the token embedding.
    pub head: Option<M::Matrix>,
}

/// The parameters of one transformer block.
#[derive(Debug)]
pub struct Block<M: Memory> {
    /// Norm before attention.
    pub attention_norm: Norm<M>,
    /// Projection `[(H + 2 H_kv) D, C]`: the rows of the queries, then of the keys, then of the values.
    pub qkv: Linear<M>,
    /// Projection of the attention output, `[C, H D]`.
    pub out: Linear<M>,
    /// Norm before the feed-forward part.
    pub mlp_norm: Norm<M>,
    /// First layer of the feed-forward part: `[F, C]`, or with SwiGLU `[2F, C]`, the rows of the gate first.
    pub up: Linear<M>,
    /// Last layer of the feed-forward part, `[C, F]`.
    pub down: Linear<M>,
}

/// A linear layer: `y = x · weightᵀ + bias`.
#[derive(Debug)]
pub struct Linear<M: Memory> {
    /// `[out, in]`.
    pub weight: M::Matrix,
    /// `[out]`.
    pub bias: Option<M::Vector>,
}

/// A layer norm, or without a bias an RMS norm.
#[derive(Debug)]
pub struct Norm<M: Memory> {
    /// `[C]`.
    pub weight: M::Vector,
    /// `[C]`.
    pub bias: Option<M::Vector>,
}

/// A row-major matrix whose elements are `dtype`, little-endian.
#[derive(Debug, Clone, PartialEq)]
pub struct Matrix<B> {
    /// Type of an element.
    pub dtype: Dtype,
    /// Number of rows.
    pub rows: usize,
    /// Elements of a row.
    pub columns: usize,
    /// `rows * columns * dtype.bytes()` bytes.
    pub bytes: B,
}

/// Where parameters lie.
pub trait Memory {
    /// A matrix there.
    type Matrix: Debug;
    /// An f32 vector there.
    type Vector: Debug;

    /// Puts a matrix there.
    ///
    /// # Errors
    ///
    /// [`Error::Driver`] if there is not enough memory.
    fn matrix(&self, matrix: Matrix<Vec<u8>>) -> Result<Self::Matrix, Error>;

    /// Puts a vector there.
    ///
    /// # Errors
    ///
    /// [`Error::Driver`] if there is not enough memory.
    fn vector(&self, vector: Vec<f32>) -> Result<Self::Vector, Error>;
}

/// The memory of this process.
#[derive(Debug, Clone, Copy)]
pub struct Host;

impl Memory for Host {
    type Matrix = Matrix<Vec<u8>>;
    type Vector = Vec<f32>;

    fn matrix(&self, matrix: Matrix<Vec<u8>>) -> Result<Self::Matrix, Error> {
        Ok(matrix)
    }

    fn vector(&self, vector: Vec<f32>) -> Result<Self::Vector, Error> {
        Ok(vector)
    }
}

/// The memory of the device of a stream.
#[derive(Debug, Clone)]
pub struct Device(pub Arc<CudaStream>);

impl Memory for Device {
    type Matrix = Matrix<CudaSlice<u8>>;
    type Vector = CudaSlice<f32>;

    fn matrix(&self, matrix: Matrix<Vec<u8>>) -> Result<Self::Matrix, Error> {
        let Matrix {
            dtype,
            rows,
            columns,
            bytes,
        } = matrix;
        Ok(Matrix {
            dtype,
            rows,
            columns,
            bytes: self.0.clone_htod(&bytes)?,
        })
    }

    fn vector(&self, vector: Vec<f32>) -> Result<Self::Vector, Error> {
        Ok(self.0.clone_htod(&vector)?)
    }
}

impl<M: Memory> Weights<M> {
    /// Reads every parameter from the `model.safetensors` of `files`, checks it and puts it into `memory`, one after
    /// the other.
    ///
    /// Tensor names are Hugging Face's, with or without the prefix `transformer.`. The causal-mask buffers of
    /// old checkpoints (`h.0.attn.bias`) are left alone, and so is an `lm_head.weight` that equals `wte`.
    ///
    /// # Errors
    ///
    /// [`Error::SafetensorsSyntax`] for a damaged file, [`Error::MissingTensor`], [`Error::TensorShape`],
    /// [`Error::TensorDtype`] (only `F32` is supported), [`Error::TensorNotFinite`], [`Error::ExtraBlock`],
    /// [`Error::UntiedHead`]; those of `memory`.
    pub fn load(files: &ModelFiles, config: &Config, memory: &M) -> Result<Self, Error> {
        let file = files.name_of("model.safetensors");
        let source = TensorFile::open(&files.weights, &file)?;
        let architecture = &config.architecture;
        source.refuse_extra_blocks(architecture.layers)?;
        source.refuse_untied_head()?;

        let (c, f) = (architecture.hidden, architecture.inner);
        let norm = |name: &str| {
            Ok::<_, Error>(Norm {
                weight: memory.vector(source.tensor(&format!("{name}.weight"), &[c])?)?,
                bias: Some(memory.vector(source.tensor(&format!("{name}.bias"), &[c])?)?),
            })
        };
        // GPT-2's "Conv1D" stores [in, out].
        let linear = |name: &str, inputs: usize, outputs: usize| {
            let weight = source.tensor(&format!("{name}.weight"), &[inputs, outputs])?;
            let transposed = (0..inputs * outputs).map(|at| {
                let (output, input) = (at / inputs, at % inputs);
                weight[input * outputs + output]
            });
            Ok::<_, Error>(Linear {
                weight: memory.matrix(matrix(outputs, inputs, transposed))?,
                bias: Some(memory.vector(source.tensor(&format!("{name}.bias"), &[outputs])?)?),
            })
        };
        let table = |name: &str, rows: usize| {
            let values = source.tensor(name, &[rows, c])?;
            memory.matrix(matrix(rows, c, values.into_iter()))
        };
        let block = |index: usize| {
            let name = |part: &str| format!("h.{index}.{part}");
            Ok(Block {
                attention_norm: norm(&name("ln_1"))?,
                qkv: linear(&name("attn.c_attn"), c, 3 * c)?,
                out: linear(&name("attn.c_proj"), c, c)?,
                mlp_norm: norm(&name("ln_2"))?,
                up: linear(&name("mlp.c_fc"), c, f)?,
                down: linear(&name("mlp.c_proj"), f, c)?,
            })
        };
        Ok(Self {
            embedding: table("wte.weight", architecture.vocab)?,
            positions: Some(table("wpe.weight", architecture.context)?),
            blocks: (0..architecture.layers)
                .map(block)
                .collect::<Result<_, Error>>()?,
            norm: norm("ln_f")?,
            head: None,
        })
    }
}

fn matrix(rows: usize, columns: usize, values: impl Iterator<Item = f32>) -> Matrix<Vec<u8>> {
    Matrix {
        dtype: Dtype::F32,
        rows,
        columns,
        bytes: values.flat_map(f32::to_le_bytes).collect(),
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

    fn tensor(&self, name: &str, expected: &[usize]) -> Result<Vec<f32>, Error> {
        let tensor = format!("{}{name}", self.prefix);
        let file = self.file.to_owned();
        let Ok(view) = self.tensors.tensor(&tensor) else {
            return Err(Error::MissingTensor { file, tensor });
        };
        if view.dtype() != safetensors::Dtype::F32 {
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
