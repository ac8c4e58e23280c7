//! Products of many rows by cuBLAS, on a GPU whose machine has the library. Not measured on hardware.
//!
//! cuBLAS stores matrices by columns. The bytes of a row-major `[r, c]` matrix are to it a `[c, r]` matrix with the leading
//! dimension `c`. The bytes of `y = x · weightᵀ` are therefore those of its `yᵀ = weight · xᵀ`:
//!
//! | bytes of | here, by rows | to cuBLAS, by columns | leading dimension | taken as |
//! |---|---|---|---|---|
//! | `weight`: A | `[rows, columns]` | `[columns, rows]` | `columns` | transposed, `[rows, columns]` |
//! | `x`: B | `[n, columns]` | `[columns, n]` | `columns` | it is |
//! | `y`: C | `[n, rows]` | `[rows, n]` | `rows` | it is |
//!
//! A and B have one dtype, sums are f32, and C is f32. Where the weight is in half precision, `narrow.cu` rounds `x` to it
//! first. cuBLAS can add to `y`; a bias and an activation are the work of `finish.cu`.

mod library;

use std::ffi::c_void;
use std::ptr;
use std::sync::{Arc, Mutex, PoisonError};

use cudarc::driver::{
    CudaSlice, CudaStream, CudaView, CudaViewMut, DevicePtr, DevicePtrMut, DriverError,
    PushKernelArg,
};
use gpu::Backend;
use gpu::arguments::OptionalArg;
use stage5_decode::Dtype;

use self::library::{Functions, Handle, check};
use crate::kernels::{Kernels, Variant, block_per_row};
use crate::linear::Product;
use crate::{Epilogue, Error};

/// Bytes that cuBLAS works in: NVIDIA's recommendation for Hopper. Without them, it would allocate while a graph is captured.
const WORKSPACE: usize = 32 << 20;

/// A handle of cuBLAS, for one stream.
#[derive(Debug)]
pub(crate) struct Cublas {
    functions: &'static Functions,
    handle: Handle,
    stream: Arc<CudaStream>,
    /// The handle's until it is destroyed.
    _workspace: CudaSlice<u8>,
    scratch: Mutex<Scratch>,
}

// SAFETY: NVIDIA: "The library is thread safe and its functions can be called from multiple host threads, even with the same
// handle", unless its settings change; they do not after `new`.
unsafe impl Send for Cublas {}
// SAFETY: as above.
unsafe impl Sync for Cublas {}

impl Cublas {
    /// A handle for `stream`, or the reason why there is none.
    pub(crate) fn find(stream: &Arc<CudaStream>) -> Result<Self, String> {
        match gpu::backend() {
            Ok(Backend::Cuda) => {}
            Ok(Backend::Simulator) => return Err("the device is simulated".to_owned()),
            Err(error) => return Err(error.to_string()),
        }
        Self::new(stream, library::functions()?).map_err(|error| error.to_string())
    }

    fn new(stream: &Arc<CudaStream>, functions: &'static Functions) -> Result<Self, Error> {
        stream.context().bind_to_thread()?;
        // SAFETY: bytes have no invalid values; cuBLAS writes what it reads.
        let mut workspace = unsafe { stream.alloc(WORKSPACE) }?;
        let address = workspace.device_ptr_mut(stream).0;
        let mut handle = ptr::null_mut();
        // SAFETY: it writes a handle.
        check("cublasCreate", unsafe { (functions.create)(&mut handle) })?;
        let cublas = Self {
            functions,
            handle,
            stream: stream.clone(),
            _workspace: workspace,
            scratch: Mutex::default(),
        };
        let queue = stream.cu_stream().cast();
        // SAFETY: the handle has just been made, and the stream lives as long as it.
        let status = unsafe { (functions.set_stream)(handle, queue) };
        check("cublasSetStream", status)?;
        // SAFETY: as above, and the workspace is freed after the handle. It is set after the stream, which resets it.
        let status =
            unsafe { (functions.set_workspace)(handle, address as *mut c_void, WORKSPACE) };
        check("cublasSetWorkspace", status)?;
        Ok(cublas)
    }

    fn multiply(&self, gemm: &Gemm) -> Result<(), Error> {
        let dtype = match gemm.dtype {
            Dtype::F32 => library::R_32F,
            Dtype::F16 => library::R_16F,
            Dtype::Bf16 => library::R_16BF,
        };
        let alpha = 1.0f32;
        self.stream.context().bind_to_thread()?;
        // SAFETY: A, B and C are matrices of these sizes in device memory, which is used in the order of the handle's stream.
        // alpha and beta are f32, as the compute type wants them, and are read before the call returns.
        let status = unsafe {
            (self.functions.gemm_ex)(
                self.handle,
                library::OP_T,
                library::OP_N,
                gemm.m,
                gemm.n,
                gemm.k,
                (&raw const alpha).cast(),
                gemm.a as *const c_void,
                dtype,
                gemm.lda,
                gemm.b as *const c_void,
                dtype,
                gemm.ldb,
                (&raw const gemm.beta).cast(),
                gemm.c as *mut c_void,
                library::R_32F,
                gemm.ldc,
                library::COMPUTE_32F,
                library::GEMM_DEFAULT,
            )
        };
        check("cublasGemmEx", status)
    }
}

