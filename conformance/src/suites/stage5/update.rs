//! What an update of a cache must do: write the new rows, rounded, and nothing else.

use ndarray::{Array4, s};
use stage5_decode::{CacheShape, Decoding, NewTokens, PerSequence};

use super::super::stage2::{counted, strides, under_seeds};
use super::counted::SECTOR;
use super::{DeviceCache, SEEDS, arguments};
use crate::device::Device;
use crate::inputs::{normal, tensor};
use crate::layout::Layout;
use crate::problems::Extent;
use crate::report::{Claim, Part};
use crate::{AnyError, Card, Dtype, Judge};

/// More heads or sequences than the y or z dimension of a grid can have.
const MANY: usize = 66_000;

const DTYPES: [Dtype; 3] = [Dtype::F32, Dtype::F16, Dtype::Bf16];

/// New tokens of a batch: `counts` of the `n` rows of each sequence, whose
/// lengths are then `lengths`.
#[derive(Debug, Clone)]
pub(super) struct Update {
    kv_heads: usize,
    head_dim: usize,
    max_seq: usize,
    n: usize,
    counts: Vec<usize>,
    lengths: Vec<usize>,
    dtype: Dtype,
    page_size: Option<usize>,
    /// The addresses of keys and values modulo 16.
    offsets: [usize; 2],
    /// The layout of the new rows of k. Those of v have another, if they are not packed.
    layout: Layout,
}

/// Updates of a cache.
pub fn update_cache(judge: &mut Judge<'_>, device: &Device, own: &impl Decoding) {
    for &part in judge.parts() {
        match part {
            Part::Table | Part::Strided => {
                for update in updates(part) {
                    let shape = update.cache_shape();
                    let name = update.name();
                    let card = Card {
                        name: &name,
                        needs_care: update.is_many(),
                        step: None,
                        extent: Extent::default(),
                    };
                    if own.has_cache(&shape, update.page_size.is_some()) && judge.is_chosen(&card) {
                        let (claim, error) = update.claim(device, own);
                        judge.claim_with(part, name, claim, error);
                    }
                }
            }
            Part::Arguments => arguments::update_cache(judge, device, own),
            Part::Schedules => {
                let updates = updates(Part::Table);
                under_seeds(judge, "update_seeds", SEEDS, || {
                    let mut values = Vec::new();
                    for update in updates.iter().filter(|update| !update.is_many()).step_by(4) {
                        let cache = update.run(device, own)?;
                        let bytes = cache.read(device)?.concat();
                        values.extend(bytes.into_iter().map(f32::from));
                    }
                    Ok(values)
                });
            }
            Part::Counted => moves_new_rows_alone(judge, device, own),
            Part::Random => {}
        }
    }
}

/// The new rows are read once and written once; nothing else is written.
fn moves_new_rows_alone(judge: &mut Judge<'_>, device: &Device, own: &impl Decoding) {
    for dtype in [Dtype::F32, Dtype::F16, Dtype::Bf16] {
        let update = Update::counted(dtype);
        if !own.has_cache(&update.cache_shape(), false) {
            continue;
        }
        let elements = 2 * update.elements(); // of k and of v
        let [loads, stores] = ["loads", "stores"].map(|what| format!("update_{what}_{dtype}"));
        let written = (elements * dtype.bytes() / SECTOR) as u64;
        // Half as much again for lengths and counts.
        let read = (elements * size_of::<f32>() / SECTOR * 3 / 2) as u64;
        counted(
            judge,
            &[
                (
                    |total| total.global_stores.sectors,
                    &stores,
                    "sectors",
                    written,
                ),
                (|total| total.global_loads.sectors, &loads, "sectors", read),
            ],
            || update.run(device, own),
        );
    }
}

