//! Decoding on a paged cache, after random appends and forks, gives the bits that it
//! gives on a contiguous cache.

use conformance::device::Device;
use gpu::arguments::Strides;
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use rstest::rstest;
use stage5_decode::paged::{PagedCache, PagedShape, SequenceId};
use stage5_decode::{
    CacheShape, CacheView, CacheViewMut, Decode, Dtype, Inputs, KvCache, NewTokens, Outputs,
    PerSequence, Shape,
};

/// Heads of q: one, or two, for each head of k, which takes another kernel.
const HEADS: [usize; 2] = [2, 4];
const KV_HEADS: usize = 2;

#[derive(Debug, Clone)]
enum Operation {
    Fork(Index),
    Free(Index),
    /// To each sequence as many tokens as stand beside it; then they decode.
    Step(Vec<(Index, usize)>),
}

fn operation() -> impl Strategy<Value = Operation> {
    let batch = prop::collection::vec((any::<Index>(), 0..40usize), 1..4);
    prop_oneof![
        2 => any::<Index>().prop_map(Operation::Fork),
        1 => any::<Index>().prop_map(Operation::Free),
        4 => batch.prop_map(Operation::Step),
    ]
}

#[rstest]
#[case(Dtype::F32, 16, 20)]
#[case(Dtype::F16, 32, 64)]
#[case(Dtype::Bf16, 17, 33)]
fn paged_and_contiguous_agree(
    #[case] dtype: Dtype,
    #[case] page_size: usize,
    #[case] head_dim: usize,
) {
    let device = Device::open();
    let shape = PagedShape {
        pages: 24,
        page_size,
        kv_heads: KV_HEADS,
        head_dim,
        dtype,
    };
    let config = Config {
        cases: 4,
        failure_persistence: None,
        max_shrink_iters: 0, // a launch takes milliseconds
        ..Config::default()
    };
    let random = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    TestRunner::new_with_rng(config, random)
        .run(&prop::collection::vec(operation(), 12), |operations| {
            let mut model = Model::new(&device, shape);
            operations
                .iter()
                .for_each(|operation| model.apply(operation));
            Ok(())
        })
        .unwrap_or_else(|error| panic!("{error}"));
}

/// A paged cache beside the tokens of its sequences.
struct Model<'a> {
    device: &'a Device,
    decode: Decode,
    cache: PagedCache,
    sequences: Vec<(SequenceId, Vec<usize>)>,
    tokens: usize,
}

impl<'a> Model<'a> {
    fn new(device: &'a Device, shape: PagedShape) -> Self {
        let mut cache = PagedCache::new(&device.stream, 1, shape).unwrap();
        Self {
            device,
            decode: Decode::new(device.stream.context()).unwrap(),
            sequences: [(); 2].map(|()| (cache.create(), Vec::new())).into(),
            cache,
            tokens: 0,
        }
    }

    fn apply(&mut self, operation: &Operation) {
        match operation {
            Operation::Fork(index) => {
                let (sequence, tokens) = index.get(&self.sequences).clone();
                let fork = self.cache.fork(sequence).unwrap();
                self.sequences.push((fork, tokens));
            }
            Operation::Free(_) if self.sequences.len() == 1 => {}
            Operation::Free(index) => {
                let row = index.index(self.sequences.len());
                let (sequence, _) = self.sequences.swap_remove(row);
                self.cache.free(sequence).unwrap();
            }
            Operation::Step(batch) => {
                let row = |index: &Index| index.index(self.sequences.len());
                let mut batch = Vec::from_iter(batch.iter().map(|(index, new)| (row(index), *new)));
                batch.sort_unstable();
                batch.dedup_by_key(|(row, _)| *row);
                self.step(&batch);
            }
        }
    }

