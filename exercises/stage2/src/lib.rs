//! Exercise 2: attention as separate CUDA kernels, one per step of the formula (3 points).
//!
//! | task | you write |
//! |---|---|
//! | `softmax` (1) | `kernels/softmax.cu` and its launch in `src/softmax.rs` |
//! | `gemm` (1) | `kernels/gemm.cu` and its launch in `src/gemm.rs` |
//! | `attention` (1) | `kernels/scale_and_mask.cu`, its launch and the order of the steps in `src/attention.rs` |
//!
//! Each can be done alone. `cargo grade 2` judges them, `cargo grade hint softmax` helps. This file
//! is done: it says where a call goes, checks the arguments of attention, and loads kernels.
//!
//! Everything is f32 and packed. A call launches on [`Own::stream`] and does not wait. Sizes of 0
//! are allowed everywhere, but for the head dimension of attention.

mod attention;
mod gemm;
mod softmax;

use std::sync::Arc;

use cudarc::driver::{CudaFunction, CudaStream};
use gpu::arguments::Checks;
use stage2_naive_cuda::{Call, Error, Ladder, Steps};

/// The files of `kernels/`.
static KERNELS: gpu::Bundle = gpu::bundle!();

/// Your implementation.
#[derive(Debug)]
pub struct Own {
    /// All launches go to it.
    pub stream: Arc<CudaStream>,
    /// The solution; `None` with `cargo grade --own`.
    lower: Option<Ladder>,
}

impl Own {
    /// An implementation on this stream, above the solution's kernels or its own.
    pub fn new(stream: &Arc<CudaStream>, lower: Option<Ladder>) -> Self {
        let stream = stream.clone();
        Self { stream, lower }
    }

    /// Softmax and the products that `attention` is made of: the solution's, or yours with `cargo
    /// grade --own`.
    pub fn steps(&self) -> &dyn Steps<Error = Error> {
        match &self.lower {
            Some(solution) => solution,
            None => self,
        }
    }

    /// The kernel `name` of `kernels/<name>.cu`, with these constants. It is compiled and loaded
    /// once.
    ///
    /// # Errors
    ///
    /// [`Error::Load`], with the compiler's messages if it does not compile.
    pub fn kernel(&self, name: &str, constants: &[(&str, &str)]) -> Result<CudaFunction, Error> {
        let module = KERNELS.load(self.stream.context(), &format!("{name}.cu"), constants)?;
        Ok(module.load_function(name)?)
    }

    /// The checks of an operation, whose errors name the argument that does not fit.
    pub fn checks(&self, operation: &'static str) -> Checks {
        Checks::new(operation, self.stream.context())
    }
}

#[rustfmt::skip]
impl Steps for Own {
    type Error = Error;

    fn run(&self, call: Call<'_>) -> Result<(), Error> {
        match call {
            Call::Softmax { x, lse, shape } => softmax::softmax(self, x, lse, shape),
            Call::Gemm { a, b, c, shape } => gemm::gemm(self, a, b, c, shape),
            Call::ScaleAndMask { scores, shape } => attention::scale_and_mask(self, scores, shape),
            Call::Attention { q, k, v, o, lse, shape } => {
                shape.check(self.checks("attention"), [&q, &k, &v], &o, &lse)?;
                attention::attention(self, [q, k, v], o, lse, shape)
            }
        }
    }

    fn argument_of(error: &Error) -> Option<&str> {
        error.argument()
    }
}
