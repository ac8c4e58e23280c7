//! Decoding step by step, in any number of splits, and errors that the suite cannot know.

use conformance::Implementation;
use conformance::compare::{Comparison, Tolerance};
use conformance::device::Device;
use conformance::inputs::{normal, tensor};
use conformance::layout::Layout;
use conformance::problems::decode::{Problem, counted, problems, random};
use conformance::suites::stage5::{DeviceCache, solve};
use conformance::{Dtype, oracle};
use gpu::arguments::Strides;
use half::{bf16, f16};
use ndarray::{Array3, Array4, s};
use rstest::rstest;
use stage1_reference::Options;
use stage5_decode::{
    Cache, CacheShape, CacheView, Decode, Error, Inputs, KvCache, MAX_SPLITS, Mode, NewTokens,
    Outputs, PerSequence, Rung, Shape, Stage5,
};

/// Tokens of each sequence that are decoded, after those that are prefilled.
const DECODED: usize = 60;

/// Tokens that are prefilled: of two sequences.
const PREFILLED: [usize; 2] = [21, 6];

/// A cache in pages that were shuffled by hand, or the contiguous one.
enum Own {
    Contiguous(KvCache),
    Paged(DeviceCache),
}

impl Own {
    fn new(device: &Device, k: &Array4<f32>, dtype: Dtype, page_size: Option<usize>) -> Self {
        if page_size.is_none() {
            let shape = DeviceCache::shape_of(k, dtype);
            return Self::Contiguous(KvCache::new(&device.stream, 1, shape).unwrap());
        }
        let nothing = Array4::from_elem(k.dim(), f32::NAN);
        let nothing = [&nothing, &nothing];
        Self::Paged(DeviceCache::new(device, nothing, dtype, page_size, &[0, 0]))
    }

    /// Appends the first `counts` of the new rows, `[B, H_kv, n, D]`.
    fn append(
        &mut self,
        device: &Device,
        decode: &Decode,
        [k, v]: [&Array4<f32>; 2],
        counts: [usize; 2],
    ) {
        let (_, kv_heads, n, head_dim) = k.dim();
        let [k, v] = [k, v].map(|x| device.upload(x));
        let strides = Strides::packed(kv_heads, n, head_dim);
        let new = NewTokens {
            k: k.as_view(),
            v: v.as_view(),
            n,
            k_strides: strides,
            v_strides: strides,
        };
        let updated = match self {
            Self::Contiguous(cache) => {
                cache.grow(&device.stream, &counts).unwrap();
                let (view, counts) = cache.layer_mut(0);
                decode.update_cache(&device.stream, view, counts, new)
            }
            Self::Paged(cache) => {
                let lengths = cache.view().lengths.host.to_vec();
                let lengths = Vec::from_iter(lengths.iter().zip(counts).map(|(a, b)| a + b));
                cache.set_lengths(device, &lengths);
                let numbers = device.upload(&counts.map(|count| count as i32));
                let counts = PerSequence {
                    host: &counts,
                    device: numbers.as_view(),
                };
                decode.update_cache(&device.stream, cache.view_mut(), counts, new)
            }
        };
        updated.unwrap_or_else(|error| panic!("{error}"));
    }

    fn view(&self) -> CacheView<'_> {
        match self {
            Self::Contiguous(cache) => cache.layer(0),
            Self::Paged(cache) => cache.view(),
        }
    }
}

