//! A step that a CUDA graph replays gives the bits of a step that is launched anew.

use std::sync::Arc;

use cudarc::driver::sys::{CUgraphInstantiate_flags, CUstreamCaptureMode};
use cudarc::driver::{CudaGraph, CudaSlice, CudaStream};
use gpu::arguments::Strides;
use stage5_decode::paged::{PagedCache, PagedShape, SequenceId};
use stage5_decode::{
    CacheShape, CacheView, CacheViewMut, CountsMut, Decode, Dtype, Error, Inputs, KvCache,
    NewTokens, Outputs, PerSequence, Shape, Workspace,
};

const BATCH: usize = 2;
const HEADS: usize = 4;
const KV_HEADS: usize = 2;
const HEAD_DIM: usize = 20;
const SPLITS: usize = 3;
const QUERIES: usize = BATCH * HEADS;
/// Tokens of the sequences before the steps: in pages of 16, both sequences take a page on the way.
const PROMPTS: [usize; BATCH] = [14, 31];
const STEPS: usize = 5;
const MAX_SEQ: usize = 48;

#[test]
fn a_graph_replays_steps_on_a_contiguous_cache() {
    let stream = stream();
    let shape = CacheShape {
        batch: BATCH,
        kv_heads: KV_HEADS,
        max_seq: MAX_SEQ,
        head_dim: HEAD_DIM,
        dtype: Dtype::F16,
    };
    let caches = [(); 2].map(|()| KvCache::new(&stream, 1, shape).unwrap());
    assert_replays(&stream, caches);
}

#[test]
fn a_graph_replays_steps_on_a_paged_cache() {
    let stream = stream();
    let shape = PagedShape {
        pages: 8,
        page_size: 16,
        kv_heads: KV_HEADS,
        head_dim: HEAD_DIM,
        dtype: Dtype::Bf16,
    };
    let caches = [(); 2].map(|()| {
        let mut cache = PagedCache::new(&stream, 1, shape).unwrap();
        let sequences = [(); BATCH].map(|()| cache.create());
        Paged { cache, sequences }
    });
    let [mut replayed, launched] = caches;
    replayed.cache.reserve(&stream, BATCH + 1, MAX_SEQ).unwrap();
    assert_replays(&stream, [replayed, launched]);
}

#[test]
fn a_workspace_that_is_too_small_is_refused() {
    let stream = stream();
    let cache = KvCache::new(&stream, 1, shape(1)).unwrap();
    let decode = Decode::new(stream.context()).unwrap();
    let q = stream.alloc_zeros::<f32>(HEADS * HEAD_DIM).unwrap();
    let mut o = stream.alloc_zeros::<f32>(HEADS * HEAD_DIM).unwrap();
    let mut refused = |splits, queries, head_dim| {
        let mut workspace = Workspace::new(&stream, splits, queries, head_dim).unwrap();
        let inputs = Inputs {
            q: q.as_view(),
            cache: cache.layer(0),
        };
        let outputs = Outputs {
            o: o.as_view_mut(),
            lse: None,
        };
        let of_queries = Shape::packed(HEADS, 1, HEAD_DIM);
        let result = decode.forward_in(&stream, inputs, outputs, &of_queries, &mut workspace);
        result.map_err(|error| error.argument().map(str::to_owned))
    };
    assert_eq!(refused(SPLITS, HEADS, HEAD_DIM), Ok(()));
    let workspace = Err(Some("workspace".to_owned()));
    assert_eq!(refused(SPLITS, HEADS - 1, HEAD_DIM), workspace);
    assert_eq!(refused(SPLITS, HEADS, HEAD_DIM - 1), workspace);
    assert_eq!(refused(1, 0, 0), Ok(()), "one part needs no workspace");
    assert_eq!(refused(0, HEADS, HEAD_DIM), Err(Some("splits".to_owned())));
    assert_eq!(
        refused(129, HEADS, HEAD_DIM),
        Err(Some("splits".to_owned()))
    );
}

#[test]
fn a_full_cache_is_not_advanced() {
    let stream = stream();
    let mut cache = KvCache::new(&stream, 1, shape(1)).unwrap();
    cache.grow(&stream, &[MAX_SEQ]).unwrap();
    let error = cache.prepare_advance(&stream, &[1]).unwrap_err();
    assert!(matches!(
        error,
        Error::CacheFull {
            length: MAX_SEQ,
            ..
        }
    ));
    assert_eq!(cache.lengths(), [MAX_SEQ]);
}

fn shape(batch: usize) -> CacheShape {
    CacheShape {
        batch,
        kv_heads: KV_HEADS,
        max_seq: MAX_SEQ,
        head_dim: HEAD_DIM,
        dtype: Dtype::F32,
    }
}

/// A stream that can be captured: all memory of the tests belongs to it, so its order is enough.
fn stream() -> Arc<CudaStream> {
    let context = gpu::context(0).unwrap();
    // SAFETY: the context object is this test's, which has one stream.
    unsafe { context.disable_event_tracking() };
    context.new_stream().unwrap()
}

/// Both caches.
trait Cache {
    fn grow(&mut self, stream: &Arc<CudaStream>, new: [usize; BATCH]);
    fn prepare_advance(&mut self, stream: &Arc<CudaStream>);
    fn counts_mut(&mut self) -> CountsMut<'_>;
    fn layer(&self) -> CacheView<'_>;
    fn layer_mut(&mut self) -> (CacheViewMut<'_>, PerSequence<'_>);
}

