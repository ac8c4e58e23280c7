//! Host side of the ladder, `kernels/1_flash.cu` and on: tiles, shared memory, checks, and the
//! launch, which is the same for all.

use std::fmt;
use std::sync::Arc;

use cudarc::driver::{
    CudaFunction, CudaStream, DevicePtr, DeviceRepr, DriverError, LaunchConfig, PushKernelArg,
};
use gpu::arguments::{ArgumentError, Checks, OptionalArg};
use serde::{Deserialize, Serialize};
use stage1_reference::Feature;

use crate::library::Tile;
use crate::tensor_map::tensor_maps;
use crate::{Error, Inputs, OPERATION, Outputs, Shape};

/// A kernel of the ladder: FlashAttention on packed tensors, causal or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Rung {
    /// `1_flash.cu`: tiles in shared memory, softmax computed online.
    Flash,
    /// `2_register_tiles.cu`: a rectangle of scores and of outputs in the registers of each thread.
    RegisterTiles,
    /// `3_async_copy.cu`: the next tile is copied while this one is computed. Needs compute
    /// capability 8.0, as the next do.
    AsyncCopy,
    /// `4_mma.cu`: tensor cores. Its tensors are f16, as those of the next are.
    Mma,
    /// `5_swizzle.cu`: tiles that `ldmatrix` reads without bank conflicts.
    Swizzle,
    /// `6_pipeline.cu`: tiles travel while others are multiplied; a softmax of few instructions.
    Pipeline,
    /// `7_reuse.cu`: 32 queries a warp, so each fragment of k and v serves twice as many products.
    Reuse,
    /// `8_tma.cu`: a warp of its own has boxes copied. Needs compute capability 9.0 itself, as the
    /// next do.
    Tma,
    /// `9_wgmma.cu`: products of warpgroups, which read tiles where they lie.
    Wgmma,
    /// `10_ping_pong.cu`: the softmax of one tile runs under the products of another.
    PingPong,
}

impl Rung {
    /// All of them, in order.
    pub const ALL: [Self; 10] = [
        Self::Flash,
        Self::RegisterTiles,
        Self::AsyncCopy,
        Self::Mma,
        Self::Swizzle,
        Self::Pipeline,
        Self::Reuse,
        Self::Tma,
        Self::Wgmma,
        Self::PingPong,
    ];

    /// Those whose tensors are f32.
    pub const F32: [Self; 3] = [Self::Flash, Self::RegisterTiles, Self::AsyncCopy];

    /// Those whose tensors are f16.
    pub const F16: [Self; 7] = [
        Self::Mma,
        Self::Swizzle,
        Self::Pipeline,
        Self::Reuse,
        Self::Tma,
        Self::Wgmma,
        Self::PingPong,
    ];

    /// Those of Hopper, whose tiles are boxes of 64 columns.
    pub const HOPPER: [Self; 3] = [Self::Tma, Self::Wgmma, Self::PingPong];

    /// The head dimensions that most rungs can have: those with committed PTX. 16
    /// is no multiple of a warp.
    pub const HEAD_DIMS: [usize; 3] = [16, 64, 128];