/// New tokens in half precision, which f32 has too, leave the cache that they leave in f32.
#[rstest]
fn new_tokens_have_any_element_type(
    #[values(Dtype::F32, Dtype::F16, Dtype::Bf16)] dtype: Dtype,
    #[values(None, Some(16))] page_size: Option<usize>,
) {
    fn updated<T: stage5_decode::Element + conformance::Element>(
        dtype: Dtype,
        page_size: Option<usize>,
        [k, v]: &[Array4<f32>; 2],
    ) -> [Vec<u8>; 2] {
        let device = Device::open();
        let nothing = Array4::from_elem((2, 2, 40, 33), f32::NAN);
        let mut cache = DeviceCache::new(&device, [&nothing; 2], dtype, page_size, &[20, 9]);
        let [k, v] = [k, v].map(|x| {
            let halves = Vec::from_iter(x.iter().map(|&x| T::from_f32(x)));
            device.stream.clone_htod(&halves).unwrap()
        });
        let counts = device.upload(&[5, 3]);
        let strides = Strides::packed(2, 5, 33);
        let new = NewTokens {
            k: k.as_view(),
            v: v.as_view(),
            n: 5,
            k_strides: strides,
            v_strides: strides,
        };
        let counts = PerSequence {
            host: &[5, 3],
            device: counts.as_view(),
        };
        let decode = Decode::new(device.stream.context()).unwrap();
        let done = decode.update_cache(&device.stream, cache.view_mut(), counts, new);
        done.unwrap_or_else(|error| panic!("{error}"));
        cache.read(&device).unwrap()
    }
    // Few digits, so that both types have the numbers.
    let rows =
        [1, 2].map(|seed| tensor((2, 2, 5, 33), seed, |seed, i| (seed * i % 97) as f32 / 16.0));
    let expected = updated::<f32>(dtype, page_size, &rows);
    assert!(updated::<f16>(dtype, page_size, &rows) == expected, "f16");
    assert!(updated::<bf16>(dtype, page_size, &rows) == expected, "bf16");
}

/// Every step of decoding after a prefill gives what attention over all tokens gives
/// there: `nq` tokens at a time.
#[rstest]
#[case::f32([4, 2, 64], Dtype::F32, None, 1)]
#[case::f16([8, 1, 128], Dtype::F16, None, 1)]
#[case::bf16([2, 2, 80], Dtype::Bf16, None, 1)]
#[case::odd([3, 1, 33], Dtype::F16, None, 1)]
#[case::large([2, 1, 256], Dtype::F32, None, 1)]
#[case::pages_of_16([4, 1, 32], Dtype::F16, Some(16), 1)]
#[case::pages_of_17([2, 2, 45], Dtype::Bf16, Some(17), 1)]
#[case::pages_of_64([4, 2, 96], Dtype::F32, Some(64), 1)]
#[case::drafts([4, 2, 72], Dtype::F16, None, 4)]
#[case::chunks([4, 1, 40], Dtype::Bf16, Some(32), 10)]
fn decoding_is_attention_over_all_tokens(
    #[case] sizes: [usize; 3],
    #[case] dtype: Dtype,
    #[case] page_size: Option<usize>,
    #[case] nq: usize,
) {
    let device = Device::open();
    let decode = Decode::new(device.stream.context()).unwrap();
    let [heads, kv_heads, head_dim] = sizes;
    let all = |heads, seed| tensor((2, heads, PREFILLED[0] + DECODED, head_dim), seed, normal);
    let (q, k, v) = (all(heads, 1), all(kv_heads, 2), all(kv_heads, 3));
    // Rows [from_b, from_b + n) of each sequence b.
    let rows = |x: &Array4<f32>, from: [usize; 2], n: usize| {
        let (_, heads, _, head_dim) = x.dim();
        Array4::from_shape_fn((2, heads, n, head_dim), |(b, h, i, d)| {
            x.get([b, h, from[b] + i, d]).copied().unwrap_or(f32::NAN)
        })
    };

    let mut cache = Own::new(&device, &k, dtype, page_size);
    let first = [
        &rows(&k, [0; 2], PREFILLED[0]),
        &rows(&v, [0; 2], PREFILLED[0]),
    ];
    cache.append(&device, &decode, first, PREFILLED);
    let shape = Shape::packed(heads, nq, head_dim);
    let mut o = Array4::<f32>::zeros((2, heads, DECODED, head_dim));
    let mut lse = Array3::<f32>::zeros((2, heads, DECODED));
    for step in (0..DECODED).step_by(nq) {
        let from = PREFILLED.map(|prefilled| prefilled + step);
        let new = [&rows(&k, from, nq), &rows(&v, from, nq)];
        cache.append(&device, &decode, new, [nq; 2]);
        let queries = device.upload(&rows(&q, from, nq));
        let mut of_step = o.slice_mut(s![.., .., step..step + nq, ..]);
        let mut lse_of_step = lse.slice_mut(s![.., .., step..step + nq]);
        let mut device_o = device.upload(&of_step.to_owned());
        let mut device_lse = device.upload(&lse_of_step.to_owned());
        let inputs = Inputs {
            q: queries.as_view(),
            cache: cache.view(),
        };
        let outputs = Outputs {
            o: device_o.as_view_mut(),
            lse: Some(device_lse.as_view_mut()),
        };
        let result = decode.forward(&device.stream, inputs, outputs, &shape);
        result.unwrap_or_else(|error| panic!("step {step}: {error}"));
        device.read_into(&device_o, &mut of_step).unwrap();
        device.read_into(&device_lse, &mut lse_of_step).unwrap();
    }

    for (b, prefilled) in PREFILLED.into_iter().enumerate() {
        let tokens = prefilled + DECODED;
        let rows = |x: &Array4<f32>, from| x.slice(s![b..=b, .., from..tokens, ..]).to_owned();
        let [k, v] = [&k, &v].map(|x| rows(x, 0).mapv_into(|x| dtype.round(x)));
        let options = Options::default().causal();
        let (expected, expected_lse) = oracle::attention(&rows(&q, prefilled), &k, &v, &options);
        let tolerance = Tolerance::of_sum(f32::EPSILON.into(), head_dim + tokens);
        let o = o.slice(s![b..=b, .., .., ..]);
        let comparison = Comparison::new("o", o, expected.view(), tolerance.floor(1.0));
        assert!(comparison.passed(), "{comparison}");
        let lse = lse.slice(s![b..=b, .., ..]);
        let comparison = Comparison::new("lse", lse, expected_lse.view(), tolerance.floor(2.0));
        assert!(comparison.passed(), "{comparison}");
    }
}

