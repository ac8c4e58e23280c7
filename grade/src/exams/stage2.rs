//! Tasks `softmax`, `gemm` and `attention` of stage 2.

use conformance::device::Device;
use conformance::inputs::{hash, normal, tensor};
use conformance::problems::scale_and_mask;
use conformance::{AnyError, Judge, suites};
use cudarc::driver::CudaSlice;
use ndarray::Array4;
use stage1_reference::Feature;
use stage2_naive_cuda::{
    Attention, Call, Gemm, GemmRung, LADDER_LACKS, Ladder, Product, ScaleAndMask, Softmax,
    SoftmaxRung, Steps,
};

use super::stage1::tensors;
use super::{Exam, Input, MANY, OWN_KERNELS, Place, Rig, STEPS, Whose, all, by};
use crate::cause::{self, Explanation, Wrong, probes};

/// Softmax of rows.
pub(super) struct SoftmaxTask;

/// Both matrix products.
pub(super) struct GemmTask;

/// Attention made of the steps, and scale-and-mask.
pub(super) struct AttentionTask;

/// The solution's rungs of the stage's ladder.
fn reference(rig: &Rig<'_>) -> Ladder {
    Ladder {
        stream: rig.device.stream.clone(),
        gemm: GemmRung::Tiled,
        softmax: SoftmaxRung::Tree,
    }
}

impl Exam for SoftmaxTask {
    fn place(&self) -> Place {
        OWN_KERNELS
    }

    fn judge(&self, judge: &mut Judge<'_>, rig: &Rig<'_>) {
        suites::stage2::softmax(judge, rig.device, rig.remote);
    }

    fn explain(&self, rig: &Rig<'_>, wrong: &Wrong) -> Option<(Explanation, String)> {
        cause::explain(
            wrong,
            cause::solved(probes::softmax(), |problem, output| {
                suites::stage2::solve_softmax(rig.device, rig.remote, problem, output)
            }),
        )
    }

    fn has_many(&self) -> bool {
        true
    }

    fn also_repeated(&self) -> &'static [Input] {
        &[Input::WithoutKeys]
    }

    fn timed_case(&self) -> &'static str {
        "r512_c1024"
    }

    fn compute(&self, rig: &Rig<'_>, whose: Whose, input: Input) -> Result<Vec<f32>, AnyError> {
        let (problems, seed): (&[_], _) = match input {
            // The last two: fewer columns than a warp has lanes, and more than threads may keep in registers.
            Input::Repeated => (&[[10, 300], [7, 129], [1, 1000], [5, 30], [1, 2500]], 0),
            Input::WithoutKeys => (&[[7, 0]], 0),
            Input::Timed(seed) => (&[[512, 1024]], seed),
            Input::Many => (&[[2 * MANY, 3]], 0),
            other => return Err(other.missing()),
        };
        by!(whose, rig.remote, &reference(rig), |own| {
            all(problems, |&sizes| softmax(own, rig.device, sizes, seed))
        })
    }
}

fn softmax<S: Steps>(
    own: &S,
    device: &Device,
    [rows, columns]: [usize; 2],
    seed: u64,
) -> Result<Vec<f32>, AnyError> {
    let mut x = device.upload(&tensor((rows, columns), seed, normal));
    let mut lse = device.upload(&vec![f32::NAN; rows]);
    own.run(Call::Softmax {
        x: x.as_view_mut(),
        lse: lse.as_view_mut(),
        shape: Softmax { rows, columns },
    })?;
    read(device, &[&x, &lse])
}

impl Exam for GemmTask {
    fn place(&self) -> Place {
        OWN_KERNELS
    }

    fn lacks(&self) -> &'static [Feature] {
        &LADDER_LACKS
    }

    fn judge(&self, judge: &mut Judge<'_>, rig: &Rig<'_>) {
        suites::stage2::gemm(judge, rig.device, rig.remote);
    }

    fn explain(&self, rig: &Rig<'_>, wrong: &Wrong) -> Option<(Explanation, String)> {
        [Product::Nt, Product::Nn].into_iter().find_map(|product| {
            let probes = probes::gemm(product);
            cause::explain(
                wrong,
                cause::solved(probes, |problem, output| {
                    *output = suites::stage2::solve_gemm(rig.device, rig.remote, problem)?;
                    Ok::<_, AnyError>(())
                }),
            )
        })
    }

    fn has_many(&self) -> bool {
        true
    }

    fn also_repeated(&self) -> &'static [Input] {
        &[Input::WithoutKeys]
    }

    /// In the order of [`products`].
    fn calls(&self) -> &'static [&'static str] {
        &["NT", "NN"]
    }

    fn timed_case(&self) -> &'static str {
        "h2_m256_n256_k256, both products"
    }

    fn compute(&self, rig: &Rig<'_>, whose: Whose, input: Input) -> Result<Vec<f32>, AnyError> {
        let (problems, seed): (&[_], _) = match input {
            // Sums so long that a kernel may split them.
            Input::Repeated => (&[[2, 33, 40, 65], [1, 3, 5, 2050]], 0),
            Input::WithoutKeys => (&[[2, 33, 40, 0]], 0),
            Input::Timed(seed) => (&[[2, 256, 256, 256]], seed),
            Input::Many => (&[[MANY, 3, 3, 3]], 0),
            other => return Err(other.missing()),
        };
        by!(whose, rig.remote, &reference(rig), |own| {
            all(problems, |&sizes| products(own, rig.device, sizes, seed))
        })
    }
}