fn updates(part: Part) -> Vec<Update> {
    let layouts: &[Layout] = match part {
        Part::Table => &[Layout::Packed],
        _ => &[Layout::SequenceFirst, Layout::Sparse],
    };
    let mut updates = Vec::new();
    for &layout in layouts {
        for dtype in DTYPES {
            for (page_size, head_dim) in [(None, 40), (None, 33), (Some(16), 64), (Some(17), 3)] {
                for (n, counts, lengths) in [
                    (1, [1, 1, 1], [1, 20, 40]), // a token; the first, and the last that fits
                    (20, [20, 20, 20], [20, 33, 40]), // a chunk
                    (20, [20, 0, 7], [25, 0, 7]), // rows that are padding
                ] {
                    updates.push(Update {
                        kv_heads: 2,
                        head_dim,
                        max_seq: 40,
                        n,
                        counts: counts.to_vec(),
                        lengths: lengths.to_vec(),
                        dtype,
                        page_size,
                        offsets: [0; 2],
                        layout,
                    });
                }
            }
        }
    }
    if part == Part::Table {
        // In f32, the number of a row by such a size may be less than the whole number that it is.
        updates.push(Update {
            kv_heads: 1,
            head_dim: 3,
            max_seq: 41,
            n: 41,
            counts: vec![41; 9],
            lengths: vec![41; 9],
            ..Update::counted(Dtype::F32)
        });
        // Rows that would be vectors of four, if values did not begin beside one, or new rows.
        updates.push(Update {
            offsets: [0, 4],
            ..Update::counted(Dtype::F32)
        });
        updates.push(Update {
            layout: Layout::Odd,
            ..Update::counted(Dtype::F32)
        });
        // One column less than a whole number of warps, or of vectors of them, has; and one more.
        for head_dim in [1, 31, 63, 65, 95, 127, 129, 159, 191, 193, 223, 255, 256] {
            updates.push(Update {
                head_dim,
                kv_heads: 1,
                counts: vec![1],
                lengths: vec![3],
                max_seq: 4,
                ..Update::counted(Dtype::F32)
            });
        }
        // More rows than any sequence has tokens.
        updates.push(Update {
            n: 7,
            counts: vec![2, 0, 4],
            lengths: vec![3, 0, 40],
            head_dim: 40,
            ..Update::counted(Dtype::F32)
        });
        // All rows are padding.
        updates.push(Update {
            n: 3,
            counts: vec![0; 2],
            lengths: vec![5, 7],
            max_seq: 8,
            ..Update::counted(Dtype::F32)
        });
        // More heads, and more sequences, than the y or z dimension of a grid can have.
        for [batch, kv_heads] in [[1, MANY], [MANY, 1]] {
            updates.push(Update {
                kv_heads,
                head_dim: 1,
                max_seq: 1,
                counts: vec![1; batch],
                lengths: vec![1; batch],
                ..Update::counted(Dtype::F32)
            });
        }
    }
    updates
}

impl Update {
    /// A token for each of 3 sequences, whose rows fill whole sectors.
    pub(super) fn counted(dtype: Dtype) -> Self {
        Self {
            kv_heads: 4,
            head_dim: 128,
            max_seq: 40,
            n: 1,
            counts: vec![1; 3],
            lengths: vec![1, 20, 40],
            dtype,
            page_size: None,
            offsets: [0; 2],
            layout: Layout::Packed,
        }
    }

    /// `update_b3_kv2_new20+0+7of20_len25+0+7of40_d40_f16`, then pages and layout.
    fn name(&self) -> String {
        let sum = |sizes: &[usize]| match sizes {
            [first, .., last] if sizes.len() == MANY => format!("{first}+…+{last}"),
            _ => Vec::from_iter(sizes.iter().map(usize::to_string)).join("+"),
        };
        let pages = self.page_size.map(|size| format!("_pages{size}"));
        let layout = match (self.layout, self.offsets) {
            (Layout::Packed, [0, 0]) => String::new(),
            (Layout::Packed, [k, v]) => format!("_k_at_{k}_v_at_{v}"),
            (layout, _) => format!("_{layout:?}"),
        };
        format!(
            "update_b{}_kv{}_new{}of{}_len{}of{}_d{}_{}{}{layout}",
            self.lengths.len(),
            self.kv_heads,
            sum(&self.counts),
            self.n,
            sum(&self.lengths),
            self.max_seq,
            self.head_dim,
            self.dtype,
            pages.unwrap_or_default(),
        )
    }

    /// True if it has [`MANY`] heads or sequences.
    fn is_many(&self) -> bool {
        self.kv_heads.max(self.lengths.len()) == MANY
    }

    /// Elements of the new rows of k.
    pub(super) fn elements(&self) -> usize {
        self.counts.iter().sum::<usize>() * self.kv_heads * self.head_dim
    }

    /// The shape of the cache.
    pub(super) fn cache_shape(&self) -> CacheShape {
        DeviceCache::shape_of(&self.nothing(), self.dtype)
    }

    /// Keys, or values, of tokens that nobody has written.
    fn nothing(&self) -> Array4<f32> {
        let batch = self.lengths.len();
        Array4::from_elem(
            (batch, self.kv_heads, self.max_seq, self.head_dim),
            f32::NAN,
        )
    }

