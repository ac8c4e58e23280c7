//! Rows of tables: token and position embedding, and rows of activations.

use cudarc::driver::{CudaSlice, CudaView, CudaViewMut, PushKernelArg};
use gpu::arguments::{Checks, OptionalArg};
use stage5_decode::Dtype;

use super::{Kernels, Variant, block_per_row};
use crate::Error;
use crate::weights::Matrix;

impl Kernels {
    /// `x[i] = token_table[tokens[i]] + position_table[positions[i]]`, without a position table the
    /// first alone. `x` is `[n, C]`, `tokens` and `positions` are `[n]`, the tables are `[V, C]`
    /// and `[context, C]` of the same dtype.
    ///
    /// A token or position that has no row makes its row of `x` NaN: see [`Kernels::argmax`].
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] if the lengths or dtypes do not fit each other, or an
    /// array is on another device.
    pub fn embed(
        &self,
        mut x: CudaViewMut<'_, f32>,
        tokens: CudaView<'_, i32>,
        positions: CudaView<'_, i32>,
        token_table: &Matrix<CudaSlice<u8>>,
        position_table: Option<&Matrix<CudaSlice<u8>>>,
    ) -> Result<(), Error> {
        let checks = self.checks("embed");
        let Matrix {
            rows: vocab,
            columns,
            dtype,
            ..
        } = *token_table;
        check_table(&checks, "token_table", token_table)?;
        if let Some(table) = position_table {
            check_table(&checks, "position_table", table)?;
            if (table.columns, table.dtype) != (columns, dtype) {
                let expected = format_args!("{columns} columns of {dtype}");
                let actual = format_args!("{} of {}", table.columns, table.dtype);
                return Err(checks.error("position_table", expected, actual).into());
            }
        }
        let n = checks.rows("tokens", &tokens, 1)?;
        checks.length("positions", &positions, n)?;
        checks.length("x", &x, n.saturating_mul(columns))?;

        // ANCHOR: launch_embed
        let context = position_table.map_or(0, |table| table.rows);
        let sizes = [
            ("token_table", vocab),
            ("position_table", context),
            ("x", columns),
        ];
        let [vocab, context, columns_arg] = checks.sizes(sizes)?;
        let function = self.function(Variant {
            element: Some(dtype),
            ..Variant::of("embed")
        })?;
        let config = block_per_row(&checks, n, columns)?;
        let mut launch = self.stream.launch_builder(&function);
        launch.arg(&mut x).arg(&tokens).arg(&positions);
        launch.arg(&token_table.bytes);
        launch.optional(position_table.map(|table| &table.bytes));
        launch.arg(&vocab).arg(&context).arg(&columns_arg);
        // SAFETY: these are the parameters of embed.cu, compiled for this dtype. It reads n tokens
        // and positions and rows that the tables have, no position table if it is null, and writes
        // n rows of x: all checked above.
        unsafe { launch.launch(config) }?;
        // ANCHOR_END: launch_embed
        Ok(())
    }

    /// `y[i] = x[rows[i]]`: for example the last token of each prompt. `y` is `[n, columns]`,
    /// `rows` is `[n]`, `x` has any number of rows. A row that `x` does not have is NaN.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] if the lengths do not fit each other or an array is on another device.
    pub fn gather(
        &self,
        mut y: CudaViewMut<'_, f32>,
        rows: CudaView<'_, i32>,
        x: CudaView<'_, f32>,
    ) -> Result<(), Error> {
        let checks = self.checks("gather");
        let n = checks.rows("rows", &rows, 1)?;
        let columns = y.len() / n;
        checks.rows("y", &y, columns)?;
        checks.length("y", &y, n * columns)?;
        let available = checks.rows("x", &x, columns)?;

        let [available, context, columns_arg] =
            checks.sizes([("x", available), ("x", 0), ("y", columns)])?;
        let element = Some(Dtype::F32);
        let function = self.function(Variant {
            element,
            ..Variant::of("embed")
        })?;
        let config = block_per_row(&checks, n, columns)?;
        let mut launch = self.stream.launch_builder(&function);
        launch.arg(&mut y).arg(&rows).arg(&rows).arg(&x);
        launch.optional(None::<&CudaSlice<u8>>);
        launch.arg(&available).arg(&context).arg(&columns_arg);
        // SAFETY: these are the parameters of embed.cu, compiled for f32, without a position
        // table: it does not read positions then. It reads rows that x has and writes n rows
        // of y: all checked above.
        unsafe { launch.launch(config) }?;
        Ok(())
    }
}

/// Checks that a table has all its bytes.
fn check_table(
    checks: &Checks,
    argument: &'static str,
    table: &Matrix<CudaSlice<u8>>,
) -> Result<(), Error> {
    let Matrix {
        rows,
        columns,
        dtype,
        ..
    } = *table;
    checks.sizes([(argument, rows), (argument, columns)])?;
    checks.length(argument, &table.bytes, rows * columns * dtype.bytes())?;
    checks.rows(argument, &table.bytes, columns * dtype.bytes())?;
    Ok(())
}
