//! Asynchronous copies that a block has begun and not waited for, with or without checks: products
//! that run meanwhile are counted.

/// The copies of a block.
#[derive(Default)]
pub(crate) struct CopiesUnderWay(Vec<WarpCopies>);

/// The copies of a warp. Those of its lanes are taken for one.
#[derive(Clone, Copy, Default)]
struct WarpCopies {
    /// It has begun copies that are in no group.
    begun: bool,
    /// A bit for each of its last groups, the newest in the lowest: 1 if it has copies.
    groups: u64,
}

impl CopiesUnderWay {
    /// No copies, of so many warps.
    pub(crate) fn start(&mut self, warps: usize) {
        self.0.clear();
        self.0.resize(warps, WarpCopies::default());
    }

    pub(crate) fn begin(&mut self, warp: usize) {
        self.0[warp].begun = true;
    }

    pub(crate) fn commit(&mut self, warp: usize) {
        let copies = &mut self.0[warp];
        copies.groups = copies.groups << 1 | u64::from(copies.begun);
        copies.begun = false;
    }

    /// The warp waits for all but its `newest` last groups; for all copies if `None`.
    pub(crate) fn wait(&mut self, warp: usize, newest: Option<u32>) {
        let copies = &mut self.0[warp];
        match newest {
            Some(newest) => {
                copies.groups &= 1u64.checked_shl(newest).map_or(u64::MAX, |bit| bit - 1)
            }
            None => *copies = WarpCopies::default(),
        }
    }

    /// True if a warp has copies that it has not waited for.
    pub(crate) fn any(&self) -> bool {
        self.0
            .iter()
            .any(|copies| copies.begun || copies.groups != 0)
    }
}
