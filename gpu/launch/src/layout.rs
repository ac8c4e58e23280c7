//! Where the parts of an argument lie among a kernel's parameters.

use crate::argument::{Argument, Init};
use crate::fields::Position;
use crate::tensor_map::TensorMap;
use crate::values::{Type, Values};

/// The alignment that CUDA's vectors do not go beyond, bytes.
const LARGEST_OF_VECTORS: usize = 16;

/// Place of an argument in a kernel's parameters, by C's rules: each field at the next multiple of
/// its alignment, the whole a multiple of its own.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Layout {
    /// Its size, bytes.
    pub(crate) bytes: usize,
    /// Its alignment, bytes.
    pub(crate) align: usize,
}

impl Layout {
    /// The layout of an argument.
    pub(crate) fn new(argument: &Argument) -> Layout {
        match argument {
            Argument::Scalar { ty, .. } => Layout::scalar(ty.bytes()),
            Argument::Buffer { .. } => Layout::scalar(size_of::<u64>()),
            Argument::Vector { values } => Layout::vector(values),
            Argument::Struct { align, fields } => Layout::structure(*align, fields, |_| ()),
            Argument::TensorMap(_) => Layout {
                bytes: TensorMap::BYTES,
                align: TensorMap::ALIGN,
            },
        }
    }

    fn scalar(bytes: usize) -> Layout {
        Layout {
            bytes,
            align: bytes,
        }
    }

    /// CUDA C++ Programming Guide, "Built-in Vector Types": two or four elements are aligned as one
    /// value of their size, three as one of them.
    fn vector(values: &Values) -> Layout {
        let bytes = values.bytes().len();
        let align = if bytes.is_power_of_two() {
            bytes.min(LARGEST_OF_VECTORS)
        } else {
            values.ty().bytes()
        };
        Layout { bytes, align }
    }

    /// The layout of a struct that is aligned to `align` bytes at least. `place` is told the offset
    /// of each field.
    fn structure(align: usize, fields: &[Argument], mut place: impl FnMut(usize)) -> Layout {
        let mut whole = Layout { bytes: 0, align };
        for field in fields {
            let layout = Layout::new(field);
            let offset = whole.bytes.next_multiple_of(layout.align);
            place(offset);
            whole.bytes = offset + layout.bytes;
            whole.align = whole.align.max(layout.align);
        }
        whole.bytes = whole.bytes.next_multiple_of(whole.align);
        whole
    }
}

impl Argument {
    /// Writes it into `bytes` as it is passed. `make` makes a buffer and tells its address. A
    /// tensor map is left out: it may describe the buffer of a later argument.
    pub(crate) fn encode<E>(
        &self,
        position: &Position,
        bytes: &mut [u8],
        make: &mut impl FnMut(&Position, Type, Option<usize>, &Init) -> Result<u64, E>,
    ) -> Result<(), E> {
        match self {
            Argument::Scalar { ty, bits } => {
                bytes[..ty.bytes()].copy_from_slice(&bits.to_le_bytes()[..ty.bytes()]);
            }
            Argument::Vector { values } => {
                bytes[..values.bytes().len()].copy_from_slice(values.bytes());
            }
            Argument::Buffer { ty, count, init } => {
                let address = make(position, *ty, *count, init)?;
                bytes[..size_of::<u64>()].copy_from_slice(&address.to_le_bytes());
            }
            Argument::Struct { align, fields } => {
                let mut offsets = Vec::with_capacity(fields.len());
                Layout::structure(*align, fields, |offset| offsets.push(offset));
                for (index, (field, offset)) in fields.iter().zip(offsets).enumerate() {
                    field.encode(&position.field(index), &mut bytes[offset..], make)?;
                }
            }
            Argument::TensorMap(_) => {}
        }
        Ok(())
    }
}
