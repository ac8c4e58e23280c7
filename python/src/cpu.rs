//! Stage 3 on the threads of this process.

use ndarray::{Axis, Ix3, Ix4};
use pyo3::prelude::*;
use stage3_flash_cpu::{Output, attention, attention_backward};

use crate::dlpack::{Exported, Tensor};
use crate::error::Error;
use crate::job::{self, Place};
use crate::options::Options;

/// `o` `[B, H, nq, D]` and `lse` `[B, H, nq]` of `q` `[B, H, nq, D]`, `k` and `v`
/// `[B, H_kv, nk, D]`, all float32.
#[pyfunction]
pub fn cpu_forward(
    py: Python<'_>,
    q: &Bound<'_, PyAny>,
    k: &Bound<'_, PyAny>,
    v: &Bound<'_, PyAny>,
    options: &Bound<'_, Options>,
) -> PyResult<(Exported, Exported)> {
    let q = Tensor::<f32, Ix4>::new("q", q)?;
    let k = Tensor::<f32, Ix4>::new("k", k)?;
    let v = Tensor::<f32, Ix4>::new("v", v)?;
    q.check_room()?; // for `o`
    let options = options.get().shared();
    let place = place(&q, &k);
    let output = job::run(py, place, [q, k, v], move |[q, k, v]| {
        attention(q.view(), k.view(), v.view(), &options).map_err(Error::from)
    })??;
    Ok((Exported::new(output.o), Exported::new(output.lse)))
}

/// The gradients by `q`, `k` and `v`, given what the forward pass read and returned, and the
/// gradient `d_o` by `o`. `o` and `lse` are copied.
#[pyfunction]
#[expect(
    clippy::too_many_arguments,
    reason = "the tensors of the backward pass"
)]
pub fn cpu_backward(
    py: Python<'_>,
    q: &Bound<'_, PyAny>,
    k: &Bound<'_, PyAny>,
    v: &Bound<'_, PyAny>,
    options: &Bound<'_, Options>,
    o: &Bound<'_, PyAny>,
    lse: &Bound<'_, PyAny>,
    d_o: &Bound<'_, PyAny>,
) -> PyResult<[Exported; 3]> {
    let q = Tensor::<f32, Ix4>::new("q", q)?;
    let k = Tensor::<f32, Ix4>::new("k", k)?;
    let v = Tensor::<f32, Ix4>::new("v", v)?;
    let o = Tensor::<f32, Ix4>::new("o", o)?;
    let lse = Tensor::<f32, Ix3>::new("lse", lse)?;
    let d_o = Tensor::<f32, Ix4>::new("d_o", d_o)?;
    let options = options.get().shared();
    let place = place(&q, &k);
    let gradients = job::run(
        py,
        place,
        (q, k, v, o, lse, d_o),
        move |(q, k, v, o, lse, d_o)| {
            let (o, lse) = (o.view().to_owned(), lse.view().to_owned());
            let output = Output { o, lse };
            let (q, k, v, d_o) = (q.view(), k.view(), v.view(), d_o.view());
            attention_backward(q, k, v, &options, &output, d_o).map_err(Error::from)
        },
    )??;
    Ok([gradients.dq, gradients.dk, gradients.dv].map(Exported::new))
}

/// The calling thread for a problem whose products take it about as long as waking another one,
/// some 10 µs.
fn place(q: &Tensor<f32, Ix4>, k: &Tensor<f32, Ix4>) -> Place {
    const PRODUCTS: usize = 1 << 19;
    let keys = k.view().len_of(Axis(2));
    match q.view().len().saturating_mul(keys) <= PRODUCTS {
        true => Place::Here,
        false => Place::Pool,
    }
}
