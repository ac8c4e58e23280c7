//! Linear layers on the device: `y = x · weightᵀ + bias`, and what is done
//! with it before it is stored.
//!
//! | `x` | kernel |
//! |---|---|
//! | f32, up to 8 rows, as in a decode step | `gemv.cu`, which reads each weight once |
//! | f32, more rows | `gemm.cu` |
//! | f16 or bf16, as the weight | `gemm_mma.cu`, on tensor cores: see [`Kernels::on_tensor_cores`] |

use cudarc::driver::{CudaSlice, CudaView, CudaViewMut, DevicePtr, LaunchConfig, PushKernelArg};
use gpu::arguments::{Checks, OptionalArg};
use stage5_decode::Dtype;

use crate::Error;
use crate::kernels::{Activation, Kernels, Variant};
use crate::weights::{Device, Linear, Matrix};

/// The most rows of `x` that one launch of `gemv.cu` takes.
pub(crate) const GEMV_ROWS: usize = 8;

/// Work on `x · weightᵀ + bias` before it is stored in `y`.
// ANCHOR: epilogue
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(i32)] // as in kernels/epilogue.cuh
pub enum Epilogue {
    /// Nothing.
    Store = 0,
    /// GELU in its tanh form.
    Gelu = 1,
    /// `silu(gate) · up`: row `i` of the weight is the gate and row `i + F` the up of
    /// output `i`, of `2F` rows.
    SwiGlu = 2,
    /// It is added to what `y` holds: the residual stream.
    Add = 3,
}
// ANCHOR_END: epilogue

impl Epilogue {
    /// Columns of `y`, for a weight of so many rows.
    pub fn outputs(self, rows: usize) -> usize {
        match self {
            Self::SwiGlu => rows / 2,
            Self::Store | Self::Gelu | Self::Add => rows,
        }
    }
}

impl Linear<Device> {
    /// `y = epilogue(x · weightᵀ + bias)`: see [`Kernels::linear`].
    ///
    /// # Errors
    ///
    /// Those of [`Kernels::linear`].
    pub fn apply<X: Activation, Y: Activation>(
        &self,
        kernels: &Kernels,
        x: CudaView<'_, X>,
        y: CudaViewMut<'_, Y>,
        epilogue: Epilogue,
    ) -> Result<(), Error> {
        kernels.linear(&self.weight, self.bias.as_ref(), x, y, epilogue)
    }
}

impl Kernels {
    /// `y = epilogue(x · weightᵀ + bias)`, summed in f32. `x` is `[n, in]`, `weight` is
    /// `[rows, in]`, `bias` is `[rows]` and `y` is `[n, outputs]`, where `outputs` is `rows`, or
    /// half of it for [`Epilogue::SwiGlu`]. Any `n`, `in` and `rows` from 1 on.
    ///
    /// `x` and `y` are f32, or `x` has the type of a weight that [`Kernels::on_tensor_cores`]
    /// accepts; then `y` is f32 or has that type too, to which sums are rounded.
    ///
    /// A row of `y` has the same bits whatever `n` is: up to 8 if `x` is f32, else any.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] if the lengths do not fit each other, an array is on another device,
    /// `weight` has an odd number of rows for [`Epilogue::SwiGlu`], or the types do not fit: `y` is
    /// f32 for [`Epilogue::Add`].
    pub fn linear<X: Activation, Y: Activation>(
        &self,
        weight: &Matrix<CudaSlice<u8>>,
        bias: Option<&CudaSlice<f32>>,
        x: CudaView<'_, X>,
        y: CudaViewMut<'_, Y>,
        epilogue: Epilogue,
    ) -> Result<(), Error> {
        let checks = self.checks("linear");
        let Matrix { rows, columns, .. } = *weight;
        checks.sizes([("weight", rows), ("weight", columns)])?;
        let outputs = epilogue.outputs(rows);
        if outputs == 0 || columns == 0 || (epilogue == Epilogue::SwiGlu && rows % 2 != 0) {
            let expected = match epilogue {
                Epilogue::SwiGlu => "an even number of rows, and a column",
                _ => "a row and a column",
            };
            let actual = format_args!("{rows} rows of {columns}");
            return Err(checks.error("weight", expected, actual).into());
        }
        checks.length(
            "weight",
            &weight.bytes,
            rows * columns * weight.dtype.bytes(),
        )?;
        if let Some(bias) = bias {
            checks.length("bias", bias, rows)?;
        }
        let n = checks.rows("x", &x, columns)?;
        checks.length("y", &y, n.saturating_mul(outputs))?;

        let product = Product {
            checks: &checks,
            weight,
            bias,
            n,
            outputs,
            epilogue,
        };
        let sums = Y::DTYPE == Dtype::F32 || (Y::DTYPE == X::DTYPE && epilogue != Epilogue::Add);
        match X::DTYPE {
            _ if !sums => Err(checks.error("y", "f32", Y::DTYPE).into()),
            Dtype::F32 if n <= GEMV_ROWS => self.gemv(&product, x, y),
            Dtype::F32 => self.gemm(&product, x, y),
            dtype if dtype == weight.dtype && self.on_tensor_cores(weight, epilogue) => {
                self.gemm_mma(&product, x, y)
            }
            dtype if self.on_tensor_cores(weight, epilogue) => {
                let expected = format_args!("f32 or {}", weight.dtype);
                Err(checks.error("x", expected, dtype).into())
            }
            dtype => Err(checks.error("x", "f32", dtype).into()),
        }
    }

