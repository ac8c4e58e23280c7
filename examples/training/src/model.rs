//! The decoder: the forward pass, and the same lines in the opposite order for the backward pass.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use anyhow::Result;
use cudarc::driver::CudaStream;
use stage4_flash_cuda::{Shape, Sizes};

use crate::device::{Device, launch, rows};
use crate::matrix::Matrix;
use crate::text::{BATCH, CONTEXT};

const LAYERS: usize = 2;
const WIDTH: usize = 64; // columns of the residual path
const HIDDEN: usize = 4 * WIDTH;
const HEADS: usize = 2;
const HEAD_DIM: usize = 64; // stage 4 has compiled kernels for it

/// Causal attention of `[BATCH, CONTEXT, HEADS, HEAD_DIM]` tensors, as a product leaves them.
const ATTENTION: Shape = Shape {
    causal: true,
    ..Shape::sequence_first(Sizes {
        batch: BATCH,
        heads: HEADS,
        kv_heads: HEADS,
        nq: CONTEXT,
        nk: CONTEXT,
        head_dim: HEAD_DIM,
    })
};

/// A decoder in training.
pub struct Model {
    device: Device,
    /// A column for each token of the vocabulary, then one for each position.
    embedding: Matrix,
    /// Of each layer: query, key, value, output, up, down.
    layers: Vec<[Matrix; 6]>,
    head: Matrix,
    steps: i32,
}

impl Model {
    /// A decoder with random weights, for tokens below `vocabulary`.
    pub fn new(stream: &Arc<CudaStream>, vocabulary: usize) -> Result<Self> {
        let (device, mut drawn) = (Device::new(stream)?, 0);
        let embedding = Matrix::new(&device, &mut drawn, [WIDTH, vocabulary + CONTEXT], 1.0)?;
        let mut draw = |rows, columns: usize| {
            let bound = 1.0 / (columns as f32).sqrt();
            Matrix::new(&device, &mut drawn, [rows, columns], bound)
        };
        let mut layers = Vec::new();
        for _ in 0..LAYERS {
            let qkv = [(); 3].map(|()| draw(HEADS * HEAD_DIM, WIDTH));
            let [query, key, value] = qkv;
            let output = draw(WIDTH, HEADS * HEAD_DIM)?;
            let (up, down) = (draw(HIDDEN, WIDTH)?, draw(WIDTH, HIDDEN)?);
            layers.push([query?, key?, value?, output, up, down]);
        }
        let head = draw(vocabulary, WIDTH)?;
        Ok(Self {
            device,
            embedding,
            layers,
            head,
            steps: 0,
        })
    }

    /// The mean loss of a batch, in nats. Then each weight takes a step against its gradient.
    pub fn step(&mut self, tokens: &[i32], targets: &[i32]) -> Result<f64> {
        let (device, head) = (&self.device, &mut self.head);
        let targets = device.stream.clone_htod(targets)?;
        // An embedding is a product with rows that have two ones: the token and its position. Large
        // models read those two rows of weights instead.
        let vocabulary = head.rows;
        let mut ones = vec![0.0; tokens.len() * (vocabulary + CONTEXT)];
        for (i, row) in ones.chunks_exact_mut(vocabulary + CONTEXT).enumerate() {
            row[tokens[i] as usize] = 1.0;
            row[vocabulary + i % CONTEXT] = 1.0;
        }
        let ones = device.stream.clone_htod(&ones)?;

        // Forward. x is the residual path, [BATCH · CONTEXT, WIDTH], to which each half adds.
        let mut x = self.embedding.forward(device, &ones)?;
        let mut kept = Vec::new(); // what the backward pass reads
        for [query, key, value, output, up, down] in &self.layers {
            let h1 = device.rms_norm(&x, WIDTH)?;
            let [q, k, v] = [query, key, value].map(|matrix| matrix.forward(device, &h1[0]));
            let qkv = [q?, k?, v?];
            let o = device.attend(&qkv, &ATTENTION)?;
            device.add(&mut x, &output.forward(device, &o[0])?)?;

            let h2 = device.rms_norm(&x, WIDTH)?;
            let wide = up.forward(device, &h2[0])?;
            let active = device.relu_squared(&wide)?;
            device.add(&mut x, &down.forward(device, &active)?)?;
            kept.push((h1, qkv, o, h2, wide, active));
        }
        let h = device.rms_norm(&x, WIDTH)?;
        let mut logits = head.forward(device, &h[0])?;
        let mut losses = device.alloc(tokens.len())?;
        launch!(device => cross_entropy[rows(tokens.len())](
            &mut logits, &mut losses, &targets, &(vocabulary as i32)
        ));
        let d_logits = logits;

        // Backward. dx is the gradient by x: each half adds to it what comes through its norm.
        let mut dx = device.stream.alloc_zeros(x.len())?;
        let dh = head.backward(device, &h[0], &d_logits)?;
        device.rms_norm_backward(&mut dx, &dh, &h)?;
        for (layer, kept) in self.layers.iter_mut().zip(kept).rev() {
            let [query, key, value, output, up, down] = layer;
            let (h1, qkv, o, h2, wide, active) = kept;
            let d_active = down.backward(device, &active, &dx)?;
            let d_wide = device.relu_squared_backward(&wide, &d_active)?;
            let dh = up.backward(device, &h2[0], &d_wide)?;
            device.rms_norm_backward(&mut dx, &dh, &h2)?;

            let d_o = output.backward(device, &o[0], &dx)?;
            let [dq, dk, dv] = device.attend_backward(&qkv, &o, &d_o, &ATTENTION)?;
            let mut dh = query.backward(device, &h1[0], &dq)?;
            device.add(&mut dh, &key.backward(device, &h1[0], &dk)?)?;
            device.add(&mut dh, &value.backward(device, &h1[0], &dv)?)?;
            device.rms_norm_backward(&mut dx, &dh, &h1)?;
        }
        self.embedding.backward(device, &ones, &dx)?;

        self.steps += 1;
        let matrices = self.layers.iter_mut().flatten();
        for matrix in matrices.chain([&mut self.embedding, head]) {
            matrix.step(device, self.steps)?;
        }
        let losses = device.stream.clone_dtoh(&losses)?;
        Ok(losses.into_iter().map(f64::from).sum::<f64>() / tokens.len() as f64)
    }
}
