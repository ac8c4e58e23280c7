//! Attention on host arrays, then on device memory, then there in half precision:
//! `cargo run -p stage4-flash-cuda --example attention`.

use std::error::Error;
use std::process::ExitCode;

use half::f16;
use ndarray::Array4;
use stage4_flash_cuda::{Attention, Inputs, Options, Outputs, Shape, Sizes};

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}", gpu::report(&*error)); // a kernel's fault with its line; `{error:?}` has no line breaks
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    // An NVIDIA GPU where there is one, otherwise the simulated device.
    let context = gpu::context(0)?;
    println!("on {}", gpu::device_label(&context)?);
    let stream = context.default_stream();
    let attention = Attention::new(&context)?;

    // 2 sequences of 100 tokens, 4 query heads that share 2 heads of keys and values, 64 columns.
    let (batch, heads, kv_heads, n, head_dim) = (2, 4, 2, 100, 64);
    let tensor = |heads, seed: usize| {
        Array4::from_shape_fn((batch, heads, n, head_dim), |(b, h, i, d)| {
            ((seed + 3 * b + 7 * h + 11 * i + 13 * d) as f32).sin() // any numbers do
        })
    };
    let (q, k, v) = (tensor(heads, 1), tensor(kv_heads, 2), tensor(kv_heads, 3));

    // Host arrays: copied there and back. Each token sees itself and the 16 before it; the
    // second sequence has 70 tokens.
    let options = Options::default()
        .causal()
        .window(16, 0)
        .key_lengths([100, 70]);
    let output = attention.forward_host(&stream, q.view(), k.view(), v.view(), &options)?;
    println!(
        "o[0, 0, 0, ..3] = {:.4}",
        output.o.slice(ndarray::s![0, 0, 0, ..3])
    );
    // The first token sees only itself, so its output is its own value.
    assert!((output.o[[0, 0, 0, 0]] - v[[0, 0, 0, 0]]).abs() < 1e-6);

    // Device memory, [B, N, H, D] as a projection leaves it: nothing is copied or allocated.
    let sizes = Sizes {
        batch,
        heads,
        kv_heads,
        nq: n,
        nk: n,
        head_dim,
    };
    let shape = Shape {
        causal: true,
        ..Shape::sequence_first(sizes)
    };
    let sequence_first = |x: &Array4<f32>| -> Vec<f32> {
        let x = x.view().permuted_axes([0, 2, 1, 3]);
        x.iter().copied().collect()
    };
    let host = [&q, &k, &v].map(sequence_first);
    let [q, k, v] = &host;
    let (q, k, v) = (
        stream.clone_htod(q)?,
        stream.clone_htod(k)?,
        stream.clone_htod(v)?,
    );
    let mut o = stream.alloc_zeros::<f32>(q.len())?;
    let inputs = Inputs::new(q.as_view(), k.as_view(), v.as_view());
    let outputs = Outputs {
        o: o.as_view_mut(),
        lse: None,
    };
    attention.forward(&stream, inputs, outputs, &shape)?;
    let o = stream.clone_dtoh(&o)?; // waits
    println!("causal, from device memory: o[..3] = {:.4?}", &o[..3]);

    // The same in f16, on tensor cores. `bf16` goes as well.
    let [q, k, v] = host.map(|x| x.into_iter().map(f16::from_f32).collect::<Vec<_>>());
    let (q, k, v) = (
        stream.clone_htod(&q)?,
        stream.clone_htod(&k)?,
        stream.clone_htod(&v)?,
    );
    let mut half_o = stream.alloc_zeros::<f16>(q.len())?;
    let inputs = Inputs::new(q.as_view(), k.as_view(), v.as_view());
    let outputs = Outputs {
        o: half_o.as_view_mut(),
        lse: None,
    };
    attention.forward_half(&stream, inputs, outputs, &shape)?;
    let half_o = stream.clone_dtoh(&half_o)?;
    println!("the same in f16: o[..3] = {:.4?}", &half_o[..3]);
    let differences = o
        .iter()
        .zip(&half_o)
        .map(|(o, half)| (o - half.to_f32()).abs());
    assert!(differences.fold(0.0, f32::max) < 2e-3);
    Ok(())
}