impl Drop for Cublas {
    fn drop(&mut self) {
        // SAFETY: the handle was made by `new`, and is destroyed here alone. An error has nowhere to go.
        let _ = unsafe { (self.functions.destroy)(self.handle) };
    }
}

/// Device memory between two kernels of a layer.
///
/// It grows, and keeps the smaller blocks that it had: a captured graph may use them.
#[derive(Debug, Default)]
struct Scratch(Vec<CudaSlice<u8>>);

impl Scratch {
    fn of(
        &mut self,
        stream: &Arc<CudaStream>,
        bytes: usize,
    ) -> Result<&mut CudaSlice<u8>, DriverError> {
        if self.0.last().is_none_or(|block| block.len() < bytes) {
            // SAFETY: bytes have no invalid values; each layer writes what it reads.
            self.0
                .push(unsafe { stream.alloc(bytes.next_power_of_two()) }?);
        }
        let last = self.0.len() - 1;
        Ok(&mut self.0[last])
    }
}

/// A product `C = Aᵀ · B + beta · C` by columns, as `cublasGemmEx` takes it: A is `[k, m]`, B is `[k, n]` and C is `[m, n]`.
#[derive(Debug)]
struct Gemm {
    m: i32,
    n: i32,
    k: i32,
    /// Of A and B; C is f32.
    dtype: Dtype,
    /// Address of A in device memory, and its leading dimension.
    a: u64,
    lda: i32,
    b: u64,
    ldb: i32,
    c: u64,
    ldc: i32,
    beta: f32,
}

impl Kernels {
    /// As `gemm.cu`, by cuBLAS.
    pub(crate) fn by_cublas(
        &self,
        cublas: &Cublas,
        product: &Product<'_>,
        x: CudaView<'_, f32>,
        y: CudaViewMut<'_, f32>,
    ) -> Result<(), Error> {
        // A panic cannot leave it half changed.
        let mut scratch = cublas
            .scratch
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        self.by_columns(&mut scratch, product, x, y, |gemm| cublas.multiply(gemm))
    }

    /// The layer, with `multiply` for the product. Loads kernels and grows `scratch` when it first sees a size: not while a
    /// stream is captured.
    // ANCHOR: by_columns
    fn by_columns(
        &self,
        scratch: &mut Scratch,
        product: &Product<'_>,
        x: CudaView<'_, f32>,
        mut y: CudaViewMut<'_, f32>,
        multiply: impl FnOnce(&Gemm) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let (weight, n) = (product.weight, product.n);
        let (rows, columns) = (weight.rows, weight.columns);
        let gated = product.epilogue == Epilogue::SwiGlu;
        let of_gates = if gated { 4 * n * rows } else { 0 };
        let of_x = if weight.dtype == Dtype::F32 {
            0
        } else {
            2 * n * columns
        };
        let gates = of_gates.next_multiple_of(256); // so that the part behind is aligned
        let block = scratch.of(&self.stream, gates + of_x)?;
        let (mut gates, mut narrowed) = block.split_at_mut(gates);

        let (x_address, _x_in_use) = x.device_ptr(&self.stream);
        let (y_address, _y_in_use) = y.device_ptr_mut(&self.stream);
        let (gates_address, _gates_in_use) = gates.device_ptr_mut(&self.stream);
        let (narrowed_address, _narrowed_in_use) = narrowed.device_ptr_mut(&self.stream);
        let sizes = [
            ("weight", rows),
            ("weight", columns),
            ("x", n),
            ("y", product.outputs),
        ];
        let [rows_arg, columns_arg, n_arg, outputs] = product.checks.sizes(sizes)?;
        if weight.dtype != Dtype::F32 {
            let function = self.function(Variant {
                element: Some(weight.dtype),
                ..Variant::of("narrow")
            })?;
            let mut launch = self.stream.launch_builder(&function);
            launch
                .arg(&narrowed_address)
                .arg(&x_address)
                .arg(&columns_arg);
            // SAFETY: these are the parameters of narrow.cu, compiled for this dtype. It reads n rows of x and writes as many
            // elements to the scratch, which has room for them.
            unsafe { launch.launch(block_per_row(product.checks, n, columns)?) }?;
        }
        let c = if gated { gates_address } else { y_address };
        let (a, _a_in_use) = weight.bytes.device_ptr(&self.stream);
        multiply(&Gemm {
            m: rows_arg,
            n: n_arg,
            k: columns_arg,
            dtype: weight.dtype,
            a,
            lda: columns_arg,
            b: if weight.dtype == Dtype::F32 {
                x_address
            } else {
                narrowed_address
            },
            ldb: columns_arg,
            c,
            ldc: rows_arg,
            beta: if product.epilogue == Epilogue::Add {
                1.0
            } else {
                0.0
            },
        })?;

        let left = match product.epilogue {
            Epilogue::Store | Epilogue::Add if product.bias.is_none() => return Ok(()),
            Epilogue::Add => Epilogue::Store, // the product has been added
            epilogue => epilogue,
        } as i32;
        let function = self.function(Variant::of("finish"))?;
        let mut launch = self.stream.launch_builder(&function);
        launch.arg(&y_address).arg(&c);
        launch.optional(product.bias);
        launch.arg(&outputs).arg(&left);
        // SAFETY: these are the parameters of finish.cu. It reads n rows of the product, which `multiply` has written, and the
        // bias if it is not null, and writes n rows of y: `linear` has checked the lengths. The product is y itself, element by
        // element, or the gates in the scratch.
        unsafe { launch.launch(block_per_row(product.checks, n, product.outputs)?) }?;
        Ok(())
    }
    // ANCHOR_END: by_columns
}

