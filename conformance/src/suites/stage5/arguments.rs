//! Arguments that must be refused, with nothing written.

use cudarc::driver::CudaSlice;
use gpu::arguments::Strides;
use stage5_decode::{
    Cache, CacheShape, Decoding, Dtype, Inputs, NewTokens, Outputs, PageTable, PerSequence, Shape,
};

use super::super::stage2::{HUGE, OLD, untouched};
use crate::Judge;
use crate::device::Device;

/// A call that fits, before it is spoilt: 2 sequences, 4 heads on 2, a cache
/// of 32 tokens with D = 8.
#[derive(Clone)]
struct Call {
    cache: CacheShape,
    page_size: usize,
    columns: usize,
    lengths: Vec<usize>,
    counts: Vec<usize>,
    shape: Shape,
    n: usize,
    k_strides: Strides,
    v_strides: Strides,
    /// The page table on the host.
    entries: Vec<i32>,
    /// Elements of q, o and lse; of k and v of new tokens; bytes of the cache; entries of the page
    /// table and sequences on the device.
    q: usize,
    o: usize,
    lse: usize,
    k: usize,
    v: usize,
    k_cache: usize,
    v_cache: usize,
    device_entries: usize,
    device_lengths: usize,
    device_counts: usize,
    /// Bytes of the cache that lie before it in its buffer.
    offset: usize,
}

type Bad = (&'static str, &'static str, fn(&mut Call));

/// Names, arguments that are refused, and what is wrong: with the cache, whatever is done with it.
const OF_CACHES: [Bad; 25] = [
    ("short_k_cache", "k_cache", |call| call.k_cache -= 1),
    ("short_v_cache", "v_cache", |call| call.v_cache -= 1),
    ("odd_address", "k_cache", |call| call.offset = 1),
    ("no_head_dim", "head_dim", |call| call.cache.head_dim = 0),
    ("large_head_dim", "head_dim", |call| {
        call.cache.head_dim = 257
    }),
    ("huge_batch", "batch", |call| call.cache.batch = HUGE),
    ("huge_kv_heads", "kv_heads", |call| {
        call.cache.kv_heads = HUGE
    }),
    ("huge_max_seq", "max_seq", |call| call.cache.max_seq = HUGE),
    ("one_length", "lengths", |call| call.lengths = vec![5]),
    ("three_lengths", "lengths", |call| call.lengths = vec![5; 3]),
    ("a_length_of_33", "lengths", |call| call.lengths[1] = 33),
    ("a_huge_length", "lengths", |call| {
        call.lengths[0] = usize::MAX
    }),
    ("short_lengths", "lengths", |call| call.device_lengths = 1),
    ("pages_of_15", "page_size", |call| call.page_size = 15),
    ("pages_of_257", "page_size", |call| call.page_size = 257),
    ("few_pages", "columns", |call| call.page(1, 16)),
    ("no_pages", "columns", |call| call.page(0, 16)),
    ("huge_columns", "columns", |call| call.page(HUGE, 16)),
    ("short_page_table", "entries", |call| {
        call.page(2, 16);
        call.device_entries = 3;
    }),
    ("shorter_page_table", "entries", |call| {
        call.page(2, 16);
        call.device_entries = 1;
    }),
    ("short_page_table_on_the_host", "entries", |call| {
        call.page(2, 16);
        call.entries.truncate(3);
    }),
    // The pool has 4 pages. Sequence 0 has both of its pages, and sequence 1 one.
    ("a_page_beyond_the_pool", "entries", |call| {
        call.page(2, 16);
        call.entries[1] = 4;
    }),
    ("a_negative_page", "entries", |call| {
        call.page(2, 16);
        call.entries[2] = -1;
    }),
    ("half_a_page_of_k", "entries", |call| {
        call.page(2, 16);
        call.entries[0] = 3;
        call.k_cache -= call.cache.dtype.bytes() * 128;
    }),
    ("half_a_page_of_v", "entries", |call| {
        call.page(2, 16);
        call.entries[0] = 3;
        call.v_cache -= call.cache.dtype.bytes() * 128;
    }),
];

const OF_DECODE: [Bad; 15] = [
    ("short_q", "q", |call| call.q -= 1),
    ("short_o", "o", |call| call.o -= 1),
    ("short_lse", "lse", |call| call.lse -= 1),
    ("q_rows", "q", |call| call.shape.q.row += 1),
    ("q_batches", "q", |call| call.shape.q.batch = HUGE),
    ("o_rows_overlap", "o", |call| call.shape.o.row = 7),
    ("o_heads_overlap", "o", |call| call.shape.o.head = 23),
    ("o_heads", "o", |call| call.shape.o.head += 1),
    ("3_heads", "heads", |call| call.shape.heads = 3),
    ("1_head", "heads", |call| call.shape.heads = 1),
    ("no_kv_heads", "heads", |call| call.cache.kv_heads = 0),
    ("huge_heads", "heads", |call| call.shape.heads = HUGE - 1),
    ("17_queries", "nq", |call| call.shape.nq = 17),
    ("nan_scale", "scale", |call| {
        call.shape.scale = Some(f32::NAN)
    }),
    ("infinite_scale", "scale", |call| {
        call.shape.scale = Some(f32::INFINITY);
    }),
];

