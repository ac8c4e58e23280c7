//! Memory beyond inputs and outputs: it grows with the sequence, not with its square.

mod counting;

use conformance::inputs::{tensor, uniform};
use counting::extra;
use stage1_reference::Sizes;
use stage3_flash_cpu::{Error, Options, attention, attention_backward};

const MIB: usize = 1 << 20;

/// One test, because the counters are shared by all of a program. Two threads, because each has scratch memory of its own.
#[test]
fn memory_grows_with_the_sequence() -> Result<(), Error> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build();
    pool.expect("two threads").install(measure)
}

fn measure() -> Result<(), Error> {
    let n = 16384;
    let sizes = Sizes {
        batch: 1,
        heads: 1,
        kv_heads: 1,
        nq: n,
        nk: n,
        head_dim: 64,
    };
    let shape = (1, 1, n, sizes.head_dim);
    let [q, k, v] = [1, 2, 3].map(|seed| tensor(shape, seed, uniform));
    let (q, k, v) = (q.view(), k.view(), v.view());
    // The window spares time, not memory: scratch memory is the same for every tile.
    let options = Options::default().window(200, 200);
    let matrix = q.len() * size_of::<f32>();
    let lse = n * size_of::<f32>();
    let (forward, output) = extra(matrix + lse, || attention(q, k, v, &options));
    let output = output?;
    let (backward, gradients) = extra(3 * matrix, || {
        attention_backward(q, k, v, &options, &output, output.o.view())
    });
    gradients?;
    println!("beyond results: forward {forward} bytes, backward {backward} bytes");
    assert!(forward <= 4 * MIB, "{forward} bytes");
    assert!(backward <= 4 * MIB, "{backward} bytes");
    // The counter counts. (Scores in one piece would be 1 GiB.)
    let (counted, _) = extra(0, || vec![0u8; 5 * MIB]);
    assert!(counted >= 5 * MIB);
    Ok(())
}