    /// The head dimensions that this rung can have: of [`Rung::HOPPER`] the last two.
    pub fn head_dims(self) -> &'static [usize] {
        match self.is_hopper() {
            true => &Self::HEAD_DIMS[1..],
            false => &Self::HEAD_DIMS,
        }
    }

    /// True for those of [`Rung::HOPPER`].
    pub(crate) fn is_hopper(self) -> bool {
        Self::HOPPER.contains(&self)
    }

    /// True if a device of this compute capability, 7.5 or newer, runs it, as `// arch:` of its
    /// file says.
    pub fn runs_on(self, capability: (i32, i32)) -> bool {
        match self {
            Self::Flash | Self::RegisterTiles => true,
            Self::AsyncCopy | Self::Mma | Self::Swizzle | Self::Pipeline | Self::Reuse => {
                capability >= (8, 0)
            }
            Self::Tma | Self::Wgmma | Self::PingPong => capability == (9, 0),
        }
    }

    /// The options that a rung lacks.
    pub const LACKS: [Feature; 7] = [
        Feature::Window,
        Feature::KeyLengths,
        Feature::AdditiveMask,
        Feature::BlockSparse,
        Feature::Dropout,
        Feature::GroupedHeads,
        Feature::Strides,
    ];

    /// Its name, which is the kernel's.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Flash => "flash",
            Self::RegisterTiles => "register_tiles",
            Self::AsyncCopy => "async_copy",
            Self::Mma => "mma",
            Self::Swizzle => "swizzle",
            Self::Pipeline => "pipeline",
            Self::Reuse => "reuse",
            Self::Tma => "tma",
            Self::Wgmma => "wgmma",
            Self::PingPong => "ping_pong",
        }
    }

    /// The kernel file.
    pub const fn file(self) -> &'static str {
        match self {
            Self::Flash => "1_flash.cu",
            Self::RegisterTiles => "2_register_tiles.cu",
            Self::AsyncCopy => "3_async_copy.cu",
            Self::Mma => "4_mma.cu",
            Self::Swizzle => "5_swizzle.cu",
            Self::Pipeline => "6_pipeline.cu",
            Self::Reuse => "7_reuse.cu",
            Self::Tma => "8_tma.cu",
            Self::Wgmma => "9_wgmma.cu",
            Self::PingPong => "10_ping_pong.cu",
        }
    }

    /// Bytes of dynamic shared memory. Most rungs have static memory alone.
    pub(crate) const fn shared_bytes(self, head_dim: usize, tile: Tile) -> usize {
        match self {
            Self::Reuse => (tile.block_q + 2 * tile.block_kv) * head_dim * size_of::<u16>(),
            Self::Tma | Self::Wgmma | Self::PingPong => {
                (tile.block_q + 4 * tile.block_kv) * head_dim * size_of::<u16>()
            }
            Self::Flash | Self::RegisterTiles | Self::AsyncCopy => 0,
            Self::Mma | Self::Swizzle | Self::Pipeline => 0,
        }
    }

    /// The tile for a head dimension.
    pub const fn tile(self, head_dim: usize) -> Tile {
        match self {
            Self::Flash if head_dim > 96 => Tile::new(16, 32, 128),
            Self::Flash => Tile::new(32, 32, 256),
            Self::RegisterTiles | Self::AsyncCopy if head_dim > 64 => Tile::new(32, 16, 64),
            Self::RegisterTiles | Self::AsyncCopy => Tile::new(64, 32, 128),
            Self::Mma | Self::Swizzle | Self::Pipeline => Tile::new(64, 64, 128),
            Self::Reuse => Tile::new(128, 64, 128),
            Self::Tma => Tile::new(128, 64, 160),
            Self::Wgmma => Tile::new(128, 128, 288),
            Self::PingPong => Tile::new(128, 128, 384),
        }
    }

    /// Another tile for a head dimension, which `ladder` compares with [`Rung::tile`].
    pub(crate) const fn other_tile(self, head_dim: usize) -> Option<Tile> {
        match (self, head_dim) {
            (Self::Flash, 64) => Some(Tile::new(64, 32, 128)),
            (Self::Reuse, 128) => Some(Tile::new(64, 64, 64)),
            _ => None,
        }
    }

    /// Checks everything about the arguments of the rung. `T` is the type of its tensors.
    ///
    /// # Errors
    ///
    /// Those of [`Shape::check`]; an option that rungs lack; a tensor of a rung that reads vectors,
    /// if it does not begin at a multiple of 16 bytes.
    pub fn check<T>(
        self,
        checks: &Checks,
        stream: &Arc<CudaStream>,
        inputs: &Inputs<'_, T>,
        outputs: &Outputs<'_, T>,
        shape: &Shape,
    ) -> Result<(), Error> {
        shape.check(checks, inputs, outputs)?;
        shape.refuse(OPERATION, inputs, &Self::LACKS)?;
        if self == Self::Flash {
            return Ok(());
        }
        let inputs = [("q", &inputs.q), ("k", &inputs.k), ("v", &inputs.v)];
        let inputs = inputs.map(|(name, view)| (name, view.device_ptr(stream).0));
        let output = ("o", outputs.o.device_ptr(stream).0);
        Ok(check_aligned(checks, inputs.into_iter().chain([output]))?)
    }
}

