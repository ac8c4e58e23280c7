//! The text of a fault.

use std::fmt;

use crate::device::WARP_SIZE;

use super::{
    Agent, BadAccess, BadCopy, BadTensor, Fault, FaultKind, MemoryKind, MissingThreads, Nearest,
    ProductRegister, Race, RaceSide, RegisterInFlight, UnsetRead, WaitedBarrier,
};

impl std::error::Error for Fault {}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.kind)?;
        writeln!(f, "  kernel  {}", self.kernel)?;
        match &self.source {
            Some((file, line)) => writeln!(f, "  source  {file}:{line}")?,
            None => writeln!(f, "  source  unknown: the PTX has no line information")?,
        }
        let [bx, by, bz] = self.block;
        let [tx, ty, tz] = self.thread;
        write!(f, "  block   ({bx}, {by}, {bz}), thread ({tx}, {ty}, {tz})")?;
        if self.lanes.count_ones() > 1 {
            write!(
                f,
                ", in a warp with {} active threads",
                self.lanes.count_ones()
            )?;
        }
        if let FaultKind::Race(race) | FaultKind::MissingProxyFence(race) = &self.kind {
            write!(f, "\n  other   {}", race.other)?;
        }
        if let FaultKind::UninitialisedRead(UnsetRead { loaded, .. }) = &self.kind
            && let Some((file, line)) = loaded.as_ref().filter(|l| self.source.as_ref() != Some(l))
        {
            write!(f, "\n  loaded  at {file}:{line}")?;
        }
        if let FaultKind::UnfinishedCopy(copy) = &self.kind {
            write!(f, "\n  copy    {copy}")?;
        }
        if let FaultKind::OutOfBounds(a)
        | FaultKind::UseAfterFree(a)
        | FaultKind::Misaligned(a)
        | FaultKind::UninitialisedRead(UnsetRead { access: a, .. })
        | FaultKind::UnfinishedCopy(BadCopy { access: a, .. })
        | FaultKind::TensorOutOfBounds(BadTensor { access: a, .. })
        | FaultKind::Race(Race { access: a, .. })
        | FaultKind::MissingProxyFence(Race { access: a, .. }) = &self.kind
        {
            let place = |near| Place { access: a, near };
            match &a.nearest {
                Some(near) => write!(f, "\n  memory  {}", place(near))?,
                None => write!(f, "\n  memory  no allocation is near this address")?,
            }
            if let Some(near) = &a.neighbour {
                write!(f, "\n          {}", place(near))?;
            }
        }
        write!(f, "\n  cause   {}", self.cause())?;
        write!(f, "\n  page    {}", self.kind.page().file)
    }
}

impl Fault {
    /// One sentence on how this usually comes about.
    fn cause(&self) -> String {
        let usual = self.kind.usual_cause();
        match (&self.kind, &self.missing) {
            (FaultKind::Race(_), Some(MissingThreads::Past(barrier))) => {
                format!(
                    "{}: it stands in a branch or loop that not all of them take",
                    not_all_come(barrier)
                )
            }
            (FaultKind::UninitialisedRead(_), Some(MissingThreads::Past(barrier))) => {
                format!("{usual}; or {}", not_all_come(barrier))
            }
            (FaultKind::UninitialisedRead(_), Some(MissingThreads::Returned(threads))) => {
                format!(
                    "{threads} threads of the block returned before the last barrier, and did not fill their part of the \
                     array; or {usual}"
                )
            }
            (FaultKind::Race(race), _) if race.update => {
                let (who, or) = match race.within_block {
                    true => ("threads", "; if they take turns, a barrier must be between"),
                    false => ("blocks", ""),
                };
                format!(
                    "{who} load one place, change the value and store it, so changes are lost: use an atomic such as \
                     atomicAdd, or give each its own place{or}"
                )
            }
            (FaultKind::Race(race), _)
                if race.adjacent && race.access.write && race.other.write =>
            {
                format!("{usual}; the two threads are neighbours: or an index is one too far")
            }
            _ => usual.to_owned(),
        }
    }
}

/// `at` a file and line, if they are known.
pub(super) fn at(place: &Option<(String, u32)>, unknown: &str) -> String {
    match place {
        Some((file, line)) => format!("at {file}:{line}"),
        None => unknown.to_owned(),
    }
}

/// The same behind other words; nothing if they are not known.
pub(super) fn and_at(place: &Option<(String, u32)>) -> String {
    match place {
        Some(_) => format!(", {}", at(place, "")),
        None => String::new(),
    }
}

