//! Tasks `update_cache`, `decode` and `split` of stage 5.

use conformance::device::Device;
use conformance::inputs::{normal, tensor};
use conformance::layout::Layout;
use conformance::problems::decode::{self, Problem};
use conformance::suites::stage2::AnyError;
use conformance::suites::stage5::{DeviceCache, solve};
use conformance::{Dtype, Judge, suites};
use gpu::arguments::Strides;
use ndarray::Array4;
use stage1_reference::Feature;
use stage5_decode::{Decode, Decoding, Mode, NewTokens, PerSequence, Stage5};

use super::{Exam, Place, Rig, Whose, care};
use crate::cause::{self, Explanation, probes};
use crate::remote::Decoder;
use crate::verdict::Kind;

/// New tokens into the cache.
pub(super) struct UpdateCache;

/// Attention on the cache, by the kernels of `decode` or by those of the bonus task.
pub(super) struct DecodeTask {
    /// Whether by those of the bonus task.
    pub splitting: bool,
}

/// An implementation, whoever's, and a computation with it.
fn by<T>(
    rig: &Rig<'_>,
    whose: Whose,
    splitting: bool,
    learner: impl FnOnce(&Decoder<'_>) -> Result<T, String>,
    reference: impl FnOnce(&Stage5) -> Result<T, String>,
) -> Result<T, String> {
    match whose {
        Whose::Learner => learner(&Decoder {
            remote: rig.remote,
            splitting,
        }),
        Whose::Reference => {
            let mode = if splitting { Mode::Split } else { Mode::Naive };
            let decode = Decode::new(rig.device.stream.context());
            reference(&Stage5 {
                stream: rig.device.stream.clone(),
                decode: decode.map_err(|error| error.to_string())?.with_mode(mode),
            })
        }
    }
}

impl Exam for UpdateCache {
    fn place(&self) -> Place {
        Place::Device { lower: &[] }
    }

    fn criterion_of(&self, _: &str) -> Option<Kind> {
        Some(Kind::Correct)
    }

    fn judge(&self, judge: &mut Judge<'_>, rig: &Rig<'_>) {
        let own = Decoder {
            remote: rig.remote,
            splitting: false,
        };
        suites::stage5::update_cache(judge, rig.device, &own);
    }

    fn repeated(&self, rig: &Rig<'_>) -> Result<Vec<f32>, String> {
        by(
            rig,
            Whose::Learner,
            false,
            |own| update(own, rig.device, [2, 2, 5, 40, 33]),
            |own| update(own, rig.device, [2, 2, 5, 40, 33]),
        )
    }

    fn timed_case(&self) -> &'static str {
        "b4_h8_n32of40_d128"
    }

    fn timed(&self, rig: &Rig<'_>, whose: Whose) -> Result<Vec<f32>, String> {
        let sizes = [4, 8, 32, 40, 128];
        by(
            rig,
            whose,
            false,
            |own| update(own, rig.device, sizes),
            |own| update(own, rig.device, sizes),
        )
    }
}

/// The cache after `n` new tokens of each sequence, the last that fit.
fn update<D: Decoding>(
    own: &D,
    device: &Device,
    [batch, kv_heads, n, max_seq, head_dim]: [usize; 5],
) -> Result<Vec<f32>, String> {
    let old = Array4::zeros((batch, kv_heads, max_seq, head_dim));
    let lengths = vec![max_seq; batch];
    let mut cache = DeviceCache::new(device, [&old, &old], Dtype::F32, None, &lengths);
    let [k, v] = [1, 2].map(|seed| tensor((batch, kv_heads, n, head_dim), seed, normal));
    let [k, v] = [device.upload(&k), device.upload(&v)];
    let counts = vec![n; batch];
    let of_counts = device.upload(&vec![n as i32; batch]);
    let strides = Strides::packed(kv_heads, n, head_dim);
    let new = NewTokens {
        k: k.as_view(),
        v: v.as_view(),
        n,
        k_strides: strides,
        v_strides: strides,
    };
    let counts = PerSequence {
        host: &counts,
        device: of_counts.as_view(),
    };
    own.update_cache(cache.view_mut(), counts, new)
        .map_err(|error| error.to_string())?;
    let bytes = cache.read(device).map_err(|error| error.to_string())?;
    let bytes = bytes.concat();
    let (words, _) = bytes.as_chunks::<4>();
    Ok(words.iter().map(|&word| f32::from_ne_bytes(word)).collect())
}

impl Exam for DecodeTask {
    fn place(&self) -> Place {
        Place::Device { lower: &[] }
    }

    fn lacks(&self) -> &'static [Feature] {
        &[Feature::Window, Feature::Strides]
    }

    fn criterion_of(&self, problem: &str) -> Option<Kind> {
        Some(care(problem))
    }

    /// Half of them have another type of cache, or pages.
    fn random(&self) -> u64 {
        40
    }

    fn judge(&self, judge: &mut Judge<'_>, rig: &Rig<'_>) {
        let own = Decoder {
            remote: rig.remote,
            splitting: self.splitting,
        };
        suites::stage5::decode(judge, rig.device, &own);
    }

    fn explain(&self, rig: &Rig<'_>) -> Option<Explanation> {
        let own = Decoder {
            remote: rig.remote,
            splitting: self.splitting,
        };
        cause::explain(&cause::solved(probes::decode(), |problem, output| {
            *output = solve(rig.device, &own, problem, [Layout::Packed; 2])?;
            Ok::<_, AnyError>(())
        }))
    }

    fn repeated(&self, rig: &Rig<'_>) -> Result<Vec<f32>, String> {
        let problem = decode::counted(4, 2, 40, 200, Dtype::F32);
        attend(
            &Decoder {
                remote: rig.remote,
                splitting: self.splitting,
            },
            rig.device,
            &problem,
        )
    }

    fn timed_case(&self) -> &'static str {
        match self.splitting {
            false => "b1_h16_n1000_d128",
            true => "b1_h2_n4000_d128",
        }
    }

    fn timed(&self, rig: &Rig<'_>, whose: Whose) -> Result<Vec<f32>, String> {
        let problem = match self.splitting {
            false => decode::counted(16, 16, 128, 1000, Dtype::F32),
            true => decode::counted(2, 2, 128, 4000, Dtype::F32),
        };
        by(
            rig,
            whose,
            self.splitting,
            |own| attend(own, rig.device, &problem),
            |own| attend(own, rig.device, &problem),
        )
    }
}

fn attend<D: Decoding>(own: &D, device: &Device, problem: &Problem) -> Result<Vec<f32>, String> {
    let output = solve(device, own, problem, [Layout::Packed; 2]);
    let output = output.map_err(|error| error.to_string())?;
    Ok(output.o.into_iter().chain(output.lse).collect())
}