impl Cache for KvCache {
    fn grow(&mut self, stream: &Arc<CudaStream>, new: [usize; BATCH]) {
        self.grow(stream, &new).unwrap();
    }
    fn prepare_advance(&mut self, stream: &Arc<CudaStream>) {
        self.prepare_advance(stream, &[1; BATCH]).unwrap();
    }
    fn counts_mut(&mut self) -> CountsMut<'_> {
        self.counts_mut()
    }
    fn layer(&self) -> CacheView<'_> {
        self.layer(0)
    }
    fn layer_mut(&mut self) -> (CacheViewMut<'_>, PerSequence<'_>) {
        self.layer_mut(0)
    }
}

struct Paged {
    cache: PagedCache,
    sequences: [SequenceId; BATCH],
}

impl Paged {
    fn batch(&self, new: [usize; BATCH]) -> Vec<(SequenceId, usize)> {
        self.sequences.into_iter().zip(new).collect()
    }
}

impl Cache for Paged {
    fn grow(&mut self, stream: &Arc<CudaStream>, new: [usize; BATCH]) {
        self.cache.grow(stream, &self.batch(new)).unwrap();
    }
    fn prepare_advance(&mut self, stream: &Arc<CudaStream>) {
        let batch = self.batch([1; BATCH]);
        self.cache.prepare_advance(stream, &batch).unwrap();
    }
    fn counts_mut(&mut self) -> CountsMut<'_> {
        self.cache.counts_mut()
    }
    fn layer(&self) -> CacheView<'_> {
        self.cache.layer(0)
    }
    fn layer_mut(&mut self) -> (CacheViewMut<'_>, PerSequence<'_>) {
        self.cache.layer_mut(0)
    }
}

/// Device memory of a step.
struct Buffers {
    q: CudaSlice<f32>,
    k: CudaSlice<f32>,
    v: CudaSlice<f32>,
    o: CudaSlice<f32>,
    workspace: Workspace,
}

/// The first cache replays, the second one grows and launches.
#[track_caller]
fn assert_replays(stream: &Arc<CudaStream>, caches: [impl Cache; 2]) {
    let decode = Decode::new(stream.context()).unwrap();
    let [mut replayed, mut launched] = caches;
    let buffers = || {
        let zeros = |floats| stream.alloc_zeros(floats).unwrap();
        let longest = PROMPTS.into_iter().max().unwrap();
        Buffers {
            q: zeros(QUERIES * HEAD_DIM),
            k: zeros(BATCH * KV_HEADS * longest * HEAD_DIM),
            v: zeros(BATCH * KV_HEADS * longest * HEAD_DIM),
            o: zeros(QUERIES * HEAD_DIM),
            workspace: Workspace::new(stream, SPLITS, QUERIES, HEAD_DIM).unwrap(),
        }
    };
    let [mut a, mut b] = [buffers(), buffers()];
    let longest = PROMPTS.into_iter().max().unwrap();
    for (cache, buffers) in [
        (&mut replayed as &mut dyn Cache, &mut a),
        (&mut launched, &mut b),
    ] {
        fill(stream, buffers, 0);
        cache.grow(stream, PROMPTS);
        append(&decode, stream, cache, buffers, longest);
    }
    let mut graph: Option<CudaGraph> = None;
    for step in 1..=STEPS {
        fill(stream, &mut b, step);
        launched.grow(stream, [1; BATCH]);
        append(&decode, stream, &mut launched, &b, 1);
        attend(&decode, stream, &launched, &mut b);

        fill(stream, &mut a, step);
        replayed.prepare_advance(stream);
        let replay = graph.get_or_insert_with(|| {
            let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
            stream.begin_capture(mode).unwrap();
            // SAFETY: prepared above, once for each launch or replay.
            unsafe { decode.advance(stream, replayed.counts_mut()) }.unwrap();
            append(&decode, stream, &mut replayed, &a, 1);
            attend(&decode, stream, &replayed, &mut a);
            let flags = CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
            stream.end_capture(flags).unwrap().unwrap()
        });
        replay.launch().unwrap();

        let [found, expected] = [&a, &b].map(|buffers| {
            let o = stream.clone_dtoh(&buffers.o).unwrap();
            o.into_iter().map(f32::to_bits).collect::<Vec<_>>()
        });
        assert_eq!(found, expected, "step {step}");
    }
}

/// Other queries, keys and values in each step.
fn fill(stream: &Arc<CudaStream>, buffers: &mut Buffers, step: usize) {
    let Buffers { q, k, v, .. } = buffers;
    for (salt, array) in [q, k, v].into_iter().enumerate() {
        let value = |i: usize| {
            let mixed = ((step * 3 + salt) << 16 | i).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
            mixed as f32 / (1 << 23) as f32 - 1.0
        };
        let values = Vec::from_iter((0..array.len()).map(value));
        stream.memcpy_htod(&values, array).unwrap();
    }
}

fn append(
    decode: &Decode,
    stream: &Arc<CudaStream>,
    cache: &mut dyn Cache,
    buffers: &Buffers,
    n: usize,
) {
    let (view, counts) = cache.layer_mut();
    let strides = Strides::packed(KV_HEADS, n, HEAD_DIM);
    let new = NewTokens {
        k: buffers.k.as_view(),
        v: buffers.v.as_view(),
        n,
        k_strides: strides,
        v_strides: strides,
    };
    decode.update_cache(stream, view, counts, new).unwrap();
}

fn attend(decode: &Decode, stream: &Arc<CudaStream>, cache: &dyn Cache, buffers: &mut Buffers) {
    let Buffers {
        q, o, workspace, ..
    } = buffers;
    let inputs = Inputs {
        q: q.as_view(),
        cache: cache.layer(),
    };
    let outputs = Outputs {
        o: o.as_view_mut(),
        lse: None,
    };
    let shape = Shape::packed(HEADS, 1, HEAD_DIM);
    decode
        .forward_in(stream, inputs, outputs, &shape, workspace)
        .unwrap();
}