/// True if no two rows of q see the same keys.
fn is_alone(problem: &Problem) -> bool {
    let (_, heads, nq, _) = problem.q.dim();
    heads > 0 && heads * nq == problem.k.dim().1
}

fn in_parts(device: &Device, mode: Mode, splits: usize) -> Stage5 {
    let decode = Decode::new(device.stream.context()).unwrap();
    Stage5 {
        stream: device.stream.clone(),
        decode: decode.with_mode(mode).with_splits(splits),
    }
}

fn judge_parts(mode: Mode, splits: usize, problems: Vec<Problem>) {
    let device = Device::open();
    let own = in_parts(&device, mode, splits);
    let who = Implementation {
        name: &format!("{mode}, {splits} splits"),
        device: &device.name,
        lacks: &[],
    };
    let report = conformance::run(&who, problems, |problem, output| {
        *output = solve(&device, &own, problem, [Layout::Packed; 2])?;
        Ok::<_, Box<dyn std::error::Error>>(())
    });
    report
        .into_result()
        .unwrap_or_else(|report| panic!("{report}"));
}

/// True unless there are tens of thousands of sequences or heads, each of which every part gives a
/// block.
fn is_small(problem: &Problem) -> bool {
    problem.lengths.len() * problem.q.dim().1 < 1000
}

/// True for a problem that a rung can have.
fn suits(rung: Rung) -> impl Fn(&Problem) -> bool {
    move |problem| {
        let cache = DeviceCache::shape_of(&problem.k, problem.dtype);
        let possible = rung.has_cache(&cache, problem.page_size.is_some());
        possible && problem.window.is_none() && !problem.q.is_empty()
    }
}

/// Problems that a rung can have, in any number of parts.
fn ladder_problems(rung: Rung) -> Vec<Problem> {
    let small = problems().into_iter().filter(is_small);
    let all = Vec::from_iter(small.filter(suits(rung)));
    assert!(all.len() >= 6);
    all
}