/// The register of a product that is not fenced, and the access.
pub(super) fn unfenced(
    register: &Option<ProductRegister>,
    access: &Option<(String, u32)>,
) -> String {
    match register {
        Some(register) => format!(
            "{register} of this wgmma.mma_async was accessed {}, and no wgmma.fence lies between",
            at(access, "before")
        ),
        None => "none before the first wgmma.mma_async of the warp".to_owned(),
    }
}

fn not_all_come(barrier: &Option<(String, u32)>) -> String {
    let barrier = at(barrier, "");
    let text = format!("not all threads of the block come to the __syncthreads() {barrier}");
    text.trim_end().to_owned()
}

/// The phases that warps of a deadlock wait for.
pub(super) fn waited_for(barriers: &[WaitedBarrier]) -> String {
    let line = |barrier: &WaitedBarrier| {
        let WaitedBarrier {
            name,
            arrived,
            of,
            missing_bytes,
            expected_bytes,
            parity,
            warps,
        } = barrier;
        let warps: Vec<String> = warps.iter().map(u32::to_string).collect();
        let bytes = match (expected_bytes, missing_bytes) {
            (Some(expected), missing) => {
                format!("{} of {expected} bytes", *expected as i64 - missing)
            }
            (None, ..0) => format!("{} bytes too many", missing_bytes.unsigned_abs()),
            (None, _) => format!("lacks {missing_bytes} bytes"),
        };
        format!(
            "\n  waits   warps {} for mbarrier {name}: its phase of parity {parity} has {arrived} of {of} arrivals and {bytes}",
            warps.join(", ")
        )
    };
    barriers.iter().map(line).collect()
}

/// The registers that a warp asks for, and those that there are.
pub(super) fn exhausted(wanted: u32, per_thread: &[u32], free: u32) -> String {
    let held: u32 = per_thread
        .iter()
        .map(|registers| registers * WARP_SIZE)
        .sum();
    let mut groups: Vec<(u32, usize)> = Vec::new();
    for &registers in per_thread {
        match groups.last_mut() {
            Some((same, warps)) if *same == registers => *warps += 1,
            _ => groups.push((registers, 1)),
        }
    }
    let groups: Vec<String> = groups
        .iter()
        .map(|(registers, warps)| format!("{warps} warps of {registers}"))
        .collect();
    format!(
        "a warp asks for {wanted} registers a thread, while {} hold {held} and {free} of the block's {} are free",
        groups.join(", "),
        held + free
    )
}

/// Addresses below this are no pointers: nothing is ever allocated there.
const NO_POINTER: u64 = 64 << 10;

