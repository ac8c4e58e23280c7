//! One self-attention problem in device memory, launched again and again.

use std::sync::Arc;

use anyhow::{Context, ensure};
use cudarc::driver::{CudaSlice, CudaStream};
use gpu::profile::LaunchProfile;
use stage1_reference::Sizes;
use stage1_reference::inputs::normal;
use stage4_flash_cuda::{Attention, Inputs, Outputs, Shape};

/// q, k, v and o of as many queries as keys, packed, with seeded values.
pub struct Problem {
    stream: Arc<CudaStream>,
    shape: Shape,
    inputs: [CudaSlice<f32>; 3],
    o: CudaSlice<f32>,
}

impl Problem {
    pub fn new(
        stream: &Arc<CudaStream>,
        batch: usize,
        heads: usize,
        n: usize,
        head_dim: usize,
        causal: bool,
    ) -> anyhow::Result<Problem> {
        let sizes = Sizes {
            batch,
            heads,
            kv_heads: heads,
            nq: n,
            nk: n,
            head_dim,
        };
        let count = batch * heads * n * head_dim;
        ensure!(count > 0, "there is nothing to compute in {sizes:?}");
        // Few different values, so that a large problem is made fast.
        let values = |seed| -> Vec<f32> {
            let some: Vec<f32> = (0..4099).map(|i| normal(seed, i)).collect();
            some.iter().copied().cycle().take(count).collect()
        };
        let upload = |seed| stream.clone_htod(&values(seed));
        Ok(Problem {
            stream: stream.clone(),
            shape: Shape {
                causal,
                ..Shape::packed(sizes)
            },
            inputs: [upload(1)?, upload(2)?, upload(3)?],
            o: stream.alloc_zeros(count)?,
        })
    }

    /// Launches, and does not wait.
    pub fn launch(&mut self, attention: &Attention) -> Result<(), stage4_flash_cuda::Error> {
        let [q, k, v] = &self.inputs;
        let inputs = Inputs {
            q: q.as_view(),
            k: k.as_view(),
            v: v.as_view(),
            mask: None,
            key_lengths: None,
            blocks: None,
        };
        let outputs = Outputs {
            o: self.o.as_view_mut(),
            lse: None,
        };
        attention.forward(&self.stream, inputs, outputs, &self.shape)
    }

    /// The profiles of its launches, counted by the simulator.
    pub fn profile(&mut self, attention: &Attention) -> anyhow::Result<Vec<LaunchProfile>> {
        let stream = self.stream.clone();
        let (launched, launches) = gpu::profile::profile(|| {
            self.launch(attention)?;
            stream.synchronize()?;
            Ok::<_, stage4_flash_cuda::Error>(())
        })?;
        launched?;
        ensure!(!launches.is_empty(), "nothing was launched");
        Ok(launches)
    }

    /// Seconds of one run: the median of `runs`, by the device's own clock, after one to warm up.
    pub fn time(&mut self, attention: &Attention, runs: usize) -> anyhow::Result<f64> {
        self.launch(attention)?;
        let mut times = Vec::with_capacity(runs);
        for _ in 0..runs.max(1) {
            let flags = cudarc::driver::sys::CUevent_flags::CU_EVENT_DEFAULT;
            let start = self.stream.record_event(Some(flags))?;
            self.launch(attention)?;
            let end = self.stream.record_event(Some(flags))?;
            end.synchronize()?;
            times.push(f64::from(start.elapsed_ms(&end)?) / 1e3);
        }
        times.sort_by(f64::total_cmp);
        times
            .get(times.len() / 2)
            .copied()
            .context("one run at least")
    }
}
