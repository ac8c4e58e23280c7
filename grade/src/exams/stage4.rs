//! Task `flash` of stage 4.

use conformance::device::Device;
use conformance::layout::Layout;
use conformance::{AnyError, Judge, suites};
use stage1_reference::{Feature, Sizes};
use stage4_flash_cuda::{Attention, Fused, Inputs, Mode, Outputs, Rung, Shape, Stage4};

use super::stage1::tensors;
use super::stage2::read;
use super::{Exam, Input, OWN_KERNELS, Place, Rig, Whose, all, by};
use crate::cause::{self, Explanation, Wrong, probes};

/// FlashAttention as one kernel.
pub(super) struct Flash;

impl Exam for Flash {
    fn place(&self) -> Place {
        OWN_KERNELS
    }

    fn lacks(&self) -> &'static [Feature] {
        &Rung::LACKS
    }

    /// Of 13 head dimensions 4 are asked for.
    fn random(&self) -> u64 {
        40
    }

    fn judge(&self, judge: &mut Judge<'_>, rig: &Rig<'_>) {
        suites::stage4::attention(judge, rig.device, rig.remote);
    }

    fn explain(&self, rig: &Rig<'_>, wrong: &Wrong) -> Option<(Explanation, String)> {
        let probes = probes::attention(self.lacks());
        cause::explain(
            wrong,
            cause::solved(probes, |problem, output| {
                let packed = [Layout::Packed; 4];
                *output = suites::stage4::solve(rig.device, rig.remote, problem, packed)?;
                Ok::<_, AnyError>(())
            }),
        )
    }

    fn timed_case(&self) -> &'static str {
        "b1_h4_n256_d64_causal"
    }

    fn compute(&self, rig: &Rig<'_>, whose: Whose, input: Input) -> Result<Vec<f32>, AnyError> {
        let small: &[_] = &[([2, 50, 70, 16], false), ([2, 65, 65, 64], true)];
        let (problems, seed): (&[_], _) = match input {
            Input::Timed(seed) => (&[([4, 256, 256, 64], true)], seed),
            Input::Repeated | Input::Large => (small, 0),
        };
        by!(whose, rig.remote, &reference(rig)?, |own| {
            all(problems, |&(sizes, causal)| {
                forward(own, rig.device, sizes, causal, seed)
            })
        })
    }
}

/// The stage's own implementation, by the first rung.
fn reference(rig: &Rig<'_>) -> Result<Stage4, AnyError> {
    let attention = Attention::new(rig.device.stream.context());
    let attention = attention?;
    Ok(Stage4 {
        stream: rig.device.stream.clone(),
        attention: attention.with_mode(Mode::Rung(Rung::Flash)),
    })
}

/// Computes one problem of these sizes, and returns its outputs.
pub(crate) fn forward<F: Fused>(
    own: &F,
    device: &Device,
    [heads, nq, nk, head_dim]: [usize; 4],
    causal: bool,
    seed: u64,
) -> Result<Vec<f32>, AnyError> {
    let host = tensors((1, heads, nq, head_dim), (1, heads, nk, head_dim), seed);
    let [q, k, v] = host.each_ref().map(|x| device.upload(x));
    let mut o = device.upload(&vec![f32::NAN; heads * nq * head_dim]);
    let mut lse = device.upload(&vec![f32::NAN; heads * nq]);
    let sizes = Sizes {
        batch: 1,
        heads,
        kv_heads: heads,
        nq,
        nk,
        head_dim,
    };
    let shape = Shape {
        causal,
        ..Shape::packed(sizes)
    };
    let inputs = Inputs::new(q.as_view(), k.as_view(), v.as_view());
    let outputs = Outputs {
        o: o.as_view_mut(),
        lse: Some(lse.as_view_mut()),
    };
    own.forward(inputs, outputs, &shape)?;
    read(device, &[&o, &lse])
}