impl FaultKind {
    /// Usual cause, if nothing else is known.
    fn usual_cause(&self) -> &'static str {
        match self {
            FaultKind::OutOfBounds(a)
                if a.space == MemoryKind::Global && a.address < NO_POINTER =>
            {
                "a null pointer, or a number where the kernel takes an address; look at the arguments"
            }
            FaultKind::OutOfBounds(a) if a.is_of_another_space() => {
                "the instruction reads shared memory alone; give it an address in a __shared__ array"
            }
            FaultKind::OutOfBounds(a) if a.wrapped > 0 => {
                "an unsigned index went below zero: as 32 bits, 0 - 1 is 4294967295; compare before you subtract"
            }
            FaultKind::OutOfBounds(a) if a.is_before_start() => {
                "an index went below zero, or is not tested against the size; look at the first and the last thread"
            }
            FaultKind::OutOfBounds(_) => {
                "an index is not tested against the size; look at the last block and at ragged sizes"
            }
            FaultKind::TensorOutOfBounds(_) => {
                "the tensor map has more elements or a larger stride than the buffer behind it; look at globalDim and globalStrides"
            }
            FaultKind::UseAfterFree(_) => {
                "the host dropped the buffer, or kept its address, before this launch"
            }
            FaultKind::Misaligned(_) => {
                "a vector load or a cast pointer needs an address that is a multiple of its size"
            }
            FaultKind::UninitialisedRead(read) if read.access.space == MemoryKind::Global => {
                "the buffer was allocated and not filled, or not all of it; alloc_zeros or a copy fills it"
            }
            FaultKind::UninitialisedRead(read) if read.access.space == MemoryKind::Shared => {
                "the threads did not fill the whole tile (ragged edges), or another warp fills it and no barrier lies between"
            }
            FaultKind::UninitialisedRead(_) => "an array of a thread is read where it was not set",
            FaultKind::UninitialisedRegister => {
                "a variable is used that has no value on the way here; give it one where it is declared"
            }
            FaultKind::Race(race)
                if race.other.by == Agent::BulkCopy && race.access.space == MemoryKind::Global =>
            {
                match race.within_block {
                    true => {
                        "what a bulk copy writes to device memory is there when its thread has run cp.async.bulk.wait_group, without .read; then a barrier must tell the others"
                    }
                    false => {
                        "a bulk copy of another block writes there: its thread waits for that by cp.async.bulk.wait_group, without .read, and a fence and a flag tell this block; or each block writes a place of its own"
                    }
                }
            }
            FaultKind::Race(Race {
                other:
                    RaceSide {
                        by: Agent::BulkCopy,
                        write: true,
                        ..
                    },
                ..
            }) => {
                "nobody here has waited for the copy: wait for the phase of the mbarrier on which it completes its bytes, or meet a thread that has"
            }
            FaultKind::Race(Race {
                other:
                    RaceSide {
                        by: Agent::BulkCopy,
                        ..
                    },
                ..
            }) => {
                "the copy may still read its source: wait for it, by cp.async.bulk.wait_group.read or, if it goes to shared memory, by its mbarrier; then a barrier must follow"
            }
            FaultKind::Race(Race {
                other: RaceSide {
                    by: Agent::Product, ..
                },
                ..
            }) => {
                "the product may still read its operands: wgmma.wait_group must come first, and then a barrier that tells it to who writes"
            }
            FaultKind::Race(race) if race.by != Agent::Thread && race.other.write => {
                "a barrier must lie between the stores and what reads or overwrites them asynchronously, and a fence.proxy.async on the way"
            }
            FaultKind::Race(race) if race.by != Agent::Thread => {
                "threads may still read the place that is overwritten: they must arrive at an mbarrier for which the copying thread waits"
            }
            FaultKind::MissingProxyFence(_) => {
                "bulk copies and wgmma see ordinary stores to shared memory behind a fence.proxy.async alone; run it before the barrier that orders the two"
            }
            FaultKind::UnfinishedBulkCopy => {
                "before the block ends, a thread must wait for the mbarrier of a copy to shared memory, and the one that copies from it must run cp.async.bulk.commit_group and cp.async.bulk.wait_group.read; of a copy to another block, that one must tell that it has arrived"
            }
            FaultKind::Race(race) if race.at_once => {
                "threads of one warp store different values to one place: use an atomic, or give each its own"
            }
            FaultKind::Race(race)
                if race.access.space == MemoryKind::Shared && !race.within_block =>
            {
                "blocks of a cluster meet at barrier.cluster, or arrive at each other's mbarriers: one of these must lie between the two accesses"
            }
            FaultKind::Race(race) if race.within_block => {
                "a __syncthreads() is missing between the two accesses (within a warp, a __syncwarp())"
            }
            FaultKind::Race(_) => {
                "blocks run in any order: use atomics, give each its own part, or split the kernel in two"
            }
            FaultKind::UnfinishedCopy(copy) if copy.source_changed => {
                "a thread stored to the source between the cp.async and the wait for it; wait first"
            }
            FaultKind::UnfinishedCopy(copy) if copy.at_once => {
                "two threads copy to one place at once; use a guard instead of a clamped index"
            }
            FaultKind::UnfinishedCopy(_) => {
                "a cp.async.wait_group is missing or its number is too large; behind it a __syncthreads() must follow"
            }
            FaultKind::InactiveLane { .. } => {
                "the source lane took another branch, left, or is not in the mask; its value is undefined"
            }
            FaultKind::Runaway { .. } => {
                "a loop whose condition never changes, or threads that wait for one that cannot run; raise CUDA_SIM_BUDGET if the kernel is just long"
            }
            FaultKind::LongLaunch { .. } => {
                "a loop that runs too long in many blocks; raise CUDA_SIM_LAUNCH_BUDGET if there is just much to do"
            }
            FaultKind::BadBranch { .. } => {
                "a switch in PTX must compare its index with the number of targets before it branches"
            }
            FaultKind::BadCall { .. } => {
                "the function pointer was never set, is null, or was set on the host; take the function's address in device code"
            }
            FaultKind::UnknownInstruction { .. } | FaultKind::UnknownCall { .. } => {
                "the kernel uses a feature that is not simulated; it may run on a GPU"
            }
            FaultKind::Trap => {
                "the kernel asked for it: __trap(), an unreachable place, or grid.sync() in a launch that is not cooperative"
            }
            FaultKind::Assertion { .. } => "the condition in the kernel's assert was false",
            FaultKind::DifferentBarriers { .. } => {
                "some warps come to a __syncthreads() that others leave out: it stands in a branch or loop that not all warps take alike"
            }
            FaultKind::DivergentBarrier { .. } => {
                "__syncthreads() inside a branch or loop that not all threads of the block take alike"
            }
            FaultKind::MissingLanes { .. } => {
                "the mask names lanes that took another branch or left; compute it before the branch"
            }
            FaultKind::DifferentMasks { .. } => {
                "all lanes that a mask names must pass that mask; compute it for all of them alike"
            }
            FaultKind::RegistersExhausted { .. } => {
                "the sum over all warps must not exceed what the block started with: give back more with setmaxnreg.dec, or ask for less"
            }
            FaultKind::BadCluster { .. } => {
                "all threads of a cluster arrive at barrier.cluster and wait, before the first access to another block's shared memory and behind the last"
            }
            FaultKind::BadRegisterCount { .. } => {
                "setmaxnreg takes a multiple of 8 from 24 to 256: dec at most what the threads have, inc at least that"
            }
            FaultKind::Deadlock { barriers }
                if barriers
                    .iter()
                    .any(|b| b.arrived == b.of && b.missing_bytes > 0) =>
            {
                "fewer bytes were copied than expect_tx announced, or a copy completes its bytes on another barrier"
            }
            FaultKind::Deadlock { barriers } if barriers.iter().any(|b| b.missing_bytes < 0) => {
                "more bytes were copied than expect_tx announced: the phase ends when both are equal"
            }
            FaultKind::Deadlock { .. } => {
                "warps wait at barriers with different numbers or counts, one warp left before its barrier, or an mbarrier gets fewer arrivals than its phase waits for"
            }
            FaultKind::WarpgroupOutOfStep { .. } => {
                "wgmma.mma_async is run by warps 4k to 4k + 3 together, all threads of them, on one path and with one descriptor"
            }
            FaultKind::BadDescriptor { .. } => {
                "an offset of the descriptor is in the wrong unit (16 bytes), leading and stride offsets are exchanged, or the swizzle or the major is not that of the tile"
            }
            FaultKind::ProductInFlight(register) if !register.committed => {
                "wgmma.commit_group is missing: wgmma.wait_group waits for groups alone"
            }
            FaultKind::ProductInFlight(_) => {
                "wgmma.wait_group is missing here, or its number is too large: it leaves that many of the newest groups running"
            }
            FaultKind::MissingProductFence { .. } => {
                "wgmma.fence.sync.aligned must stand between ordinary accesses to the registers and the first wgmma.mma_async that has them"
            }
            FaultKind::GridDeadlock { .. } => {
                "blocks wait for others, and not all of the grid fits on the device at once; launch no more blocks than the occupancy allows"
            }
            FaultKind::BadMbarrier { .. } => {
                "one thread initialises it with the number of arrivals of a phase, and a __syncthreads() follows; each phase gets so many arrivals, no more"
            }
            FaultKind::BadBulkCopy { .. } => {
                "addresses and sizes of bulk copies are multiples of 16, those of tiles in shared memory of 128 (alignas), and the tensor map fits the instruction"
            }
            FaultKind::BadBarrier { .. } => {
                "barrier numbers go from 0 to 15, and a count is a multiple of 32 that all warps agree on"
            }
        }
    }
}

