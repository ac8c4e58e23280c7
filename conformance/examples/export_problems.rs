//! Writes the attention problems of the conformance table, with the oracle's answers, for
//! `fixtures/torch_errors.py` and `fixtures/torch_gradients.py`.
//!
//! `cargo run -p conformance --example export_problems FOLDER` makes one
//! safetensors file per problem:
//!
//! - `q`, `k`, `v` f32; `o`, `lse` f64, from the oracle; `d_o` f32, the gradient of a loss by `o`;
//! - `mask` f32, `blocks` u8, `key_lengths` i64, where the problem has them;
//! - metadata, as text: `index` (the place in the table), and `scale`, `causal`, `left`, `right`
//!   where the problem has them.

use std::collections::HashMap;
use std::path::Path;

use conformance::oracle;
use conformance::problems::{Problem as _, attention, gradients};
use ndarray::{Array, Dimension};
use safetensors::tensor::{Dtype, TensorView};
use stage1_reference::Window;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args_os().nth(1).ok_or("which folder?")?;
    for (index, problem) in attention::problems().iter().enumerate() {
        write(problem, index, Path::new(&folder))?;
    }
    Ok(())
}

fn write(
    problem: &attention::Problem,
    index: usize,
    folder: &Path,
) -> Result<(), Box<dyn std::error::Error>> {
    let attention::Problem {
        q, k, v, options, ..
    } = problem;
    let (o, lse) = oracle::attention(q, k, v, options);
    let d_o = gradients::Problem::new(problem.clone()).d_o;
    let mut tensors = vec![
        ("d_o", f32_tensor(&d_o)),
        ("q", f32_tensor(q)),
        ("k", f32_tensor(k)),
        ("v", f32_tensor(v)),
        ("o", f64_tensor(&o)),
        ("lse", f64_tensor(&lse)),
    ];
    if let Some(mask) = &options.mask {
        tensors.push(("mask", f32_tensor(mask)));
    }
    if let Some(blocks) = &options.blocks {
        let bytes = blocks.iter().map(|&seen| u8::from(seen)).collect();
        tensors.push(("blocks", (Dtype::U8, blocks.shape().to_vec(), bytes)));
    }
    if let Some(lengths) = &options.key_lengths {
        let bytes = lengths
            .iter()
            .flat_map(|&length| (length as i64).to_le_bytes());
        tensors.push((
            "key_lengths",
            (Dtype::I64, vec![lengths.len()], bytes.collect()),
        ));
    }

    let mut metadata = HashMap::from([("index".to_owned(), index.to_string())]);
    if let Some(scale) = options.scale {
        metadata.insert("scale".to_owned(), scale.to_string());
    }
    if options.causal {
        metadata.insert("causal".to_owned(), "true".to_owned());
    }
    if let Some(Window { left, right }) = options.window {
        metadata.insert("left".to_owned(), left.to_string());
        metadata.insert("right".to_owned(), right.to_string());
    }

    let views = tensors
        .iter()
        .map(|(name, (dtype, shape, bytes))| {
            Ok((*name, TensorView::new(*dtype, shape.clone(), bytes)?))
        })
        .collect::<Result<Vec<_>, safetensors::SafeTensorError>>()?;
    let file = folder.join(format!("{}.safetensors", problem.name()));
    safetensors::serialize_to_file(views, Some(metadata), &file)?;
    Ok(())
}

/// Element type, shape, and bytes in row-major order.
type Tensor = (Dtype, Vec<usize>, Vec<u8>);

fn f32_tensor<D: Dimension>(array: &Array<f32, D>) -> Tensor {
    let bytes = array.iter().flat_map(|x| x.to_le_bytes()).collect();
    (Dtype::F32, array.shape().to_vec(), bytes)
}

fn f64_tensor<D: Dimension>(array: &Array<f64, D>) -> Tensor {
    let bytes = array.iter().flat_map(|x| x.to_le_bytes()).collect();
    (Dtype::F64, array.shape().to_vec(), bytes)
}
