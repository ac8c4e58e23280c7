//! Pixels of images (`.im2col`): what a convolution loads for one element of its filter, by every
//! rank, over each edge, with strides; what the encoding and the copy refuse.

use cuda_sim::FaultKind;
use cudarc::driver::sys::{self, CUresult};

use super::rig::*;
use crate::common::{Outcome, context};

/// A batch of images with their channels, and what a copy moves of them.
#[derive(Clone, Debug)]
struct Images {
    /// The batch. Of its box, the innermost size is the channels of a pixel.
    tensor: Tensor,
    pixels: u32,
    lower: Vec<i32>,
    upper: Vec<i32>,
}

impl Images {
    /// Images for a filter of `filter` elements in each dimension, whose base begins `padding`
    /// pixels before the image and whose last element ends as far behind it.
    fn padded(sizes: &[u64], channels: u32, pixels: u32, padding: i32, filter: i32) -> Images {
        let spatial = sizes.len() - 2;
        let mut boxes = vec![1; sizes.len()];
        boxes[0] = channels;
        Images {
            tensor: Tensor::dense(ELEMENTS[6], sizes, &boxes),
            pixels,
            lower: vec![-padding; spatial],
            upper: vec![padding - (filter - 1); spatial],
        }
    }

    fn try_encode(&self, address: u64) -> (CUresult, Map) {
        let tensor = &self.tensor;
        let mut map = Map(sys::CUtensorMap { opaque: [0; 16] });
        // SAFETY: each array has as many elements as the rank says.
        let result = unsafe {
            sys::cuTensorMapEncodeIm2col(
                &mut map.0,
                tensor.element,
                tensor.rank() as u32,
                address as *mut _,
                tensor.sizes.as_ptr(),
                tensor.strides.as_ptr(),
                self.lower.as_ptr(),
                self.upper.as_ptr(),
                tensor.box_sizes[0],
                self.pixels,
                tensor.element_strides.as_ptr(),
                sys::CUtensorMapInterleave::CU_TENSOR_MAP_INTERLEAVE_NONE,
                tensor.swizzle,
                sys::CUtensorMapL2promotion::CU_TENSOR_MAP_L2_PROMOTION_NONE,
                match tensor.fills_nan {
                    true => sys::CUtensorMapFloatOOBfill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA,
                    false => sys::CUtensorMapFloatOOBfill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
                },
            )
        };
        (result, map)
    }

    fn encode(&self, address: u64) -> Map {
        let (result, map) = self.try_encode(address);
        assert_eq!(result, CUresult::CUDA_SUCCESS, "{self:?}");
        map
    }

    fn bytes(&self) -> usize {
        (self.pixels * self.tensor.box_sizes[0]) as usize * self.tensor.bytes
    }

    /// All bases of the filter in the batch in their order, as coordinates without the channels.
    fn bases(&self) -> Vec<Vec<i32>> {
        let mut all = vec![Vec::new()];
        let rank = self.tensor.rank();
        // The slowest dimension first; each is put before those behind it.
        for i in (1..rank).rev() {
            let size = self.tensor.sizes[i] as i32;
            let values: Vec<i32> = match i {
                _ if i == rank - 1 => (0..size).collect(),
                _ => (self.lower[i - 1]..size + self.upper[i - 1])
                    .step_by(self.tensor.element_strides[i] as usize)
                    .collect(),
            };
            let with = |rest: &Vec<i32>| {
                let rest = rest.clone();
                let one = move |&value: &i32| [vec![value], rest.clone()].concat();
                values.iter().map(one).collect::<Vec<_>>()
            };
            all = all.iter().flat_map(with).collect();
        }
        all
    }

    /// Where each element of a copy from `first` on lies in device memory, if it does.
    fn elements(&self, first: &[i32], offsets: &[i32]) -> Vec<Option<usize>> {
        let tensor = &self.tensor;
        let bases = self.bases();
        let start = bases.iter().position(|base| base[..] == first[1..]);
        let start = start.expect("a base of the filter");
        let mut all = Vec::new();
        for number in start..start + self.pixels as usize {
            for channel in 0..tensor.box_sizes[0] as i32 {
                let place = bases.get(number).and_then(|base| {
                    let mut device = 0;
                    for i in 0..tensor.rank() {
                        let at = match i {
                            0 => first[0] + channel,
                            _ => base[i - 1] + offsets.get(i - 1).unwrap_or(&0),
                        };
                        let is_inside = at >= 0 && (at as u64) < tensor.sizes[i];
                        is_inside.then_some(())?;
                        let stride = match i {
                            0 => tensor.bytes,
                            _ => tensor.strides[i - 1] as usize,
                        };
                        device += at as usize * stride;
                    }
                    Some(device)
                });
                all.push(place);
            }
        }
        all
    }
}

