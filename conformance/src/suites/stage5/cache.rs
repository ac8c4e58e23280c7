//! A cache in device memory, filled by the host, and what the host knows of it.

use cudarc::driver::CudaSlice;
use half::{bf16, f16};
use ndarray::Array4;
use stage5_decode::{
    Cache, CacheShape, CacheView, CacheViewMut, Dtype as CacheDtype, PageTable, PerSequence,
};

use crate::Dtype;
use crate::device::Device;
use crate::inputs::hash;

/// A cache in device memory, contiguous or in shuffled pages of a pool that has more.
#[derive(Debug)]
pub struct DeviceCache {
    k: CudaSlice<u8>,
    v: CudaSlice<u8>,
    /// Bytes before the first key and the first value.
    offsets: [usize; 2],
    index: Index,
}

/// All but the keys and values.
#[derive(Debug)]
struct Index {
    shape: CacheShape,
    pages: Option<Pages>,
    lengths: Vec<usize>,
    device_lengths: CudaSlice<i32>,
}

#[derive(Debug)]
struct Pages {
    size: usize,
    columns: usize,
    /// `[B, columns]`.
    entries: Vec<i32>,
    device_entries: CudaSlice<i32>,
}

/// Pages of the pool that belong to no sequence.
const SPARE: usize = 3;

impl DeviceCache {
    /// A cache that holds `k` and `v`, `[B, H_kv, max_seq, D]`. NaN marks what no sequence has.
    pub fn new(
        device: &Device,
        [k, v]: [&Array4<f32>; 2],
        dtype: Dtype,
        page_size: Option<usize>,
        lengths: &[usize],
    ) -> Self {
        let shape = Self::shape_of(k, dtype);
        let pages = page_size.map(|size| Pages::shuffled(device, &shape, size));
        let [k, v] = [k, v].map(|x| {
            let mut bytes = vec![0xff; bytes_of(&shape, pages.as_ref())]; // NaN in every type
            for ((b, h, j, d), &x) in x.indexed_iter() {
                let at = place(&shape, pages.as_ref(), [b, h, j, d]);
                bytes[at..at + shape.dtype.bytes()].copy_from_slice(&encoded(dtype, x));
            }
            device.upload(&bytes)
        });
        let index = Index {
            shape,
            pages,
            lengths: Vec::new(),
            device_lengths: device.upload(&[0]),
        };
        let offsets = [0; 2];
        let mut cache = Self {
            k,
            v,
            offsets,
            index,
        };
        cache.set_lengths(device, lengths);
        cache
    }

    /// The cache with keys and values at these addresses, modulo 16.
    ///
    /// # Panics
    ///
    /// If the device has no memory left, or a launch failed.
    pub fn at(self, device: &Device, offsets: [usize; 2]) -> Self {
        if offsets == self.offsets {
            return self;
        }
        let moved = |bytes: &CudaSlice<u8>, offset| {
            let bytes = device.download(bytes);
            device.upload(&[vec![0xff; offset], bytes].concat())
        };
        Self {
            k: moved(&self.k, offsets[0]),
            v: moved(&self.v, offsets[1]),
            offsets,
            ..self
        }
    }

    /// The shape of the cache of such keys.
    pub fn shape_of(k: &Array4<f32>, dtype: Dtype) -> CacheShape {
        let (batch, kv_heads, max_seq, head_dim) = k.dim();
        CacheShape {
            batch,
            kv_heads,
            max_seq,
            head_dim,
            dtype: match dtype {
                Dtype::F32 => CacheDtype::F32,
                Dtype::F16 => CacheDtype::F16,
                Dtype::Bf16 => CacheDtype::Bf16,
            },
        }
    }

    /// Gives the sequences other lengths.
    pub fn set_lengths(&mut self, device: &Device, lengths: &[usize]) {
        let numbers: Vec<i32> = lengths.iter().map(|&length| length as i32).collect();
        self.index.lengths = lengths.to_vec();
        self.index.device_lengths = device.upload(&numbers);
    }

