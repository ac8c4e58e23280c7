//! One self-attention problem in device memory, launched again and again.

use std::sync::Arc;

use anyhow::{bail, ensure};
use bench_kit::median_seconds;
use cudarc::driver::{
    CudaContext, CudaSlice, CudaStream, DeviceRepr, DriverError, ValidAsZeroBits,
};
use gpu::profile::LaunchProfile;
use half::f16;
use ndarray::Array4;
use stage1_reference::Options;
use stage4_flash_cuda::{
    Attention, Backward, BackwardInputs, BackwardMode, Gradients, Inputs, Mode, Outputs, Rung,
    Shape,
};

use super::case::Case;

/// The passes of a mode.
pub struct Passes {
    attention: Attention,
    backward: Option<Backward>,
}

impl Passes {
    /// The forward pass alone.
    pub fn forward(attention: Attention) -> Self {
        let backward = None;
        Self {
            attention,
            backward,
        }
    }

    /// The forward pass, and the backward pass that has the same steps.
    pub fn both(context: &Arc<CudaContext>, attention: Attention) -> anyhow::Result<Self> {
        let mode = match attention.mode() {
            Mode::Naive => BackwardMode::Naive,
            Mode::Library => BackwardMode::Library,
            Mode::Rung(Rung::RegisterTiles) => BackwardMode::Recompute,
            Mode::Rung(Rung::Reuse) => BackwardMode::Mma,
            mode => bail!(
                "--modes: expected naive, library, register_tiles or reuse, which have a backward pass, got {mode}"
            ),
        };
        let backward = Backward::new(context)?.with_mode(mode);
        Ok(Self {
            attention,
            backward: Some(backward),
        })
    }

    pub fn mode(&self) -> Mode {
        self.attention.mode()
    }
}

/// q, k, v and o of as many queries as keys, packed, with seeded values.
pub struct Problem {
    stream: Arc<CudaStream>,
    shape: Shape,
    tensors: Tensors,
}

enum Tensors {
    F32(Set<f32>),
    F16(Set<f16>),
}

/// The tensors of a problem.
struct Set<T> {
    /// q, k and v.
    inputs: [CudaSlice<T>; 3],
    o: CudaSlice<T>,
    backward: Option<BackwardSet<T>>,
}

/// Those of the backward pass.
struct BackwardSet<T> {
    lse: CudaSlice<f32>,
    d_o: CudaSlice<T>,
    /// dq, dk and dv.
    gradients: [CudaSlice<T>; 3],
}

/// Queries and keys of the problem that is verified: two tiles of the largest
/// kind, and one of each more.
const VERIFIED: usize = 129;

/// How many values differ: a prime, so that neighbouring rows differ.
const PERIOD: usize = 4099;

/// Compares o with stage 1's on a small problem of the same kind as `case`. Nothing is timed that
/// fails.
pub fn verify(stream: &Arc<CudaStream>, passes: &Passes, case: Case) -> anyhow::Result<()> {
    let case = Case {
        n: VERIFIED,
        ..case.one_group()
    };
    let mut problem = Problem::new(stream, case)?;
    problem.launch(passes)?;
    let output = problem.output()?;
    let head_dim = case.head_dim;
    let tensor = |heads, seed| {
        let exact = values(seed, heads * VERIFIED * head_dim);
        let rounded = exact.map(|x| {
            if case.f16 {
                f16::from_f32(x).to_f32()
            } else {
                x
            }
        });
        Array4::from_shape_vec((1, heads, VERIFIED, head_dim), rounded.collect())
    };
    let (q, k, v) = (tensor(case.heads, 1)?, tensor(1, 2)?, tensor(1, 3)?);
    let mut options = Options::default();
    options.causal = case.causal;
    let expected = stage1_reference::attention(q.view(), k.view(), v.view(), &options)?;
    // Largest error of either result against the exact one, relative to values of at most 2: of a
    // sum of this many terms in f32; of rounding weights and result to f16.
    let off = match case.f16 {
        false => f32::EPSILON * (8.0 + 2.0 * ((head_dim + VERIFIED) as f32).sqrt()),
        true => f16::EPSILON.to_f32(),
    };
    let mut pairs = output.iter().zip(&expected.o);
    let close = |(a, b): (&f32, &f32)| (a - b).abs() <= 2.0 * off * (1.0 + b.abs());
    ensure!(pairs.all(close), "the result is not that of stage 1");
    Ok(())
}

