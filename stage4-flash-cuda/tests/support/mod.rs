//! What the tests share: a device, tensors in any layout, and random problems.
#![allow(dead_code, reason = "every test file uses a part of it")]

use std::sync::Arc;

use conformance::compare::{Comparison, Tolerance};
use conformance::inputs::{hash, normal, tensor, uniform};
use conformance::oracle;
use cudarc::driver::{CudaSlice, CudaStream, CudaView, CudaViewMut, DeviceRepr};
use ndarray::{Array3, Array4, s};
use stage1_reference::{BLOCK, Options, Output, Sizes};
use stage4_flash_cuda::{
    Additive, Attention, BlockMask, Error, Inputs, Mode, Outputs, Shape, Strategy, Strides,
};

/// A device.
pub struct Device {
    pub stream: Arc<CudaStream>,
    pub name: String,
}

/// `attention` runs rung 2. Where a device leaves no room for the tile of a large head dimension, rung 1 is right.
pub fn assert_rung_2(attention: &Attention, head_dim: usize) {
    let variant = attention.variant(head_dim).unwrap().unwrap();
    let rung_2 = variant.strategy == Strategy::RegisterTiled;
    assert!(rung_2 || head_dim > 128, "D = {head_dim}: {variant:?}");
}

impl Device {
    pub fn open() -> Self {
        // The errors' own words: they say what to do, for example to fetch the compiler.
        let context = gpu::context(0).unwrap_or_else(|error| panic!("{error}"));
        let name = gpu::device_label(&context).unwrap_or_else(|error| panic!("{error}"));
        let stream = context.default_stream();
        Self { stream, name }
    }

    pub fn attention(&self, mode: Mode) -> Attention {
        let attention = Attention::new(self.stream.context());
        attention
            .unwrap_or_else(|error| panic!("{error}"))
            .with_mode(mode)
    }

    /// Copies values to the device. A driver allocates no 0 bytes, so an empty array becomes one default value.
    pub fn upload<'a, T: DeviceRepr + Default + Copy + 'a>(
        &self,
        values: impl IntoIterator<Item = &'a T>,
    ) -> CudaSlice<T> {
        let mut values: Vec<T> = values.into_iter().copied().collect();
        if values.is_empty() {
            values.push(T::default());
        }
        self.stream
            .clone_htod(&values)
            .expect("a copy to the device")
    }

    pub fn download(&self, values: &CudaSlice<f32>) -> Vec<f32> {
        let values = self.stream.clone_dtoh(values);
        values.unwrap_or_else(|error| panic!("{}", gpu::explanation(&error)))
    }
}

/// What a kernel must not read, or must have left alone.
const UNTOUCHED: f32 = f32::NAN;

/// How a `[B, H, N, D]` tensor lies in memory.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Layout {
    /// `[B, H, N, D]`.
    Packed,
    /// `[B, N, H, D]`.
    SequenceFirst,
    /// Rows of D + 3 floats, of which D are the tensor's, from the fourth float of the buffer on: never aligned.
    Sparse,
}

impl Layout {
    pub const ALL: [Self; 3] = [Self::Packed, Self::SequenceFirst, Self::Sparse];

    /// The strides, and the offset of the first element.
    fn of(self, (_, heads, rows, columns): (usize, usize, usize, usize)) -> (Strides, usize) {
        let packed = Strides::packed(heads, rows, columns);
        match self {
            Self::Packed => (packed, 0),
            Self::SequenceFirst => {
                let row = heads * columns;
                let strides = Strides {
                    batch: rows * row,
                    head: columns,
                    row,
                };
                (strides, 0)
            }
            Self::Sparse => (Strides::packed(heads, rows, columns + 3), 3),
        }
    }
}

/// A `[B, H, N, D]` tensor in device memory.
pub struct Tensor {
    pub values: CudaSlice<f32>,
    pub strides: Strides,
    offset: usize,
    shape: (usize, usize, usize, usize),
}

impl Tensor {
    pub fn new(device: &Device, array: &Array4<f32>, layout: Layout) -> Self {
        let (strides, offset) = layout.of(array.dim());
        let mut tensor = Self {
            values: device.upload(&[UNTOUCHED]),
            strides,
            offset,
            shape: array.dim(),
        };
        let length = tensor.places().map(|(_, place)| place + 1).max();
        let mut values = vec![UNTOUCHED; length.unwrap_or(0) + offset];
        for (index, place) in tensor.places() {
            values[place] = array[index];
        }
        tensor.values = device.upload(&values);
        tensor
    }

    /// An output: nothing in it is to be left as it is, and nothing around it is to be touched.
    pub fn poisoned(device: &Device, shape: (usize, usize, usize, usize), layout: Layout) -> Self {
        Self::new(device, &Array4::from_elem(shape, UNTOUCHED), layout)
    }

