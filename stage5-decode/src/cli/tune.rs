//! `tune`: the rule's number of splits beside the best.

use std::sync::Arc;

use clap::Args;
use cudarc::driver::CudaContext;
use stage5_decode::{Decode, Dtype, MAX_SPLITS, Mode, Shape};

use super::case::{Case, Operation, dtype, size};
use super::estimate::Estimator;

/// Compare the rule's number of splits with others.
#[derive(Args)]
#[command(after_help = "\
Writes nothing: the rule computes its choice from SMs, lengths and heads (src/library/splits.rs) and reads no table. The kernels
have no tiles to choose from. On a GPU the measured time decides, without one the modelled time.")]
pub struct Arguments {
    /// Sequences.
    #[arg(long, value_delimiter = ',', default_value = "1,4,16", value_parser = size)]
    batch: Vec<usize>,

    /// Tokens of each sequence.
    #[arg(long, value_delimiter = ',', default_value = "512,4096,32768", value_parser = size)]
    context: Vec<usize>,

    /// Heads of keys and values; there are 32 heads of queries.
    #[arg(long, value_delimiter = ',', default_value = "32,8,1", value_parser = kv_heads)]
    kv_heads: Vec<usize>,

    /// Element type of the cache: f32, f16 or bf16.
    #[arg(long, default_value = "f16", value_parser = dtype)]
    dtype: Dtype,

    /// Timed runs on a GPU, of which the median counts.
    #[arg(long, default_value_t = 10)]
    runs: usize,
}

const HEADS: usize = 32;

/// Numbers of splits that are tried beside the rule's own.
const SPLITS: [usize; 14] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, MAX_SPLITS];

/// The fewest keys of a split that is tried: half a tile of the rule.
const MIN_KEYS: usize = 16;

/// Sweeps and reports.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let context = gpu::context(0)?;
    let mut estimator = Estimator::new(&context.default_stream(), arguments.runs);
    println!("{}", gpu::device_label(&context)?);
    println!("H = {HEADS}, D = 128, {} cache", arguments.dtype);
    println!("H_kv   B tokens rule: splits      µs best: splits      µs  rule over best  time is");
    let mut worst: f64 = 1.0;
    for &kv_heads in &arguments.kv_heads {
        for &keys in &arguments.context {
            for &batch in &arguments.batch {
                let case = Case {
                    batch,
                    heads: HEADS,
                    kv_heads,
                    keys,
                    max_seq: keys,
                    head_dim: 128,
                    dtype: arguments.dtype,
                    page_size: None,
                };
                eprintln!("{case}");
                worst = worst.max(sweep(&mut estimator, &context, case)?);
            }
        }
    }
    println!("the rule's time is at most {worst:.2} times the best");
    if gpu::backend()? == gpu::Backend::Simulator {
        println!("nothing here was measured on hardware");
    }
    Ok(())
}

/// Prints a line, and returns the rule's time over the best.
fn sweep(estimator: &mut Estimator, context: &Arc<CudaContext>, case: Case) -> anyhow::Result<f64> {
    let mode = Mode::Library;
    let shape = Shape::packed(HEADS, 1, case.head_dim);
    let rule = Decode::new(context)?.splits(&case.cache(), &shape, case.keys);
    let mut time = |splits| estimator.estimate(Operation::Decode { mode, splits }, case);
    let Some(time_by_rule) = time(rule)? else {
        println!(
            "{:>4} {:>3} {:>6}  not enough device memory",
            case.kv_heads, case.batch, case.keys
        );
        return Ok(1.0);
    };
    let (mut best, mut least) = (rule, time_by_rule);
    let enough = |&splits: &usize| splits == 1 || case.keys / splits >= MIN_KEYS;
    for splits in SPLITS.into_iter().filter(enough) {
        match time(splits)? {
            Some(other) if other.seconds < least.seconds => (best, least) = (splits, other),
            _ => {}
        }
    }
    let over = time_by_rule.seconds / least.seconds;
    println!(
        "{:>4} {:>3} {:>6} {rule:>12} {:>7.1} {best:>12} {:>7.1} {over:>15.2}  {}",
        case.kv_heads,
        case.batch,
        case.keys,
        1e6 * time_by_rule.seconds,
        1e6 * least.seconds,
        time_by_rule.how,
    );
    Ok(over)
}

fn kv_heads(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(kv_heads) if kv_heads > 0 && HEADS.is_multiple_of(kv_heads) => Ok(kv_heads),
        _ => Err(format!("it does not divide {HEADS}")),
    }
}
