//! Device memory that decoding may read: the cache once.

use stage5_decode::Decoding;

use super::super::stage2::counted;
use super::{DeviceCache, solve};
use crate::device::Device;
use crate::layout::Layout;
use crate::problems::decode;
use crate::{Dtype, Judge};

/// Bytes of a sector, the unit in which device memory is read and written.
pub(super) const SECTOR: usize = 32;

/// One read of k and v where each head of q has its own, and a tenth more for q
/// and for outputs of parts.
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
