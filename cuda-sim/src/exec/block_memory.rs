//! Memories that the running block sees, apart from the local memory of its warps.

use crate::exec::access::address_space;
use crate::exec::access::word::Word;
use crate::exec::active_warp::ActiveWarp;
use crate::exec::aligned_bytes::Bytes;
use crate::exec::printed::Printed;
use crate::fault::{BadAccess, Nearest};
use crate::memory::map::MemoryMap;
use crate::program::Kernel;
use crate::program::op::MemorySpace;

/// Sizes of the elements by which an index is multiplied.
const ELEMENTS: [u64; 5] = [1, 2, 4, 8, 16];

/// Device memory, parameters and shared memory of the running block.
pub(crate) struct BlockMemory<'a> {
    /// Names the parameters and the shared arrays in reports.
    pub kernel: &'a Kernel,
    /// The allocations of device memory.
    pub map: &'a MemoryMap,
    pub params: &'a Bytes,
    pub printed: &'a Printed,
    /// Shared memory of the block, static then dynamic.
    pub shared: Bytes,
}

impl BlockMemory<'_> {
    /// The bytes of a zero-terminated text at a generic address of one lane, for messages: at most
    /// 4096 bytes.
    pub(crate) fn text(&self, warp: &ActiveWarp<'_>, address: u64, lane: u32) -> Vec<u8> {
        let mut bytes = Vec::new();
        while bytes.len() < 4096 {
            match self.byte(warp, address.wrapping_add(bytes.len() as u64), lane) {
                None | Some(0) => break,
                Some(byte) => bytes.push(byte),
            }
        }
        bytes
    }

    /// One byte at a generic address, or `None` outside memory.
    pub(crate) fn byte(&self, warp: &ActiveWarp<'_>, address: u64, lane: u32) -> Option<u8> {
        let space = address_space::space_at(address);
        let within = address.wrapping_sub(address_space::window(space));
        let at = usize::try_from(within).unwrap_or(usize::MAX);
        match space {
            MemorySpace::Shared => self.shared.as_slice().get(at).copied(),
            MemorySpace::Local if within < u64::from(warp.local_bytes) => warp
                .local
                .as_slice()
                .get(at + (lane * warp.local_bytes) as usize)
                .copied(),
            MemorySpace::Local => None,
            MemorySpace::Param => self.params.as_slice().get(at).copied(),
            MemorySpace::Generic | MemorySpace::Global => {
                let live = self.map.containing(address).is_some_and(|a| a.live);
                // SAFETY: the byte lies in a live allocation.
                live.then(|| unsafe { u8::load(address) })
            }
        }
    }

    /// An access to `address` of a space, meant for the shared array that starts at `array`, if
    /// that is known.
    pub(crate) fn bad_access(
        &self,
        warp: &ActiveWarp<'_>,
        space: MemorySpace,
        write: bool,
        (address, bytes): (u64, u64),
        array: Option<u64>,
    ) -> BadAccess {
        let around = |address| self.around(space, warp.local_bytes, array, address);
        let is_near = around(address).iter().flatten().any(|a| a.is_near(address));
        let went_below_zero = |wrapped: &u64| {
            let meant = address.wrapping_sub(*wrapped);
            around(meant)
                .iter()
                .flatten()
                .any(|a| a.is_close_behind(meant))
        };
        let wraps = ELEMENTS.map(|size| size << 32);
        let wrapped = wraps
            .into_iter()
            .find(|wrapped| !is_near && went_below_zero(wrapped));
        let wrapped = wrapped.unwrap_or(0);
        let meant = address.wrapping_sub(wrapped);
        let [nearest, other] = around(meant);
        BadAccess {
            space: address_space::kind(space),
            write,
            address,
            bytes: bytes as u32,
            nearest,
            neighbour: other.filter(|other| other.is_near(meant)),
            wrapped,
        }
    }

    /// The allocation that holds an address of a space or is closest to it, and the allocation on
    /// its other side.
    fn around(
        &self,
        space: MemorySpace,
        local_bytes: u32,
        array: Option<u64>,
        address: u64,
    ) -> [Option<Nearest>; 2] {
        let whole = |bytes: u64| Nearest {
            id: None,
            name: None,
            start: 0,
            bytes,
        };
        match space {
            MemorySpace::Local => [Some(whole(u64::from(local_bytes))), None],
            MemorySpace::Param => [Some(whole(self.params.len() as u64)), None],
            MemorySpace::Shared => {
                let all = self.shared.len() as u64;
                let named = |(name, start, bytes): (&str, u64, Option<u64>)| Nearest {
                    id: None,
                    name: Some(name.to_owned()),
                    start,
                    bytes: bytes.unwrap_or(all - start),
                };
                let found = self.kernel.shared_array(array.unwrap_or(address));
                [Some(found.map_or(whole(all), named)), None]
            }
            MemorySpace::Generic | MemorySpace::Global => {
                self.map.around(address).map(|allocation| {
                    let allocation = allocation?;
                    Some(Nearest {
                        id: Some(allocation.id),
                        name: self.argument_within(allocation.start, allocation.end()),
                        start: allocation.start,
                        bytes: allocation.bytes,
                    })
                })
            }
        }
    }

    /// The first kernel argument that is an address in `start..end`, or the place in it that is, if
    /// it is a structure.
    pub(crate) fn argument_within(&self, start: u64, end: u64) -> Option<String> {
        let bytes = self.params.as_slice();
        self.kernel
            .params
            .iter()
            .enumerate()
            .find_map(|(n, param)| {
                let (words, _) = bytes
                    .get(param.offset..param.offset + param.bytes)?
                    .as_chunks::<8>();
                let pointer = |word: &[u8; 8]| (start..end).contains(&u64::from_le_bytes(*word));
                let at = words.iter().position(pointer)?;
                Some(if param.bytes == 8 {
                    format!("argument {n}")
                } else {
                    format!("argument {n} (at byte {})", 8 * at)
                })
            })
    }
}
