//! Counts that the suite cannot know, and the time that the model gives them.

use conformance::Dtype;
use conformance::device::{Device, profiles};
use conformance::layout::Layout;
use conformance::problems::decode::counted;
use conformance::suites::stage5::solve;
use gpu::profile::LaunchProfile;
use rstest::rstest;
use stage5_decode::{
    Cache, CacheShape, Decode, Inputs, Mode, Outputs, PerSequence, Rung, Shape, Stage5,
};

/// K and V are read once, for each head of q and for all heads of a group, or on tensor cores for
/// 16 of them: at most 1.02 times the sectors that they have.
#[rstest]
#[case::mha(4, 4, 128, Dtype::F16, 1)]
#[case::mha_f32(4, 4, 64, Dtype::F32, 1)]
#[case::mha_large(4, 4, 256, Dtype::F16, 1)]
#[case::gqa_8(16, 2, 128, Dtype::F16, 1)]
#[case::gqa_8_f32(16, 2, 128, Dtype::F32, 1)]
#[case::gqa_8_bf16(16, 2, 64, Dtype::Bf16, 1)]
#[case::mqa_48_f32(48, 1, 128, Dtype::F32, 1)]
#[case::mqa_48(48, 1, 128, Dtype::F16, 3)]
fn keys_and_values_are_read_once(
    #[case] heads: usize,
    #[case] kv_heads: usize,
    #[case] head_dim: usize,
    #[case] dtype: Dtype,
    #[case] reads: usize,
    #[values(1, 4)] splits: usize,
) {
    let device = Device::open();
    let decode = Decode::new(device.stream.context()).unwrap();
    let own = Stage5 {
        stream: device.stream.clone(),
        decode: decode.with_splits(splits),
    };
    let problem = counted(heads, kv_heads, head_dim, 4096, dtype);
    let Some(result) = profiles(|| solve(&device, &own, &problem, [Layout::Packed; 2])) else {
        return;
    };
    let (_, launches) = result.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(launches.len(), if splits == 1 { 1 } else { 2 });
    let least = (reads * 2 * problem.k.len() * dtype.bytes() / 32) as f64;
    // Each part reads q.
    let queries = splits * problem.q.len() * size_of::<f32>() / 32;
    let loads = launches[0].total.global_loads.sectors as f64 - queries as f64;
    println!(
        "{heads}:{kv_heads}, D = {head_dim}, {dtype}: {:.4}",
        loads / least
    );
    assert!(loads <= 1.02 * least, "{loads} sectors, {least} needed");
}

/// Launches of one step of one sequence of `keys` tokens; `None` on a GPU. What the
/// cache holds does not matter.
fn launches(
    decode: Decode,
    dtype: stage5_decode::Dtype,
    [heads, kv_heads]: [usize; 2],
    keys: usize,
    head_dim: usize,
) -> Option<Vec<LaunchProfile>> {
    let device = Device::open();
    let shape = CacheShape {
        batch: 1,
        kv_heads,
        max_seq: keys,
        head_dim,
        dtype,
    };
    let zeros = || device.stream.alloc_zeros::<u8>(shape.bytes()).unwrap();
    let (k, v) = (zeros(), zeros());
    let lengths = device.upload(&[keys as i32]);
    let q = device.upload(&vec![1.0f32; heads * head_dim]);
    let mut o = device.upload(&vec![f32::NAN; heads * head_dim]);
    let cache = Cache {
        shape,
        k: k.as_view(),
        v: v.as_view(),
        pages: None,
        lengths: PerSequence {
            host: &[keys],
            device: lengths.as_view(),
        },
    };
    let inputs = Inputs {
        q: q.as_view(),
        cache,
    };
    let outputs = Outputs {
        o: o.as_view_mut(),
        lse: None,
    };
    let step = || {
        decode.forward(
            &device.stream,
            inputs,
            outputs,
            &Shape::packed(heads, 1, head_dim),
        )?;
        Ok::<_, stage5_decode::Error>(device.stream.synchronize()?)
    };
    let (_, launches) = profiles(step)?.unwrap_or_else(|error| panic!("{error}"));
    assert!(device.download(&o).iter().all(|&x| x == 0.0));
    Some(launches)
}

fn library() -> Decode {
    Decode::new(Device::open().stream.context()).unwrap()
}