const OF_UPDATES: [Bad; 12] = [
    ("short_k", "k", |call| call.k -= 1),
    ("short_v", "v", |call| call.v -= 1),
    ("k_rows", "k", |call| call.k_strides.row += 1),
    ("v_batches", "v", |call| call.v_strides.batch = HUGE),
    ("more_rows_than_there_are", "k", |call| call.n = 4),
    ("huge_n", "n", |call| call.n = HUGE),
    ("one_count", "counts", |call| call.counts = vec![3]),
    ("three_counts", "counts", |call| call.counts = vec![3; 3]),
    ("a_count_above_n", "counts", |call| call.counts[1] = 4),
    ("a_count_above_the_length", "counts", |call| {
        call.lengths[0] = 2
    }),
    ("short_counts", "counts", |call| call.device_counts = 1),
    // New tokens are counted by the length, so this is what writes past the end.
    ("past_the_end", "lengths", |call| {
        call.lengths = vec![32, 33]
    }),
];

impl Call {
    /// In f16, or in f32 for an implementation that has not f16.
    fn fitting(own: &impl Decoding) -> Self {
        let shape = |dtype| CacheShape {
            batch: 2,
            kv_heads: 2,
            max_seq: 32,
            head_dim: 8,
            dtype,
        };
        let cache = match own.has_cache(&shape(Dtype::F16), false) {
            true => shape(Dtype::F16),
            false => shape(Dtype::F32),
        };
        Self {
            cache,
            page_size: 0,
            columns: 0,
            lengths: vec![32, 7],
            counts: vec![3, 2],
            shape: Shape::packed(4, 3, 8),
            n: 3,
            k_strides: Strides::packed(2, 3, 8),
            v_strides: Strides::packed(2, 3, 8),
            q: 192,
            o: 192,
            lse: 24,
            k: 96,
            v: 96,
            k_cache: cache.bytes(),
            v_cache: cache.bytes(),
            entries: vec![0, 1, 2, -1], // the last is not read
            device_entries: 4,
            device_lengths: 2,
            device_counts: 2,
            offset: 0,
        }
    }

    fn page(&mut self, columns: usize, page_size: usize) {
        (self.columns, self.page_size) = (columns, page_size);
    }

    /// Whether the call is made with a page table.
    fn paged(&self) -> bool {
        self.page_size > 0
    }

    fn cache<'a, V>(
        &'a self,
        [k, v]: [V; 2],
        entries: &'a CudaSlice<i32>,
        lengths: &'a CudaSlice<i32>,
    ) -> Cache<'a, V> {
        Cache {
            shape: self.cache,
            k,
            v,
            pages: self.paged().then(|| PageTable {
                host: &self.entries,
                entries: entries.as_view(),
                columns: self.columns,
                page_size: self.page_size,
            }),
            lengths: PerSequence {
                host: &self.lengths,
                device: lengths.as_view(),
            },
        }
    }
}

fn fits(own: &impl Decoding, call: &Call) -> bool {
    own.has_cache(&Call::fitting(own).cache, call.paged())
}

pub(super) fn decode<D: Decoding>(judge: &mut Judge<'_>, device: &Device, own: &D) {
    for &(name, argument, spoil) in OF_CACHES.iter().chain(&OF_DECODE) {
        let mut call = Call::fitting(own);
        spoil(&mut call);
        if !fits(own, &call) {
            continue;
        }
        let q = device.upload(&vec![OLD; call.q]);
        let [mut o, mut lse] = [call.o, call.lse].map(|length| device.upload(&vec![OLD; length]));
        let [k, v] = [call.k_cache, call.v_cache]
            .map(|bytes| device.upload(&vec![0u8; bytes + call.offset]));
        let lengths = device.upload(&vec![7i32; call.device_lengths]);
        let entries = device.upload(&vec![0i32; call.device_entries]);
        let keys_and_values = [&k, &v].map(|x| x.slice(call.offset..));
        let inputs = Inputs {
            q: q.as_view(),
            cache: call.cache(keys_and_values, &entries, &lengths),
        };
        judge.refusal(&format!("decode_{name}"), argument, D::argument_of, || {
            let outputs = Outputs {
                o: o.as_view_mut(),
                lse: Some(lse.as_view_mut()),
            };
            let result = own.decode(inputs, outputs, &call.shape);
            (result, untouched(device, &[&o, &lse]))
        });
    }
}

pub(super) fn update_cache<D: Decoding>(judge: &mut Judge<'_>, device: &Device, own: &D) {
    for &(name, argument, spoil) in OF_CACHES.iter().chain(&OF_UPDATES) {
        let mut call = Call::fitting(own);
        spoil(&mut call);
        if !fits(own, &call) {
            continue;
        }
        let [k, v] = [call.k, call.v].map(|length| device.upload(&vec![OLD; length]));
        let [mut k_cache, mut v_cache] = [call.k_cache, call.v_cache]
            .map(|bytes| device.upload(&vec![0u8; bytes + call.offset]));
        let lengths = device.upload(&vec![7i32; call.device_lengths]);
        let counts = device.upload(&vec![2i32; call.device_counts]);
        let entries = device.upload(&vec![0i32; call.device_entries]);
        let new = NewTokens {
            k: k.as_view(),
            v: v.as_view(),
            n: call.n,
            k_strides: call.k_strides,
            v_strides: call.v_strides,
        };
        let of_new = PerSequence {
            host: &call.counts,
            device: counts.as_view(),
        };
        judge.refusal(&format!("update_{name}"), argument, D::argument_of, || {
            let caches = [&mut k_cache, &mut v_cache].map(|x| x.slice_mut(call.offset..));
            let result = own.update_cache(call.cache(caches, &entries, &lengths), of_new, new);
            let zero = |bytes: Vec<u8>| bytes.iter().all(|&x| x == 0);
            let unchanged = |cache| device.read(cache).is_ok_and(zero);
            (result, unchanged(&k_cache) && unchanged(&v_cache))
        });
    }
}