#[cfg(test)]
mod tests {
    use conformance::compare::{Comparison, Tolerance};
    use conformance::inputs::{tensor, uniform};
    use cudarc::driver::result as driver;
    use half::{bf16, f16};
    use ndarray::ArrayView1;
    use rstest::rstest;

    use super::*;
    use crate::Matrix;

    fn wide(dtype: Dtype, bytes: &[u8]) -> Vec<f64> {
        let halves = || bytes.as_chunks().0.iter().copied();
        match dtype {
            Dtype::F32 => {
                let words = bytes.as_chunks().0.iter().copied();
                words.map(|word| f32::from_le_bytes(word).into()).collect()
            }
            Dtype::F16 => halves()
                .map(|half| f16::from_le_bytes(half).into())
                .collect(),
            Dtype::Bf16 => halves()
                .map(|half| bf16::from_le_bytes(half).into())
                .collect(),
        }
    }

    fn rounded(dtype: Dtype, values: &[f32]) -> Vec<u8> {
        let bytes = values.iter().map(|&value| match dtype {
            Dtype::F32 => value.to_le_bytes().to_vec(),
            Dtype::F16 => f16::from_f32(value).to_le_bytes().to_vec(),
            Dtype::Bf16 => bf16::from_f32(value).to_le_bytes().to_vec(),
        });
        bytes.flatten().collect()
    }

    /// `cublasGemmEx` by its definition, on the host: element (i, j) of a matrix is at `i + j · ld`.
    fn by_definition(gemm: &Gemm) -> Result<(), Error> {
        let [m, n, k] = [gemm.m, gemm.n, gemm.k].map(|size| size as usize);
        let [lda, ldb, ldc] = [gemm.lda, gemm.ldb, gemm.ldc].map(|size| size as usize);
        assert!(lda >= k && ldb >= k && ldc >= m, "{gemm:?}");
        let read = |dtype: Dtype, address, elements: usize| -> Result<Vec<f64>, Error> {
            let mut bytes = vec![0; elements * dtype.bytes()];
            // SAFETY: the driver checks that the range lies in an allocation.
            unsafe { driver::memcpy_dtoh_sync(&mut bytes, address) }?;
            Ok(wide(dtype, &bytes))
        };
        let (a, b) = (
            read(gemm.dtype, gemm.a, lda * m)?,
            read(gemm.dtype, gemm.b, ldb * n)?,
        );
        let mut c = match gemm.beta {
            0.0 => vec![0.0; ldc * n], // C need not be set
            _ => read(Dtype::F32, gemm.c, ldc * n)?,
        };
        for j in 0..n {
            for i in 0..m {
                let sum: f64 = (0..k).map(|l| a[l + i * lda] * b[l + j * ldb]).sum();
                c[i + j * ldc] = sum + f64::from(gemm.beta) * c[i + j * ldc];
            }
        }
        let c = Vec::from_iter(c.iter().map(|&value| value as f32));
        // SAFETY: as above.
        Ok(unsafe { driver::memcpy_htod_sync(gemm.c, &c) }?)
    }

    /// A layer and its input, by rows.
    struct Layer {
        columns: usize,
        outputs: usize,
        epilogue: Epilogue,
        /// `[n, columns]`, rounded as the weight is.
        x: Vec<f64>,
        weight: Vec<f64>,
        bias: Option<Vec<f32>>,
        /// `[n, outputs]`, before the layer.
        y: Vec<f32>,
    }

