//! Boxes of tensors: loads and stores, by every element type, rank and swizzle, on every side of
//! the tensor.

use cuda_sim::FaultKind;

use super::rig::*;

/// What shared memory holds before a load.
const BEFORE: u8 = 0x77;

/// The load of a tile, whose bytes one arrival expects, over what the result held.
fn load(tensor: &Tensor, form: &str) -> String {
    let bytes = tensor.box_bytes();
    let lines = bytes.next_multiple_of(128);
    format!(
        "{}mbarrier.init.shared.b64 [%r0], 1;\nfence.mbarrier_init.release.cluster;\nmbarrier.arrive.expect_tx.shared.b64 _, [%r0], {bytes};\n\
         cp.async.bulk.tensor.{}d.shared::cluster.global{form}.mbarrier::complete_tx::bytes [%r1], [%d1, {}], [%r0];\n\
         {WAIT}{}",
        undump(lines),
        tensor.rank(),
        coordinates(tensor.rank()),
        dump(lines),
    )
}

/// Bytes of a load of the box at `first`, of a tensor with these bytes in device memory.
fn expected(tensor: &Tensor, device: &[u8], first: &[i32], shared: u32) -> Vec<u8> {
    let mut tile = vec![BEFORE; tensor.box_bytes().next_multiple_of(128)];
    for (at, place) in tensor.elements(first) {
        for byte in 0..tensor.bytes {
            let value = match place {
                Some(place) => device[place + byte],
                None => tensor.fill().to_le_bytes()[byte],
            };
            let address = swizzled(tensor.swizzle, shared as usize + at + byte);
            tile[address - shared as usize] = value;
        }
    }
    tile
}

#[track_caller]
fn check_load(tensor: &Tensor, first: &[i32], shared: u32) {
    let stream = stream();
    let mut host = noise(tensor.box_bytes() as u64, tensor.device_bytes());
    if is_converted(tensor) {
        // Nothing to round or to flush: that is tested by itself.
        for word in host.chunks_exact_mut(4) {
            let bits = (f32::from(word[2] as i8) / 8.0).to_bits();
            word.copy_from_slice(&bits.to_le_bytes());
        }
    }
    let data = stream.clone_htod(&host).unwrap();
    let wanted = expected(tensor, &host, first, shared);
    let out = stream.clone_htod(&vec![BEFORE; wanted.len()]).unwrap();
    let body = load(tensor, ".tile");
    Run {
        map: tensor.encode(address(&data, &stream)),
        out: address(&out, &stream),
        shared,
        first,
        ..Run::one(&body)
    }
    .launch()
    .unwrap_or_else(|fault| panic!("{tensor:?} at {first:?}: {fault:?}"));
    let got = stream.clone_dtoh(&out).unwrap();
    for (i, (got, wanted)) in got.into_iter().zip(wanted).enumerate() {
        assert_eq!(got, wanted, "byte {i} of {tensor:?} at {first:?}");
    }
}

fn is_converted(tensor: &Tensor) -> bool {
    matches!(
        tensor.element,
        CU_TENSOR_MAP_DATA_TYPE_FLOAT32_FTZ
            | CU_TENSOR_MAP_DATA_TYPE_TFLOAT32
            | CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ
    )
}

fn is_float(tensor: &Tensor) -> bool {
    let integers = [
        CU_TENSOR_MAP_DATA_TYPE_UINT8,
        CU_TENSOR_MAP_DATA_TYPE_UINT16,
        CU_TENSOR_MAP_DATA_TYPE_UINT32,
        CU_TENSOR_MAP_DATA_TYPE_INT32,
        CU_TENSOR_MAP_DATA_TYPE_UINT64,
        CU_TENSOR_MAP_DATA_TYPE_INT64,
    ];
    !integers.contains(&tensor.element)
}

/// Tensors of each rank.
fn of_each_rank(element: (cudarc::driver::sys::CUtensorMapDataType, usize)) -> Vec<Tensor> {
    let row = 32 / element.1 as u32;
    let sizes = [3 * u64::from(row) + 1, 7, 5, 4, 3];
    let boxes = [row, 3, 2, 2, 2];
    (1..=5)
        .map(|rank| Tensor::dense(element, &sizes[..rank], &boxes[..rank]))
        .collect()
}

