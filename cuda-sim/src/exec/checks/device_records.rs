//! Records of device memory, as the running block reads and writes them.

use crate::exec::lane_fault::OtherAccess;
use crate::memory::shadow::{LaunchMarks, Shadow};

/// The records, and the numbers of the launch and the running block in them.
#[derive(Clone, Copy)]
pub(crate) struct DeviceRecords<'a> {
    pub shadow: &'a Shadow,
    pub marks: LaunchMarks,
    /// Serial number of the running block.
    pub serial: u32,
}

/// A race: the lane that has it, and the other side.
pub(crate) type Found = (u32, OtherAccess);

impl DeviceRecords<'_> {
    /// Number of the running block in launch order.
    pub(crate) fn number(&self) -> u32 {
        self.serial - self.marks.first
    }

    /// The serial number that stands for several blocks of the launch.
    pub(crate) fn everyone(&self) -> u32 {
        self.marks.first + self.marks.blocks
    }

    /// True if a block of this launch has this serial number, or several together.
    pub(crate) fn is_of_launch(&self, serial: u32) -> bool {
        (self.marks.first..=self.everyone()).contains(&serial)
    }
}
