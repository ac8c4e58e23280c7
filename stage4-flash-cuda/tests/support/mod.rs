//! What the tests share: handles, and random problems in device memory.
#![allow(dead_code, reason = "every test file uses a part of it")]

use conformance::compare::{Comparison, Tolerance};
use conformance::oracle;
use conformance::problems::Problem as _;
use conformance::problems::attention::random;
use ndarray::{Array3, Array4};
use stage1_reference::{Options, Output, Sizes};
use stage4_flash_cuda::{
    Additive, Attention, BlockMask, Error, Inputs, Mode, Outputs, Shape, Strategy, Strides,
};

pub use conformance::device::Device;
pub use conformance::layout::Layout;

/// `attention` runs rung 2. Where a device leaves no room for the tile of a large head dimension, rung 1 is right.
pub fn assert_rung_2(attention: &Attention, head_dim: usize) {
    let variant = attention.variant(head_dim).unwrap().unwrap();
    let rung_2 = variant.strategy == Strategy::RegisterTiled;
    assert!(rung_2 || head_dim > 128, "D = {head_dim}: {variant:?}");
}

/// The handle on a device.
pub trait Modes {
    fn attention(&self, mode: Mode) -> Attention;
}

impl Modes for Device {
    fn attention(&self, mode: Mode) -> Attention {
        let attention = Attention::new(self.stream.context());
        attention
            .unwrap_or_else(|error| panic!("{error}"))
            .with_mode(mode)
    }
}

fn strides([batch, head, row]: [usize; 3]) -> Strides {
    Strides { batch, head, row }
}

/// A random problem: sizes, options and layouts are functions of the seed.
pub struct Random {
    pub name: String,
    pub sizes: Sizes,
    pub options: Options,
    pub q: Array4<f32>,
    pub k: Array4<f32>,
    pub v: Array4<f32>,
    /// Of q, k, v and o.
    pub layouts: [Layout; 4],
}

impl Random {
    pub fn new(seed: u64, head_dim: usize) -> Self {
        let (problem, layouts) = random(seed, head_dim, &[]);
        Self {
            name: problem.name().to_owned(),
            sizes: problem.sizes(),
            options: problem.options,
            q: problem.q,
            k: problem.k,
            v: problem.v,
            layouts,
        }
    }

    /// Computes it on device memory, in the layouts that the seed chose.
    pub fn solve(&self, device: &Device, attention: &Attention) -> Result<Output, Error> {
        let Sizes {
            batch,
            heads,
            nq,
            nk,
            head_dim,
            ..
        } = self.sizes;
        let [q, k, v] = [(&self.q, 0), (&self.k, 1), (&self.v, 2)]
            .map(|(array, i)| device.input(array, self.layouts[i]));
        let mut o = device.output((batch, heads, nq, head_dim), self.layouts[3]);
        let mut lse = device.upload(&vec![f32::NAN; batch * heads * nq]);
        let repeated = |(batch, heads, rows, _), columns| {
            let packed = Strides::packed(heads, rows, columns);
            Strides {
                batch: if batch == 1 { 0 } else { packed.batch },
                head: if heads == 1 { 0 } else { packed.head },
                ..packed
            }
        };
        let mask = self.options.mask.as_ref();
        let mask = mask.map(|mask| (device.upload(mask), repeated(mask.dim(), nk)));
        let lengths = self.options.key_lengths.as_ref().map(|lengths| {
            let lengths: Vec<i32> = lengths.iter().map(|&length| length as i32).collect();
            device.upload(&lengths)
        });
        let blocks = self.options.blocks.as_ref().map(|blocks| {
            let mut words = Vec::new();
            for row in blocks.rows() {
                let row = row.to_vec();
                words.extend(row.chunks(32).map(|chunk| {
                    let bits = chunk.iter().rev();
                    bits.fold(0, |word: u32, &seen| word << 1 | u32::from(seen))
                }));
            }
            let words_of_a_row = blocks.dim().3.div_ceil(32);
            (
                device.upload(&words),
                repeated(blocks.dim(), words_of_a_row),
            )
        });
        let inputs = Inputs {
            q: q.view(),
            k: k.view(),
            v: v.view(),
            mask: mask.as_ref().map(|(values, strides)| Additive {
                values: values.as_view(),
                strides: *strides,
            }),
            key_lengths: lengths.as_ref().map(|lengths| lengths.as_view()),
            blocks: blocks.as_ref().map(|(bits, strides)| BlockMask {
                bits: bits.as_view(),
                strides: *strides,
            }),
        };
        let shape = Shape {
            scale: self.options.scale,
            causal: self.options.causal,
            window: self.options.window,
            q: strides(q.strides()),
            k: strides(k.strides()),
            v: strides(v.strides()),
            o: strides(o.strides()),
            ..Shape::packed(self.sizes)
        };
        let outputs = Outputs {
            o: o.view_mut(),
            lse: Some(lse.as_view_mut()),
        };
        attention.forward(&device.stream, inputs, outputs, &shape)?;
        let lse = Array3::from_shape_vec((batch, heads, nq), device.download(&lse));
        Ok(Output {
            o: o.read(device).unwrap_or_else(|error| panic!("{error}")),
            lse: lse.expect("as many as were asked for"),
        })
    }

    /// Compares a result with the oracle's, with the tolerances of the table.
    pub fn judge(&self, output: &Output) {
        let (o, lse) = oracle::attention(&self.q, &self.k, &self.v, &self.options);
        let Sizes { nk, head_dim, .. } = self.sizes;
        let tolerance = Tolerance::of_sum(f32::EPSILON.into(), head_dim + nk);
        let of_lse = Tolerance {
            relative: 4.0 * f64::from(f32::EPSILON),
            ..tolerance.floor(2.0)
        };
        let o = Comparison::new("o", output.o.view(), o.view(), tolerance.floor(1.4));
        let lse = Comparison::new("lse", output.lse.view(), lse.view(), of_lse);
        assert!(o.passed() && lse.passed(), "{}\n{o}\n{lse}", self.name);
    }
}
