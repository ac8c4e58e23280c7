//! Kernels of one sequence in f32: all of GPT-2 but matrix products, softmax and attention.

use std::sync::Arc;

use cudarc::driver::{
    CudaFunction, CudaSlice, CudaStream, CudaView, CudaViewMut, LaunchConfig, PushKernelArg,
};
use gpu::arguments::{ArgumentError, Checks};

use super::{KERNELS, Kernels};
use crate::Error;

/// Threads per block of every kernel here. Most give a row to a block, and a row of a small model is about
/// this long.
const BLOCK: u32 = 128;

/// The kernels, loaded on one device.
#[derive(Debug)]
pub(super) struct Functions {
    bias_add: CudaFunction,
    embedding: CudaFunction,
    gelu_tanh: CudaFunction,
    layernorm: CudaFunction,
    residual_add: CudaFunction,
}

impl Functions {
    pub(super) fn new(stream: &Arc<CudaStream>) -> Result<Self, Error> {
        let block = BLOCK.to_string();
        let load = |name: &str, constants: &[(&str, &str)]| -> Result<CudaFunction, Error> {
            let module = KERNELS.load(stream.context(), &format!("{name}.cu"), constants)?;
            Ok(module.load_function(name)?)
        };
        Ok(Self {
            bias_add: load("bias_add", &[])?,
            embedding: load("embedding", &[])?,
            gelu_tanh: load("gelu_tanh", &[])?,
            layernorm: load("layernorm", &[("BLOCK", &block)])?,
            residual_add: load("residual_add", &[])?,
        })
    }
}

impl Kernels {
    /// `x[i] = wte[tokens[i]] + wpe[first_position + i]`. `x` is `[n, C]` for `n` tokens, `wte` is `[V, C]`,
    /// `wpe` is `[context, C]`. The tokens are copied to the device.
    ///
    /// # Errors
    ///
    /// [`Error::TokenOutOfRange`] for a token of `V` or more, [`Error::ContextFull`] if a position lies beyond
    /// `wpe`, [`Error::Argument`] if `x`, `wte` and `wpe` do not fit each other, [`Error::NoTokens`].
    pub fn embedding(
        &self,
        mut x: CudaViewMut<'_, f32>,
        tokens: &[u32],
        wte: &CudaView<'_, f32>,
        wpe: &CudaView<'_, f32>,
        first_position: usize,
    ) -> Result<(), Error> {
        let checks = self.checks("embedding");
        if tokens.is_empty() {
            return Err(Error::NoTokens);
        }
        let columns = x.len() / tokens.len();
        checks.rows("x", &x, tokens.len())?;
        let vocab_size = checks.rows("wte", wte, columns)?;
        let context = checks.rows("wpe", wpe, columns)?;
        if let Some(index) = tokens
            .iter()
            .position(|&token| token as usize >= vocab_size)
        {
            return Err(Error::TokenOutOfRange {
                token: tokens[index],
                index,
                vocab_size,
            });
        }
        if tokens.len() > context.saturating_sub(first_position) {
            return Err(Error::ContextFull {
                cached: first_position,
                new: tokens.len(),
                context,
            });
        }

        // ANCHOR: launch_embedding
        let config = block_per_row(&checks, tokens.len())?;
        let tokens = self.stream.clone_htod(tokens)?;
        let sizes = [("first_position", first_position), ("columns", columns)];
        let [first_position, columns] = checks.sizes(sizes)?;
        let mut launch = self.stream.launch_builder(&self.old.embedding);
        launch
            .arg(&mut x)
            .arg(&tokens)
            .arg(wte)
            .arg(wpe)
            .arg(&first_position)
            .arg(&columns);
        // SAFETY: embedding.cu takes these arguments. It reads rows of wte below V and rows of wpe below
        // context, and writes one row of x per token: all checked above.
        unsafe { launch.launch(config) }?;
        // ANCHOR_END: launch_embedding
        Ok(())
    }