    /// True if a weight can be multiplied on tensor cores: it is in half precision, its rows are
    /// multiples of 16 bytes, `y` has a multiple of 4 columns, and the device has compute
    /// capability 8.0.
    pub fn on_tensor_cores(&self, weight: &Matrix<CudaSlice<u8>>, epilogue: Epilogue) -> bool {
        let fours = epilogue.outputs(weight.rows).is_multiple_of(4);
        let vectors = weight.columns.is_multiple_of(8);
        self.tensor_cores && weight.dtype != Dtype::F32 && vectors && fours
    }

    // ANCHOR: gemv
    fn gemv<X: Activation, Y: Activation>(
        &self,
        product: &Product<'_>,
        x: CudaView<'_, X>,
        mut y: CudaViewMut<'_, Y>,
    ) -> Result<(), Error> {
        let Product {
            weight, n, outputs, ..
        } = *product;
        let Matrix {
            rows,
            columns,
            dtype,
            ..
        } = *weight;
        let of_16_bytes = 16 / dtype.bytes();
        let aligned = columns.is_multiple_of(of_16_bytes) && self.is_aligned(&x);
        let vector = if aligned { of_16_bytes } else { 1 };
        let shape = GemvShape::new(n, rows, columns * dtype.bytes(), self.sms);
        let slices = shape.slices;
        let span = columns.div_ceil(slices * LANES * vector) * LANES * vector;
        let function = self.function(Variant {
            element: Some(dtype),
            sizes: shape.constants,
            ..Variant::of("gemv")
        })?;
        let config = LaunchConfig {
            grid_dim: (product.checks.grid(rows.div_ceil(shape.rows))?, 1, 1),
            block_dim: (32 * slices as u32, 1, 1),
            shared_mem_bytes: 0,
        };
        // At most MAX_SIZE, and the span less than 512 more.
        let sizes = [n, columns, outputs, vector, span];
        let [n, columns, outputs, vector, span] = sizes.map(|size| size as i32);
        let epilogue = product.epilogue as i32;
        let mut launch = self.stream.launch_builder(&function);
        launch.arg(&mut y).arg(&x).arg(&weight.bytes);
        launch.optional(product.bias);
        launch.arg(&n).arg(&columns).arg(&outputs).arg(&epilogue);
        launch.arg(&vector).arg(&span);
        // SAFETY: these are the parameters of gemv.cu, compiled for this dtype and for n rows or
        // more; `linear` passes x and y in f32. It reads n rows of x, all rows of the weight and
        // the bias if it is not null, and each lane writes outputs of its own: `linear` has checked
        // the lengths. Rows are read by vectors only if they are aligned to 16 bytes: the driver
        // aligns allocations to 256.
        unsafe { launch.launch(config) }?;
        Ok(())
    }
    // ANCHOR_END: gemv