#[test]
fn every_element_type_and_rank() {
    for element in ELEMENTS {
        for tensor in of_each_rank(element) {
            let inside = [2, 1, 2, 0, 1];
            check_load(&tensor, &inside[..tensor.rank()], 1024);
        }
    }
}

/// Boxes that lie over each edge, alone and together, or wholly outside.
#[test]
fn what_lies_outside_is_filled() {
    for element in [
        ELEMENTS[0],
        ELEMENTS[6],
        ELEMENTS[7],
        ELEMENTS[8],
        ELEMENTS[5],
    ] {
        for mut tensor in of_each_rank(element) {
            for fills_nan in [false, true] {
                if fills_nan && !is_float(&tensor) {
                    continue;
                }
                tensor.fills_nan = fills_nan;
                for dimension in 0..tensor.rank() {
                    let size = tensor.sizes[dimension] as i32;
                    for at in [-1, -3, 1 - size, size - 1, size, i32::MIN, i32::MAX] {
                        let mut first = vec![0; tensor.rank()];
                        first[dimension] = at;
                        check_load(&tensor, &first, 1152);
                    }
                }
                let corner: Vec<i32> = tensor.sizes.iter().map(|&size| size as i32 - 1).collect();
                check_load(&tensor, &corner, 1024);
                check_load(&tensor, &vec![-1; tensor.rank()], 1024);
            }
        }
    }
}

/// At all places of the pattern, which is one of absolute addresses; also rows shorter than the
/// swizzle's span.
#[test]
fn every_swizzle() {
    let half = ELEMENTS[6];
    for (swizzle, span) in [
        (CU_TENSOR_MAP_SWIZZLE_32B, 16),
        (CU_TENSOR_MAP_SWIZZLE_64B, 32),
        (CU_TENSOR_MAP_SWIZZLE_128B, 64),
        (CU_TENSOR_MAP_SWIZZLE_NONE, 64),
    ] {
        for row in [span, span / 2] {
            let mut tensor = Tensor::dense(half, &[100, 40], &[row, 24]);
            tensor.swizzle = swizzle;
            for shared in (1024..2048).step_by(128) {
                check_load(&tensor, &[8, 3], shared);
            }
            check_load(&tensor, &[-3, -5], 1024);
            check_load(&tensor, &[90, 30], 1024);
        }
        for mut tensor in of_each_rank(half) {
            tensor.swizzle = swizzle;
            check_load(&tensor, &vec![-1; tensor.rank()], 1280);
        }
    }
}

#[test]
fn strides_of_elements_and_strides_of_any_order() {
    let mut tensor = Tensor::dense(ELEMENTS[2], &[20, 9, 8, 5], &[8, 5, 8, 3]);
    tensor.element_strides = vec![1, 2, 3, 8];
    check_load(&tensor, &[1, 1, 0, 2], 1024);
    check_load(&tensor, &[-1, -1, -2, -1], 1024);
    // Of the innermost dimension it is ignored.
    tensor.element_strides[0] = 5;
    check_load(&tensor, &[1, 1, 0, 2], 1024);
    // Heads beside each other, rows further apart; and a dimension that repeats.
    let mut tensor = Tensor::dense(ELEMENTS[6], &[16, 6, 3, 2], &[16, 4, 2, 2]);
    tensor.strides = vec![96, 32, 0];
    check_load(&tensor, &[0, 1, 1, 0], 1024);
}

#[test]
fn floats_are_rounded_and_flushed() {
    let stream = stream();
    let host = [0x3f80_1000u32, 0x3f80_3001, 0x0000_3000, 0xff80_0000];
    for (element, wanted) in [
        (CU_TENSOR_MAP_DATA_TYPE_FLOAT32, host),
        (
            CU_TENSOR_MAP_DATA_TYPE_FLOAT32_FTZ,
            [0x3f80_1000, 0x3f80_3001, 0, 0xff80_0000],
        ),
        (
            CU_TENSOR_MAP_DATA_TYPE_TFLOAT32,
            [0x3f80_0000, 0x3f80_4000, 0x4000, 0xff80_0000],
        ),
        (
            CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ,
            [0x3f80_0000, 0x3f80_4000, 0, 0xff80_0000],
        ),
    ] {
        let tensor = Tensor::dense((element, 4), &[4], &[4]);
        let data = stream.clone_htod(&host).unwrap();
        let out = stream.alloc_zeros::<u32>(32).unwrap();
        let body = load(&tensor, "");
        let run = Run {
            map: tensor.encode(address(&data, &stream)),
            out: address(&out, &stream),
            first: &[0],
            ..Run::one(&body)
        };
        assert_eq!(run.launch(), Ok(()));
        assert_eq!(stream.clone_dtoh(&out).unwrap()[..4], wanted, "{element:?}");
    }
}

