//! What a step may move: the cache once, and of an update the new rows alone.

use stage5_decode::Decoding;

use super::super::stage2::counted;
use super::update::Update;
use super::{DeviceCache, solve};
use crate::device::Device;
use crate::layout::Layout;
use crate::problems::decode;
use crate::{Dtype, Judge};

/// Bytes of a sector, the unit in which device memory is read and written.
const SECTOR: usize = 32;

/// One read of k and v where each head of q has its own, and a tenth more for q and for outputs of parts.
pub(super) fn decode(judge: &mut Judge<'_>, device: &Device, own: &impl Decoding) {
    for (dtype, head_dim) in [(Dtype::F32, 128), (Dtype::F16, 128), (Dtype::Bf16, 64)] {
        let problem = decode::counted(4, 4, head_dim, 1000, dtype);
        if !own.has_cache(&DeviceCache::shape_of(&problem.k, dtype), false) {
            continue;
        }
        let least = 2 * problem.k.len() * dtype.bytes() / SECTOR;
        let name = format!("decode_loads_d{head_dim}_{dtype}");
        let limit = least as u64 * 11 / 10;
        counted(
            judge,
            &[(|total| total.global_loads.sectors, &name, "sectors", limit)],
            || solve(device, own, &problem, [Layout::Packed; 2]),
        );
    }
}

/// The new rows are read once and written once; nothing else is written.
pub(super) fn update_cache(judge: &mut Judge<'_>, device: &Device, own: &impl Decoding) {
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
