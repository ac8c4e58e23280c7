//! A cache, queries and new tokens in device memory, on which operations are
//! launched again and again.

use std::sync::Arc;

use anyhow::{Context, ensure};
use bench_kit::median_seconds;
use cudarc::driver::{CudaSlice, CudaStream, CudaView};
use gpu::arguments::{Strides, upload};
use gpu::profile::LaunchProfile;
use ndarray::Array4;
use stage1_reference::Options;
use stage4_flash_cuda::{self as stage4, Attention};
use stage5_decode::{
    Cache, Decode, Dtype, Inputs, NewTokens, Outputs, PageTable, PerSequence, Shape,
};

use super::case::{Case, Operation};

/// Tokens of the problem that is verified: parts of it are not equal, and
/// its last page is not full.
const VERIFIED: usize = 150;

/// Bytes of finite numbers with which a cache is filled, again and again.
const PATTERN: usize = 1 << 20;

/// A case in device memory, with seeded values.
pub struct Problem {
    stream: Arc<CudaStream>,
    case: Case,
    operation: Operation,
    decode: Decode,
    attention: Attention,
    /// `[B, H, nq, D]`.
    q: CudaSlice<f32>,
    o: CudaSlice<f32>,
    /// Keys and values of the new tokens, `[B, H_kv, n, D]`.
    new: [CudaSlice<f32>; 2],
    n: usize,
    cache: [CudaSlice<u8>; 2],
    /// Entries `[B, columns]` on the host and in device memory, and the number of columns.
    pages: Option<(Vec<i32>, CudaSlice<i32>, usize)>,
    /// Tokens of each sequence, and how many of them are new.
    counts: [(Vec<usize>, CudaSlice<i32>); 2],
}

/// Compares an operation on a small case of the kind of `case` with stage 1: what is
/// wrong is not worth timing.
///
/// Every token is written by `update_cache`; then one query of each head attends.
pub fn verify(stream: &Arc<CudaStream>, case: &Case, operation: Operation) -> anyhow::Result<()> {
    let group = case.heads / case.kv_heads;
    let small = Case {
        batch: 2,
        heads: 2 * group,
        kv_heads: 2,
        keys: VERIFIED,
        max_seq: VERIFIED + 3,
        ..*case
    };
    let nq = match operation {
        Operation::Stage4 { nq } => nq.min(VERIFIED),
        _ => 1,
    };
    let attend = match operation {
        Operation::Update { .. } => return Ok(()), // verified with the operation that reads what it wrote
        Operation::Decode { .. } => operation,
        Operation::Stage4 { .. } => Operation::Stage4 { nq },
    };
    let mut problem = Problem::sized(stream, small, attend, VERIFIED)?;
    problem.operation = Operation::Update { n: VERIFIED };
    problem.launch()?;
    problem.operation = attend;
    problem.launch()?;
    let o = stream.clone_dtoh(&problem.o)?;
    let tensor = |slice: &CudaSlice<f32>, heads, rows| {
        let shape = (small.batch, heads, rows, small.head_dim);
        anyhow::Ok(Array4::from_shape_vec(shape, stream.clone_dtoh(slice)?)?)
    };
    let q = tensor(&problem.q, small.heads, nq)?;
    let [k, v] = [&problem.new[0], &problem.new[1]].map(|x| tensor(x, small.kv_heads, VERIFIED));
    let (k, v) = (k?, v?);
    let options = Options::default().causal();
    let expected = stage1_reference::attention(q.view(), k.view(), v.view(), &options)?;
    // Each of the two is so far from the exact sum of this many terms, at most.
    let terms = (small.head_dim + VERIFIED) as f32;
    let off = f32::EPSILON * (8.0 + 2.0 * terms.sqrt());
    let close = |(a, b): (&f32, &f32)| (a - b).abs() <= 2.0 * off * (1.0 + b.abs());
    ensure!(
        o.len() == expected.o.len() && o.iter().zip(&expected.o).all(close),
        "{operation:?} at {small}: the result is not that of stage 1"
    );
    Ok(())
}