/// combine.cu merges as many parts as it has threads.
#[test]
fn rung_2_takes_the_most_parts() {
    let mut some = ladder_problems(Rung::Split);
    some.truncate(6);
    judge_parts(Mode::Rung(Rung::Split), MAX_SPLITS, some);
}

/// Parts without a key, of one key, and of whole and broken tiles; sums of a warp over 1,024 keys.
#[test]
fn rung_4_takes_any_number_of_parts() {
    let mode = Mode::Rung(Rung::Mma);
    for splits in [7, MAX_SPLITS] {
        judge_parts(mode, splits, ladder_problems(Rung::Mma));
    }
    judge_parts(mode, 1, vec![counted(16, 1, 128, 4096, Dtype::F16)]);
}

#[test]
fn rung_4_solves_random_problems() {
    let some = (1..).map(random).filter(suits(Rung::Mma)).take(6);
    judge_parts(Mode::Rung(Rung::Mma), 3, some.collect());
}

/// Tensor cores take f16, which has no numbers above 65,504; q is f32.
#[rstest]
fn queries_have_any_size(
    #[values(Dtype::F16, Dtype::Bf16)] dtype: Dtype,
    #[values(1e-30, 1e30, 5e37)] size: f32,
) {
    let mut problem = counted(16, 2, 128, 300, dtype);
    problem.q.mapv_inplace(|x| x * size);
    problem.scale = Some(1.0 / size / 128f32.sqrt());
    judge_parts(Mode::Library, 2, vec![problem]);
}

#[rstest]
#[case("head_dim", 12, 0)]
#[case("head_dim", 136, 0)]
#[case("k_cache", 8, 8)]
fn rung_4_reads_rows_of_vectors(
    #[case] argument: &str,
    #[case] head_dim: usize,
    #[case] offset: usize,
) {
    let device = Device::open();
    let shape = CacheShape { head_dim, ..SHAPE };
    let bytes = device.upload(&vec![0u8; offset + shape.bytes()]);
    let lengths = device.upload(&[5, 2]);
    let cache = Cache {
        shape,
        k: bytes.slice(offset..),
        v: bytes.slice(offset..),
        pages: None,
        lengths: PerSequence {
            host: &[5, 2],
            device: lengths.as_view(),
        },
    };
    let q = device.upload(&vec![0.0f32; 2 * head_dim]);
    let mut o = device.upload(&vec![0.0f32; 2 * head_dim]);
    let inputs = Inputs {
        q: q.as_view(),
        cache,
    };
    let outputs = Outputs {
        o: o.as_view_mut(),
        lse: None,
    };
    let decode = in_parts(&device, Mode::Rung(Rung::Mma), 1).decode;
    let shape = Shape::packed(1, 1, head_dim);
    let error = decode.forward(&device.stream, inputs, outputs, &shape);
    assert_eq!(error.unwrap_err().argument(), Some(argument));
}

#[test]
fn one_part_by_rung_2_has_the_bits_of_rung_1() {
    let device = Device::open();
    for problem in ladder_problems(Rung::Split).into_iter().take(6) {
        let [decode, split] = [Rung::Decode, Rung::Split].map(|rung| {
            let own = in_parts(&device, Mode::Rung(rung), 1);
            solve(&device, &own, &problem, [Layout::Packed; 2]).unwrap()
        });
        assert_eq!(
            decode,
            split,
            "{}",
            conformance::problems::Problem::name(&problem)
        );
    }
}

/// Whatever the number of splits, the result is right, by both kernels.
#[test]
fn any_number_of_parts_will_do() {
    parts_will_do(&[1, 2, 5, 8, 11]);
}

#[test]
#[ignore = "a sweep"]
fn any_number_of_parts_will_do_in_all() {
    parts_will_do(&[1, 2, 3, 4, 5, 7, 8, 11, 16]);
}

