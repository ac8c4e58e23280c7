//! Times attention at the command of another program: `bench/compare.py`.
//!
//! It reads commands from standard input, one a line, and answers each with one line:
//!
//! - `load FILE B H N D causal|full`: reads q, k and v, each `[B, H, N, D]` f32, one after
//!   the other. Answers `ok`.
//! - `save FILE`: computes stage 3's `o` and writes it there, f32. Answers with the peak of memory
//!   beyond `o` and `lse`, in bytes.
//! - `save-gradients FILE`: computes stage 3's gradients, with `o` as the gradient of the loss
//!   by `o`, and writes `dq`, `dk` and `dv` there, f32, one after the other. Answers with their
//!   peak of memory, as above.
//! - `stage3`, `stage3-backward` or `stage1`: computes once, and answers with the time in seconds.
//! - `about`: answers with instruction set and number of threads.

use std::fs;
use std::hint::black_box;
use std::io::{self, BufRead, Write};
use std::time::Instant;

use conformance::memory::{Counting, extra};
use ndarray::Array4;
use stage3_flash_cpu::{
    Error, Gradients, Options, Output, attention, attention_backward, instruction_set,
};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

type AnyError = Box<dyn std::error::Error>;

struct Loaded {
    q: Array4<f32>,
    k: Array4<f32>,
    v: Array4<f32>,
    options: Options,
    /// Of the forward pass, for the backward pass.
    output: Output,
}

fn main() -> Result<(), AnyError> {
    let mut loaded = None;
    for line in io::stdin().lock().lines() {
        let line = line?;
        let words: Vec<&str> = line.split_whitespace().collect();
        let answer = match (&words[..], &loaded) {
            (["load", file, b, h, n, d, mask], _) => {
                let shape = (b.parse()?, h.parse()?, n.parse()?, d.parse()?);
                loaded = Some(load(file, shape, *mask == "causal")?);
                "ok".to_owned()
            }
            (["save", file], Some(loaded)) => save(file, loaded)?.to_string(),
            (["save-gradients", file], Some(loaded)) => save_gradients(file, loaded)?.to_string(),
            ([what], Some(loaded)) => time(what, loaded)?.to_string(),
            (["about"], None) => {
                format!("{} {}", instruction_set(), rayon::current_num_threads())
            }
            _ => return Err(format!("cannot do `{line}`").into()),
        };
        println!("{answer}");
        io::stdout().flush()?;
    }
    Ok(())
}

fn load(file: &str, shape: (usize, usize, usize, usize), causal: bool) -> Result<Loaded, AnyError> {
    let bytes = fs::read(file)?;
    let mut tensors = bytes.chunks_exact(bytes.len() / 3).map(|bytes| {
        let values = bytes
            .chunks_exact(4)
            .map(|x| f32::from_le_bytes([x[0], x[1], x[2], x[3]]));
        Array4::from_shape_vec(shape, values.collect())
    });
    let mut next = || tensors.next().ok_or("the file is too short");
    let (q, k, v) = (next()??, next()??, next()??);
    let mut options = Options::default();
    if causal {
        options = options.causal();
    }
    let output = attention(q.view(), k.view(), v.view(), &options)?;
    Ok(Loaded {
        q,
        k,
        v,
        options,
        output,
    })
}

fn save(file: &str, loaded: &Loaded) -> Result<usize, AnyError> {
    let Loaded {
        q,
        k,
        v,
        options,
        output,
    } = loaded;
    let expected = size_of::<f32>() * (output.o.len() + output.lse.len());
    let (peak, output) = extra(expected, || {
        attention(q.view(), k.view(), v.view(), options)
    });
    write(file, &[output?.o])?;
    Ok(peak)
}

fn save_gradients(file: &str, loaded: &Loaded) -> Result<usize, AnyError> {
    let Loaded {
        q,
        k,
        v,
        options,
        output,
    } = loaded;
    let expected = size_of::<f32>() * (q.len() + k.len() + v.len());
    let (peak, gradients) = extra(expected, || {
        let d_o = output.o.view();
        attention_backward(q.view(), k.view(), v.view(), options, output, d_o)
    });
    let Gradients { dq, dk, dv } = gradients?;
    write(file, &[dq, dk, dv])?;
    Ok(peak)
}

fn write(file: &str, tensors: &[Array4<f32>]) -> io::Result<()> {
    let values = tensors.iter().flatten();
    let bytes: Vec<u8> = values.flat_map(|x| x.to_le_bytes()).collect();
    fs::write(file, bytes)
}

/// Seconds.
fn time(what: &str, loaded: &Loaded) -> Result<f64, AnyError> {
    let Loaded {
        q,
        k,
        v,
        options,
        output,
    } = loaded;
    let (q, k, v) = (q.view(), k.view(), v.view());
    let start = Instant::now();
    match what {
        "stage3" => drop(black_box(attention(q, k, v, options)?)),
        "stage3-backward" => {
            let d_o = output.o.view(); // any will do
            drop(black_box(attention_backward(
                q, k, v, options, output, d_o,
            )?));
        }
        "stage1" => {
            let output = stage1_reference::attention(q, k, v, options).map_err(Error::from)?;
            drop(black_box(output));
        }
        _ => return Err(format!("cannot time `{what}`").into()),
    }
    Ok(start.elapsed().as_secs_f64())
}
