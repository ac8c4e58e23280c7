use std::fmt;
use std::str::FromStr;

use crate::Rung;

/// An implementation of attention.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Mode {
    /// The first rungs of stage 2: four launches, scores in global memory. They lack
    /// [some options](stage2_naive_cuda::LADDER_LACKS).
    Naive,
    /// The library of stage 2, whose product is tiled. It lacks [some
    /// options](stage2_naive_cuda::LACKS).
    Tiled,
    /// The library's kernel, which has every option, compiled for the head dimension. There is one
    /// in f32, and one in half precision.
    #[default]
    Library,
    /// The same, compiled for the next size of [`PADDED`](crate::library::PADDED), or in half
    /// precision of [`tensor_cores::PADDED`](crate::library::tensor_cores::PADDED): rows
    /// are padded with zeros. Its kernels are all committed; [`Mode::Library`] takes them
    /// where there is no compiler.
    Padded,
    /// A kernel of the ladder. It lacks [some options](Rung::LACKS). A rung in f16 has
    /// [`Attention::forward_half`].
    ///
    /// [`Attention::forward_half`]: crate::Attention::forward_half
    Rung(Rung),
}

impl Mode {
    /// All that compute in f32.
    pub fn all() -> impl Iterator<Item = Self> + Clone {
        let modes = [Self::Naive, Self::Tiled, Self::Library, Self::Padded].into_iter();
        modes.chain(Rung::F32.map(Self::Rung))
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Naive => f.write_str("naive"),
            Self::Tiled => f.write_str("tiled"),
            Self::Library => f.write_str("library"),
            Self::Padded => f.write_str("padded"),
            Self::Rung(rung) => f.write_str(rung.name()),
        }
    }
}

impl FromStr for Mode {
    type Err = String;

    /// The mode of that name.
    fn from_str(name: &str) -> Result<Self, String> {
        let modes = || Self::all().chain(Rung::F16.map(Self::Rung));
        let names = || Vec::from_iter(modes().map(|mode| mode.to_string()));
        modes()
            .find(|mode| mode.to_string() == name)
            .ok_or_else(|| format!("it is none of {}", names().join(", ")))
    }
}
