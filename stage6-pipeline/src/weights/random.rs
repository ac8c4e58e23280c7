//! Random weights for a decoder that nobody has trained, to measure it.

use half::{bf16, f16};
use stage5_decode::Dtype;

use super::{Block, Linear, Matrix, Memory, Norm, Weights};
use crate::Error;
use crate::architecture::{Architecture, NormKind, Positions};

impl<M: Memory> Weights<M> {
    /// Weights of which every element is drawn from a seed, one tensor after the other; matrices
    /// are `dtype`. The same seed gives the same weights on every machine. Rows have a length near
    /// 1, norms weigh near 1, biases are small: activations keep their size through all layers.
    ///
    /// # Errors
    ///
    /// [`Error::Setting`] if the host has no memory for a matrix, and those of `memory`.
    pub fn random(
        architecture: &Architecture,
        dtype: Dtype,
        seed: u64,
        memory: &M,
    ) -> Result<Self, Error> {
        let mut draw = Draw {
            state: seed,
            dtype,
            memory,
        };
        let Architecture {
            layers,
            heads,
            head_dim,
            hidden,
            inner,
            vocab,
            context,
            biases,
            ..
        } = *architecture;
        let layer_norm = architecture.norm == NormKind::LayerNorm;
        Ok(Self {
            embedding: draw.matrix(vocab, hidden)?,
            positions: match architecture.positions {
                Positions::Learned => Some(draw.matrix(context, hidden)?),
                Positions::Rope(_) => None,
            },
            blocks: (0..layers)
                .map(|_| {
                    Ok(Block {
                        attention_norm: draw.norm(hidden, layer_norm)?,
                        qkv: draw.linear(architecture.qkv_rows(), hidden, biases.qkv)?,
                        out: draw.linear(hidden, heads * head_dim, biases.out)?,
                        mlp_norm: draw.norm(hidden, layer_norm)?,
                        up: draw.linear(architecture.up_rows(), hidden, biases.mlp)?,
                        down: draw.linear(hidden, inner, biases.mlp)?,
                    })
                })
                .collect::<Result<_, Error>>()?,
            norm: draw.norm(hidden, layer_norm)?,
            head: match architecture.tied {
                true => None,
                false => Some(draw.matrix(vocab, hidden)?),
            },
        })
    }
}

/// SplitMix64: a number is a hash of its index, and a billion of them take a second.
struct Draw<'m, M> {
    state: u64,
    dtype: Dtype,
    memory: &'m M,
}

impl<M: Memory> Draw<'_, M> {
    /// Uniform in [-1, 1), with 24 bits.
    fn number(&mut self) -> f32 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.state;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^= bits >> 31;
        (bits >> 40) as f32 / (1 << 23) as f32 - 1.0
    }

    fn matrix(&mut self, rows: usize, columns: usize) -> Result<M::Matrix, Error> {
        // The variance of a uniform number of [-a, a) is a²/3.
        let scale = (3.0 / columns as f32).sqrt();
        let mut bytes = self.reserve(rows, columns)?;
        for _ in 0..rows * columns {
            let value = scale * self.number();
            match self.dtype {
                Dtype::F32 => bytes.extend_from_slice(&value.to_le_bytes()),
                Dtype::F16 => bytes.extend_from_slice(&f16::from_f32(value).to_le_bytes()),
                Dtype::Bf16 => bytes.extend_from_slice(&bf16::from_f32(value).to_le_bytes()),
            }
        }
        self.memory.matrix(Matrix {
            dtype: self.dtype,
            rows,
            columns,
            bytes,
        })
    }

    /// Room for the bytes of a matrix.
    fn reserve(&self, rows: usize, columns: usize) -> Result<Vec<u8>, Error> {
        let length = rows
            .saturating_mul(columns)
            .saturating_mul(self.dtype.bytes());
        let mut bytes = Vec::new();
        match bytes.try_reserve_exact(length) {
            Ok(()) => Ok(bytes),
            Err(_) => Err(Error::Setting {
                setting: "weights",
                found: format!(
                    "a matrix of {rows} × {columns} elements of {} ({length} bytes)",
                    self.dtype
                ),
                expected: "a size that the host has memory for",
            }),
        }
    }

    fn linear(&mut self, rows: usize, columns: usize, bias: bool) -> Result<Linear<M>, Error> {
        Ok(Linear {
            weight: self.matrix(rows, columns)?,
            bias: match bias {
                true => Some(self.vector(rows, 0.0)?),
                false => None,
            },
        })
    }

    fn norm(&mut self, columns: usize, bias: bool) -> Result<Norm<M>, Error> {
        Ok(Norm {
            weight: self.vector(columns, 1.0)?,
            bias: match bias {
                true => Some(self.vector(columns, 0.0)?),
                false => None,
            },
        })
    }

    /// Numbers within 0.1 of `center`.
    fn vector(&mut self, length: usize, center: f32) -> Result<M::Vector, Error> {
        let values = (0..length).map(|_| center + 0.1 * self.number()).collect();
        self.memory.vector(values)
    }
}