    /// Appends tokens to sequences, given by their rows in `self.sequences`, and
    /// decodes with both caches.
    fn step(&mut self, batch: &[(usize, usize)]) {
        let stream = &self.device.stream;
        let ids = batch.iter().map(|&(row, new)| (self.sequences[row].0, new));
        if self.cache.grow(stream, &Vec::from_iter(ids)).is_err() {
            return; // out of pages: `page_tables.rs` looks into it
        }
        let mut appended = Vec::new();
        let mut all = Vec::new();
        for &(row, new) in batch {
            let tokens = Vec::from_iter(self.tokens..self.tokens + new);
            self.tokens += new;
            self.sequences[row].1.extend(&tokens);
            appended.push(tokens);
            all.push(self.sequences[row].1.clone());
        }
        let (view, new) = self.cache.layer_mut(0);
        write(self.device, &self.decode, view, new, &appended);

        let PagedShape {
            kv_heads,
            head_dim,
            dtype,
            ..
        } = self.cache.shape();
        let lengths = Vec::from_iter(all.iter().map(Vec::len));
        let shape = CacheShape {
            batch: batch.len(),
            kv_heads,
            max_seq: *lengths.iter().max().unwrap(),
            head_dim,
            dtype,
        };
        let mut contiguous = KvCache::new(stream, 1, shape).unwrap();
        contiguous.grow(stream, &lengths).unwrap();
        let (view, new) = contiguous.layer_mut(0);
        write(self.device, &self.decode, view, new, &all);

        for heads in HEADS {
            let paged = forward(self.device, &self.decode, self.cache.layer(0), heads);
            let expected = forward(self.device, &self.decode, contiguous.layer(0), heads);
            assert_eq!(paged, expected, "{heads} heads: {all:?}");
        }
    }
}

/// Writes the keys and values of new tokens of each sequence.
fn write(
    device: &Device,
    decode: &Decode,
    view: CacheViewMut<'_>,
    counts: PerSequence<'_>,
    tokens: &[Vec<usize>],
) {
    let head_dim = view.shape.head_dim;
    let n = tokens.iter().map(Vec::len).max().unwrap();
    let rows = |salt: usize| {
        let mut rows = vec![f32::NAN; tokens.len() * KV_HEADS * n * head_dim]; // NaN: padding
        for (b, tokens) in tokens.iter().enumerate() {
            for head in 0..KV_HEADS {
                for (i, token) in tokens.iter().enumerate() {
                    let at = ((b * KV_HEADS + head) * n + i) * head_dim;
                    for d in 0..head_dim {
                        rows[at + d] = value(salt + token * 7 + head, d);
                    }
                }
            }
        }
        device.upload(&rows)
    };
    let [k, v] = [rows(1), rows(1000)];
    let new = NewTokens {
        k: k.as_view(),
        v: v.as_view(),
        n,
        k_strides: Strides::packed(KV_HEADS, n, head_dim),
        v_strides: Strides::packed(KV_HEADS, n, head_dim),
    };
    decode
        .update_cache(&device.stream, view, counts, new)
        .unwrap();
}

/// The bits of o, `[B, H, 1, D]`, and then of lse, `[B, H, 1]`, for one query of each sequence.
fn forward(device: &Device, decode: &Decode, cache: CacheView<'_>, heads: usize) -> Vec<u32> {
    let CacheShape {
        batch, head_dim, ..
    } = cache.shape;
    let rows = batch * heads;
    let q = (0..rows * head_dim).map(|x| value(x / head_dim, x % head_dim));
    let q = device.upload(&Vec::from_iter(q));
    let mut o = device.upload(&vec![f32::NAN; rows * head_dim]);
    let mut lse = device.upload(&vec![f32::NAN; rows]);
    let inputs = Inputs {
        q: q.as_view(),
        cache,
    };
    let outputs = Outputs {
        o: o.as_view_mut(),
        lse: Some(lse.as_view_mut()),
    };
    let shape = Shape::packed(heads, 1, head_dim);
    decode
        .forward(&device.stream, inputs, outputs, &shape)
        .unwrap();
    let o = device.download(&o);
    assert!(o.iter().all(|x| x.is_finite()));
    Vec::from_iter(o.into_iter().chain(device.download(&lse)).map(f32::to_bits))
}

/// A number from −1 to 1 that depends on both.
fn value(row: usize, d: usize) -> f32 {
    let mixed = (row * 64 + d).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    mixed as f32 / (1 << 23) as f32 - 1.0
}