fn parts_will_do(parts: &[usize]) {
    let all = Vec::from_iter(problems().into_iter().filter(is_small));
    let grouped = all.iter().filter(|problem| problem.lengths.len() == 4);
    let alone = all.iter().filter(|problem| is_alone(problem));
    let several = grouped.step_by(7).chain(alone.take(3));
    let several = Vec::from_iter(several.cloned());
    assert!(several.len() > 3); // three of them are grouped
    for &splits in parts {
        judge_parts(Mode::Library, splits, several.clone());
    }
}

const SHAPE: CacheShape = CacheShape {
    batch: 2,
    kv_heads: 1,
    max_seq: 5,
    head_dim: 8,
    dtype: stage5_decode::Dtype::F16,
};

/// A cache that is full says which sequence has no room, and is as it was.
#[test]
fn a_cache_that_is_full_stays_as_it_is() {
    let device = Device::open();
    let mut cache = KvCache::new(&device.stream, 3, SHAPE).unwrap();
    cache.grow(&device.stream, &[2, 4]).unwrap();
    let error = cache.grow(&device.stream, &[2, 2]).unwrap_err();
    let text = error.to_string();
    assert!(
        matches!(
            error,
            Error::CacheFull {
                sequence: 1,
                length: 4,
                new: 2,
                max_seq: 5,
                ..
            }
        ),
        "{text}"
    );
    assert_eq!(
        text,
        "KvCache::grow: sequence 1 has 4 of 5 tokens: no room for 2 more"
    );
    assert_eq!((cache.lengths(), cache.layers()), (&[2, 4][..], 3));
    assert_eq!(device.read_lengths(&cache), [2, 4]);
    assert!(cache.grow(&device.stream, &[usize::MAX, 0]).is_err());
    assert_eq!(
        cache.grow(&device.stream, &[1]).unwrap_err().argument(),
        Some("new")
    );

    cache.truncate(&device.stream, &[3, 1]).unwrap();
    assert_eq!(cache.lengths(), [2, 1]);
    assert_eq!(device.read_lengths(&cache), [2, 1]);
    let error = cache.truncate(&device.stream, &[0; 3]).unwrap_err();
    assert_eq!(error.argument(), Some("lengths"));
}

trait ReadLengths {
    fn read_lengths(&self, cache: &KvCache) -> Vec<i32>;
}

impl ReadLengths for Device {
    fn read_lengths(&self, cache: &KvCache) -> Vec<i32> {
        self.stream
            .clone_dtoh(&cache.layer(0).lengths.device)
            .unwrap()
    }
}

#[rstest]
#[case("batch", CacheShape { batch: usize::MAX, ..SHAPE })]
#[case("kv_heads", CacheShape { kv_heads: usize::MAX, ..SHAPE })]
#[case("max_seq", CacheShape { max_seq: usize::MAX, ..SHAPE })]
#[case("head_dim", CacheShape { head_dim: 0, ..SHAPE })]
#[case("head_dim", CacheShape { head_dim: 257, ..SHAPE })]
fn a_cache_has_sizes_that_kernels_take(#[case] argument: &str, #[case] shape: CacheShape) {
    let device = Device::open();
    let error = KvCache::new(&device.stream, 1, shape).unwrap_err();
    assert_eq!(error.argument(), Some(argument), "{error}");
}

#[test]
fn no_parts_and_too_many_are_refused() {
    let device = Device::open();
    let cache = KvCache::new(&device.stream, 1, SHAPE).unwrap();
    let q = device.upload(&[0.0f32; 16]);
    let mut o = device.upload(&[0.0f32; 16]);
    for splits in [0, 129] {
        let decode = Decode::new(device.stream.context()).unwrap();
        let decode = decode.with_splits(splits);
        let inputs = Inputs {
            q: q.as_view(),
            cache: cache.layer(0),
        };
        let outputs = Outputs {
            o: o.as_view_mut(),
            lse: None,
        };
        let result = decode.forward(&device.stream, inputs, outputs, &Shape::packed(1, 1, 8));
        assert_eq!(result.unwrap_err().argument(), Some("splits"));
        assert_eq!(decode.loaded(), 0);
    }
}