const INIT: &str = "mbarrier.init.shared.b64 [%r0], 1;\nfence.mbarrier_init.release.cluster;\n";

/// `mov.u16` of the offsets to `%h1…`.
fn offsets_to_registers(offsets: &[i32]) -> String {
    let moves = offsets.iter().zip(1..);
    let moves = moves.map(|(offset, i)| format!("mov.u16 %h{i}, {offset};\n"));
    moves.collect()
}

fn load(rank: usize, bytes: usize, offsets: &[i32]) -> String {
    let names: Vec<String> = (1..=offsets.len()).map(|i| format!("%h{i}")).collect();
    format!(
        "{}{INIT}mbarrier.arrive.expect_tx.shared.b64 _, [%r0], {bytes};\n\
         cp.async.bulk.tensor.{rank}d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes \
         [%r1], [%d1, {}], [%r0], {{{}}};\n{WAIT}",
        offsets_to_registers(offsets),
        coordinates(rank),
        names.join(", "),
    )
}

#[track_caller]
fn check_load(images: &Images, first: &[i32], offsets: &[i32]) {
    const SHARED: u32 = 1024;
    let tensor = &images.tensor;
    let stream = stream();
    let host = noise(7, tensor.device_bytes());
    let data = stream.clone_htod(&host).unwrap();
    let bytes = images.bytes();
    let mut wanted = vec![0; bytes];
    for (number, place) in images.elements(first, offsets).into_iter().enumerate() {
        for byte in 0..tensor.bytes {
            let at = SHARED as usize + number * tensor.bytes + byte;
            wanted[swizzled(tensor.swizzle, at) - SHARED as usize] = match place {
                Some(place) => host[place + byte],
                None => tensor.fill().to_le_bytes()[byte],
            };
        }
    }
    let out = stream.alloc_zeros::<u8>(bytes).unwrap();
    let body = load(tensor.rank(), bytes, offsets) + &dump(bytes);
    Run {
        map: images.encode(address(&data, &stream)),
        out: address(&out, &stream),
        shared: SHARED,
        first,
        ..Run::one(&body)
    }
    .launch()
    .unwrap_or_else(|fault| panic!("{images:?} at {first:?}: {fault:?}"));
    let got = stream.clone_dtoh(&out).unwrap();
    assert!(got == wanted, "{images:?} at {first:?}, {offsets:?}");
}

/// Copies that go through a row, an image and the batch to behind its end.
#[test]
fn every_rank_and_offset() {
    let line = Images::padded(&[24, 9, 3], 8, 32, 1, 3);
    for offset in 0..3 {
        check_load(&line, &[0, -1, 0], &[offset]);
        check_load(&line, &[16, 7, 1], &[offset]);
        // Channels that the tensor does not have, below and above.
        check_load(&line, &[-3, 2, 0], &[offset]);
        check_load(&line, &[20, 2, 2], &[offset]);
    }
    let image = Images::padded(&[16, 6, 4, 3], 16, 40, 1, 3);
    for offset in 0..9 {
        check_load(&image, &[0, -1, -1, 0], &[offset % 3, offset / 3]);
        check_load(&image, &[0, 4, 2, 1], &[offset % 3, offset / 3]);
    }
    let volume = Images::padded(&[8, 4, 3, 3, 2], 8, 50, 1, 2);
    for offset in 0..8 {
        let offsets = [offset & 1, offset >> 1 & 1, offset >> 2];
        check_load(&volume, &[0, -1, -1, -1, 0], &offsets);
        check_load(&volume, &[0, 3, 2, 0, 1], &offsets);
    }
}

