//! Shapes of a layer with heads: from rows of tokens to heads, and back.
//!
//! `cargo run -p stage1-reference --example heads`

use ndarray::{Array2, Array3, ShapeError};

fn main() -> Result<(), ShapeError> {
    let (batch, n, heads, d) = (2, 3, 2, 4);
    let hidden = heads * d;
    let x = Array3::from_shape_fn((batch, n, hidden), |(b, i, c)| {
        (100 * b + 10 * i + c) as f32
    });
    let w = Array2::eye(hidden);
    // ANCHOR: shapes
    let rows = x.to_shape((batch * n, hidden))?; // [B · N, hidden]: all rows of all batches
    let y = rows.dot(&w); // a projection, [B · N, hidden]
    let split = y.into_shape_with_order((batch, n, heads, d))?; // [B, N, H, D]: nothing moves
    let of_heads = split.permuted_axes([0, 2, 1, 3]); // [B, H, N, D]: two strides are swapped
    let back = of_heads.permuted_axes([0, 2, 1, 3]); // [B, N, H, D] again
    let packed = back.as_standard_layout().into_owned(); // copied, if its strides need it
    let merged = packed.into_shape_with_order((batch, n, hidden))?; // [B, N, hidden]
    // ANCHOR_END: shapes
    assert_eq!(merged, x);
    println!("{merged}");
    Ok(())
}
