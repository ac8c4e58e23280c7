//! Checks of device memory: reads of bytes that nobody wrote, and races between threads of the
//! launch.
//!
//! The blocks of a launch first run at the same time. Meanwhile no race is reported: the checks
//! only prove that no block uses what another one writes ([`super::independence`]). If the proof
//! fails, the launch is undone and runs again, block after block, with the race detector
//! ([`super::device_races`]).

use crate::exec::access::pattern::{AccessPattern, Run};
use crate::exec::checks::device_clock::DeviceClock;
use crate::exec::checks::device_races::{Judged, RaceDetector};
use crate::exec::checks::device_records::{DeviceRecords, Found};
use crate::exec::checks::happens_before::Accessor;
use crate::exec::checks::independence::{IndependenceProof, forget_reads};
use crate::exec::checks::vector_clock::BlockClocks;

/// Checks of device memory for the running block.
pub(crate) struct DeviceMemoryChecks<'a> {
    pub records: DeviceRecords<'a>,
    pub detector: DeviceDetector,
}

/// Detector that compares the records.
pub(crate) enum DeviceDetector {
    /// Blocks run at the same time.
    Independence(IndependenceProof),
    /// Blocks run one after the other.
    Races(RaceDetector),
}

use DeviceDetector::{Independence, Races};

impl DeviceMemoryChecks<'_> {
    /// True if all words of a pattern are known to have been read before, so that a read needs no
    /// check.
    #[inline(always)]
    pub(crate) fn has_read(&self, warp: usize, pattern: &AccessPattern, first: u64) -> bool {
        match &self.detector {
            Independence(proof) => proof.has_read(&self.records, warp, pattern, first),
            Races(_) => false,
        }
    }

    /// Checks that the lanes of `run` may read its words, from `address` on.
    #[inline(always)]
    pub(crate) fn read(
        &mut self,
        clocks: &BlockClocks,
        access: Accessor,
        pattern: &AccessPattern,
        run: &Run,
        address: u64,
    ) -> Result<(), Found> {
        let records = self.records;
        let at = records.shadow.word(address);
        match &mut self.detector {
            Independence(proof) => proof.read(&records, access, pattern, run, at),
            Races(races) => (0..run.words).try_for_each(|i| {
                let judged = Judged::new(records, clocks, access, pattern.sharers(run, i));
                races.read(&judged, at + i as usize, 0xf)
            }),
        }
    }

    /// Checks that the lanes of `run` may write its words, from `address` on. `same` tells whether
    /// a word keeps its value.
    #[inline(always)]
    pub(crate) fn write(
        &mut self,
        clocks: &BlockClocks,
        access: Accessor,
        pattern: &AccessPattern,
        run: &Run,
        address: u64,
        same: &mut dyn FnMut(u32) -> bool,
    ) -> Result<(), Found> {
        let records = self.records;
        match &mut self.detector {
            Independence(proof) => proof.write(&records, access, pattern, run, address)?,
            Races(races) => {
                let at = records.shadow.word(address);
                for i in 0..run.words {
                    let judged = Judged::new(records, clocks, access, pattern.sharers(run, i));
                    races.write(&judged, at + i as usize, 0xf, &mut || same(i))?;
                }
            }
        }
        let bytes = 4 * u64::from(run.words);
        records.shadow.bytes.set_written(address, bytes);
        Ok(())
    }

    /// Checks that the lanes in `sharers` may read some bytes of the word that holds `address`,
    /// from there on.
    pub(crate) fn read_bytes(
        &mut self,
        clocks: &BlockClocks,
        access: Accessor,
        sharers: u32,
        address: u64,
        bytes: u32,
    ) -> Result<(), Found> {
        let records = self.records;
        let word = records.shadow.word(address);
        match &mut self.detector {
            Independence(proof) => proof.read_bytes(&records, access, sharers, word, bytes),
            Races(races) => {
                let judged = Judged::new(records, clocks, access, sharers);
                races.read(&judged, word, bytes)
            }
        }
    }

    /// As [`DeviceMemoryChecks::read_bytes`], for a write.
    pub(crate) fn write_bytes(
        &mut self,
        clocks: &BlockClocks,
        access: Accessor,
        sharers: u32,
        address: u64,
        bytes: u32,
        same: &mut dyn FnMut() -> bool,
    ) -> Result<(), Found> {
        let records = self.records;
        match &mut self.detector {
            Independence(proof) => {
                proof.write_bytes(&records, access, sharers, address & !3, bytes)?;
            }
            Races(races) => {
                let judged = Judged::new(records, clocks, access, sharers);
                races.write(&judged, records.shadow.word(address), bytes, same)?;
            }
        }
        let count = u64::from(bytes.count_ones());
        records.shadow.bytes.set_written(address, count);
        Ok(())
    }

    /// Marks the byte at an address, which the running thread has just written, as not written.
    pub(crate) fn unwrite(&mut self, address: u64) {
        self.records.shadow.bytes.set_unwritten(address, 1);
        if let Independence(_) = self.detector {
            // Whoever reads it again must look whether it was written.
            forget_reads(&self.records, address);
        }
    }

    /// Begins the part of the block behind a barrier of all its threads.
    pub(crate) fn pass_barrier(&mut self) {
        if let Independence(proof) = &mut self.detector {
            proof.pass_barrier();
        }
    }

    /// A bulk copy of the block begins to write.
    pub(crate) fn begin_bulk_write(&mut self) {
        if let Independence(proof) = &mut self.detector {
            proof.begin_bulk_write();
        }
    }

    /// Puts the launch in doubt while blocks run at the same time: others may have got in the way.
    pub(crate) fn doubt(&mut self) {
        if let Independence(proof) = &mut self.detector {
            proof.in_doubt = true;
        }
    }

    /// True if blocks run one after the other.
    pub(crate) fn is_in_order(&self) -> bool {
        matches!(self.detector, Races(_))
    }

    /// Releases the past of a warp through a flag in device memory.
    pub(crate) fn release(&mut self, released: &DeviceClock, address: u64) {
        if let Races(races) = &mut self.detector {
            races.release(released, address);
        }
    }

    /// Clock that was released through a flag in device memory.
    pub(crate) fn released(&self, address: u64) -> Option<&DeviceClock> {
        match &self.detector {
            Races(races) => races.released(address),
            Independence(_) => None,
        }
    }
}
