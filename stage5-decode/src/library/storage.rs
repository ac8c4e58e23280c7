//! Device memory of the caches: keys and values of a layer, and the counts of each sequence.

use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaSlice, CudaStream, CudaView, CudaViewMut, DriverError};
use gpu::arguments::upload;

use crate::PerSequence;

/// Keys and values of one layer.
#[derive(Debug)]
pub(crate) struct KeysAndValues {
    pub(crate) k: CudaSlice<u8>,
    pub(crate) v: CudaSlice<u8>,
}

impl KeysAndValues {
    /// `layers` layers of `bytes` bytes of keys and as many of values, not initialised.
    pub(crate) fn layers(
        stream: &Arc<CudaStream>,
        layers: usize,
        bytes: usize,
    ) -> Result<Vec<Self>, DriverError> {
        let bytes = bytes.max(1); // the driver allocates no 0 bytes
        let layer = |_| {
            // SAFETY: bytes have no invalid values, and no row is read before it is written.
            let [k, v] = unsafe { [stream.alloc(bytes)?, stream.alloc(bytes)?] };
            Ok(Self { k, v })
        };
        (0..layers).map(layer).collect()
    }
}

/// Tokens of each sequence, and how many of them are new: `[B]` both, on the
/// host and in device memory.
#[derive(Debug)]
pub(crate) struct Counts {
    lengths: Vec<usize>,
    new: Vec<usize>,
    /// Sequences that `device` has room for.
    room: usize,
    /// `lengths`, then `new`: `[2, room]`.
    device: CudaSlice<i32>,
    /// The contents of `device`, once the kernels that were announced have run.
    on_device: Vec<i32>,
}

impl Counts {
    /// `batch` sequences of no tokens.
    pub(crate) fn new(stream: &Arc<CudaStream>, batch: usize) -> Result<Self, DriverError> {
        let zeros = vec![0; 2 * batch];
        Ok(Self {
            lengths: vec![0; batch],
            new: vec![0; batch],
            room: batch,
            device: upload(stream, &zeros)?,
            on_device: zeros,
        })
    }

    /// Replaces the counts by those of as many sequences, or of others. Each is at most `i32::MAX`.
    pub(crate) fn set(
        &mut self,
        stream: &Arc<CudaStream>,
        lengths: Vec<usize>,
        new: Vec<usize>,
    ) -> Result<(), DriverError> {
        self.write(stream, &lengths, &new)?;
        (self.lengths, self.new) = (lengths, new);
        Ok(())
    }

    /// The same, but leaves it to a kernel to add `new` to the lengths on the device. Copies
    /// nothing if the device has the other numbers already.
    pub(crate) fn set_before_advance(
        &mut self,
        stream: &Arc<CudaStream>,
        lengths: Vec<usize>,
        new: Vec<usize>,
    ) -> Result<(), DriverError> {
        let before = Vec::from_iter(lengths.iter().zip(&new).map(|(length, new)| length - new));
        self.write(stream, &before, &new)?;
        for (number, &length) in self.on_device.iter_mut().zip(&lengths) {
            *number = length as i32;
        }
        (self.lengths, self.new) = (lengths, new);
        Ok(())
    }

    /// Makes room for `sequences` sequences. Batches of up to so many have their
    /// numbers at the same addresses.
    pub(crate) fn reserve(
        &mut self,
        stream: &Arc<CudaStream>,
        sequences: usize,
    ) -> Result<(), DriverError> {
        let room = self.room.max(sequences);
        let numbers = numbers(&self.lengths, &self.new, room);
        self.device = upload(stream, &numbers)?;
        (self.room, self.on_device) = (room, numbers);
        Ok(())
    }

    /// Brings numbers to the device, unless it has them.
    fn write(
        &mut self,
        stream: &Arc<CudaStream>,
        lengths: &[usize],
        new: &[usize],
    ) -> Result<(), DriverError> {
        let room = self.room.max(lengths.len());
        let numbers = numbers(lengths, new, room);
        if room > self.room {
            self.device = upload(stream, &numbers)?;
        } else if numbers != self.on_device {
            stream.memcpy_htod(&numbers, &mut self.device)?;
        }
        (self.room, self.on_device) = (room, numbers);
        Ok(())
    }

    /// The context of the device memory.
    pub(crate) fn context(&self) -> &Arc<CudaContext> {
        self.device.context()
    }

    /// Tokens of each sequence.
    pub(crate) fn lengths(&self) -> PerSequence<'_> {
        PerSequence {
            host: &self.lengths,
            device: self.device.slice(..self.lengths.len()),
        }
    }

    /// New tokens of each sequence, which are among its last.
    pub(crate) fn new_tokens(&self) -> PerSequence<'_> {
        PerSequence {
            host: &self.new,
            device: self.device.slice(self.room..self.room + self.new.len()),
        }
    }

    /// The numbers on the device, to be advanced by a kernel.
    pub(crate) fn on_device(&mut self) -> CountsMut<'_> {
        let batch = self.lengths.len();
        let (lengths, new) = self.device.split_at_mut(self.room);
        CountsMut {
            lengths,
            new: new.into_view(),
            batch,
        }
    }
}

/// Lengths and new tokens of a batch in device memory, for
/// [`Decode::advance`](crate::Decode::advance).
#[derive(Debug)]
pub struct CountsMut<'a> {
    /// `[B]` or more.
    pub(crate) lengths: CudaViewMut<'a, i32>,
    /// `[B]` or more.
    pub(crate) new: CudaView<'a, i32>,
    pub(crate) batch: usize,
}

/// `[2, room]` numbers as the device has them.
fn numbers(lengths: &[usize], new: &[usize], room: usize) -> Vec<i32> {
    let mut numbers = vec![0; 2 * room];
    for (b, (&length, &new)) in lengths.iter().zip(new).enumerate() {
        (numbers[b], numbers[room + b]) = (length as i32, new as i32);
    }
    numbers
}