/// A long sequence by itself: parts of it keep all SMs of an H100 busy, where heads alone do not.
/// In one part it gets an eighth of the tokens, to save time, and still takes twice as long.
#[test]
fn a_long_sequence_is_split_over_the_device() {
    const KEYS: usize = 65_536;
    const HEADS: usize = 8;
    let time = |decode, keys| {
        let launches = launches(decode, stage5_decode::Dtype::F16, [HEADS, 8], keys, 64)?;
        let seconds: f64 = launches.iter().map(|launch| launch.time.seconds).sum();
        let (blocks, device) = (launches[0].grid[0], launches[0].time.device);
        println!(
            "{keys} keys: {blocks} blocks, {:.1} µs, {device}",
            1e6 * seconds
        );
        Some((blocks, seconds, device))
    };
    let Some((blocks, whole, device)) = time(library().with_splits(1), KEYS / 8) else {
        return;
    };
    assert_eq!(blocks, HEADS as u32);
    let Some((blocks, seconds, _)) = time(library(), KEYS) else {
        return;
    };
    if device == "h100" {
        assert!(blocks >= 132, "{blocks} blocks");
        assert!(whole >= 2.0 * seconds, "{seconds} s, not half of {whole} s");
    }
}

/// Rung 2 reads the keys of a group once for each of its 4 heads; rung 3 and the
/// library read them once for all.
#[test]
fn a_group_reads_its_keys_once() {
    const KEYS: usize = 8192;
    let least = (2 * 8 * KEYS * 64 * 4 / 32) as f64;
    for (mode, rows, times) in [
        (Mode::Rung(Rung::Split), 1, 4.0),
        (Mode::Rung(Rung::Grouped), 4, 1.0),
        (Mode::Library, 4, 1.0),
    ] {
        let Some(launches) = launches(
            library().with_mode(mode),
            stage5_decode::Dtype::F32,
            [32, 8],
            KEYS,
            64,
        ) else {
            return;
        };
        let blocks = launches[0].grid[0];
        let queries = f64::from(blocks * rows * 64 * 4 / 32); // a block reads its rows of q
        let read = (launches[0].total.global_loads.sectors as f64 - queries) / least;
        let seconds: f64 = launches.iter().map(|launch| launch.time.seconds).sum();
        println!(
            "{mode}: {blocks} blocks, {read:.4}, {:.1} µs",
            1e6 * seconds
        );
        assert!((times..1.02 * times).contains(&read), "{mode}: {read}");
    }
}

/// In half precision a group of heads takes as long as its keys and values take from device memory:
/// by rung 4, whose header says the rest, and by the library.
#[rstest]
#[case::rung_4(Mode::Rung(Rung::Mma), Dtype::F16, 32)]
#[case::library(Mode::Library, Dtype::F16, 64)]
#[case::library_bf16(Mode::Library, Dtype::Bf16, 64)]
fn a_group_is_bound_by_device_memory(
    #[case] mode: Mode,
    #[case] dtype: Dtype,
    #[case] heads: usize,
) {
    const KEYS: usize = 65_536;
    let cache = match dtype {
        Dtype::Bf16 => stage5_decode::Dtype::Bf16,
        _ => stage5_decode::Dtype::F16,
    };
    let all = CacheShape {
        batch: 1,
        kv_heads: 8,
        max_seq: KEYS,
        head_dim: 128,
        dtype: cache,
    };
    let decode = library().with_mode(mode);
    let splits = decode.splits(&all, &Shape::packed(heads, 1, 128), KEYS);
    let group = heads / 8;
    let decode = decode.with_splits(splits);
    let Some(launches) = launches(decode, cache, [group, 1], KEYS, 128) else {
        return;
    };
    let total = &launches[0].total;
    let least = (2 * KEYS * 128 * 2 / 32) as f64;
    let queries = (splits * group * 128 * 4 / 32) as f64; // a block reads its rows of q
    let loads = (total.global_loads.sectors as f64 - queries) / least;
    let (shared, mma) = (total.shared(), total.flops_tensor as f64 / 4096.0);
    // The blocks of one head of keys are counted; those of the other 7 do the same.
    let times = launches.iter().map(|launch| launch.repeated(8).seconds);
    let seconds: f64 = times.sum();
    let bytes_a_second = 8.0 * 32.0 * least / seconds;
    let device = launches[0].time.device;
    println!(
        "{mode}, {dtype}, {heads} heads: {loads:.4}, {:.1} instructions and {:.1} wavefronts for each mma.sync, \
         {:.1} µs, {:.0} GB/s, {device}",
        total.warp_instructions as f64 / mma,
        shared.wavefronts as f64 / mma,
        1e6 * seconds,
        1e-9 * bytes_a_second,
    );
    assert!((1.0..1.02).contains(&loads), "{loads}");
    assert_eq!(shared.wavefronts, shared.ideal, "bank conflicts");
    if device == "h100" {
        assert!(bytes_a_second >= 0.9 * 3352e9, "{bytes_a_second}");
    }
}
