//! The launches. A method allocates what it returns, launches, and does not wait.

use std::collections::HashMap;
use std::sync::Arc;

use anyhow::Result;
use cudarc::driver::{CudaFunction, CudaSlice, CudaStream, LaunchConfig};
use stage2_naive_cuda::{GemmShape, Kernels};
use stage4_flash_cuda::{Attention, Backward, BackwardInputs, Gradients, Inputs, Outputs, Shape};

static KERNELS: gpu::Bundle = gpu::bundle!();
const NAMES: &str = "adamw add cross_entropy relu_squared rms_norm rms_norm_backward transpose";

/// A packed f32 tensor in device memory.
pub type Tensor = CudaSlice<f32>;

/// A stream, and the kernels that are launched on it: this package's, and those of stages 2 and 4.
pub struct Device {
    pub stream: Arc<CudaStream>,
    pub functions: HashMap<&'static str, CudaFunction>,
    products: Kernels,
    attention: Attention,
    backward: Backward,
}

/// Launches a kernel of this package: `launch!(device => name[grid](arguments))`.
macro_rules! launch {
    ($device:expr => $name:ident[$grid:expr]($($argument:expr),+)) => {{
        use cudarc::driver::PushKernelArg as _;
        let function = &$device.functions[stringify!($name)];
        let mut builder = $device.stream.launch_builder(function);
        // SAFETY: the arguments are the parameters in the kernel's file, in order, and each tensor
        // has the elements that the file says. Targets are below the vocabulary.
        unsafe { builder$(.arg($argument))+.launch($grid) }?
    }};
}
pub(crate) use launch;

/// A grid with a block of one warp for each row.
pub fn rows(count: usize) -> LaunchConfig {
    LaunchConfig {
        grid_dim: (count as u32, 1, 1),
        block_dim: (32, 1, 1),
        shared_mem_bytes: 0,
    }
}

/// A grid with a thread for each element.
pub fn elements(count: usize) -> LaunchConfig {
    LaunchConfig::for_num_elems(count as u32)
}

impl Device {
    pub fn new(stream: &Arc<CudaStream>) -> Result<Self> {
        let context = stream.context();
        let load = |name| {
            let module = KERNELS.load(context, &format!("{name}.cu"), &[])?;
            Ok((name, module.load_function(name)?))
        };
        Ok(Self {
            stream: stream.clone(),
            functions: NAMES.split(' ').map(load).collect::<Result<_>>()?,
            products: Kernels::new(stream)?,
            attention: Attention::new(context)?,
            backward: Backward::new(context)?,
        })
    }

    /// Memory for a result. The simulator reports a read of an element that no kernel has written.
    pub fn alloc(&self, count: usize) -> Result<Tensor> {
        // SAFETY: the kernel that it is allocated for writes every element.
        Ok(unsafe { self.stream.alloc(count) }?)
    }

    /// A matrix product, `a · b` or `a · bᵀ`.
    pub fn product(&self, a: &Tensor, b: &Tensor, shape: GemmShape) -> Result<Tensor> {
        let mut c = self.alloc(shape.m * shape.n)?;
        let (a, b, out) = (a.as_view(), b.as_view(), c.as_view_mut());
        self.products.gemm(a, b, out, &shape)?;
        Ok(c)
    }

    /// Attention: o, and the log-sum-exp of each row of scores.
    pub fn attend(&self, qkv: &[Tensor; 3], shape: &Shape) -> Result<[Tensor; 2]> {
        let [q, k, v] = qkv.each_ref().map(CudaSlice::as_view);
        let rows = q.len() / shape.sizes.head_dim;
        let mut outputs = [self.alloc(q.len())?, self.alloc(rows)?];
        let [o, lse] = outputs.each_mut().map(CudaSlice::as_view_mut);
        let (inputs, lse) = (Inputs::new(q, k, v), Some(lse));
        let views = Outputs { o, lse };
        self.attention.forward(&self.stream, inputs, views, shape)?;
        Ok(outputs)
    }

    /// The gradients by q, k and v, given that by o.
    pub fn attend_backward(
        &self,
        qkv: &[Tensor; 3],
        outputs: &[Tensor; 2],
        d_o: &Tensor,
        shape: &Shape,
    ) -> Result<[Tensor; 3]> {
        let [q, k, v] = qkv.each_ref().map(CudaSlice::as_view);
        let [o, lse] = outputs.each_ref().map(CudaSlice::as_view);
        let (forward, d_o) = (Inputs::new(q, k, v), d_o.as_view());
        let inputs = BackwardInputs {
            forward,
            o,
            lse,
            d_o,
        };
        let gradient = || self.alloc(qkv[0].len());
        let mut gradients = [gradient()?, gradient()?, gradient()?];
        let [dq, dk, dv] = gradients.each_mut().map(CudaSlice::as_view_mut);
        let views = Gradients { dq, dk, dv };
        self.backward.backward(&self.stream, inputs, views, shape)?;
        Ok(gradients)
    }

    /// Rows with a root mean square of 1, and the factor of each row.
    pub fn rms_norm(&self, x: &Tensor, width: usize) -> Result<[Tensor; 2]> {
        let count = x.len() / width;
        let (mut y, mut factors) = (self.alloc(x.len())?, self.alloc(count)?);
        launch!(self => rms_norm[rows(count)](&mut y, &mut factors, x, &(width as i32)));
        Ok([y, factors])
    }

    /// Adds to `dx`, the gradient by x, what comes through its norm `h`.
    pub fn rms_norm_backward(&self, dx: &mut Tensor, dh: &Tensor, h: &[Tensor; 2]) -> Result<()> {
        let ([y, factors], count) = (h, h[1].len());
        let width = (y.len() / count) as i32;
        launch!(self => rms_norm_backward[rows(count)](dx, dh, y, factors, &width));
        Ok(())
    }

    pub fn relu_squared(&self, x: &Tensor) -> Result<Tensor> {
        let (mut y, count, null) = (self.alloc(x.len())?, x.len() as i32, 0u64);
        launch!(self => relu_squared[elements(x.len())](&mut y, x, &null, &count));
        Ok(y)
    }

    pub fn relu_squared_backward(&self, x: &Tensor, dy: &Tensor) -> Result<Tensor> {
        let (mut dx, count) = (self.alloc(x.len())?, x.len() as i32);
        launch!(self => relu_squared[elements(x.len())](&mut dx, x, dy, &count));
        Ok(dx)
    }

    /// `x += y`.
    pub fn add(&self, x: &mut Tensor, y: &Tensor) -> Result<()> {
        launch!(self => add[elements(y.len())](x, y, &(y.len() as i32)));
        Ok(())
    }

    pub fn transpose(&self, x: &Tensor, rows: usize, columns: usize) -> Result<Tensor> {
        let mut y = self.alloc(x.len())?;
        let (grid, rows, columns) = (elements(x.len()), rows as i32, columns as i32);
        launch!(self => transpose[grid](&mut y, x, &rows, &columns));
        Ok(y)
    }
}
