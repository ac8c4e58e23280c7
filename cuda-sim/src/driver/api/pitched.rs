//! Copies of rows: 2D and 3D, between device memory and host memory.

use std::ffi::c_void;

use crate::driver::{
    api::copy::{DEFAULT, host_to_host, in_stream, submit},
    ffi::{Code, Error, Handle, In, Result},
    state::Driver,
    streams::{Distances, HostAddress, Operation, Rows, Source, Stream},
};

/// `CUmemorytype`.
const HOST: u32 = 1;
const DEVICE: u32 = 2;
const ARRAY: u32 = 3;
const UNIFIED: u32 = 4;

/// One side of a `CUDA_MEMCPY2D`.
#[derive(Clone, Copy)]
#[repr(C)]
struct Plane {
    x: usize,
    y: usize,
    kind: u32,
    host: u64,
    device: u64,
    array: u64,
    pitch: usize,
}

/// `CUDA_MEMCPY2D`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Copy2D {
    from: Plane,
    to: Plane,
    width: usize,
    height: usize,
}

/// One side of a `CUDA_MEMCPY3D`.
#[derive(Clone, Copy)]
#[repr(C)]
struct Volume {
    x: usize,
    y: usize,
    z: usize,
    level: usize,
    kind: u32,
    host: u64,
    device: u64,
    array: u64,
    reserved: u64,
    pitch: usize,
    height: usize,
}

/// `CUDA_MEMCPY3D`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Copy3D {
    from: Volume,
    to: Volume,
    width: usize,
    height: usize,
    depth: usize,
}

impl Plane {
    fn volume(self) -> Volume {
        let Plane {
            x,
            y,
            kind,
            host,
            device,
            array,
            pitch,
        } = self;
        Volume {
            x,
            y,
            z: 0,
            level: 0,
            kind,
            host,
            device,
            array,
            reserved: 0,
            pitch,
            height: 0,
        }
    }
}

impl Copy2D {
    fn in_3d(self) -> Copy3D {
        Copy3D {
            from: self.from.volume(),
            to: self.to.volume(),
            width: self.width,
            height: self.height,
            depth: 1,
        }
    }
}

/// One side of a copy: where its first byte is, and the distances of rows and of slices.
#[derive(Clone, Copy)]
struct Side {
    /// The device's or the host's.
    on_device: bool,
    start: u64,
    distances: Distances,
}

impl Volume {
    /// The side for a copy of `width` bytes, `height` rows and `depth` slices; all three are at
    /// least 1.
    fn side(
        &self,
        driver: &Driver,
        name: &str,
        [width, height, depth]: [usize; 3],
    ) -> Result<Side> {
        let address = match self.kind {
            HOST => self.host,
            DEVICE | UNIFIED => self.device,
            ARRAY => return Err(Error::unsupported("CUDA arrays")),
            kind => {
                return Err(Error::value(format!(
                    "{name}MemoryType is {kind}, no CUmemorytype"
                )));
            }
        };
        let bad = |what: &str| Error::value(format!("{name}: {what}"));
        let rows = if depth > 1 {
            self.height
        } else {
            self.height.max(self.y.saturating_add(height))
        };
        if (height > 1 || depth > 1 || self.y > 0) && self.pitch < self.x.saturating_add(width) {
            return Err(bad(&format!(
                "a pitch of {} bytes for rows that end at byte {}",
                self.pitch,
                self.x.saturating_add(width)
            )));
        }
        if depth > 1 && rows < self.y.saturating_add(height) {
            return Err(bad(&format!(
                "slices of {rows} rows, fewer than are copied"
            )));
        }
        let extent = || {
            let slice = self.pitch.checked_mul(rows)?;
            let row = self.y.checked_mul(self.pitch)?.checked_add(self.x)?;
            let first = self.z.checked_mul(slice)?.checked_add(row)?;
            let rows = (height - 1).checked_mul(self.pitch)?;
            let behind = (depth - 1)
                .checked_mul(slice)?
                .checked_add(rows)?
                .checked_add(width)?;
            let start = address.checked_add(first as u64)?;
            start.checked_add(behind as u64)?;
            Some((start, slice, behind))
        };
        let (start, slice, bytes) =
            extent().ok_or_else(|| bad("it ends behind the last address"))?;
        let on_device = match self.kind {
            HOST => false,
            DEVICE => true,
            _ => driver.arena.holds(start),
        };
        if !on_device && address == 0 {
            return Err(Error::value(format!("{name}Host is null")));
        }
        // Host memory that is part of the arena (pinned or managed) is checked like device memory.
        if on_device || driver.arena.holds(start) {
            driver.arena.check_range(name, start, bytes as u64)?;
        }
        Ok(Side {
            on_device,
            start,
            distances: Distances {
                row: self.pitch,
                slice,
            },
        })
    }
}

/// The copy as one operation, whose ranges have been checked. It does nothing if it copies no byte.
pub(super) fn operation(driver: &Driver, copy: &Copy3D) -> Result<Operation> {
    let size = [copy.width, copy.height, copy.depth];
    if size.contains(&0) {
        return Ok(Operation::nothing());
    }
    let from = copy.from.side(driver, "src", size)?;
    let to = copy.to.side(driver, "dst", size)?;
    let rows = Rows {
        bytes: copy.width,
        rows: copy.height,
        slices: copy.depth,
        to: to.distances,
        from: from.distances,
    };
    let rows = rows.joined();
    let host = |side: &Side| HostAddress(side.start as *mut c_void);
    Ok(match (to.on_device, from.on_device) {
        (true, true) => Operation::Copy {
            to: to.start,
            from: from.start,
            rows,
        },
        (true, false) => Operation::Upload {
            to: to.start,
            from: Source::Host(host(&from)),
            rows,
        },
        (false, true) => Operation::Download {
            to: host(&to),
            from: from.start,
            rows,
        },
        (false, false) => return Err(host_to_host()),
    })
}

/// Copies rows in the order of a stream.
fn copy_rows(driver: &'static Driver, stream: &Stream, rows: &Copy3D) -> Result {
    submit(driver, stream, operation(driver, rows)?)
}

/// Copies rows.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpy2D_v2(rows: In<Copy2D>) -> Code {
    in_stream(DEFAULT, true, |driver, stream| {
        copy_rows(driver, stream, &rows.get("pCopy")?.in_3d())
    })
}

/// Copies rows, at any distance of rows.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpy2DUnaligned_v2(rows: In<Copy2D>) -> Code {
    // SAFETY: the same argument, under the same promise.
    unsafe { cuMemcpy2D_v2(rows) }
}

/// Copies rows, in stream order.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpy2DAsync_v2(rows: In<Copy2D>, stream: Handle) -> Code {
    in_stream(stream, false, |driver, stream| {
        copy_rows(driver, stream, &rows.get("pCopy")?.in_3d())
    })
}

/// Copies slices of rows.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpy3D_v2(rows: In<Copy3D>) -> Code {
    in_stream(DEFAULT, true, |driver, stream| {
        copy_rows(driver, stream, &rows.get("pCopy")?)
    })
}

/// Copies slices of rows, in stream order.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpy3DAsync_v2(rows: In<Copy3D>, stream: Handle) -> Code {
    in_stream(stream, false, |driver, stream| {
        copy_rows(driver, stream, &rows.get("pCopy")?)
    })
}
