//! The suites of stage 2: softmax, both matrix products, scale-and-mask, and attention, in device
//! memory. [`all`] is for the packed steps of the ladder and of an exercise, [`library`] for the
//! library with its options.

mod attention;
mod gemm;
mod scale_and_mask;
mod softmax;

use std::fmt::Display;

use cudarc::driver::CudaSlice;
use gpu::profile::Counters;
use stage2_naive_cuda::{Kernels, Steps, Strides};

use crate::Element;
use crate::device::{self, Device, launches};
use crate::{AnyError, Judge};

pub use attention::{attention, solve as solve_attention};
pub use gemm::{gemm, solve as solve_gemm};
pub use scale_and_mask::scale_and_mask;
pub use softmax::{softmax, solve as solve_softmax};

/// All tasks.
pub fn all(judge: &mut Judge<'_>, device: &Device, own: &impl Steps) {
    softmax(judge, device, own);
    gemm(judge, device, own);
    scale_and_mask(judge, device, own);
    attention(judge, device, own);
}

/// All operations of the library.
pub fn library(judge: &mut Judge<'_>, device: &Device, own: &Kernels) {
    softmax::library_softmax(judge, device, own);
    gemm::library_gemm(judge, device, own);
    scale_and_mask::library_scale_and_mask(judge, device, own);
    attention::library_attention(judge, device, own);
    attention::library_dropout(judge, device, own);
}

/// The argument that an error of the stage names.
fn argument(error: &stage2_naive_cuda::Error) -> Option<&str> {
    error.argument()
}

/// A size that no kernel can index.
pub(super) const HUGE: usize = usize::MAX / 2;

/// The value in buffers of a call that must be refused.
pub(super) const OLD: f32 = 7.0;

/// Buffers of these lengths for a call that must be refused.
fn buffers<const N: usize>(device: &Device, lengths: [usize; N]) -> [CudaSlice<f32>; N] {
    lengths.map(|length| device.upload(&vec![OLD; length]))
}

/// True if outputs are as [`buffers`] made them.
pub(super) fn untouched<T: Element>(device: &Device, outputs: &[&CudaSlice<T>]) -> bool {
    let old = |output: &&CudaSlice<T>| {
        let values = device.read(output);
        values.is_ok_and(|values| values.iter().all(|&x| x.to_f32() == OLD))
    };
    outputs.iter().all(old)
}

/// A counter, its name, its unit, and the most that it may be.
pub(super) type Limit<'a> = (fn(&Counters) -> u64, &'a str, &'a str, u64);

/// Adds a claim for each limit on the launches of `work`: see [`Judge::counted`].
pub(super) fn counted<T, E: Display>(
    judge: &mut Judge<'_>,
    limits: &[Limit<'_>],
    work: impl FnOnce() -> Result<T, E>,
) {
    let launches = launches(work);
    for &(counter, name, unit, limit) in limits {
        judge.counted(
            name,
            unit,
            &launches,
            |launch| counter(&launch.total),
            limit,
        );
    }
}

pub(super) fn strides([batch, head, row]: [usize; 3]) -> Strides {
    Strides { batch, head, row }
}

/// The order of blocks and warps.
struct Seed(u64);

impl std::fmt::Display for Seed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "seed {}", self.0)
    }
}

/// Computes the same under 10 seeds: see [`Judge::same_bits`].
pub(super) fn schedules(
    judge: &mut Judge<'_>,
    name: &str,
    compute: impl FnMut() -> Result<Vec<f32>, AnyError>,
) {
    under_seeds(judge, name, 10, compute);
}

/// Computes the same under as many seeds, or fewer: see [`Judge::same_bits`].
pub(super) fn under_seeds(
    judge: &mut Judge<'_>,
    name: &str,
    seeds: u64,
    mut compute: impl FnMut() -> Result<Vec<f32>, AnyError>,
) {
    let seeds = (0..device::schedules(seeds)).map(Seed);
    judge.same_bits(name, seeds, |seed| gpu::with_seed(seed.0, &mut compute));
}
