//! One compilation of a kernel: for which head dimension, with which tile.

use std::fmt;

use gpu::arguments::ArgumentError;

use crate::library::{self, Tile, tensor_cores, tiles, warpgroups};
use crate::{Format, Rung};

/// A fused kernel, compiled for a head dimension with a tile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Variant {
    /// The kernel.
    pub kernel: Kernel,
    /// The head dimension that it is compiled for. The library's kernel takes smaller
    /// ones too, padded with zeros.
    pub head_dim: usize,
    /// The tile.
    pub tile: Tile,
    /// True if it drops weights.
    pub dropout: bool,
}

/// A fused kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kernel {
    /// A kernel of the ladder.
    Rung(Rung),
    /// The library's, in f32.
    Library,
    /// The library's on tensor cores, in half precision.
    TensorCores(Format),
    /// The library's for compute capability 9.0 itself, in half precision.
    Warpgroups(Format),
    /// The library's in f32, which converts q, k, v and o of half precision.
    Converting(Format),
}

impl Variant {
    /// A rung, for one of its [`Rung::head_dims`].
    pub const fn rung(rung: Rung, head_dim: usize) -> Self {
        Self {
            kernel: Kernel::Rung(rung),
            head_dim,
            tile: rung.tile(head_dim),
            dropout: false,
        }
    }

    /// The library's kernel for this head dimension.
    pub const fn library(head_dim: usize, tile: Tile) -> Self {
        Self {
            kernel: Kernel::Library,
            head_dim,
            tile,
            dropout: false,
        }
    }

    /// The library's kernel in half precision for this head dimension.
    pub const fn tensor_cores(format: Format, head_dim: usize) -> Self {
        Self {
            kernel: Kernel::TensorCores(format),
            head_dim,
            tile: tensor_cores::tile(head_dim),
            dropout: false,
        }
    }

    /// The library's kernel in half precision for compute capability 9.0 itself, for one of
    /// [`warpgroups::PADDED`].
    pub const fn warpgroups(format: Format, head_dim: usize) -> Self {
        Self {
            kernel: Kernel::Warpgroups(format),
            head_dim,
            tile: warpgroups::TILE,
            dropout: false,
        }
    }

    /// The library's kernel for the next size of [`library::PADDED`], or in half precision of
    /// [`tensor_cores::PADDED`]: its PTX is committed. In f32 it is one for all devices, with the
    /// tile of the class that has the least shared memory.
    pub fn padded(format: Option<Format>, head_dim: usize) -> Self {
        if let Some(format) = format {
            let head_dim = library::padded(head_dim, &tensor_cores::PADDED);
            return Self::tensor_cores(format, head_dim);
        }
        let head_dim = library::padded(head_dim, &library::PADDED);
        Self::library(head_dim, tiles::table()[0].entry(head_dim).tile)
    }

    /// The library's kernel in f32, for q, k, v and o of half precision.
    pub const fn converting(self, format: Format) -> Self {
        Self {
            kernel: Kernel::Converting(format),
            ..self
        }
    }

    /// The same with another tile.
    pub const fn with_tile(self, tile: Tile) -> Self {
        Self { tile, ..self }
    }

    /// The same with dropout.
    pub const fn with_dropout(self) -> Self {
        Self {
            dropout: true,
            ..self
        }
    }

