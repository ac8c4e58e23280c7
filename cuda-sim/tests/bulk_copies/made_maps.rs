//! Tensor maps that a kernel makes of zeros, field by field: the bytes are those that the host's
//! function gives.

use cuda_sim::FaultKind;

use super::rig::*;

/// `.elemtype` of each of [`ELEMENTS`].
const ELEMENT_TYPES: [u32; 13] = [0, 1, 2, 3, 4, 5, 6, 7, 9, 10, 8, 11, 12];

/// Stores every field of the map at `at`, in a state space.
fn replace(tensor: &Tensor, address: u64, space: &str, at: &str) -> String {
    let mut text = String::new();
    let mut put = |field: &str, ty: &str, value: String| {
        text += &format!("tensormap.replace.tile.{field}{space}.b1024.{ty} [{at}], {value};\n");
    };
    let element = ELEMENTS.iter().position(|e| e.0 == tensor.element).unwrap();
    put("elemtype", "b32", ELEMENT_TYPES[element].to_string());
    put("rank", "b32", (tensor.rank() - 1).to_string());
    put("global_address", "b64", address.to_string());
    put("interleave_layout", "b32", "0".to_owned());
    put("swizzle_mode", "b32", (tensor.swizzle as u32).to_string());
    put("fill_mode", "b32", u32::from(tensor.fills_nan).to_string());
    for i in 0..tensor.rank() {
        put("box_dim", "b32", format!("{i}, {}", tensor.box_sizes[i]));
        put(
            "global_dim",
            "b32",
            format!("{i}, {}", tensor.sizes[i] as u32),
        );
        let stride = tensor.element_strides[i];
        put("element_stride", "b32", format!("{i}, {stride}"));
    }
    for (i, stride) in tensor.strides.iter().enumerate() {
        put("global_stride", "b64", format!("{i}, {stride}"));
    }
    text
}

/// A map in shared memory by one thread, which its warp then copies to the result.
fn make(tensor: &Tensor, address: u64, space: &str, at: &str) -> String {
    format!(
        "shl.b32 %r10, %r9, 2;\nadd.u32 %r10, %r10, %r1;\nmov.u32 %r11, 0;\nst.shared.u32 [%r10], %r11;\n\
         bar.warp.sync -1;\ncvt.u64.u32 %d4, %r1;\ncvta.shared.u64 %d5, %d4;\nsetp.ne.u32 %p1, %r9, 0;\n@%p1 bra made;\n\
         {}made:\nbar.warp.sync -1;\n\
         tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%d3], [%d4], 128;\n\
         fence.proxy.tensormap::generic.acquire.gpu [%d3], 128;\n",
        replace(tensor, address, space, at),
    )
}

/// Runs a kernel of one warp on 128 bytes; these bytes behind it.
fn run(body: &str, before: &[u8; 128]) -> Result<Vec<u8>, Box<FaultKind>> {
    let stream = stream();
    let out = stream.clone_htod(before).unwrap();
    Run {
        out: address(&out, &stream),
        threads: 32,
        ..Run::one(body)
    }
    .launch()?;
    Ok(stream.clone_dtoh(&out).unwrap())
}

fn bytes(map: Map) -> Vec<u8> {
    map.0
        .opaque
        .iter()
        .flat_map(|word| word.to_le_bytes())
        .collect()
}

/// A tensor with a row of 16 bytes.
fn tensor(element: usize, rank: usize) -> Tensor {
    let row = 16 / ELEMENTS[element].1 as u32;
    let mut tensor = Tensor::dense(
        ELEMENTS[element],
        &[1; 5][..rank],
        &[row, 3, 256, 1, 2][..rank],
    );
    tensor.sizes = [1 << 32, 7, 5, 4, 1 << 31][..rank].to_vec();
    tensor.strides = [32, 1 << 39, 16, 4096][..rank - 1].to_vec();
    tensor.element_strides = [1, 8, 2, 1, 3][..rank].to_vec();
    tensor
}

#[test]
fn a_made_map_is_that_of_the_host() {
    let address = 0x7fff_1234_5670;
    for element in 0..ELEMENTS.len() {
        for rank in 1..=5 {
            let mut tensor = tensor(element, rank);
            tensor.swizzle = [
                CU_TENSOR_MAP_SWIZZLE_NONE,
                CU_TENSOR_MAP_SWIZZLE_32B,
                CU_TENSOR_MAP_SWIZZLE_64B,
                CU_TENSOR_MAP_SWIZZLE_128B,
            ][(element + rank) % 4];
            tensor.fills_nan = element >= 6 && rank % 2 == 0;
            let wanted = bytes(tensor.encode(address));
            for (space, at) in [
                (".shared::cta", "%r1"),
                (".shared::cta", "%d4"),
                ("", "%d5"),
            ] {
                let made = run(&make(&tensor, address, space, at), &[0; 128]);
                assert!(made.unwrap() == wanted, "{tensor:?} by {at}");
            }
        }
    }
}

#[test]
fn a_field_is_replaced_in_device_memory() {
    let tensor = tensor(6, 3);
    let [before, wanted] = [0x1000, 0x2000].map(|address| bytes(tensor.encode(address)));
    let body = "tensormap.replace.tile.global_address.global.b1024.b64 [%d3], 0x2000;\n";
    let one_thread = format!("setp.ne.u32 %p1, %r9, 0;\n@%p1 bra made;\n{body}made:\n");
    assert_eq!(
        run(&one_thread, before[..].try_into().unwrap()).unwrap(),
        wanted
    );
}

#[test]
fn stores_of_two_threads_are_a_race() {
    let body = "tensormap.replace.tile.rank.shared::cta.b1024.b32 [%r1], %r9;\n";
    let kind = run(body, &[0; 128]).unwrap_err();
    assert!(matches!(*kind, FaultKind::Race(_)), "{kind:?}");
}

#[test]
fn forms_that_ptx_lacks_or_nobody_simulates() {
    for instruction in [
        "tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%r1], 5, 1;",
        "tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [%r1], 4, 16;",
        "tensormap.replace.tile.global_stride.shared::cta.b1024.b32 [%r1], 0, 16;",
        "tensormap.replace.tile.rank.shared::cta.b1024.b64 [%r1], 1;",
        "tensormap.replace.tile.elemtype.shared::cta.b1024.b32 [%r1], 13;",
        "tensormap.replace.tile.elemtype.shared::cta.b1024.b32 [%r1], %r9;",
        "tensormap.replace.tile.swizzle_mode.shared::cta.b1024.b32 [%r1], 4;",
        "tensormap.replace.tile.fill_mode.shared::cta.b1024.b32 [%r1], 2;",
        "tensormap.replace.tile.interleave_layout.shared::cta.b1024.b32 [%r1], 1;",
        "tensormap.replace.tile.size.shared::cta.b1024.b32 [%r1], 1;",
        "tensormap.replace.tile.rank.shared::cta.b32 [%r1], 1;",
        "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%d3], [%r1], 64;",
        "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.aligned [%d3], [%r1], 128;",
    ] {
        let kind = run(instruction, &[0; 128]).unwrap_err();
        assert!(
            matches!(*kind, FaultKind::UnknownInstruction { .. }),
            "{instruction}: {kind:?}"
        );
    }
}