impl BadCopy {
    pub(super) fn what(&self) -> String {
        let access = &self.access;
        match self.source_changed {
            true => format!("its source has changed since the {access}"),
            false => format!("{access}, to which a copy writes that its thread has not waited for"),
        }
    }
}

impl RegisterInFlight {
    pub(super) fn what(&self) -> String {
        let RegisterInFlight {
            register, write, ..
        } = self;
        let product = at(&self.product, "at an unknown line");
        let access = if *write { "written" } else { "read" };
        let does = match register {
            ProductRegister::Accumulator(_) => "write",
            ProductRegister::Fragment(_) => "read",
        };
        format!("{register} is {access} while the wgmma.mma_async {product} may still {does} it")
    }
}

impl fmt::Display for ProductRegister {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProductRegister::Accumulator(i) => write!(f, "accumulator {i}"),
            ProductRegister::Fragment(i) => write!(f, "register {i} of A"),
        }
    }
}

impl Race {
    /// True if one of its sides is asynchronous.
    pub(crate) fn is_asynchronous(&self) -> bool {
        (self.by, self.other.by) != (Agent::Thread, Agent::Thread)
    }

    /// The later access.
    pub(super) fn what(&self) -> String {
        format!("{}{}", self.access, self.by)
    }
}

impl fmt::Display for BadTensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let BadTensor {
            access,
            dimension,
            elements,
            stride,
        } = self;
        write!(
            f,
            "{access}: dimension {dimension} of the tensor map has {elements} elements, {stride} bytes apart, more than the allocation holds"
        )
    }
}

