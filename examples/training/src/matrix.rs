//! A matrix of weights, its gradient, and its steps.

use anyhow::Result;
use stage2_naive_cuda::GemmShape;

use crate::device::{Device, Tensor, elements, launch};
use crate::text::random;

const RATE: f64 = 5e-3;
const BETAS: [f64; 2] = [0.9, 0.95];
const DECAY: f64 = 0.1;

/// Weights `[rows, columns]`, and what AdamW keeps of each.
pub struct Matrix {
    pub rows: usize,
    columns: usize,
    weights: Tensor,
    pub gradient: Tensor,
    /// Means of the gradients, and of their squares.
    moments: [Tensor; 2],
}

impl Matrix {
    /// Random weights between `-bound` and `bound`. `drawn` counts the weights of all matrices.
    pub fn new(
        device: &Device,
        drawn: &mut u32,
        [rows, columns]: [usize; 2],
        bound: f32,
    ) -> Result<Self> {
        let first = *drawn;
        *drawn += (rows * columns) as u32;
        // 24 bits to [-1, 1), which is exact: PyTorch gets the same weights.
        let uniform = |index| (random(index) >> 8) as f32 / (1 << 23) as f32 - 1.0;
        let weights = Vec::from_iter((first..*drawn).map(|index| bound * uniform(index)));
        let zeros = || device.stream.alloc_zeros(weights.len());
        Ok(Self {
            rows,
            columns,
            gradient: zeros()?,
            moments: [zeros()?, zeros()?],
            weights: device.stream.clone_htod(&weights)?,
        })
    }

    /// `y = x · wᵀ`, a row for each token.
    pub fn forward(&self, device: &Device, x: &Tensor) -> Result<Tensor> {
        let tokens = x.len() / self.columns;
        let shape = GemmShape::nt(tokens, self.rows, self.columns);
        device.product(x, &self.weights, shape)
    }

    /// The gradient by x, `dy · w`; that by w is `dyᵀ · x`.
    pub fn backward(&mut self, device: &Device, x: &Tensor, dy: &Tensor) -> Result<Tensor> {
        let tokens = x.len() / self.columns;
        let shape = GemmShape::nn(self.rows, self.columns, tokens);
        let transposed = device.transpose(dy, tokens, self.rows)?;
        self.gradient = device.product(&transposed, x, shape)?;
        let shape = GemmShape::nn(tokens, self.columns, self.rows);
        device.product(dy, &self.weights, shape)
    }

    /// AdamW's step number `step`, from 1.
    pub fn step(&mut self, device: &Device, step: i32) -> Result<()> {
        let [mean, square] = BETAS.map(|beta| 1.0 - beta.powi(step));
        let [rate, root] = [RATE / mean, square.sqrt()].map(|number| number as f32);
        let [beta1, beta2] = BETAS.map(|beta| beta as f32);
        let (keep, count) = ((1.0 - RATE * DECAY) as f32, self.weights.len());
        let [means, squares] = &mut self.moments;
        launch!(device => adamw[elements(count)](
            &mut self.weights, &self.gradient, means, squares,
            &(count as i32), &rate, &root, &beta1, &beta2, &keep
        ));
        Ok(())
    }
}