    impl Layer {
        fn sum(&self, row: usize, output: usize) -> f64 {
            let x = &self.x[row * self.columns..][..self.columns];
            let weight = &self.weight[output * self.columns..][..self.columns];
            let bias = self.bias.as_ref().map_or(0.0, |bias| bias[output].into());
            bias + x.iter().zip(weight).map(|(x, w)| x * w).sum::<f64>()
        }

        /// `y` after the layer.
        fn expected(&self) -> Vec<f64> {
            let after = |(index, &before): (usize, &f32)| {
                let (row, output) = (index / self.outputs, index % self.outputs);
                let value = self.sum(row, output);
                match self.epilogue {
                    Epilogue::Store => value,
                    Epilogue::Add => f64::from(before) + value,
                    Epilogue::Gelu => {
                        let inner = (2.0 / std::f64::consts::PI).sqrt();
                        0.5 * value * (1.0 + (inner * (value + 0.044715 * value.powi(3))).tanh())
                    }
                    Epilogue::SwiGlu => {
                        value / (1.0 + (-value).exp()) * self.sum(row, self.outputs + output)
                    }
                }
            };
            self.y.iter().enumerate().map(after).collect()
        }
    }

    /// With the definition in the place of cuBLAS, and with cuBLAS where it is.
    #[rstest]
    fn a_layer_by_columns_is_the_layer_by_rows(
        #[values(Dtype::F32, Dtype::F16, Dtype::Bf16)] dtype: Dtype,
        #[values(Epilogue::Store, Epilogue::Gelu, Epilogue::SwiGlu, Epilogue::Add)]
        epilogue: Epilogue,
        #[values(true, false)] biased: bool,
    ) {
        let stream = gpu::context(0).unwrap().new_stream().unwrap();
        let kernels = Kernels::new(&stream).unwrap();
        let cublas = Cublas::find(&stream);
        let mut scratch = Scratch::default();
        for (n, columns, outputs) in [(9, 72, 33), (17, 1, 40), (65, 97, 1), (10, 300, 31)] {
            let rows = match epilogue {
                Epilogue::SwiGlu => 2 * outputs,
                _ => outputs,
            };
            let noise = |count, salt| tensor(count, salt, uniform).to_vec();
            let (x, weight) = (noise(n * columns, 2), noise(rows * columns, 1));
            let weight = rounded(dtype, &weight);
            let layer = Layer {
                columns,
                outputs,
                epilogue,
                x: wide(dtype, &rounded(dtype, &x)),
                weight: wide(dtype, &weight),
                bias: biased.then(|| noise(rows, 3)),
                y: noise(n * outputs, 4),
            };
            let expected = layer.expected();

            let checks = kernels.checks("linear");
            let weight = Matrix {
                dtype,
                rows,
                columns,
                bytes: stream.clone_htod(&weight).unwrap(),
            };
            let bias = layer.bias.as_ref();
            let bias = bias.map(|bias| stream.clone_htod(bias).unwrap());
            let x = stream.clone_htod(&x).unwrap();
            let product = Product {
                checks: &checks,
                weight: &weight,
                bias: bias.as_ref(),
                n,
                outputs,
                epilogue,
            };
            // Terms are below 1. An error of a gate or an up is multiplied by the other.
            let largest = match epilogue {
                Epilogue::SwiGlu => columns as f64 + 1.0,
                _ => 1.0,
            };
            let floor = (columns as f64 + 2.0) * largest;
            let tolerance = Tolerance::of_sum(f32::EPSILON.into(), columns).floor(floor);
            let mut compare = |what: &str, multiply: &dyn Fn(&Gemm) -> Result<(), Error>| {
                let mut y = stream.clone_htod(&layer.y).unwrap();
                let (from, to) = (x.as_view(), y.as_view_mut());
                let run = kernels.by_columns(&mut scratch, &product, from, to, multiply);
                run.unwrap();
                let found = stream.clone_dtoh(&y).unwrap();
                let (found, expected) = (ArrayView1::from(&found), ArrayView1::from(&expected));
                let comparison = Comparison::new("y", found, expected, tolerance);
                let shape = [n, columns, outputs];
                assert!(comparison.passed(), "{what}, {shape:?}: {comparison}");
            };
            compare("by definition", &|gemm| {
                stream.synchronize()?;
                by_definition(gemm)
            });
            match &cublas {
                Ok(cublas) => compare("cuBLAS", &|gemm| cublas.multiply(gemm)),
                Err(reason) => println!("cuBLAS itself is not tested: {reason}"),
            }
        }
    }
}
