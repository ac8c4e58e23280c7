//! Attention on arrays in host memory.

use std::sync::Arc;

use cudarc::driver::{CudaStream, DriverError};
use gpu::arguments::{Strides, download, upload};
use ndarray::{Array3, Array4, ArrayView4};
use stage1_reference::{Error, Options, Output, Sizes};

use super::{Additive, AttentionInputs, AttentionOutputs};

/// Runs `attention` on arrays in host memory: copies `q`, `k`, `v` and the additive mask to the
/// device, packed, calls it, waits, and copies `o` and `lse` back.
///
/// `q` is `[B, H, nq, D]`, `k` and `v` are `[B, H_kv, nk, D]`, in any memory layout. `attention`
/// must write every element of its outputs.
///
/// # Errors
///
/// Those of [`Sizes::of`], [`Options::check`], `attention` and the driver.
pub fn attention<E: From<Error> + From<DriverError>>(
    stream: &Arc<CudaStream>,
    [q, k, v]: [ArrayView4<'_, f32>; 3],
    options: &Options,
    attention: impl FnOnce(AttentionInputs<'_>, AttentionOutputs<'_>, Sizes) -> Result<(), E>,
) -> Result<Output, E> {
    let sizes = Sizes::of("attention", q.dim(), k.dim(), v.dim())?;
    options.check("attention", &sizes)?;
    let (batch, heads, nq, head_dim) = q.dim();
    let mut o = Array4::zeros((batch, heads, nq, head_dim));
    let mut lse = Array3::zeros((batch, heads, nq));

    let (q, k, v) = (upload(stream, q)?, upload(stream, k)?, upload(stream, v)?);
    let mask = options.mask.as_ref();
    let mask = mask.map(|mask| Ok::<_, DriverError>((upload(stream, mask)?, mask.dim())));
    let mask = mask.transpose()?;
    let (mut device_o, mut device_lse) = (upload(stream, &o)?, upload(stream, &lse)?);
    let inputs = AttentionInputs {
        q: q.as_view(),
        k: k.as_view(),
        v: v.as_view(),
        mask: mask.as_ref().map(|(values, shape)| Additive {
            values: values.as_view(),
            strides: Strides::broadcast(*shape),
        }),
    };
    let outputs = AttentionOutputs {
        o: device_o.as_view_mut(),
        lse: Some(device_lse.as_view_mut()),
    };
    attention(inputs, outputs, sizes)?;
    download(stream, &device_o, &mut o)?;
    download(stream, &device_lse, &mut lse)?;
    Ok(Output { o, lse })
}