    /// The cache, to be read.
    pub fn view(&self) -> CacheView<'_> {
        let [k, v] = self.offsets;
        self.index.cache([self.k.slice(k..), self.v.slice(v..)])
    }

    /// The cache, to be written.
    pub fn view_mut(&mut self) -> CacheViewMut<'_> {
        let [k, v] = self.offsets;
        self.index
            .cache([self.k.slice_mut(k..), self.v.slice_mut(v..)])
    }

    /// The bytes of `k` and `v`.
    ///
    /// # Errors
    ///
    /// If a launch or the copy failed.
    pub fn read(&self, device: &Device) -> Result<[Vec<u8>; 2], crate::device::Failed> {
        let [mut k, mut v] = [device.read(&self.k)?, device.read(&self.v)?];
        k.drain(..self.offsets[0]);
        v.drain(..self.offsets[1]);
        Ok([k, v])
    }

    /// Enters a row into bytes as [`DeviceCache::read`] gives them.
    pub fn enter(&self, bytes: &mut [u8], dtype: Dtype, [b, h, j]: [usize; 3], row: &[f32]) {
        let Index { shape, pages, .. } = &self.index;
        for (d, &x) in row.iter().enumerate() {
            let at = place(shape, pages.as_ref(), [b, h, j, d]);
            bytes[at..at + shape.dtype.bytes()].copy_from_slice(&encoded(dtype, x));
        }
    }
}

impl Index {
    fn cache<V>(&self, [k, v]: [V; 2]) -> Cache<'_, V> {
        Cache {
            shape: self.shape,
            k,
            v,
            pages: self.pages.as_ref().map(Pages::table),
            lengths: PerSequence {
                host: &self.lengths,
                device: self.device_lengths.as_view(),
            },
        }
    }
}

impl Pages {
    /// No two sequences share a page, and no two pages of a sequence are neighbours but by chance.
    fn shuffled(device: &Device, shape: &CacheShape, size: usize) -> Self {
        let columns = shape.max_seq.div_ceil(size);
        let mut order: Vec<i32> = (0..(shape.batch * columns + SPARE) as i32).collect();
        order.sort_by_key(|&page| hash(size as u64, page as u64));
        order.truncate(shape.batch * columns);
        Self {
            size,
            columns,
            device_entries: device.upload(&order),
            entries: order,
        }
    }

    fn table(&self) -> PageTable<'_> {
        PageTable {
            host: &self.entries,
            entries: self.device_entries.as_view(),
            columns: self.columns,
            page_size: self.size,
        }
    }
}

fn bytes_of(shape: &CacheShape, pages: Option<&Pages>) -> usize {
    let rows = match pages {
        None => shape.batch * shape.max_seq,
        Some(pages) => (pages.entries.len() + SPARE) * pages.size,
    };
    rows * shape.kv_heads * shape.head_dim * shape.dtype.bytes()
}

/// Where an element lies, in bytes.
fn place(shape: &CacheShape, pages: Option<&Pages>, [b, h, j, d]: [usize; 4]) -> usize {
    let row = match pages {
        None => (b * shape.kv_heads + h) * shape.max_seq + j,
        Some(Pages {
            size,
            columns,
            entries,
            ..
        }) => {
            let page = entries[b * columns + j / size] as usize; // not negative
            (page * shape.kv_heads + h) * size + j % size
        }
    };
    (row * shape.head_dim + d) * shape.dtype.bytes()
}

/// The bytes of a value, rounded to nearest, ties to even.
fn encoded(dtype: Dtype, x: f32) -> Vec<u8> {
    match dtype {
        Dtype::F32 => x.to_ne_bytes().to_vec(),
        Dtype::F16 => f16::from_f32(x).to_ne_bytes().to_vec(),
        Dtype::Bf16 => bf16::from_f32(x).to_ne_bytes().to_vec(),
    }
}