    pub fn view(&self) -> CudaView<'_, f32> {
        self.values.slice(self.offset..)
    }

    pub fn view_mut(&mut self) -> CudaViewMut<'_, f32> {
        self.values.slice_mut(self.offset..)
    }

    /// The tensor, after it was made sure that all else in its buffer is as it was.
    pub fn download(&self, device: &Device) -> Array4<f32> {
        let mut values = device.download(&self.values);
        let mut array = Array4::zeros(self.shape);
        for (index, place) in self.places() {
            array[index] = std::mem::replace(&mut values[place], UNTOUCHED);
        }
        assert!(
            self.shape.0 == 0 || array.is_empty() || values.iter().all(|x| x.is_nan()),
            "written beside the tensor"
        );
        array
    }

    /// The indices of all elements, and where they lie in the buffer.
    fn places(&self) -> impl Iterator<Item = ([usize; 4], usize)> + use<> {
        let (strides, offset) = (self.strides, self.offset);
        ndarray::indices(self.shape)
            .into_iter()
            .map(move |(b, h, i, j)| {
                let place = b * strides.batch + h * strides.head + i * strides.row + j;
                ([b, h, i, j], place + offset)
            })
    }
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
        let mut draws = 0;
        // A number below `end`.
        let mut draw = |end: usize| {
            draws += 1;
            (hash(seed, draws) % end as u64) as usize
        };
        let kv_heads = 1 + draw(2);
        let sizes = Sizes {
            batch: 1 + draw(2),
            heads: kv_heads * (1 + draw(3)),
            kv_heads,
            nq: [1, 1 + draw(70), 60 + draw(80)][draw(3)],
            nk: [1 + draw(70), 60 + draw(80), 60 + draw(140)][draw(3)],
            head_dim,
        };
        let Sizes {
            batch,
            heads,
            nq,
            nk,
            ..
        } = sizes;
        let mut options = Options::default();
        if draw(2) == 0 {
            options = options.causal();
        }
        if draw(3) == 0 {
            options = options.window(draw(nk + 10), draw(nk + 10));
        }
        if draw(3) == 0 {
            let lengths: Vec<usize> = (0..batch).map(|_| draw(nk + 1)).collect();
            options = options.key_lengths(lengths);
        }
        if draw(3) == 0 {
            options = options.scale(draw(9) as f32 / 8.0 - 0.5);
        }
        if draw(3) == 0 {
            let shape = ([1, batch][draw(2)], [1, heads][draw(2)], nq, nk);
            let hidden = |seed, i| uniform(seed + 1, i) < -0.5;
            options = options.mask(tensor(shape, seed + 4, |seed, i| match hidden(seed, i) {
                true => f32::NEG_INFINITY,
                false => normal(seed, i),
            }));
        }
        if draw(3) == 0 {
            let (rows, columns) = (nq.div_ceil(BLOCK), nk.div_ceil(BLOCK));
            let shape = ([1, batch][draw(2)], [1, heads][draw(2)], rows, columns);
            let bits = tensor(shape, seed + 6, uniform);
            options = options.blocks(bits.mapv(|x| x < 0.0));
        }
        let layouts = [0; 4].map(|_| Layout::ALL[draw(3)]);
        let rows = |heads, n| [batch, heads, n, head_dim];
        let mut random = Self {
            name: format!(
                "seed {seed}: {sizes:?}, {:?}, {layouts:?}",
                options.features()
            ),
            sizes,
            options,
            q: tensor(rows(heads, nq), seed + 1, normal),
            k: tensor(rows(kv_heads, nk), seed + 2, normal),
            v: tensor(rows(kv_heads, nk), seed + 3, |seed, i| {
                1.0 + normal(seed, i)
            }),
            layouts,
        };
        for (b, &length) in random.options.key_lengths.iter().flatten().enumerate() {
            random.k.slice_mut(s![b, .., length.., ..]).fill(UNTOUCHED);
            random.v.slice_mut(s![b, .., length.., ..]).fill(UNTOUCHED);
        }
        random
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
            .map(|(array, i)| Tensor::new(device, array, self.layouts[i]));
        let mut o = Tensor::poisoned(device, (batch, heads, nq, head_dim), self.layouts[3]);
        let mut lse = device.upload(&vec![UNTOUCHED; batch * heads * nq]);
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
            q: q.strides,
            k: k.strides,
            v: v.strides,
            o: o.strides,
            ..Shape::packed(self.sizes)
        };
        let outputs = Outputs {
            o: o.view_mut(),
            lse: Some(lse.as_view_mut()),
        };
        attention.forward(&device.stream, inputs, outputs, &shape)?;
        let lse = Array3::from_shape_vec((batch, heads, nq), device.download(&lse));
        Ok(Output {
            o: o.download(device),
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