/// Checks that tensors begin at multiples of 16 bytes, as kernels do that read vectors.
pub(crate) fn check_aligned(
    checks: &Checks,
    addresses: impl IntoIterator<Item = (&'static str, u64)>,
) -> Result<(), ArgumentError> {
    let mut addresses = addresses.into_iter();
    match addresses.find(|(_, address)| !address.is_multiple_of(16)) {
        Some((name, address)) => {
            let expected = "at an address that is a multiple of 16";
            Err(checks.error(name, expected, format!("{address:#x}")))
        }
        None => Ok(()),
    }
}

impl fmt::Display for Rung {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

// ANCHOR: launch
/// Launches a rung that is none of [`Rung::HOPPER`], and does not wait. The arguments have been
/// checked; `T` is the type of the rung's tensors.
pub(crate) fn launch<T>(
    stream: &CudaStream,
    function: &CudaFunction,
    config: LaunchConfig,
    inputs: Inputs<'_, T>,
    outputs: Outputs<'_, T>,
    shape: &Shape,
) -> Result<(), DriverError> {
    let Outputs { mut o, mut lse } = outputs;
    let (nq, nk) = (shape.sizes.nq as i32, shape.sizes.nk as i32);
    let (scale, causal) = (shape.scale(), i32::from(shape.causal));
    let mut builder = stream.launch_builder(function);
    builder.arg(&inputs.q).arg(&inputs.k).arg(&inputs.v);
    builder.arg(&mut o).optional(lse.as_mut());
    builder.arg(&nq).arg(&nk).arg(&scale).arg(&causal);
    // SAFETY: these are the parameters of every such rung, in order, and `T` is the type of its
    // elements. The tensors are packed and lie inside the views; `lse` is not touched if it is
    // null; every block writes rows of its own.
    unsafe { builder.launch(config) }?;
    Ok(())
}
// ANCHOR_END: launch

/// [`launch`] of a rung of [`Rung::HOPPER`], whose q, k and v are tensor maps with boxes of the
/// tile's rows.
pub(crate) fn launch_with_maps<T: DeviceRepr>(
    stream: &CudaStream,
    function: &CudaFunction,
    config: LaunchConfig,
    inputs: Inputs<'_, T>,
    outputs: Outputs<'_, T>,
    shape: &Shape,
    tile: Tile,
) -> Result<(), DriverError> {
    let Outputs { mut o, mut lse } = outputs;
    let ([q, k, v], _until_the_launch) = tensor_maps(stream, &inputs, &shape.sizes, tile)?;
    let (nq, nk) = (shape.sizes.nq as i32, shape.sizes.nk as i32);
    let (scale, causal) = (shape.scale(), i32::from(shape.causal));
    let mut builder = stream.launch_builder(function);
    builder.arg(&q).arg(&k).arg(&v);
    builder.arg(&mut o).optional(lse.as_mut());
    builder.arg(&nq).arg(&nk).arg(&scale).arg(&causal);
    // SAFETY: these are the parameters of every rung of `Rung::HOPPER`, in order, and `T` is the
    // type of its elements, f16. The maps describe the packed tensors inside the views; `lse` is
    // not touched if it is null; every block writes rows of its own.
    unsafe { builder.launch(config) }?;
    Ok(())
}