/// What device memory holds after a store of the box at `first`.
fn stored(tensor: &Tensor, device: &[u8], tile: &[u8], first: &[i32], shared: u32) -> Vec<u8> {
    let mut device = device.to_vec();
    for (at, place) in tensor.elements(first) {
        let Some(place) = place else { continue };
        for byte in 0..tensor.bytes {
            let address = swizzled(tensor.swizzle, shared as usize + at + byte);
            device[place + byte] = tile[address - shared as usize];
        }
    }
    device
}

#[track_caller]
fn check_store(tensor: &Tensor, first: &[i32], shared: u32) {
    let stream = stream();
    let before = noise(5, tensor.device_bytes());
    let data = stream.clone_htod(&before).unwrap();
    let bytes = tensor.box_bytes().next_multiple_of(128);
    let tile = noise(9, bytes);
    let out = stream.clone_htod(&tile).unwrap();
    let body = format!(
        "{}cp.async.bulk.tensor.{}d.global.shared::cta.bulk_group [%d1, {}], [%r1];\n\
         cp.async.bulk.commit_group;\ncp.async.bulk.wait_group.read 0;\ncp.async.bulk.wait_group 0;\n",
        undump(bytes),
        tensor.rank(),
        coordinates(tensor.rank()),
    );
    Run {
        map: tensor.encode(address(&data, &stream)),
        out: address(&out, &stream),
        shared,
        first,
        ..Run::one(&body)
    }
    .launch()
    .unwrap_or_else(|fault| panic!("{tensor:?} at {first:?}: {fault:?}"));
    let wanted = stored(tensor, &before, &tile, first, shared);
    let got = stream.clone_dtoh(&data).unwrap();
    assert!(got == wanted, "{tensor:?} at {first:?}");
}

#[test]
fn stores_drop_what_lies_outside() {
    for element in ELEMENTS {
        for tensor in of_each_rank(element) {
            check_store(&tensor, &[2, 1, 2, 0, 1][..tensor.rank()], 1024);
            for at in [-1, 2] {
                let edge: Vec<i32> = tensor.sizes.iter().map(|&size| size as i32 - at).collect();
                check_store(&tensor, &edge, 1152);
                check_store(&tensor, &vec![-at; tensor.rank()], 1024);
            }
        }
    }
    for swizzle in [
        CU_TENSOR_MAP_SWIZZLE_32B,
        CU_TENSOR_MAP_SWIZZLE_64B,
        CU_TENSOR_MAP_SWIZZLE_128B,
    ] {
        let mut tensor = Tensor::dense(ELEMENTS[6], &[100, 40], &[16, 24]);
        tensor.swizzle = swizzle;
        for first in [[0, 0], [-3, 20], [93, -7]] {
            check_store(&tensor, &first, 1408);
        }
    }
    let mut tensor = Tensor::dense(ELEMENTS[2], &[20, 9, 8, 5], &[8, 5, 8, 3]);
    tensor.element_strides = vec![1, 2, 3, 8];
    check_store(&tensor, &[1, -1, 0, 2], 1024);
}

/// A map in device memory, with all forms of the instruction that name one block.
#[test]
fn a_map_in_device_memory_and_every_form() {
    let stream = stream();
    let tensor = Tensor::dense(ELEMENTS[7], &[30, 9], &[8, 4]);
    let host = noise(3, tensor.device_bytes());
    let data = stream.clone_htod(&host).unwrap();
    let map = tensor.encode(address(&data, &stream));
    // Allocations begin at multiples of 256.
    let on_device = stream.clone_htod(&map.0.opaque).unwrap();
    let wanted = expected(&tensor, &host, &[3, 2], 1024);
    for form in [
        "shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%d2, {%r2, %r3}], [%r0];",
        "shared::cta.global.tile.mbarrier::complete_tx::bytes [%r1], [%d2+0, {%r2, %r3}], [%r0];",
        "shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%r1], [%d1, {%r2, %r3}], [%r0], %h1;",
        "shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster.L2::cache_hint \
         [%r1], [%d1, {%r2, %r3}], [%r0], %h1, %d3;",
        "shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%r1], [%d1, {3, 2}], [%r0], 77;",
    ] {
        let body = load(&tensor, "");
        let old = body
            .lines()
            .find(|line| line.starts_with("cp.async"))
            .unwrap();
        let new = format!("mov.u16 %h1, 1;\ncp.async.bulk.tensor.2d.{form}");
        let body = body.replace(old, &new);
        let out = stream.clone_htod(&vec![BEFORE; wanted.len()]).unwrap();
        let run = Run {
            map,
            data: address(&on_device, &stream),
            out: address(&out, &stream),
            first: &[3, 2],
            ..Run::one(&body)
        };
        assert_eq!(run.launch(), Ok(()), "{form}");
        let got = stream.clone_dtoh(&out).unwrap();
        assert!(got == wanted, "{form}");
    }
}