/// Between −2 and 2, a function of seed and index.
fn value(seed: u64, i: usize) -> f32 {
    let bits = (seed << 32 | (i as u64 + 1)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let bits = (bits ^ (bits >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (bits >> 40) as f32 / (1 << 22) as f32 - 2.0
}

/// So many values of a tensor: few different ones, so that a large problem is made fast.
fn values(seed: u64, count: usize) -> impl Iterator<Item = f32> {
    let some = Vec::from_iter((0..PERIOD).map(|i| value(seed, i)));
    (0..count).map(move |i| some[i % PERIOD])
}

/// A tensor in which `some` values stand again and again. The device makes the copies: gigabytes
/// from the host would take longer than what is timed.
fn repeated<T: DeviceRepr>(
    stream: &Arc<CudaStream>,
    some: &[T],
    count: usize,
) -> Result<CudaSlice<T>, DriverError> {
    // SAFETY: every element is written below, before anything reads it.
    let mut tensor = unsafe { stream.alloc(count) }?;
    stream.memcpy_htod(some, &mut tensor.slice_mut(..some.len()))?;
    let mut written = some.len();
    while written < count {
        let more = written.min(count - written);
        let (source, mut rest) = tensor.split_at_mut(written);
        stream.memcpy_dtod(&source.slice(..more), &mut rest.slice_mut(..more))?;
        written += more;
    }
    Ok(tensor)
}

/// q, k, v and dO with seeded values, and the others.
fn tensors<T: DeviceRepr + ValidAsZeroBits + Copy + Default>(
    stream: &Arc<CudaStream>,
    case: Case,
    element: impl Fn(f32) -> T,
) -> Result<Set<T>, DriverError> {
    let count = |heads| case.batch * heads * case.n * case.head_dim;
    let (q_count, k_count) = (count(case.heads), count(case.kv_heads));
    let tensor = |count, seed| {
        let some = Vec::from_iter(values(seed, PERIOD.min(count)).map(&element));
        repeated(stream, &some, count)
    };
    let inputs = [
        tensor(q_count, 1)?,
        tensor(k_count, 2)?,
        tensor(k_count, 3)?,
    ];
    let backward = match case.backward {
        true => {
            let lse = stream.alloc_zeros(case.batch * case.heads * case.n)?;
            let gradients = [
                stream.alloc_zeros(q_count)?,
                stream.alloc_zeros(k_count)?,
                stream.alloc_zeros(k_count)?,
            ];
            Some(BackwardSet {
                lse,
                d_o: tensor(q_count, 4)?,
                gradients,
            })
        }
        false => None,
    };
    Ok(Set {
        inputs,
        o: stream.alloc_zeros(q_count)?,
        backward,
    })
}

impl Problem {
    pub fn new(stream: &Arc<CudaStream>, case: Case) -> anyhow::Result<Problem> {
        let tensors = match case.f16 {
            false => Tensors::F32(tensors(stream, case, |value| value)?),
            true => Tensors::F16(tensors(stream, case, f16::from_f32)?),
        };
        let shape = Shape {
            causal: case.causal,
            ..Shape::packed(case.sizes())
        };
        Ok(Self {
            stream: stream.clone(),
            shape,
            tensors,
        })
    }

    /// Launches, and does not wait.
    pub fn launch(&mut self, passes: &Passes) -> Result<(), stage4_flash_cuda::Error> {
        let (stream, shape) = (&self.stream, &self.shape);
        let Passes {
            attention,
            backward,
        } = passes;
        match &mut self.tensors {
            Tensors::F32(set) => {
                let (inputs, outputs) = set.forward();
                attention.forward(stream, inputs, outputs, shape)?;
                if let (Some(backward), Some((inputs, gradients))) = (backward, set.backward()) {
                    backward.backward(stream, inputs, gradients, shape)?;
                }
            }
            Tensors::F16(set) => {
                let (inputs, outputs) = set.forward();
                attention.forward_half(stream, inputs, outputs, shape)?;
                if let (Some(backward), Some((inputs, gradients))) = (backward, set.backward()) {
                    backward.backward_half(stream, inputs, gradients, shape)?;
                }
            }
        }
        Ok(())
    }

    /// The values of o, when all launches are done.
    fn output(&self) -> Result<Vec<f32>, DriverError> {
        match &self.tensors {
            Tensors::F32(set) => self.stream.clone_dtoh(&set.o),
            Tensors::F16(set) => {
                let values = self.stream.clone_dtoh(&set.o)?;
                Ok(values.into_iter().map(f16::to_f32).collect())
            }
        }
    }

    /// The profiles of its launches, counted by the simulator.
    pub fn profile(&mut self, passes: &Passes) -> anyhow::Result<Vec<LaunchProfile>> {
        let stream = self.stream.clone();
        let (launched, launches) = gpu::profile::profile(|| {
            self.launch(passes)?;
            stream.synchronize()?;
            Ok::<_, stage4_flash_cuda::Error>(())
        })?;
        launched?;
        ensure!(!launches.is_empty(), "nothing was launched");
        Ok(launches)
    }

    /// Seconds of one run: the median of `runs`, by the device's own clock.
    pub fn time(&mut self, passes: &Passes, runs: usize) -> anyhow::Result<f64> {
        let stream = self.stream.clone();
        median_seconds(&stream, runs, || self.launch(passes))
    }
}

impl<T> Set<T> {
    fn forward(&mut self) -> (Inputs<'_, T>, Outputs<'_, T>) {
        let [q, k, v] = self.inputs.each_ref().map(CudaSlice::as_view);
        let o = self.o.as_view_mut();
        let lse = self.backward.as_mut().map(|set| set.lse.as_view_mut());
        (Inputs::new(q, k, v), Outputs { o, lse })
    }

    fn backward(&mut self) -> Option<(BackwardInputs<'_, T>, Gradients<'_, T>)> {
        let BackwardSet {
            lse,
            d_o,
            gradients,
        } = self.backward.as_mut()?;
        let [q, k, v] = self.inputs.each_ref().map(CudaSlice::as_view);
        let inputs = BackwardInputs {
            forward: Inputs::new(q, k, v),
            o: self.o.as_view(),
            lse: lse.as_view(),
            d_o: d_o.as_view(),
        };
        let [dq, dk, dv] = gradients.each_mut().map(|x| x.as_view_mut());
        Some((inputs, Gradients { dq, dk, dv }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// On any device: without a GPU nothing else would ever run the clock.
    #[test]
    fn the_clock_runs() {
        let context = gpu::context(0).unwrap();
        let passes = Passes::both(&context, Attention::new(&context).unwrap()).unwrap();
        let stream = context.default_stream();
        let backward = true;
        let case = Case {
            backward,
            ..Case::full(1, 1, 64, 16)
        };
        let seconds = Problem::new(&stream, case)
            .unwrap()
            .time(&passes, 3)
            .unwrap();
        assert!(seconds > 0.0 && seconds < 60.0, "{seconds}");
    }
}
