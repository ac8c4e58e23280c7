//! Stage 5's library on the simulated device.

use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream};
use gpu::arguments::{download, upload};
use half::{bf16, f16};
use ndarray::{Array3, Array4, ArrayView4, Ix4};
use pyo3::prelude::*;
use stage5_decode::{
    Cache, CacheShape, CacheView, Decode, Inputs, Outputs, PageTable, PerSequence, Shape,
};

use super::on_device;
use crate::dlpack::{DataType, Element, Exported, Managed, Tensor};
use crate::error::Error;
use crate::stage4::TYPES;

/// `o` `[B, H, nq, D]` and `lse` `[B, H, nq]`, float32, of the last `nq` tokens of each sequence:
/// `q` `[B, H, nq, D]` in float32, caches `[B, H_kv, max_seq, D]`, or in pages
/// `[pages, H_kv, page_size, D]` with a `table` of `columns` pages for each sequence.
///
/// `window` is the number of keys before its own that a query sees. With 0 `splits` the library
/// chooses their number. The limits of `nq`, `splits` and `page_size` are constants of the module.
#[pyfunction]
#[pyo3(signature = (q, k_cache, v_cache, lengths, table, scale, window, splits))]
#[expect(clippy::too_many_arguments, reason = "a call of Python's")]
pub fn sim_decode(
    py: Python<'_>,
    q: &Bound<'_, PyAny>,
    k_cache: &Bound<'_, PyAny>,
    v_cache: &Bound<'_, PyAny>,
    lengths: Vec<usize>,
    table: Option<(Vec<i32>, usize)>,
    scale: Option<f32>,
    window: Option<usize>,
    splits: usize,
) -> PyResult<(Exported, Exported)> {
    let q = Tensor::<f32, Ix4>::new("q", q)?;
    let caches = [
        Managed::new("k_cache", k_cache)?,
        Managed::new("v_cache", v_cache)?,
    ];
    let step = Step {
        lengths,
        table,
        scale,
        window,
        splits,
    };
    match caches[0].data_type() {
        DataType::FLOAT32 => decode::<f32>(py, q, caches, step),
        DataType::FLOAT16 => decode::<f16>(py, q, caches, step),
        DataType::BFLOAT16 => decode::<bf16>(py, q, caches, step),
        _ => Err(caches[0].refuse_type(TYPES)),
    }
}

/// The options of a call, checked.
struct Step {
    lengths: Vec<usize>,
    /// The pages of each sequence, `[B, columns]`, and the columns.
    table: Option<(Vec<i32>, usize)>,
    scale: Option<f32>,
    window: Option<usize>,
    splits: usize,
}

fn decode<T: Element + Default + stage5_decode::Element>(
    py: Python<'_>,
    q: Tensor<f32, Ix4>,
    caches: [Managed; 2],
    step: Step,
) -> PyResult<(Exported, Exported)> {
    let [k_cache, v_cache] = caches.map(Managed::typed::<T, Ix4>);
    let inputs = (q, k_cache?, v_cache?);
    inputs.0.check_room()?; // for the copies
    inputs.1.check_room()?;
    inputs.2.check_room()?;
    let (o, lse) = on_device(py, inputs, move |device, (q, k_cache, v_cache)| {
        step.run(&device.stream, q.view(), [k_cache.view(), v_cache.view()])
    })?;
    Ok((Exported::new(o), Exported::new(lse)))
}

impl Step {
    fn run<T: Element + Default + stage5_decode::Element>(
        &self,
        stream: &Arc<CudaStream>,
        q: ArrayView4<'_, f32>,
        [k_cache, v_cache]: [ArrayView4<'_, T>; 2],
    ) -> Result<(Array4<f32>, Array3<f32>), Error> {
        let (batch, heads, nq, head_dim) = q.dim();
        let (_, kv_heads, rows, _) = k_cache.dim();
        let table = match &self.table {
            Some((pages, columns)) => Some((pages, *columns, upload(stream, pages)?)),
            None => None,
        };
        let lengths = self.lengths.iter().map(|&length| length as i32); // of a cache: below 2³⁰
        let lengths = upload(stream, &Vec::from_iter(lengths))?;
        let [k, v] = [upload(stream, k_cache)?, upload(stream, v_cache)?];
        let cache: CacheView<'_> = Cache {
            shape: CacheShape {
                batch,
                kv_heads,
                max_seq: table
                    .as_ref()
                    .map_or(rows, |(_, columns, _)| columns * rows),
                head_dim,
                dtype: T::DTYPE,
            },
            k: bytes(&k),
            v: bytes(&v),
            pages: table.as_ref().map(|(host, columns, entries)| PageTable {
                host,
                entries: entries.as_view(),
                columns: *columns,
                page_size: rows,
            }),
            lengths: PerSequence {
                host: &self.lengths,
                device: lengths.as_view(),
            },
        };
        let shape = Shape {
            scale: self.scale,
            window: self.window,
            ..Shape::packed(heads, nq, head_dim)
        };
        let mut o = Array4::zeros(q.dim());
        let mut lse = Array3::zeros((batch, heads, nq));
        let q = upload(stream, q)?;
        let mut device_o = upload(stream, &o)?;
        let mut device_lse = upload(stream, &lse)?;
        let inputs = Inputs {
            q: q.as_view(),
            cache,
        };
        let outputs = Outputs {
            o: device_o.as_view_mut(),
            lse: Some(device_lse.as_view_mut()),
        };
        let decode = match Decode::new(stream.context())? {
            decode if self.splits == 0 => decode,
            decode => decode.with_splits(self.splits),
        };
        decode.forward(stream, inputs, outputs, &shape)?;
        download(stream, &device_o, &mut o)?;
        download(stream, &device_lse, &mut lse)?;
        Ok((o, lse))
    }
}

/// The bytes of a tensor.
fn bytes<T>(elements: &CudaSlice<T>) -> cudarc::driver::CudaView<'_, u8> {
    // SAFETY: any bits are a `u8`.
    let bytes = unsafe { elements.transmute(elements.num_bytes()) };
    bytes.expect("as many bytes as the elements have")
}
