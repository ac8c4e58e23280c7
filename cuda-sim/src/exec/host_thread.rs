//! State of one host thread that runs blocks.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::exec::access::pattern::Site;
use crate::exec::block::Block;
use crate::exec::checks::device_memory::Global;
use crate::exec::checks::shared_memory::{self, Watch};
use crate::exec::registers::Registers;
use crate::exec::tally::Tallies;
use crate::fault::{FaultKind, Nearest};
use crate::memory::map::MemoryMap;
use crate::program::Kernel;
use crate::program::op::MemorySpace;

/// The memories that the running block sees, the watches over them, and the counts.
pub(crate) struct Core<'a> {
    pub kernel: &'a Kernel,
    pub map: &'a MemoryMap,
    pub params: &'a Bytes,
    /// Shared memory of the block, static then dynamic.
    pub shared: Bytes,
    /// Whether reads of uninitialised memory and races are looked for.
    pub checks: bool,
    pub watch: Watch,
    pub global: Global<'a>,
    /// By memory instruction.
    pub sites: Vec<Site>,
    pub tallies: Tallies,
    /// Set when what blocks do does not count any more.
    pub stop: Option<&'a AtomicBool>,
}

/// A warp's side of an access: its registers and its local memory.
pub(crate) struct Thread<'w> {
    pub registers: &'w mut Registers,
    /// Local memory, `local_bytes` per lane, one lane after the other.
    pub local: &'w mut Bytes,
    /// For each byte of local memory, 1 if it was written.
    pub local_written: &'w mut Bytes,
    pub local_bytes: u32,
    /// Number of the warp in its block.
    pub warp: usize,
    pub mask: u32,
    pub pc: u32,
}

/// What an instruction did wrong, and the first lane that it concerns.
pub(crate) struct Mistake {
    pub kind: FaultKind,
    pub lane: u32,
    /// The other side of a race.
    pub other: Option<OtherSide>,
}

/// Where else: an instruction, and who ran it, if that is one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OtherSide {
    pub pc: u32,
    pub thread: Option<u32>,
    /// Number of the block; `None` if it is this one or several.
    pub block: Option<u32>,
}

/// A mistake, on its way out.
pub(crate) type Trap = Box<Mistake>;

impl Mistake {
    pub(crate) fn new(kind: FaultKind, lane: u32) -> Trap {
        Box::new(Mistake {
            kind,
            lane,
            other: None,
        })
    }
}

impl From<shared_memory::Other> for OtherSide {
    fn from(other: shared_memory::Other) -> OtherSide {
        OtherSide {
            pc: other.pc,
            thread: other.thread,
            block: None,
        }
    }
}

impl Core<'_> {
    /// Whether it is no use to go on.
    #[inline]
    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.is_some_and(|stop| stop.load(Relaxed))
    }

    /// Exchanges the memory at hand with that of a block: before it runs, and after.
    pub(crate) fn take_up(&mut self, block: &mut Block) {
        std::mem::swap(&mut self.shared, &mut block.shared);
        std::mem::swap(&mut self.watch, &mut block.watch);
    }

    /// What lies at or near an address of a space.
    pub(crate) fn nearest(
        &self,
        space: MemorySpace,
        local_bytes: u32,
        address: u64,
    ) -> Option<Nearest> {
        let whole = |bytes: u64| Nearest {
            id: None,
            name: None,
            start: 0,
            bytes,
        };
        match space {
            MemorySpace::Local => Some(whole(u64::from(local_bytes))),
            MemorySpace::Param => Some(whole(self.params.len() as u64)),
            MemorySpace::Shared => {
                let array = self.kernel.shared_array(address);
                Some(
                    array.map_or(whole(self.shared.len() as u64), |(name, start, bytes)| {
                        Nearest {
                            id: None,
                            name: Some(name.to_owned()),
                            start,
                            bytes: bytes.unwrap_or(self.shared.len() as u64 - start),
                        }
                    }),
                )
            }
            MemorySpace::Generic | MemorySpace::Global => {
                self.map.nearest(address).map(|allocation| Nearest {
                    id: Some(allocation.id),
                    name: self.argument_within(allocation.start, allocation.end()),
                    start: allocation.start,
                    bytes: allocation.bytes,
                })
            }
        }
    }

    /// The first kernel argument that is an address in `start..end`, or the place in it that is, if it is a structure.
    fn argument_within(&self, start: u64, end: u64) -> Option<String> {
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

/// Bytes aligned to 16.
#[derive(Default)]
pub(crate) struct Bytes {
    words: Vec<u128>,
    len: usize,
}

impl Bytes {
    pub(crate) fn reset(&mut self, len: usize, byte: u8) {
        self.len = len;
        self.words.clear();
        self.words
            .resize(len.div_ceil(16), u128::from_ne_bytes([byte; 16]));
    }

    pub(crate) fn from_slice(bytes: &[u8]) -> Bytes {
        let mut out = Bytes::default();
        out.reset(bytes.len(), 0);
        for (word, bytes) in out.words.iter_mut().zip(bytes.chunks(16)) {
            let mut whole = [0; 16];
            whole[..bytes.len()].copy_from_slice(bytes);
            *word = u128::from_ne_bytes(whole);
        }
        out
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn pointer(&mut self) -> *mut u8 {
        self.words.as_mut_ptr().cast()
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        // SAFETY: `len` bytes are initialised, because `words` covers them.
        unsafe { std::slice::from_raw_parts(self.words.as_ptr().cast(), self.len) }
    }

    pub(crate) fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `self` is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.words.as_mut_ptr().cast(), self.len) }
    }
}