    /// Layer normalisation of each row: `y = (x − mean) / sqrt(var + epsilon) · weight + bias`. `x` and `y` are
    /// `[n, C]`, weight and bias are `[C]`; the variance is the biased one.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] if the lengths do not fit each other.
    pub fn layernorm(
        &self,
        mut y: CudaViewMut<'_, f32>,
        x: CudaView<'_, f32>,
        weight: &CudaSlice<f32>,
        bias: &CudaSlice<f32>,
        epsilon: f32,
    ) -> Result<(), Error> {
        let checks = self.checks("layernorm");
        let columns = weight.len();
        checks.rows("weight", weight, columns)?;
        checks.length("bias", bias, columns)?;
        let rows = checks.rows("x", &x, columns)?;
        checks.length("y", &y, x.len())?;

        // ANCHOR: launch_layernorm
        let config = block_per_row(&checks, rows)?;
        let [columns] = checks.sizes([("columns", columns)])?;
        let mut launch = self.stream.launch_builder(&self.old.layernorm);
        launch
            .arg(&mut y)
            .arg(&x)
            .arg(weight)
            .arg(bias)
            .arg(&epsilon)
            .arg(&columns);
        // SAFETY: layernorm.cu takes these arguments and was compiled for this block size. It touches n rows
        // of x and y and `columns` elements of weight and bias: all checked above.
        unsafe { launch.launch(config) }?;
        // ANCHOR_END: launch_layernorm
        Ok(())
    }

    /// GELU in its tanh form, in place on any number of elements.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] if `x` is empty or too long for one launch.
    pub fn gelu_tanh(&self, mut x: CudaViewMut<'_, f32>) -> Result<(), Error> {
        let checks = self.checks("gelu_tanh");
        let count = checks.rows("x", &x, 1)?;
        // ANCHOR: launch_gelu_tanh
        let config = block_per_row(&checks, count.div_ceil(BLOCK as usize))?;
        let mut launch = self.stream.launch_builder(&self.old.gelu_tanh);
        launch.arg(&mut x).arg(&count);
        // SAFETY: gelu_tanh.cu takes these arguments and touches only the first `count` elements of x.
        unsafe { launch.launch(config) }?;
        // ANCHOR_END: launch_gelu_tanh
        Ok(())
    }

    /// `x[i] += bias` for each row. `x` is `[n, C]`, `bias` is `[C]`.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] if the lengths do not fit each other.
    pub fn bias_add(
        &self,
        mut x: CudaViewMut<'_, f32>,
        bias: &CudaSlice<f32>,
    ) -> Result<(), Error> {
        let checks = self.checks("bias_add");
        checks.rows("bias", bias, bias.len())?;
        let rows = checks.rows("x", &x, bias.len())?;
        // ANCHOR: launch_bias_add
        let config = block_per_row(&checks, rows)?;
        let [columns] = checks.sizes([("columns", bias.len())])?;
        let mut launch = self.stream.launch_builder(&self.old.bias_add);
        launch.arg(&mut x).arg(bias).arg(&columns);
        // SAFETY: bias_add.cu takes these arguments and touches n rows of x and the bias: checked above.
        unsafe { launch.launch(config) }?;
        // ANCHOR_END: launch_bias_add
        Ok(())
    }

    /// `x[i] += y[i] + bias` for each row. `x` and `y` are `[n, C]`, `bias` is `[C]`.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] if the lengths do not fit each other.
    pub fn residual_add(
        &self,
        mut x: CudaViewMut<'_, f32>,
        y: CudaView<'_, f32>,
        bias: &CudaSlice<f32>,
    ) -> Result<(), Error> {
        let checks = self.checks("residual_add");
        checks.rows("bias", bias, bias.len())?;
        let rows = checks.rows("x", &x, bias.len())?;
        checks.length("y", &y, x.len())?;
        // ANCHOR: launch_residual_add
        let config = block_per_row(&checks, rows)?;
        let [columns] = checks.sizes([("columns", bias.len())])?;
        let mut launch = self.stream.launch_builder(&self.old.residual_add);
        launch.arg(&mut x).arg(&y).arg(bias).arg(&columns);
        // SAFETY: residual_add.cu takes these arguments and touches n rows of x and y and the bias: checked
        // above.
        unsafe { launch.launch(config) }?;
        // ANCHOR_END: launch_residual_add
        Ok(())
    }
}

/// A launch of one block for each of `rows` rows.
fn block_per_row(checks: &Checks, rows: usize) -> Result<LaunchConfig, ArgumentError> {
    Ok(LaunchConfig {
        grid_dim: (checks.grid(rows)?, 1, 1),
        block_dim: (BLOCK, 1, 1),
        shared_mem_bytes: 0,
    })
}