    // ANCHOR: gemm
    fn gemm<X: Activation, Y: Activation>(
        &self,
        product: &Product<'_>,
        x: CudaView<'_, X>,
        mut y: CudaViewMut<'_, Y>,
    ) -> Result<(), Error> {
        let Product {
            weight, n, outputs, ..
        } = *product;
        let Matrix {
            rows,
            columns,
            dtype,
            ..
        } = *weight;
        let aligned = columns.is_multiple_of(4) && self.is_aligned(&x);
        let vector = if aligned { 4 } else { 1 };
        let function = self.function(Variant {
            element: Some(dtype),
            ..Variant::of("gemm")
        })?;
        let tiles = rows
            .div_ceil(GEMM_TILE)
            .saturating_mul(n.div_ceil(GEMM_TILE));
        let config = LaunchConfig {
            grid_dim: (product.checks.grid(tiles)?, 1, 1),
            block_dim: (GEMM_THREADS, 1, 1),
            shared_mem_bytes: 0,
        };
        let sizes = [
            ("x", n),
            ("weight", columns),
            ("weight", outputs),
            ("x", vector),
        ];
        let [n, columns, outputs, vector] = product.checks.sizes(sizes)?;
        let epilogue = product.epilogue as i32;
        let mut launch = self.stream.launch_builder(&function);
        launch.arg(&mut y).arg(&x).arg(&weight.bytes);
        launch.optional(product.bias);
        launch
            .arg(&n)
            .arg(&columns)
            .arg(&outputs)
            .arg(&epilogue)
            .arg(&vector);
        // SAFETY: these are the parameters of gemm.cu, compiled for this dtype; `linear` passes x
        // and y in f32. It reads n rows of x, all rows of the weight and the bias if it is not
        // null, and writes n rows of y: `linear` has checked the lengths. Rows are read by vectors
        // only if they are aligned.
        unsafe { launch.launch(config) }?;
        Ok(())
    }
    // ANCHOR_END: gemm

    // ANCHOR: gemm_mma
    fn gemm_mma<X: Activation, Y: Activation>(
        &self,
        product: &Product<'_>,
        x: CudaView<'_, X>,
        mut y: CudaViewMut<'_, Y>,
    ) -> Result<(), Error> {
        let Product {
            checks,
            weight,
            n,
            outputs,
            ..
        } = *product;
        for (argument, aligned) in [("x", self.is_aligned(&x)), ("y", self.is_aligned(&y))] {
            if !aligned {
                return Err(checks
                    .error(argument, "a multiple of 16 bytes", "another address")
                    .into());
            }
        }
        let tile = MmaTile::new(n, weight.rows, self.sms);
        let shared = 2 * (tile.rows + tile.weight_rows) * MMA_K * 2;
        let function = self.function(Variant {
            element: Some(weight.dtype),
            sizes: tile.constants,
            shared,
            ..Variant::of("gemm_mma")
        })?;
        let tiles = tile.grid(n, weight.rows);
        let config = LaunchConfig {
            grid_dim: checks.grid_3d([tiles.0, tiles.1, 1])?,
            block_dim: (GEMM_THREADS, 1, 1),
            shared_mem_bytes: shared as u32,
        };
        let sizes = [("x", n), ("weight", weight.columns), ("weight", outputs)];
        let [n, columns, outputs] = checks.sizes(sizes)?;
        let epilogue = product.epilogue as i32;
        let rounded = i32::from(Y::DTYPE != Dtype::F32);
        let mut launch = self.stream.launch_builder(&function);
        launch.arg(&mut y).arg(&x).arg(&weight.bytes);
        launch.optional(product.bias);
        launch
            .arg(&n)
            .arg(&columns)
            .arg(&outputs)
            .arg(&epilogue)
            .arg(&rounded);
        // SAFETY: these are the parameters of gemm_mma.cu, compiled for this dtype, which x has; y
        // has it or is f32, as `rounded` says. It reads n rows of x, all rows of the weight and the
        // bias if it is not null, and writes n rows of y: `linear` has checked the lengths and that
        // rows are multiples of 16 bytes, or of 4 elements.
        unsafe { launch.launch(config) }?;
        Ok(())
    }
    // ANCHOR_END: gemm_mma