impl RaceSide {
    pub(super) fn verb(&self) -> String {
        format!("{}{}", if self.write { "write" } else { "read" }, self.by)
    }
}

/// Behind an access: nothing for a thread's.
impl fmt::Display for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Agent::Thread => "",
            Agent::BulkCopy => " by a bulk copy",
            Agent::Product => " by a product of a warpgroup",
        })
    }
}

impl fmt::Display for RaceSide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = at(&self.source, "at an unknown line");
        write!(f, "{} {place}", self.verb())?;
        match self.block {
            Some([x, y, z]) => write!(f, ", block ({x}, {y}, {z})")?,
            None => write!(f, ", several blocks")?,
        }
        match self.thread {
            Some([x, y, z]) => write!(f, ", thread ({x}, {y}, {z})"),
            None if self.by != Agent::Thread => Ok(()),
            None => write!(f, ", several threads"),
        }
    }
}

impl fmt::Display for BadCopy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            Some((file, line)) => write!(f, "cp.async at {file}:{line}")?,
            None => write!(f, "cp.async at an unknown line")?,
        }
        match self.thread {
            Some([x, y, z]) => write!(f, ", thread ({x}, {y}, {z})"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for BadAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.write { "store" } else { "load" };
        write!(
            f,
            "{what} of {} bytes at {:#x} in {} memory",
            self.bytes, self.address, self.space
        )
    }
}

impl BadAccess {
    /// The address that the kernel would have used with signed indices. One below 0 is a large one.
    fn meant(&self) -> u64 {
        self.address.wrapping_sub(self.wrapped)
    }

    /// It lies in memory of another kind than the instruction takes.
    fn is_of_another_space(&self) -> bool {
        let holds = |near: &Nearest| {
            let behind = near.start.saturating_add(near.bytes);
            near.start <= self.address && self.address.saturating_add(self.bytes.into()) <= behind
        };
        matches!(self.space, MemoryKind::Global | MemoryKind::Local)
            && self.nearest.as_ref().is_some_and(holds)
    }

    /// The address lies before the allocation or array that is closest to it.
    fn is_before_start(&self) -> bool {
        let before = |near: &Nearest| near.distance_from(self.meant()) > 0;
        self.nearest.as_ref().is_some_and(before)
    }
}

impl Nearest {
    fn describe(&self, space: MemoryKind) -> String {
        let Nearest {
            id,
            name,
            start,
            bytes,
        } = self;
        match (id, name) {
            (Some(id), Some(name)) => {
                format!("{name}, allocation #{id} ({bytes} bytes at {start:#x})")
            }
            (Some(id), None) => format!("allocation #{id} ({bytes} bytes at {start:#x})"),
            (None, Some(name)) => format!("shared array {name} ({bytes} bytes)"),
            (None, None) => format!("the {bytes} bytes of {space} memory"),
        }
    }
}

/// Position of an address with respect to an allocation or array.
struct Place<'a> {
    access: &'a BadAccess,
    near: &'a Nearest,
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Place { access, near } = self;
        let name = near.describe(access.space);
        let before = near.distance_from(access.meant());
        if before > 0 {
            return write!(f, "{before} bytes before {name}");
        }
        let offset = access.meant().wrapping_sub(near.start);
        if offset >= near.bytes {
            return write!(f, "{} bytes past the end of {name}", offset - near.bytes);
        }
        let bytes = u64::from(access.bytes.max(1));
        match &near.name {
            Some(short) if offset.is_multiple_of(bytes) => write!(
                f,
                "{short}[{}] in elements of {bytes} bytes, byte {offset} of {name}",
                offset / bytes
            ),
            _ => write!(f, "byte {offset} of {name}"),
        }
    }
}
