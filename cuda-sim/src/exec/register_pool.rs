//! Registers that the warps of a block have given back and not taken again: `setmaxnreg`.

use crate::device::WARP_SIZE;
use crate::fault::FaultKind;
use crate::program::Kernel;

/// `setmaxnreg` takes multiples of so many registers.
pub(crate) const STEP: u32 = 8;

/// The pool of a block.
#[derive(Default)]
pub(crate) struct RegisterPool {
    /// Registers of each thread, by warp.
    per_thread: Vec<u32>,
    free: u32,
    /// The compiler has told how many there are at launch.
    is_known: bool,
    /// `setmaxnreg` has an effect.
    is_used: bool,
}

impl RegisterPool {
    pub(crate) fn start(&mut self, kernel: &Kernel, warps: usize) {
        self.per_thread.clear();
        self.per_thread
            .resize(warps, kernel.registers_at_launch(warps));
        self.free = 0;
        self.is_known = kernel.registers() > 0;
        let is_ignored = kernel
            .resources
            .is_some_and(|report| report.ignores_setmaxnreg);
        self.is_used = kernel.bounds_registers && !is_ignored;
    }

    /// What is wrong with a number of registers that a warp asks for. Without the compiler's
    /// report, `inc` may have been right to go down, and `dec` to go up.
    pub(crate) fn check(&self, warp: usize, increases: bool, count: u32) -> Result<(), String> {
        let now = self.per_thread[warp];
        if !(24..=256).contains(&count) || !count.is_multiple_of(STEP) {
            return Err(format!(
                "{count} registers; it is a multiple of {STEP} from 24 to 256"
            ));
        }
        match increases {
            _ if !self.is_used => Ok(()),
            true if count < now && self.is_known => {
                Err(format!("inc to {count} registers from {now}"))
            }
            false if count > now && self.is_known => {
                Err(format!("dec to {count} registers from {now}"))
            }
            _ => Ok(()),
        }
    }

    /// The fault of a block of which a warp waits for registers that nobody gives back.
    pub(crate) fn exhausted(&self, wanted: u32) -> FaultKind {
        FaultKind::RegistersExhausted {
            wanted,
            per_thread: self.per_thread.clone(),
            free: self.free,
        }
    }

    /// The threads of a warp have `count` registers each from now on. False, and nothing changes,
    /// if these are not free.
    pub(crate) fn set(&mut self, warp: usize, count: u32) -> bool {
        if !self.is_used {
            return true;
        }
        let before = self.per_thread[warp] * WARP_SIZE;
        let Some(free) = (self.free + before).checked_sub(count * WARP_SIZE) else {
            return false;
        };
        self.free = free;
        self.per_thread[warp] = count;
        true
    }
}