    /// True for a view that begins at a multiple of 16 bytes.
    pub(crate) fn is_aligned<T>(&self, view: &impl DevicePtr<T>) -> bool {
        let (address, _in_use) = view.device_ptr(&self.stream);
        address.is_multiple_of(16)
    }
}

/// A linear layer whose sizes have been checked.
pub(crate) struct Product<'a> {
    pub(crate) checks: &'a Checks,
    pub(crate) weight: &'a Matrix<CudaSlice<u8>>,
    pub(crate) bias: Option<&'a CudaSlice<f32>>,
    /// Rows of x and y.
    pub(crate) n: usize,
    /// Columns of y.
    pub(crate) outputs: usize,
    pub(crate) epilogue: Epilogue,
}

/// Rows of x, and rows of the weight, of a block of `gemm.cu`: `BLOCK_M` and `BLOCK_N` there.
const GEMM_TILE: usize = 64;

/// Columns of a tile of `gemm_mma.cu`: `K` there.
const MMA_K: usize = 64;

/// Threads of a block of `gemm.cu` and of `gemm_mma.cu`.
const GEMM_THREADS: u32 = 128;

/// Lanes that share a row of the weight in `gemv.cu`.
const LANES: usize = 8;

/// Division of a product into blocks of `gemv.cu`.
struct GemvShape {
    constants: &'static [(&'static str, &'static str)],
    /// Rows of the weight of a block.
    rows: usize,
    /// Warps of a block, which share its rows.
    slices: usize,
}

impl GemvShape {
    /// For `n` rows of x and a weight of `rows` rows of `row_bytes` bytes each.
    ///
    /// A warp has 32 rows where they are short, or where there are enough to give every SM a block;
    /// else 8. If that is less than 8 warps for every SM, more warps share the columns, down to 12
    /// vectors of each lane.
    // ANCHOR: shape
    fn new(n: usize, rows: usize, row_bytes: usize, sms: usize) -> Self {
        let many = row_bytes <= 1024 || rows >= 32 * sms;
        let (constants, rows_of_block): (&'static [_], _) = match n {
            1 if many => (&[("N", "1"), ("ROWS", "8")], 32),
            1 => (&[("N", "1"), ("ROWS", "2")], 8),
            2 => (&[("N", "2"), ("ROWS", "2")], 8),
            3 | 4 => (&[("N", "4"), ("ROWS", "2")], 8),
            _ => (&[("N", "8"), ("ROWS", "2")], 8),
        };
        // Of n = 1, whatever n is: the number of slices changes how a sum is rounded.
        let blocks = rows.div_ceil(if many { 32 } else { 8 });
        let vectors = row_bytes / (16 * LANES);
        Self {
            constants,
            rows: rows_of_block,
            slices: (8 * sms / blocks).min(vectors / 12).clamp(1, 8),
        }
    }
    // ANCHOR_END: shape
}

/// Rows of a block of `gemm_mma.cu`.
struct MmaTile {
    constants: &'static [(&'static str, &'static str)],
    /// Of x: `BLOCK_M`.
    rows: usize,
    /// Of the weight: `BLOCK_N`.
    weight_rows: usize,
}

/// The larger one reads less for each output.
const MMA_TILES: [MmaTile; 2] = [
    MmaTile {
        constants: &[("BLOCK_M", "128"), ("BLOCK_N", "96")],
        rows: 128,
        weight_rows: 96,
    },
    MmaTile {
        constants: &[("BLOCK_M", "64"), ("BLOCK_N", "128")],
        rows: 64,
        weight_rows: 128,
    },
];

impl MmaTile {
    /// For `n` rows of x and a weight of `rows` rows: the tile with which the busiest SM computes
    /// the fewest outputs, and of two such tiles the larger one.
    fn new(n: usize, rows: usize, sms: usize) -> &'static Self {
        let [large, small] = &MMA_TILES;
        let busiest = |tile: &Self| {
            let (x, y) = tile.grid(n, rows);
            (x * y).div_ceil(sms) * tile.rows * tile.weight_rows
        };
        match busiest(large) <= busiest(small) {
            true => large,
            false => small,
        }
    }

    /// Blocks: along the weight's rows, and along those of x.
    fn grid(&self, n: usize, rows: usize) -> (usize, usize) {
        (rows.div_ceil(self.weight_rows), n.div_ceil(self.rows))
    }
}
