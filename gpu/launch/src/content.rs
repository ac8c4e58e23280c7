//! Content of a buffer before the launch.

use std::borrow::Cow;

use crate::argument::{self, Init};
use crate::error::InvocationError;
use crate::fields::Position;
use crate::values::{Type, Values};

/// What a buffer is filled with. A file is read, other values are not made yet.
pub(crate) struct Content<'a> {
    position: &'a Position,
    /// The argument, as errors show it.
    argument: String,
    ty: Type,
    count: usize,
    bytes: usize,
    init: &'a Init,
    /// The elements of the file.
    file: Option<Values>,
}

impl<'a> Content<'a> {
    /// The content of `count` elements, or as many as the file has.
    pub(crate) fn new(
        position: &'a Position,
        ty: Type,
        count: Option<usize>,
        init: &'a Init,
    ) -> Result<Content<'a>, InvocationError> {
        let argument = argument::shown_buffer(ty, count);
        let file = match init {
            Init::File(path) => Some((path, Values::read_npy(path, ty)?)),
            _ => None,
        };
        if let (Some((path, values)), Some(count)) = (&file, count)
            && values.len() != count
        {
            return Err(InvocationError::Npy {
                path: path.to_path_buf(),
                reason: format!("it has {} elements, not {count}", values.len()),
            });
        }
        let file = file.map(|(_, values)| values);
        let count = count.or(file.as_ref().map(Values::len)).unwrap_or(0);
        let bytes = count.checked_mul(ty.bytes());
        let bytes = bytes.filter(|&bytes| isize::try_from(bytes).is_ok());
        Ok(Content {
            bytes: bytes.ok_or_else(|| too_large(position, &argument))?,
            position,
            argument,
            ty,
            count,
            init,
            file,
        })
    }

    /// Its size, bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The values, made now; `None`: nothing is written.
    pub(crate) fn values(&self) -> Result<Option<Cow<'_, Values>>, InvocationError> {
        let fill = |element: &dyn Fn(u64) -> u64| -> Result<Option<Cow<'_, Values>>, _> {
            let mut bytes = Vec::new();
            let reserved = bytes.try_reserve_exact(self.bytes);
            reserved.map_err(|_| too_large(self.position, &self.argument))?;
            for index in 0..self.count as u64 {
                bytes.extend(&element(index).to_le_bytes()[..self.ty.bytes()]);
            }
            Ok(Some(Cow::Owned(Values::new(self.ty, bytes))))
        };
        match self.init {
            Init::Uninit => Ok(None),
            Init::Zeros => fill(&|_| 0),
            Init::Ones => fill(&|_| self.ty.bits_of_index(1)),
            Init::Iota => fill(&|index| self.ty.bits_of_index(index)),
            Init::Random(seed) => {
                let seed = seed.unwrap_or_else(|| self.position.seed());
                fill(&|index| self.ty.bits_of_random(random(seed, index)))
            }
            Init::List(values) => Ok(Some(Cow::Borrowed(values))),
            Init::File(_) => Ok(self.file.as_ref().map(Cow::Borrowed)),
        }
    }

    /// The argument, as errors show it.
    pub(crate) fn argument(&self) -> &str {
        &self.argument
    }
}

fn too_large(position: &Position, argument: &str) -> InvocationError {
    InvocationError::TooLarge {
        position: position.clone(),
        argument: argument.to_owned(),
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
