//! The paged cache in device memory: page tables, counts and copies on write.

use conformance::device::Device;
use stage5_decode::paged::{PageError, PagedCache, PagedShape, SequenceId};
use stage5_decode::{CacheView, Dtype, Error};

const SHAPE: PagedShape = PagedShape {
    pages: 6,
    page_size: 16,
    kv_heads: 2,
    head_dim: 3,
    dtype: Dtype::F32,
};
const LAYERS: usize = 2;

#[test]
fn a_fork_gets_its_page_in_every_layer() {
    let device = Device::open();
    let mut cache = PagedCache::new(&device.stream, LAYERS, SHAPE).unwrap();
    let a = cache.create();
    grow(&device, &mut cache, &[(a, 20)], &[0]);
    let b = cache.fork(a).unwrap();
    grow(&device, &mut cache, &[(b, 13), (a, 1)], &[200, 100]);
    assert_eq!(cache.tables().table(a).unwrap(), [0, 1]);
    assert_eq!(cache.tables().table(b).unwrap(), [0, 2, 3]);
    // Page 1 becomes free, and takes a copy from a page behind it.
    cache.free(a).unwrap();
    let c = cache.fork(b).unwrap();
    grow(&device, &mut cache, &[(b, 1), (c, 0)], &[300, 0]);
    assert_eq!(cache.tables().table(b).unwrap(), [0, 2, 1]);

    let of_c = Vec::from_iter((0..20).chain(200..213));
    let of_b = [&of_c[..], &[300]].concat();
    for layer in 0..LAYERS {
        let tokens = read(&device, cache.layer(layer), layer);
        assert_eq!(tokens, [of_b.clone(), of_c.clone()], "layer {layer}");
    }
}

#[test]
fn what_is_refused_changes_neither_tables_nor_batch() {
    let device = Device::open();
    let mut cache = PagedCache::new(&device.stream, LAYERS, SHAPE).unwrap();
    let [a, b] = [cache.create(), cache.create()];
    grow(&device, &mut cache, &[(a, 40), (b, 16)], &[0, 100]);
    let tables = cache.tables().clone();
    let error = cache.grow(&device.stream, &[(b, 1), (a, 49)]).unwrap_err();
    let expected = PageError::OutOfPages { needed: 4, free: 2 };
    assert!(matches!(&error, Error::Pages(error) if *error == expected));
    assert_eq!(error.argument(), Some("new"));
    assert_eq!(*cache.tables(), tables);
    let tokens = read(&device, cache.layer(0), 0);
    assert_eq!(tokens, [Vec::from_iter(0..40), Vec::from_iter(100..116)]);
}

#[test]
fn empty_batches_and_no_heads_are_allowed() {
    let device = Device::open();
    let shape = PagedShape {
        kv_heads: 0,
        ..SHAPE
    };
    let mut cache = PagedCache::new(&device.stream, 1, shape).unwrap();
    cache.grow(&device.stream, &[]).unwrap();
    let a = cache.create();
    cache.grow(&device.stream, &[(a, 1)]).unwrap();
    let b = cache.fork(a).unwrap();
    cache.grow(&device.stream, &[(a, 1), (b, 1)]).unwrap(); // copies a page of 0 bytes
    cache.grow(&device.stream, &[]).unwrap();
    assert_eq!(cache.layer(0).shape.batch, 0);
}

#[test]
fn sizes_are_checked() {
    let device = Device::open();
    let refused = |shape| {
        let error = PagedCache::new(&device.stream, 1, shape).unwrap_err();
        error.argument().unwrap().to_owned()
    };
    let with = |change: fn(&mut PagedShape)| {
        let mut shape = SHAPE;
        change(&mut shape);
        refused(shape)
    };
    assert_eq!(with(|shape| shape.page_size = 8), "page_size");
    assert_eq!(with(|shape| shape.pages = usize::MAX), "pages");
    assert_eq!(with(|shape| shape.head_dim = 257), "head_dim");
    assert_eq!(with(|shape| shape.kv_heads = usize::MAX), "kv_heads");
}

/// Grows the cache, and writes tokens to each layer: to each sequence consecutive
/// numbers from `first` on.
fn grow(device: &Device, cache: &mut PagedCache, batch: &[(SequenceId, usize)], first: &[usize]) {
    cache.grow(&device.stream, batch).unwrap();
    let tables = cache.tables().clone();
    for layer in 0..LAYERS {
        let (mut view, new) = cache.layer_mut(layer);
        assert_eq!(
            device.stream.clone_dtoh(&new.device).unwrap(),
            Vec::from_iter(batch.iter().map(|&(_, new)| new as i32))
        );
        for (&(sequence, new), &first) in batch.iter().zip(first) {
            let length = tables.length(sequence).unwrap();
            for (position, token) in (length - new..length).zip(first..) {
                for head in 0..SHAPE.kv_heads {
                    let page = tables.table(sequence).unwrap()[position / SHAPE.page_size];
                    let at = offset(page as usize, head, position % SHAPE.page_size);
                    for (pool, v) in [(&mut view.k, 0), (&mut view.v, 1)] {
                        let row = row(token, layer, head, v).map(f32::to_le_bytes);
                        let mut place = pool.slice_mut(at..at + ROW_BYTES);
                        device
                            .stream
                            .memcpy_htod(row.as_flattened(), &mut place)
                            .unwrap();
                    }
                }
            }
        }
    }
}

/// The tokens of each sequence of the view, after it was made sure that each row is theirs.
fn read(device: &Device, view: CacheView<'_>, layer: usize) -> Vec<Vec<usize>> {
    let download = |bytes| device.stream.clone_dtoh(bytes).unwrap();
    let [k, v] = [download(&view.k), download(&view.v)];
    let pages = view.pages.unwrap();
    let entries = device.stream.clone_dtoh(&pages.entries).unwrap();
    let lengths = device.stream.clone_dtoh(&view.lengths.device).unwrap();
    let sequences = lengths.iter().enumerate().map(|(b, &length)| {
        let tokens = (0..length as usize).map(|position| {
            let page = entries[b * pages.columns + position / pages.page_size] as usize;
            let stored = |pool: &[u8], head| {
                let at = offset(page, head, position % pages.page_size);
                let (elements, _) = pool[at..at + ROW_BYTES].as_chunks();
                Vec::from_iter(elements.iter().map(|&bytes| f32::from_le_bytes(bytes)))
            };
            let token = stored(&k, 0)[0] as usize / 64;
            for head in 0..SHAPE.kv_heads {
                assert_eq!(stored(&k, head), row(token, layer, head, 0));
                assert_eq!(stored(&v, head), row(token, layer, head, 1));
            }
            token
        });
        tokens.collect()
    });
    sequences.collect()
}

const ROW_BYTES: usize = SHAPE.head_dim * size_of::<f32>();

/// The byte at which a row begins.
fn offset(page: usize, head: usize, slot: usize) -> usize {
    ((page * SHAPE.kv_heads + head) * SHAPE.page_size + slot) * ROW_BYTES
}

/// A row of k (`v = 0`) or v (`v = 1`), unlike any other.
fn row(token: usize, layer: usize, head: usize, v: usize) -> [f32; SHAPE.head_dim] {
    std::array::from_fn(|d| (token * 64 + layer * 32 + head * 16 + d * 2 + v) as f32)
}