    /// The kernel file.
    pub fn file(&self) -> &'static str {
        match self.kernel {
            Kernel::Rung(rung) => rung.file(),
            Kernel::Library | Kernel::Converting(_) => library::FILE,
            Kernel::TensorCores(_) => tensor_cores::FILE,
            Kernel::Warpgroups(_) => warpgroups::FILE,
        }
    }

    /// The kernel's name.
    pub(crate) fn entry(&self) -> &'static str {
        match self.kernel {
            Kernel::Rung(rung) => rung.name(),
            Kernel::Library | Kernel::Converting(_) => library::KERNEL,
            Kernel::TensorCores(_) => tensor_cores::KERNEL,
            Kernel::Warpgroups(_) => warpgroups::KERNEL,
        }
    }

    /// The `-D` constants, as a line of `kernels/variants.txt` has them.
    pub fn constants(&self) -> Vec<(&'static str, String)> {
        let constants = [
            ("HEAD_DIM", self.head_dim),
            ("BLOCK_Q", self.tile.block_q),
            ("BLOCK_KV", self.tile.block_kv),
            ("THREADS", self.tile.threads),
        ];
        let texts = constants.map(|(name, value)| (name, value.to_string()));
        let element = match self.kernel {
            Kernel::TensorCores(format)
            | Kernel::Warpgroups(format)
            | Kernel::Converting(format) => Some(("ELEMENT", format.name().to_owned())),
            Kernel::Rung(_) | Kernel::Library => None,
        };
        let dropout = self.dropout.then(|| ("DROPOUT", "1".to_owned()));
        texts.into_iter().chain(element).chain(dropout).collect()
    }

    /// Calls `f` with the constants as [`gpu::Bundle`] takes them.
    pub fn with_constants<T>(&self, f: impl FnOnce(&[(&str, &str)]) -> T) -> T {
        let constants = self.constants();
        let borrowed = constants.iter().map(|(name, value)| (*name, &**value));
        f(&Vec::from_iter(borrowed))
    }

    /// Bytes of dynamic shared memory, which a launch states.
    pub(crate) fn shared_bytes(&self) -> usize {
        match self.kernel {
            Kernel::Rung(rung) => rung.shared_bytes(self.head_dim, self.tile),
            Kernel::Library | Kernel::Converting(_) => {
                library::shared_bytes(self.head_dim, self.tile)
            }
            Kernel::TensorCores(_) => tensor_cores::shared_bytes(self.head_dim, self.tile),
            Kernel::Warpgroups(_) => warpgroups::shared_bytes(self.head_dim),
        }
    }

    /// Checks that the kernel can have this tile, and that a block has room for it on a device that
    /// gives it `available` bytes of shared memory. A rung has few tiles: those that are committed.
    ///
    /// # Errors
    ///
    /// `tile`, for `operation`.
    pub fn check(&self, operation: &'static str, available: usize) -> Result<(), ArgumentError> {
        let error = |expected, actual| ArgumentError {
            operation,
            argument: "tile",
            expected,
            actual,
        };
        let tile = self.tile;
        let is_tile = (1..=1024).contains(&tile.threads) && tile.block_q > 0 && tile.block_kv > 0;
        let (suits, expected) = match self.kernel {
            Kernel::Rung(rung) => {
                let other = rung.other_tile(self.head_dim);
                let suits = tile == rung.tile(self.head_dim) || Some(tile) == other;
                (suits, format!("a tile of the ladder for {}", self.file()))
            }
            Kernel::Library | Kernel::Converting(_) => (
                is_tile && library::suits(tile),
                format!("one that suits {}", self.file()),
            ),
            Kernel::TensorCores(_) => (
                is_tile && tensor_cores::suits(self.head_dim, tile),
                format!("one that suits {}", self.file()),
            ),
            Kernel::Warpgroups(_) => (
                tile == warpgroups::TILE,
                format!("{}, which {} has", warpgroups::TILE, self.file()),
            ),
        };
        if !suits {
            return Err(error(expected, tile.to_string()));
        }
        self.check_shared(operation, available)
    }

    /// Checks that a block has room for its dynamic shared memory.
    fn check_shared(&self, operation: &'static str, available: usize) -> Result<(), ArgumentError> {
        let needed = self.shared_bytes();
        if needed > available {
            let expected = format!("at most {available} bytes of shared memory");
            let actual = format!("{needed} for {} at D = {}", self.tile, self.head_dim);
            return Err(ArgumentError {
                operation,
                argument: "tile",
                expected,
                actual,
            });
        }
        Ok(())
    }
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file())?;
        for (name, value) in self.constants() {
            write!(f, " {name}={value}")?;
        }
        Ok(())
    }
}