/// Between −2 and 2, a function of seed and index. f16 and bf16 have all of these numbers.
fn value(seed: u64, i: usize) -> f32 {
    let bits = (seed << 32 | (i as u64 + 1)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let bits = (bits ^ (bits >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (bits >> 57) as f32 / 32.0 - 2.0
}

impl Problem {
    /// Memory for `operation` on `case`.
    pub fn new(stream: &Arc<CudaStream>, case: Case, operation: Operation) -> anyhow::Result<Self> {
        let n = match operation {
            Operation::Update { n } => n,
            _ => 1,
        };
        Self::sized(stream, case, operation, n)
    }

    fn sized(
        stream: &Arc<CudaStream>,
        case: Case,
        operation: Operation,
        n: usize,
    ) -> anyhow::Result<Self> {
        let nq = match operation {
            Operation::Stage4 { nq } => nq,
            _ => 1,
        };
        let decode = Decode::new(stream.context())?;
        let decode = match operation {
            Operation::Decode { mode, splits } => decode.with_mode(mode).with_splits(splits),
            _ => decode,
        };
        // Few different values, so that a large problem is made fast.
        let tensor = |rows: usize, seed| {
            let some: Vec<f32> = (0..4099).map(|i| value(seed, i)).collect();
            upload(stream, some.iter().cycle().take(rows * case.head_dim))
        };
        let (queries, tokens) = (case.batch * case.heads * nq, case.batch * case.kv_heads * n);
        let columns = |page_size| case.max_seq.div_ceil(page_size);
        let pages = case.page_size.map(|page_size| {
            let columns = columns(page_size);
            let entries = shuffled(case.batch * columns);
            let device = upload(stream, &entries)?;
            anyhow::Ok((entries, device, columns))
        });
        let bytes = match case.page_size {
            Some(page_size) => case.cache().bytes() / case.max_seq * columns(page_size) * page_size,
            None => case.cache().bytes(),
        };
        let counts = |count: usize| {
            let device = upload(stream, &vec![count as i32; case.batch])?;
            anyhow::Ok((vec![count; case.batch], device))
        };
        Ok(Self {
            stream: stream.clone(),
            case,
            operation,
            decode,
            attention: Attention::new(stream.context())?,
            q: tensor(queries, 1)?,
            o: stream.alloc_zeros(queries * case.head_dim)?,
            new: [tensor(tokens, 2)?, tensor(tokens, 3)?],
            n,
            cache: [filled(stream, bytes, 4)?, filled(stream, bytes, 5)?],
            pages: pages.transpose()?,
            counts: [counts(case.keys)?, counts(n)?],
        })
    }

    /// Launches, and does not wait.
    fn launch(&mut self) -> anyhow::Result<()> {
        let Self {
            stream,
            case,
            pages,
            counts,
            ..
        } = self;
        let [lengths, new] = counts;
        let lengths = || PerSequence {
            host: &lengths.0,
            device: lengths.1.as_view(),
        };
        let pages = || {
            pages.as_ref().map(|(host, entries, columns)| PageTable {
                host,
                entries: entries.as_view(),
                columns: *columns,
                page_size: case.page_size.unwrap_or(0),
            })
        };
        let [k, v] = &mut self.cache;
        let Case {
            heads,
            kv_heads,
            max_seq,
            head_dim,
            ..
        } = *case;
        match self.operation {
            Operation::Decode { .. } => {
                let cache = Cache {
                    shape: case.cache(),
                    k: k.as_view(),
                    v: v.as_view(),
                    pages: pages(),
                    lengths: lengths(),
                };
                let inputs = Inputs {
                    q: self.q.as_view(),
                    cache,
                };
                let outputs = Outputs {
                    o: self.o.as_view_mut(),
                    lse: None,
                };
                let shape = Shape::packed(heads, 1, head_dim);
                self.decode.forward(stream, inputs, outputs, &shape)?;
            }
            Operation::Update { .. } => {
                let cache = Cache {
                    shape: case.cache(),
                    k: k.as_view_mut(),
                    v: v.as_view_mut(),
                    pages: pages(),
                    lengths: lengths(),
                };
                let counts = PerSequence {
                    host: &new.0,
                    device: new.1.as_view(),
                };
                let strides = Strides::packed(kv_heads, self.n, head_dim);
                let tokens = NewTokens {
                    k: self.new[0].as_view(),
                    v: self.new[1].as_view(),
                    n: self.n,
                    k_strides: strides,
                    v_strides: strides,
                };
                self.decode.update_cache(stream, cache, counts, tokens)?;
            }
            Operation::Stage4 { nq } => {
                ensure!(
                    case.dtype == Dtype::F32 && case.page_size.is_none(),
                    "stage 4 reads contiguous f32"
                );
                let inputs = stage4::Inputs {
                    q: self.q.as_view(),
                    k: floats(k)?,
                    v: floats(v)?,
                    mask: None,
                    key_lengths: None,
                    blocks: None,
                };
                let outputs = Outputs {
                    o: self.o.as_view_mut(),
                    lse: None,
                };
                let in_cache = Strides::packed(kv_heads, max_seq, head_dim);
                let shape = stage4::Shape {
                    causal: true,
                    k: in_cache,
                    v: in_cache,
                    ..stage4::Shape::packed(case.sizes(nq))
                };
                self.attention.forward(stream, inputs, outputs, &shape)?;
            }
        }
        Ok(())
    }

    /// The profiles of the launches of one run, counted by the simulator.
    pub fn profile(&mut self) -> anyhow::Result<Vec<LaunchProfile>> {
        let (launched, launches) = gpu::profile::profile(|| {
            self.launch()?;
            anyhow::Ok(self.stream.synchronize()?)
        })?;
        launched?;
        ensure!(!launches.is_empty(), "nothing was launched");
        Ok(launches)
    }

    /// Seconds of one run: the median of `runs`, by the device's own clock.
    pub fn time(&mut self, runs: usize) -> anyhow::Result<f64> {
        let stream = self.stream.clone();
        median_seconds(&stream, runs, || self.launch())
    }
}

/// The elements of an f32 cache.
fn floats(bytes: &CudaSlice<u8>) -> anyhow::Result<CudaView<'_, f32>> {
    // SAFETY: floats have no invalid values, and an allocation is aligned to them.
    let floats = unsafe { bytes.transmute(bytes.len() / size_of::<f32>()) };
    floats.context("the cache is shorter than its floats")
}

/// The numbers below `count`, in an order in which neighbours are apart.
fn shuffled(count: usize) -> Vec<i32> {
    let mut order = Vec::from_iter(0..count);
    order.sort_by_key(|&i| (i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    order.into_iter().map(|page| page as i32).collect()
}

/// Device memory full of numbers that are finite and not zero in every element type,
/// with magnitudes below 2.
fn filled(stream: &Arc<CudaStream>, bytes: usize, seed: u64) -> anyhow::Result<CudaSlice<u8>> {
    // 0x3c00 to 0x3fff is 1 to 2 in f16, and 0.008 to 2 in bf16, and so in f32 by its upper half.
    let element = |i| 0x3c00 | value(seed, i).to_bits() >> 13 & 0x83ff;
    let elements = (0..PATTERN.min(bytes).div_ceil(2)).map(|i| (element(i) as u16).to_le_bytes());
    let pattern = Vec::from_iter(elements.flatten());
    // SAFETY: bytes have no invalid values, and all are written below.
    let mut memory = unsafe { stream.alloc::<u8>(bytes.max(1)) }?;
    let mut done = pattern.len().min(bytes);
    stream.memcpy_htod(&pattern[..done], &mut memory.slice_mut(..done))?;
    while done < bytes {
        let more = done.min(bytes - done);
        let (from, mut to) = memory.split_at_mut(done);
        stream.memcpy_dtod(&from.slice(..more), &mut to.slice_mut(..more))?;
        done += more;
    }
    Ok(memory)
}