    fn empty(&self, device: &Device) -> DeviceCache {
        let nothing = [&self.nothing(), &self.nothing()];
        DeviceCache::new(device, nothing, self.dtype, self.page_size, &self.lengths)
            .at(device, self.offsets)
    }

    /// The new rows of keys and values. Some values are where rounding is hard:
    /// ties, subnormals, infinities.
    fn rows(&self) -> [Array4<f32>; 2] {
        const HARD: [u32; 12] = [
            0x3f80_1000,
            0x3f80_3000,
            0x3f80_8000,
            0x3f81_8000,
            0x0000_0001,
            0x3380_0000,
            0x3300_0000,
            0x3300_0001,
            0x477f_f000,
            0x7f80_0000,
            0xff7f_ffff,
            0x8000_0000,
        ];
        let shape = (self.lengths.len(), self.kv_heads, self.n, self.head_dim);
        [1, 2].map(|seed| {
            tensor(shape, seed, |seed, i| match HARD.get((i % 29) as usize) {
                Some(&bits) => f32::from_bits(bits),
                None => normal(seed, i),
            })
        })
    }

    /// The cache after the update.
    pub(super) fn run(
        &self,
        device: &Device,
        own: &impl Decoding,
    ) -> Result<DeviceCache, AnyError> {
        let mut cache = self.empty(device);
        let [k, v] = self.rows();
        // Strides of their own, as two projections leave them.
        let (of_k, of_v) = match self.layout {
            Layout::SequenceFirst => (Layout::SequenceFirst, Layout::Sparse),
            Layout::Sparse => (Layout::Sparse, Layout::SequenceFirst),
            layout => (layout, layout),
        };
        let (k, v) = (device.input(&k, of_k), device.input(&v, of_v));
        let counts: Vec<i32> = self.counts.iter().map(|&count| count as i32).collect();
        let device_counts = device.upload(&counts);
        let counts = PerSequence {
            host: &self.counts,
            device: device_counts.as_view(),
        };
        let new = NewTokens {
            k: k.view(),
            v: v.view(),
            n: self.n,
            k_strides: strides(k.strides()),
            v_strides: strides(v.strides()),
        };
        own.update_cache(cache.view_mut(), counts, new)?;
        Ok(cache)
    }

    /// Where a byte lies in the cache of keys or of values, if there are no pages.
    fn place(&self, (which, byte): (usize, usize)) -> String {
        if self.page_size.is_some() {
            return String::new();
        }
        let row = byte / self.dtype.bytes() / self.head_dim;
        let column = byte / self.dtype.bytes() % self.head_dim;
        let (head, token) = (row / self.max_seq, row % self.max_seq);
        format!(
            ", first in {} at sequence {}, head {}, token {token}, column {column}",
            ["k", "v"][which],
            head / self.kv_heads,
            head % self.kv_heads,
        )
    }

    /// The bytes of the cache are those of the cache before, with the new rows.
    fn claim(&self, device: &Device, own: &impl Decoding) -> (Claim, Option<AnyError>) {
        let actual = self.run(device, own).and_then(|cache| {
            let actual = cache.read(device)?;
            let mut expected = self.empty(device).read(device)?;
            for (bytes, rows) in expected.iter_mut().zip(self.rows()) {
                for (b, (&count, &length)) in self.counts.iter().zip(&self.lengths).enumerate() {
                    for h in 0..self.kv_heads {
                        for i in 0..count {
                            let row = rows.slice(s![b, h, i, ..]).to_vec();
                            let j = length - count + i;
                            cache.enter(bytes, self.dtype, [b, h, j], &row);
                        }
                    }
                }
            }
            let wrong = |which: usize| {
                let pairs = actual[which].iter().zip(&expected[which]);
                pairs.filter(|(a, b)| a != b).count()
            };
            let first = (0..2).find_map(|which| {
                let mut pairs = actual[which].iter().zip(&expected[which]);
                Some((which, pairs.position(|(a, b)| a != b)?))
            });
            Ok(([wrong(0), wrong(1)], first))
        });
        let claim = Claim {
            expected: "the new rows of k and v, rounded, and all else as it was".to_owned(),
            holds: matches!(actual, Ok(([0, 0], _))),
            actual: match &actual {
                Ok(([k, v], first)) => {
                    let place = first.map(|first| self.place(first)).unwrap_or_default();
                    format!("{k} bytes of k and {v} bytes of v differ{place}")
                }
                Err(error) => error.to_string(),
            },
        };
        (claim, actual.err())
    }
}
