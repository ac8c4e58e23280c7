//! Tasks `softmax`, `gemm` and `attention` of stage 2.

use conformance::device::Device;
use conformance::inputs::{normal, tensor};
use conformance::layout::Layout;
use conformance::problems::gemm::Product;
use conformance::suites::stage2::AnyError;
use conformance::{Judge, suites};
use cudarc::driver::CudaSlice;
use stage1_reference::{Feature, Sizes};
use stage2_naive_cuda::{
    AttentionInputs, AttentionOutputs, AttentionShape, Axis, Gemm, Kernels, LACKS, Softmax, Stage2,
    Steps, Strides, Variant,
};

use super::stage1::tensors;
use super::{Exam, Place, Rig, Whose, by, care, is_large, size};
use crate::cause::{self, Explanation, probes};
use crate::verdict::Kind;

/// Softmax over either dimension.
pub(super) struct SoftmaxTask;

/// Both matrix products.
pub(super) struct GemmTask;

/// Attention made of the steps, and scale-and-mask.
pub(super) struct AttentionTask;

/// The stage's own implementation, with tiled products.
fn reference(rig: &Rig<'_>) -> Result<Stage2, String> {
    let kernels = Kernels::new(&rig.device.stream).map_err(|error| error.to_string())?;
    let variant = Variant::Tiled;
    Ok(Stage2 { kernels, variant })
}

impl Exam for SoftmaxTask {
    fn place(&self) -> Place {
        Place::Device { lower: &[] }
    }

    fn criterion_of(&self, problem: &str) -> Option<Kind> {
        Some(care(problem))
    }

    fn judge(&self, judge: &mut Judge<'_>, rig: &Rig<'_>) {
        suites::stage2::softmax(judge, rig.device, rig.remote);
    }

    fn explain(&self, rig: &Rig<'_>) -> Option<Explanation> {
        cause::explain(&cause::solved(probes::softmax(), |problem, output| {
            suites::stage2::solve_softmax(rig.device, rig.remote, problem, output)
        }))
    }

    fn repeated(&self, rig: &Rig<'_>, whose: Whose) -> Result<Vec<f32>, String> {
        by!(whose, rig.remote, &reference(rig)?, |own| {
            let mut values = softmax(own, rig.device, [2, 5, 300], Axis::Last)?;
            values.extend(softmax(own, rig.device, [2, 129, 7], Axis::NextToLast)?);
            Ok(values)
        })
    }

    fn timed_case(&self) -> &'static str {
        "b4_r128_c1024"
    }

    fn timed(&self, rig: &Rig<'_>, whose: Whose) -> Result<Vec<f32>, String> {
        by!(whose, rig.remote, &reference(rig)?, |own| softmax(
            own,
            rig.device,
            [4, 128, 1024],
            Axis::Last
        ))
    }
}

fn softmax<S: Steps>(
    own: &S,
    device: &Device,
    [batch, rows, columns]: [usize; 3],
    axis: Axis,
) -> Result<Vec<f32>, String> {
    let vectors = match axis {
        Axis::Last => batch * rows,
        Axis::NextToLast => batch * columns,
    };
    let mut x = device.upload(&tensor((batch, rows, columns), 11, normal));
    let mut lse = device.upload(&vec![f32::NAN; vectors]);
    let shape = Softmax {
        batch,
        rows,
        columns,
        axis,
    };
    own.softmax(x.as_view_mut(), Some(lse.as_view_mut()), &shape)
        .map_err(|error| error.to_string())?;
    read(device, &[&x, &lse])
}

impl Exam for GemmTask {
    fn place(&self) -> Place {
        Place::Device { lower: &[] }
    }

    fn criterion_of(&self, problem: &str) -> Option<Kind> {
        // 66,049 matrices of one element: blocks of 1,024 threads, which are right too, run more instructions than a launch may.
        (size(problem, "b") != Some(257)).then(|| care(problem))
    }

    fn judge(&self, judge: &mut Judge<'_>, rig: &Rig<'_>) {
        suites::stage2::gemm(judge, rig.device, rig.remote);
    }

    fn explain(&self, rig: &Rig<'_>) -> Option<Explanation> {
        [Product::Nt, Product::Nn].into_iter().find_map(|product| {
            let probes = probes::gemm(product, self.lacks());
            cause::explain(&cause::solved(probes, |problem, output| {
                let packed = [Layout::Packed; 3];
                *output = suites::stage2::solve_gemm(rig.device, rig.remote, problem, packed)?;
                Ok::<_, AnyError>(())
            }))
        })
    }

    fn repeated(&self, rig: &Rig<'_>, whose: Whose) -> Result<Vec<f32>, String> {
        by!(whose, rig.remote, &reference(rig)?, |own| products(
            own,
            rig.device,
            [2, 33, 40, 65]
        ))
    }

