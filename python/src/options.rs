//! The options of a call.

use std::sync::Arc;

use ndarray::Ix4;
use pyo3::prelude::*;
use stage3_flash_cpu as stage3;
use stage4_flash_cuda::{Dropout, Window};

use crate::dlpack::Tensor;

/// Masks, scale and dropout of a call, for both passes. Masks are copied.
#[pyclass(frozen, module = "attention_kernels._native")]
pub struct Options(Arc<stage3::Options>);

#[pymethods]
impl Options {
    #[new]
    #[pyo3(signature = (*, causal, scale, window, key_lengths, mask, blocks, dropout))]
    fn new(
        causal: bool,
        scale: Option<f32>,
        window: Option<(Option<usize>, Option<usize>)>,
        key_lengths: Option<Vec<usize>>,
        mask: Option<&Bound<'_, PyAny>>,
        blocks: Option<&Bound<'_, PyAny>>,
        dropout: Option<(f32, u64)>,
    ) -> PyResult<Self> {
        let mut options = stage3::Options::default();
        options.causal = causal;
        options.scale = scale;
        options.window = window.map(|(left, right)| Window {
            left: left.unwrap_or(usize::MAX),
            right: right.unwrap_or(usize::MAX),
        });
        options.key_lengths = key_lengths;
        if let Some(mask) = mask {
            let mask = Tensor::<f32, Ix4>::new("mask", mask)?;
            options.mask = Some(mask.view().to_owned());
        }
        if let Some(blocks) = blocks {
            let blocks = Tensor::<u8, Ix4>::new("blocks", blocks)?;
            options.blocks = Some(blocks.view().mapv(|byte| byte != 0));
        }
        options.dropout = dropout.map(|(probability, seed)| Dropout {
            probability,
            seed,
            offset: 0,
        });
        Ok(Self(Arc::new(options)))
    }
}

impl Options {
    /// The same, for a job that outlives the call.
    pub fn shared(&self) -> Arc<stage3::Options> {
        self.0.clone()
    }
}