/// A map whose address was replaced is one of the other tensor.
#[test]
fn a_replaced_address() {
    let stream = stream();
    let tensor = Tensor::dense(ELEMENTS[2], &[32], &[32]);
    let [first, second] = [1, 2].map(|seed| noise(seed, 128));
    let [one, other] = [&first, &second].map(|host| stream.clone_htod(host).unwrap());
    let mut map = tensor.encode(address(&one, &stream));
    let place = address(&other, &stream) as *mut _;
    // SAFETY: a tensor map that was encoded.
    let result = unsafe { cudarc::driver::sys::cuTensorMapReplaceAddress(&mut map.0, place) };
    assert_eq!(result, cudarc::driver::sys::CUresult::CUDA_SUCCESS);
    let out = stream.alloc_zeros::<u8>(128).unwrap();
    let body = load(&tensor, "");
    let run = Run {
        map,
        out: address(&out, &stream),
        first: &[0],
        ..Run::one(&body)
    };
    assert_eq!(run.launch(), Ok(()));
    assert!(stream.clone_dtoh(&out).unwrap() == second);
}

/// Forms that PTX does not have, and those that are not simulated.
#[test]
fn other_forms_are_unknown() {
    for form in [
        "cp.async.bulk.tensor.2d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%r1], [%d1, {%r2, %r3}], [%r0], {%h1};",
        "cp.async.bulk.tensor.3d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%r1], [%d1, {%r2, %r3, %r4}], [%r0];",
        "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%r1], [%d1, {%r2, %r3, %r4, %r5}], [%r0], {%h1};",
        "cp.async.bulk.tensor.3d.shared::cluster.global.im2col::w.mbarrier::complete_tx::bytes [%r1], [%d1, {%r2, %r3, %r4}], [%r0], {%h1};",
        "cp.async.bulk.tensor.3d.global.shared::cta.im2col.bulk_group [%d1, {%r2, %r3, %r4}], [%r1];",
        "cp.async.bulk.tensor.3d.shared::cluster.global.im2col_no_offs.mbarrier::complete_tx::bytes [%r1], [%d1, {%r2, %r3, %r4}], [%r0];",
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile::gather4.mbarrier::complete_tx::bytes [%r1], [%d1, {%r2, %r3}], [%r0];",
        "cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes.multicast::cluster [%r1], [%d1, {%r2, %r3}], [%r0], %h1;",
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%d1, {%r2}], [%r0];",
        "cp.async.bulk.tensor.2d.shared::cluster.global.bulk_group [%r1], [%d1, {%r2, %r3}], [%r0];",
        "cp.async.bulk.tensor.2d.global.shared::cluster.bulk_group [%d1, {%r2, %r3}], [%r1];",
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%d1], [%r0];",
        "cp.reduce.async.bulk.tensor.2d.shared::cluster.global.add.mbarrier::complete_tx::bytes [%r1], [%d1, {%r2, %r3}], [%r0];",
        "cp.async.bulk.global.shared::cta.bulk_group.cp_mask [%d2], [%r1], 16, %h1;",
        "cp.async.bulk.shared::cluster.shared::cluster.mbarrier::complete_tx::bytes [%r1], [%r1], 16, [%r0];",
    ] {
        let kind = Run::one(form).launch().unwrap_err();
        let is_unknown = matches!(*kind, FaultKind::UnknownInstruction { .. });
        assert!(is_unknown, "{form}: {kind:?}");
    }
}