    fn timed_case(&self) -> &'static str {
        "h2_m256_n256_k256, both products"
    }

    fn timed(&self, rig: &Rig<'_>, whose: Whose) -> Result<Vec<f32>, String> {
        by!(whose, rig.remote, &reference(rig)?, |own| products(
            own,
            rig.device,
            [2, 256, 256, 256]
        ))
    }
}

/// Both products of matrices of these sizes.
fn products<S: Steps>(own: &S, device: &Device, sizes: [usize; 4]) -> Result<Vec<f32>, String> {
    let mut values = product(own, device, true, sizes)?;
    values.extend(product(own, device, false, sizes)?);
    Ok(values)
}

fn product<S: Steps>(
    own: &S,
    device: &Device,
    nt: bool,
    [heads, m, n, k]: [usize; 4],
) -> Result<Vec<f32>, String> {
    let a = device.upload(&tensor((heads, m, k), 21, normal));
    let b = device.upload(&tensor((heads, n, k), 22, normal));
    let mut c = device.upload(&vec![f32::NAN; heads * m * n]);
    // Packed heads, one after the other.
    let (b_rows, b_columns) = if nt { (n, k) } else { (k, n) };
    let shape = Gemm {
        heads,
        b_heads: heads,
        a: Strides::packed(heads, m, k),
        b: Strides::packed(heads, b_rows, b_columns),
        c: Strides::packed(heads, m, n),
        ..Gemm::nn(m, n, k)
    };
    let (a, b) = (a.as_view(), b.as_view());
    let result = match nt {
        true => own.gemm_nt(a, b, c.as_view_mut(), &shape),
        false => own.gemm_nn(a, b, c.as_view_mut(), &shape),
    };
    result.map_err(|error| error.to_string())?;
    read(device, &[&c])
}

impl Exam for AttentionTask {
    fn place(&self) -> Place {
        Place::Device {
            lower: &[
                "stage2-naive-cuda/kernels/softmax",
                "stage2-naive-cuda/kernels/gemm_",
            ],
        }
    }

    fn lacks(&self) -> &'static [Feature] {
        &LACKS
    }

    fn criterion_of(&self, problem: &str) -> Option<Kind> {
        (!is_large(problem, &["n", "nq", "nk", "b"])).then(|| care(problem))
    }

    fn random(&self) -> u64 {
        12
    }

    fn judge(&self, judge: &mut Judge<'_>, rig: &Rig<'_>) {
        suites::stage2::scale_and_mask(judge, rig.device, rig.remote);
        suites::stage2::attention(judge, rig.device, rig.remote);
    }

    fn explain(&self, rig: &Rig<'_>) -> Option<Explanation> {
        let probes = probes::attention(self.lacks());
        cause::explain(&cause::solved(probes, |problem, output| {
            let packed = [Layout::Packed; 4];
            *output = suites::stage2::solve_attention(rig.device, rig.remote, problem, packed)?;
            Ok::<_, AnyError>(())
        }))
    }

    fn repeated(&self, rig: &Rig<'_>, whose: Whose) -> Result<Vec<f32>, String> {
        by!(whose, rig.remote, &reference(rig)?, |own| attention(
            own,
            rig.device,
            [2, 33, 65, 16]
        ))
    }

    fn timed_case(&self) -> &'static str {
        "b1_h4_n256_d64_causal"
    }

    fn timed(&self, rig: &Rig<'_>, whose: Whose) -> Result<Vec<f32>, String> {
        by!(whose, rig.remote, &reference(rig)?, |own| attention(
            own,
            rig.device,
            [4, 256, 256, 64]
        ))
    }
}

fn attention<S: Steps>(
    own: &S,
    device: &Device,
    [heads, nq, nk, head_dim]: [usize; 4],
) -> Result<Vec<f32>, String> {
    let host = tensors((1, heads, nq, head_dim), (1, heads, nk, head_dim));
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
    let shape = AttentionShape {
        causal: true,
        ..AttentionShape::packed(sizes)
    };
    let inputs = AttentionInputs {
        q: q.as_view(),
        k: k.as_view(),
        v: v.as_view(),
        mask: None,
    };
    let outputs = AttentionOutputs {
        o: o.as_view_mut(),
        lse: Some(lse.as_view_mut()),
    };
    own.attention(inputs, outputs, &shape)
        .map_err(|error| error.to_string())?;
    read(device, &[&o, &lse])
}

/// All values of some tensors.
pub(super) fn read(device: &Device, tensors: &[&CudaSlice<f32>]) -> Result<Vec<f32>, String> {
    let mut values = Vec::new();
    for tensor in tensors {
        values.extend(device.read(tensor).map_err(|error| error.to_string())?);
    }
    Ok(values)
}