#[test]
fn boxes_of_any_corners_with_strides() {
    // A filter without padding; pixels wholly inside.
    check_load(
        &Images::padded(&[8, 7, 6, 2], 8, 30, 0, 3),
        &[0, 4, 1, 0],
        &[2, 1],
    );
    let mut images = Images::padded(&[8, 8, 7, 3], 8, 32, 1, 3);
    images.tensor.element_strides = vec![1, 2, 3, 1];
    check_load(&images, &[0, -1, -1, 0], &[0, 0]);
    check_load(&images, &[0, 5, 2, 1], &[1, 2]);
    // A dilated filter: its offsets are further than its base goes.
    let mut images = Images::padded(&[8, 8, 7, 3], 8, 32, 0, 5);
    (images.lower, images.upper) = (vec![-2, 1], vec![-3, 0]);
    check_load(&images, &[0, -2, 1, 0], &[4, 2]);
}

#[test]
fn swizzles_and_fills() {
    for (swizzle, channels) in [
        (CU_TENSOR_MAP_SWIZZLE_32B, 16),
        (CU_TENSOR_MAP_SWIZZLE_64B, 32),
        (CU_TENSOR_MAP_SWIZZLE_128B, 64),
    ] {
        let mut images = Images::padded(&[64, 5, 4, 2], channels, 64, 1, 3);
        images.tensor.swizzle = swizzle;
        images.tensor.fills_nan = true;
        check_load(&images, &[0, -1, -1, 0], &[0, 2]);
    }
}

/// A store has no offsets, and leaves out what lies outside.
#[test]
fn a_store_goes_the_same_way() {
    let stream = stream();
    let images = Images::padded(&[8, 5, 4, 2], 8, 40, 1, 3);
    let (bytes, device) = (images.bytes(), images.tensor.device_bytes());
    let tile = noise(3, bytes);
    let source = stream.clone_htod(&tile).unwrap();
    let data = stream.alloc_zeros::<u8>(device).unwrap();
    let body = format!(
        "{}cp.async.bulk.tensor.4d.global.shared::cta.im2col_no_offs.bulk_group [%d1, {}], [%r1];\n\
         cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\n",
        undump(bytes),
        coordinates(4),
    );
    let first = [0, 2, -1, 0];
    let run = Run {
        map: images.encode(address(&data, &stream)),
        out: address(&source, &stream),
        first: &first,
        ..Run::one(&body)
    };
    assert_eq!(run.launch(), Ok(()));
    let mut wanted = vec![0; device];
    for (number, place) in images.elements(&first, &[]).into_iter().enumerate() {
        if let Some(place) = place {
            wanted[place..place + 2].copy_from_slice(&tile[2 * number..2 * number + 2]);
        }
    }
    assert!(stream.clone_dtoh(&data).unwrap() == wanted);
}

#[test]
fn a_prefetch_checks_its_operands() {
    let stream = stream();
    let images = Images::padded(&[8, 5, 4, 2], 8, 40, 1, 3);
    let data = stream
        .alloc_zeros::<u8>(images.tensor.device_bytes())
        .unwrap();
    let body = format!(
        "{}cp.async.bulk.prefetch.tensor.4d.L2.global.im2col [%d1, {}], {{%h1, %h2}};",
        offsets_to_registers(&[1, 2]),
        coordinates(4)
    );
    let run = Run {
        map: images.encode(address(&data, &stream)),
        first: &[0, -1, -1, 0],
        ..Run::one(&body)
    };
    assert_eq!(run.launch(), Ok(()));
    let outside = Run {
        first: &[0, -2, -1, 0],
        ..run
    };
    assert!(outside.launch().is_err());
}

