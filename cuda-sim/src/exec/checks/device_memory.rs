//! Checks of device memory: words that are read though nobody wrote them, and races between threads of the launch.
//!
//! A launch is tried with its blocks running at the same time. While that lasts, nothing is accused: it only has to be
//! seen that no block uses what another one writes ([`crate::exec::checks::independence`]). A launch of which that is in doubt is undone and
//! runs again, block after block, and then each access is judged ([`crate::exec::checks::device_races`]).

use crate::exec::access::pattern::{Run, Site};
use crate::exec::checks::device_races::Races;
use crate::exec::checks::happens_before::Access;
use crate::exec::checks::independence::Apart;
use crate::exec::checks::shared_memory::FAR;
use crate::exec::checks::vector_clock::Order;
use crate::exec::host_simd::Vectors;
use crate::memory::shadow::{LaunchMarks, Sectors, Shadow};

/// Device memory as the running block sees it.
pub(crate) struct Global<'a> {
    pub shadow: &'a Shadow,
    pub marks: LaunchMarks,
    /// Sectors that the launch has touched; there while it runs.
    pub sectors: Option<&'a Sectors>,
    /// Serial number of the running block.
    pub serial: u32,
    pub judge: Judge,
    /// A store to device or shared memory was made, or an atomic operation changed something, since this was last reset.
    pub changed: bool,
}

/// What watches device memory.
pub(crate) enum Judge {
    /// Blocks run at the same time.
    Apart(Apart),
    /// Blocks run one after the other.
    Races(Races),
}

/// The other side of a race.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Other {
    pub pc: u32,
    /// Number of the block in launch order; `None` if there are several.
    pub block: Option<u32>,
    pub thread: Option<u32>,
    pub write: bool,
}

/// The lane that has it, and the other side.
pub(crate) type Found = (u32, Other);

impl Global<'_> {
    /// Words from `address` on are read by the lanes of `run`.
    #[inline(always)]
    pub(crate) fn read<V: Vectors>(
        &mut self,
        order: &Order,
        access: Access,
        site: &Site,
        run: &Run,
        address: u64,
    ) -> Result<(), Found> {
        let at = self.shadow.word(address);
        if let Judge::Apart(_) = self.judge {
            return self.read_apart::<V>(access, site, run, at);
        }
        (0..run.words).try_for_each(|i| {
            let sharers = site.sharers(run, i);
            self.judge_read(order, access, at + i as usize, sharers, 0xf)
        })
    }

    /// Words from `address` on are written by the lanes of `run`. `same` tells whether a word keeps its value.
    #[inline(always)]
    pub(crate) fn write<V: Vectors>(
        &mut self,
        order: &Order,
        access: Access,
        site: &Site,
        run: &Run,
        address: u64,
        same: &mut dyn FnMut(u32) -> bool,
    ) -> Result<(), Found> {
        if let Judge::Apart(_) = self.judge {
            self.write_apart::<V>(access, site, run, address)?;
        } else {
            let at = self.shadow.word(address);
            for i in 0..run.words {
                let sharers = site.sharers(run, i);
                let word = at + i as usize;
                self.judge_write(order, access, word, sharers, 0xf, &mut || same(i))?;
            }
        }
        self.shadow.set_written(address, 4 * u64::from(run.words));
        Ok(())
    }

    /// The lanes in `sharers` read some bytes of the word that holds `address`, from there on.
    pub(crate) fn read_bytes(
        &mut self,
        order: &Order,
        access: Access,
        sharers: u32,
        address: u64,
        bytes: u32,
    ) -> Result<(), Found> {
        let word = self.shadow.word(address);
        match self.judge {
            Judge::Apart(_) => self.read_bytes_apart(access, sharers, word, bytes),
            Judge::Races(_) => self.judge_read(order, access, word, sharers, bytes),
        }
    }

    /// As [`Global::read_bytes`], for a write.
    pub(crate) fn write_bytes(
        &mut self,
        order: &Order,
        access: Access,
        sharers: u32,
        address: u64,
        bytes: u32,
        same: &mut dyn FnMut() -> bool,
    ) -> Result<(), Found> {
        let word = self.shadow.word(address);
        match self.judge {
            Judge::Apart(_) => self.write_bytes_apart(access, sharers, address & !3, bytes)?,
            Judge::Races(_) => self.judge_write(order, access, word, sharers, bytes, same)?,
        }
        self.shadow
            .set_written(address, u64::from(bytes.count_ones()));
        Ok(())
    }

    /// The byte at an address, which the running thread has just written, holds nothing.
    pub(crate) fn unwrite(&mut self, address: u64) {
        self.shadow.set_unwritten(address, 1);
        if let Judge::Apart(_) = self.judge {
            // Whoever reads it again must look whether it was written.
            self.forget_reads(address);
        }
    }

    /// The block goes on behind a barrier of all its threads.
    pub(crate) fn pass_barrier(&mut self) {
        if let Judge::Apart(apart) = &mut self.judge {
            apart.pass_barrier();
        }
    }

    /// Nothing that is found while blocks run at the same time counts: others may have got in the way.
    pub(crate) fn doubt(&mut self) {
        if let Judge::Apart(apart) = &mut self.judge {
            apart.in_doubt = true;
        }
    }

    /// Whether blocks run one after the other.
    pub(crate) fn is_in_order(&self) -> bool {
        matches!(self.judge, Judge::Races(_))
    }

    /// Number of the running block in launch order.
    pub(crate) fn number(&self) -> u32 {
        self.serial - self.marks.first
    }

    /// The serial number that stands for several blocks of the launch.
    pub(crate) fn everyone(&self) -> u32 {
        self.marks.first + self.marks.blocks
    }

    /// Whether a block of this launch has this serial number, or several together.
    pub(crate) fn is_of_launch(&self, serial: u32) -> bool {
        (self.marks.first..=self.everyone()).contains(&serial)
    }
}

/// The instruction as a record has it.
pub(crate) fn stamp(pc: u32) -> u64 {
    u64::from(pc.min(FAR))
}
