//! A buffer on the device: what it holds before the launch and after it.

use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream, DevicePtr};

use super::argument::{Argument, Init};
use super::error::InvocationError;
use super::fields::Position;
use super::values::{Type, Values};
use gpu::refused;

/// A buffer of an argument, or of a field of one.
#[derive(Debug)]
pub(super) struct Buffer {
    pub(super) position: Position,
    pub(super) ty: Type,
    /// `None`: it has no elements.
    memory: Option<CudaSlice<u8>>,
}

impl Buffer {
    /// Makes the buffer of an [`Argument::Buffer`] and fills it.
    pub(super) fn new(
        stream: &Arc<CudaStream>,
        position: &Position,
        ty: Type,
        count: Option<usize>,
        init: &Init,
    ) -> Result<Buffer, InvocationError> {
        let argument = || {
            Argument::Buffer {
                ty,
                count,
                init: init.clone(),
            }
            .to_string()
        };
        let too_large = || InvocationError::TooLarge {
            position: position.clone(),
            argument: argument(),
        };
        let from_file = match init {
            Init::File(path) => Some((path, Values::read_npy(path, ty)?)),
            _ => None,
        };
        if let (Some((path, values)), Some(count)) = (&from_file, count)
            && values.len() != count
        {
            return Err(InvocationError::Npy {
                path: path.to_path_buf(),
                reason: format!("it has {} elements, not {count}", values.len()),
            });
        }
        let count = count
            .or_else(|| Some(from_file.as_ref()?.1.len()))
            .unwrap_or(0);
        if count == 0 {
            return Ok(Buffer {
                position: position.clone(),
                ty,
                memory: None,
            });
        }
        let size = count
            .checked_mul(ty.bytes())
            .filter(|&size| isize::try_from(size).is_ok())
            .ok_or_else(too_large)?;
        let failed = |error| {
            refused(
                &format!("making argument {position} ({})", argument()),
                error,
            )
        };
        // SAFETY: what is read before it is written is what `uninit` asks for; all else is written
        // below.
        let mut memory = unsafe { stream.alloc::<u8>(size) }.map_err(failed)?;

        let fill = |element: &dyn Fn(u64) -> u64| -> Result<Values, InvocationError> {
            let mut bytes = Vec::new();
            bytes.try_reserve_exact(size).map_err(|_| too_large())?;
            for index in 0..count as u64 {
                bytes.extend(&element(index).to_le_bytes()[..ty.bytes()]);
            }
            Ok(Values::new(ty, bytes))
        };
        let values = match init {
            Init::Uninit => None,
            Init::Zeros => Some(fill(&|_| 0)?),
            Init::Ones => Some(fill(&|_| ty.bits_of_index(1))?),
            Init::Iota => Some(fill(&|index| ty.bits_of_index(index))?),
            Init::Random(seed) => {
                let seed = seed.unwrap_or_else(|| position.seed());
                Some(fill(&|index| ty.bits_of_random(random(seed, index)))?)
            }
            Init::List(values) => Some(values.clone()),
            Init::File(_) => from_file.map(|(_, values)| values),
        };
        if let Some(values) = values {
            stream
                .memcpy_htod(values.bytes(), &mut memory)
                .and_then(|()| stream.synchronize()) // the values are dropped now
                .map_err(failed)?;
        }
        Ok(Buffer {
            position: position.clone(),
            ty,
            memory: Some(memory),
        })
    }

    /// Its address; null if it has no elements.
    pub(super) fn address(&self, stream: &Arc<CudaStream>) -> u64 {
        self.memory
            .as_ref()
            .map_or(0, |memory| memory.device_ptr(stream).0)
    }

    /// Its content now.
    pub(super) fn read(&self, stream: &Arc<CudaStream>) -> Result<Values, InvocationError> {
        let Some(memory) = &self.memory else {
            return Ok(Values::new(self.ty, Vec::new()));
        };
        let bytes = stream
            .clone_dtoh(memory)
            .and_then(|bytes| stream.synchronize().map(|()| bytes))
            .map_err(|error| refused(&format!("reading argument {}", self.position), error))?;
        Ok(Values::new(self.ty, bytes))
    }
}

/// The number at `index` of a sequence: SplitMix64 (Steele, Lea, Flood 2014), started far apart for
/// each seed.
fn random(seed: u64, index: u64) -> u64 {
    let mix = |mut z: u64| {
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    };
    const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
    let start = mix(seed.wrapping_add(1).wrapping_mul(STEP));
    mix(start.wrapping_add(index.wrapping_add(1).wrapping_mul(STEP)))
}