/// Both products of a batch of matrices of these sizes.
fn products<S: Steps>(
    own: &S,
    device: &Device,
    [batch, m, n, k]: [usize; 4],
    seed: u64,
) -> Result<Vec<f32>, AnyError> {
    let mut values = Vec::new();
    for product in [Product::Nt, Product::Nn] {
        let a = device.upload(&tensor((batch, m, k), hash(seed, 1), normal));
        let b = device.upload(&tensor((batch, n, k), hash(seed, 2), normal));
        let mut c = device.upload(&vec![f32::NAN; batch * m * n]);
        own.run(Call::Gemm {
            a: a.as_view(),
            b: b.as_view(),
            c: c.as_view_mut(),
            shape: Gemm {
                product,
                batch,
                m,
                n,
                k,
            },
        })?;
        values.extend(read(device, &[&c])?);
    }
    Ok(values)
}

impl Exam for AttentionTask {
    fn place(&self) -> Place {
        Place::Device {
            lower: &[
                "stage2-naive-cuda/kernels/1_softmax_tree",
                "stage2-naive-cuda/kernels/2_gemm_tiled",
            ],
            reads_back: false,
        }
    }

    fn lacks(&self) -> &'static [Feature] {
        &LADDER_LACKS
    }

    fn random(&self) -> u64 {
        12
    }

    fn judge(&self, judge: &mut Judge<'_>, rig: &Rig<'_>) {
        suites::stage2::scale_and_mask(judge, rig.device, rig.remote);
        suites::stage2::attention(judge, rig.device, rig.remote);
    }

    fn explain(&self, rig: &Rig<'_>, wrong: &Wrong) -> Option<(Explanation, String)> {
        let probes = probes::scale_and_mask();
        let masked = cause::explain(
            wrong,
            cause::solved(probes, |problem, output| {
                *output = scale_and_mask(rig.remote, rig.device, problem)?;
                Ok::<_, AnyError>(())
            }),
        );
        if masked.is_some() {
            return masked;
        }
        let probes = probes::attention(self.lacks());
        cause::explain(
            wrong,
            cause::solved(probes, |problem, output| {
                *output = suites::stage2::solve_attention(rig.device, rig.remote, problem)?;
                Ok::<_, AnyError>(())
            }),
        )
    }

    fn also_repeated(&self) -> &'static [Input] {
        &[Input::WithoutKeys]
    }

    /// The scores of the last take 200 KiB.
    fn steps(&self) -> usize {
        STEPS
    }

    fn timed_case(&self) -> &'static str {
        "b1_h4_n256_d64_causal"
    }

    fn compute(&self, rig: &Rig<'_>, whose: Whose, input: Input) -> Result<Vec<f32>, AnyError> {
        let (sizes, seed) = match input {
            Input::Repeated => ([2, 33, 65, 16], 0),
            Input::WithoutKeys => ([2, 33, 0, 16], 0),
            Input::Step(step) => ([4, 16 * (step + 1), 16 * (step + 1), 16], 0),
            Input::Timed(seed) => ([4, 256, 256, 64], seed),
            other => return Err(other.missing()),
        };
        by!(whose, rig.remote, &reference(rig), |own| {
            attention(own, rig.device, sizes, seed)
        })
    }
}

/// The scores of a problem afterwards.
fn scale_and_mask<S: Steps>(
    own: &S,
    device: &Device,
    problem: &scale_and_mask::Problem,
) -> Result<Array4<f32>, AnyError> {
    let (batch, heads, nq, nk) = problem.scores.dim();
    let mut scores = device.upload(&problem.scores);
    own.run(Call::ScaleAndMask {
        scores: scores.as_view_mut(),
        shape: ScaleAndMask {
            batch: batch * heads,
            nq,
            nk,
            scale: problem.scale,
            causal: problem.causal,
        },
    })?;
    let scores = device.read(&scores)?;
    Ok(Array4::from_shape_vec(problem.scores.raw_dim(), scores)?)
}

fn attention<S: Steps>(
    own: &S,
    device: &Device,
    [batch, nq, nk, head_dim]: [usize; 4],
    seed: u64,
) -> Result<Vec<f32>, AnyError> {
    let host = tensors((1, batch, nq, head_dim), (1, batch, nk, head_dim), seed);
    let [q, k, v] = host.each_ref().map(|x| device.upload(x));
    let mut o = device.upload(&vec![f32::NAN; batch * nq * head_dim]);
    let mut lse = device.upload(&vec![f32::NAN; batch * nq]);
    own.run(Call::Attention {
        q: q.as_view(),
        k: k.as_view(),
        v: v.as_view(),
        o: o.as_view_mut(),
        lse: lse.as_view_mut(),
        shape: Attention {
            batch,
            nq,
            nk,
            head_dim,
            scale: 1.0 / (head_dim as f32).sqrt(),
            causal: true,
        },
    })?;
    read(device, &[&o, &lse])
}

/// All values of some tensors.
pub(super) fn read(device: &Device, tensors: &[&CudaSlice<f32>]) -> Result<Vec<f32>, AnyError> {
    let mut values = Vec::new();
    for tensor in tensors {
        values.extend(device.read(tensor)?);
    }
    Ok(values)
}
