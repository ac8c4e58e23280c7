//! A prefill, then decoding token by token: `cargo run -p stage5-decode --example decode`.

use std::error::Error;
use std::process::ExitCode;

use stage5_decode::{
    CacheShape, Decode, Dtype, Inputs, KvCache, NewTokens, Outputs, Shape, Strides,
};

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
    let decode = Decode::new(&context)?;

    // 2 sequences of up to 128 tokens in f16; 8 query heads share 2 heads of
    // keys and values, 64 columns.
    let (heads, kv_heads, head_dim) = (8, 2, 64);
    let shape = CacheShape {
        batch: 2,
        kv_heads,
        max_seq: 128,
        head_dim,
        dtype: Dtype::F16,
    };
    let layers = 1;
    let mut cache = KvCache::new(&stream, layers, shape)?;

    // Prompts of 100 and 70 tokens, then 3 tokens one by one. The rows of the shorter
    // prompt from 70 on are padding.
    for (seed, n, counts) in [
        (1, 100, [100, 70]),
        (2, 1, [1; 2]),
        (3, 1, [1; 2]),
        (4, 1, [1; 2]),
    ] {
        // Any numbers do, [2, heads, n, head_dim].
        let upload = |heads, seed: usize| {
            let x = (0..2 * heads * n * head_dim).map(|i| ((100 * seed + i) as f32).sin());
            stream.clone_htod(&x.collect::<Vec<f32>>())
        };
        let (q, k, v) = (
            upload(heads, seed)?,
            upload(kv_heads, 10 + seed)?,
            upload(kv_heads, 20 + seed)?,
        );
        let strides = Strides::packed(kv_heads, n, head_dim);
        let new = NewTokens {
            k: k.as_view(),
            v: v.as_view(),
            n,
            k_strides: strides,
            v_strides: strides,
        };
        cache.grow(&stream, &counts)?; // once for all layers; an error, before anything changes, if there is no room
        let (layer, counts) = cache.layer_mut(0);
        decode.update_cache(&stream, layer, counts, new)?;
        if n > 1 {
            continue; // attention of the prompt itself is stage 4's
        }
        let mut o = stream.alloc_zeros::<f32>(q.len())?;
        let inputs = Inputs {
            q: q.as_view(),
            cache: cache.layer(0),
        };
        let outputs = Outputs {
            o: o.as_view_mut(),
            lse: None,
        };
        decode.forward(&stream, inputs, outputs, &Shape::packed(heads, 1, head_dim))?;
        let o = stream.clone_dtoh(&o)?; // waits
        println!(
            "{:?} tokens: o[0, 0, 0, ..3] = {:.4?}",
            cache.lengths(),
            &o[..3]
        );
    }
    assert_eq!(cache.lengths(), [103, 73]);
    Ok(())
}