#[test]
fn operands_that_do_not_fit() {
    let stream = stream();
    let image = Images::padded(&[8, 6, 4, 3], 8, 16, 1, 3);
    let line = Images::padded(&[8, 6, 3], 8, 16, 1, 3);
    let volume = Images::padded(&[8, 4, 3, 3, 2], 8, 16, 1, 3);
    type Case<'c> = (&'c Images, &'c [i32], &'c [i32], &'c str, &'c str);
    let cases: [Case<'_>; 6] = [
        (
            &image,
            &[0, -2, 0, 0],
            &[0, 0],
            "tensorCoords",
            "has -2 in dimension 1, outside of the bounding box from -1 to 4",
        ),
        (
            &image,
            &[0, 0, 3, 0],
            &[0, 0],
            "tensorCoords",
            "has 3 in dimension 2, outside of the bounding box from -1 to 2",
        ),
        (
            &image,
            &[0, 0, 0, 0],
            &[256, 0],
            "im2colInfo",
            "has 256 in dimension 1; it goes from 0 to 255",
        ),
        (
            &volume,
            &[0, 0, 0, 0, 0],
            &[31, 0, 32],
            "im2colInfo",
            "has 32 in dimension 3; it goes from 0 to 31",
        ),
        (&line, &[0, 0, 0], &[65535], "", ""),
        (&image, &[0, 0, 0, 7], &[255, 255], "", ""),
    ];
    for (images, first, offsets, operand, what) in cases {
        let data = stream
            .alloc_zeros::<u8>(images.tensor.device_bytes())
            .unwrap();
        let body = load(images.tensor.rank(), images.bytes(), offsets);
        let result = Run {
            map: images.encode(address(&data, &stream)),
            first,
            ..Run::one(&body)
        }
        .launch();
        check_fault(result, operand, what);
    }
    // The other kind of map.
    let data = stream
        .alloc_zeros::<u8>(image.tensor.device_bytes())
        .unwrap();
    let place = address(&data, &stream);
    let body = load(4, image.bytes(), &[0, 0]);
    let tiles = Run {
        map: image.tensor.encode(place),
        ..Run::one(&body)
    };
    check_fault(tiles.launch(), "tensorMap", "describes tiles, ");
    let body = body.replace(".im2col", ".tile").replace(", {%h1, %h2}", "");
    let pixels = Run {
        map: image.encode(place),
        ..Run::one(&body)
    };
    check_fault(pixels.launch(), "tensorMap", "describes pixels ");
}

#[track_caller]
fn check_fault(result: Result<(), Box<FaultKind>>, operand: &str, what: &str) {
    match result.map_err(|kind| *kind) {
        Ok(()) => assert_eq!(operand, "", "{what}"),
        Err(FaultKind::BadBulkCopy {
            operand: found,
            what: text,
        }) => {
            assert_eq!(found, operand, "{text}");
            assert!(text.contains(what), "{text}");
        }
        Err(kind) => panic!("{kind:?}"),
    }
}

#[test]
fn each_bad_argument_is_refused() -> Outcome {
    let _context = context()?;
    let ok = CUresult::CUDA_SUCCESS;
    let invalid = CUresult::CUDA_ERROR_INVALID_VALUE;
    type Change = fn(&mut Images);
    let cases: [(Change, CUresult); 13] = [
        (|_| (), ok),
        (|i| i.pixels = 1024, ok),
        (|i| i.pixels = 1025, invalid),
        (|i| i.pixels = 0, invalid),
        (|i| i.tensor.box_sizes[0] = 256, ok),
        (|i| i.tensor.box_sizes[0] = 264, invalid),
        // Of 2 bytes each, no multiple of 16 bytes.
        (|i| i.tensor.box_sizes[0] = 4, invalid),
        (|i| (i.lower[1], i.upper[0]) = (-128, 127), ok),
        (|i| i.lower[1] = -129, invalid),
        (|i| i.upper[0] = 128, invalid),
        (|i| i.tensor.element_strides[1] = 9, invalid),
        // Of two dimensions, none is left for pixels.
        (|i| i.tensor.sizes.truncate(2), invalid),
        (|i| i.tensor.strides[0] = 8, invalid),
    ];
    for (i, (change, wanted)) in cases.into_iter().enumerate() {
        let mut images = Images::padded(&[256, 6, 4, 3], 16, 16, 1, 3);
        change(&mut images);
        assert_eq!(images.try_encode(0x10_0000).0, wanted, "case {i}");
    }
    for (rank, least) in [(3, -32768), (4, -128), (5, -16)] {
        let sizes = [8, 4, 3, 3, 2];
        for (corner, wanted) in [
            (least, ok),
            (least - 1, invalid),
            (-1 - least, ok),
            (-least, invalid),
        ] {
            let mut images = Images::padded(&sizes[..rank], 8, 16, 1, 3);
            images.upper[rank - 3] = corner;
            assert_eq!(
                images.try_encode(0x10_0000).0,
                wanted,
                "{corner} of rank {rank}"
            );
        }
    }
    Ok(())
}
