use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cudarc::driver::sys::{CUdevice_attribute, CUfunction_attribute};
use cudarc::driver::{CudaContext, CudaFunction, CudaStream, DeviceRepr, LaunchConfig};
use gpu::arguments::Checks;
use stage2_naive_cuda::{self as stage2, AttentionInputs, AttentionShape};

use crate::library::tiles::{self, Class};
use crate::library::{self, Tile, tensor_cores, warpgroups};
use crate::variant::Kernel;
use crate::{Error, Format, Half, Inputs, Mode, OPERATION, Outputs, Rung, Shape, Variant, ladder};

/// The kernels of `kernels/` and their committed PTX.
pub static KERNELS: gpu::Bundle = gpu::bundle!(stage2::KERNELS);

/// What decides which kernel of a mode runs.
#[derive(Clone, Copy)]
struct Need {
    /// None for f32.
    format: Option<Format>,
    head_dim: usize,
    dropout: bool,
    /// [`Kernel::Warpgroups`] takes the problem.
    warpgroups: bool,
}

impl Need {
    /// Of a shape, as if no tensor beside it were in the way of [`Kernel::Warpgroups`].
    fn of(format: Option<Format>, shape: &Shape) -> Self {
        Self {
            format,
            head_dim: shape.sizes.head_dim,
            dropout: shape.drops(),
            warpgroups: warpgroups::takes(shape),
        }
    }
}

/// Attention on one device, by one [`Mode`]: a handle that keeps the kernels it has compiled.
#[derive(Debug)]
pub struct Attention {
    context: Arc<CudaContext>,
    mode: Mode,
    /// Instead of the table's, or the rung's.
    tile: Option<Tile>,
    class: Option<&'static Class>,
    /// The device has those that the kernels in half precision need.
    tensor_cores: bool,
    /// The device is of compute capability 9.0 itself, as [`Kernel::Warpgroups`] needs.
    warpgroups: bool,
    /// Shared memory that a block can have, in bytes.
    shared: usize,
    /// By the variant that is wanted; where that needs a compiler and none is
    /// installed, another one runs.
    kernels: Mutex<HashMap<Variant, (Variant, CudaFunction)>>,
}

impl Attention {
    /// Attention on the device of `context`, by [`Mode::Library`]. Compiles nothing yet.
    ///
    /// # Errors
    ///
    /// The driver's, if it does not tell what the device can do.
    pub fn new(context: &Arc<CudaContext>) -> Result<Self, Error> {
        let shared = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN;
        let shared = usize::try_from(context.attribute(shared)?).unwrap_or(0);
        let capability = context.compute_capability()?;
        Ok(Self {
            context: context.clone(),
            mode: Mode::default(),
            tile: None,
            class: tiles::class(capability, shared),
            tensor_cores: capability >= (8, 0),
            warpgroups: capability == (9, 0),
            shared,
            kernels: Mutex::default(),
        })
    }

    /// The same, by another mode, with the table's tiles.
    pub fn with_mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self.tile = None;
        self
    }

    /// The same, with this tile, whatever the table says, until [`Attention::with_mode`]. A rung
    /// takes those that are committed. [`Mode::Padded`] and the modes of stage 2 have their own. A
    /// kernel that is not committed then needs NVRTC: nothing is padded instead. In half
    /// precision a tile other than [`warpgroups::TILE`] is one of [`Kernel::TensorCores`].
    pub fn with_tile(mut self, tile: Tile) -> Self {
        self.tile = Some(tile);
        self
    }

    /// The implementation that runs.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// `o = softmax(scale · q kᵀ + mask) v` on device memory: launches on
    /// `stream`, and does not wait.
    ///
    /// A row that sees no key gets `o = 0` and `lse = −inf`. The first call for a head dimension
    /// loads a kernel, or compiles it if it is not a committed one; without a compiler,
    /// [`Mode::Library`] pads the head dimension: [`Attention::variant`] tells which kernel runs.
    /// With dropout it can do so up to D = 128 in f32; all else needs the compiler.
    /// The kernels of this stage allocate nothing; [`Mode::Naive`] and [`Mode::Tiled`] allocate the
    /// scores, `[B, H, nq, nk]`.
    ///
    /// # Errors
    ///
    /// Sizes that do not divide, a probability of dropout that is not in `[0, 1)`, views too short
    /// for their strides, overlapping rows of `o`, a view or stream of another device, sizes beyond
    /// 2³⁰, a tile that does not fit, an option, strides or an alignment of 16 bytes that the mode
    /// lacks, a mode whose tensors are f16: see [`Error`]. All are found before the launch. After
    /// it, only the driver can fail.
    pub fn forward(
        &self,
        stream: &Arc<CudaStream>,
        inputs: Inputs<'_>,
        outputs: Outputs<'_>,
        shape: &Shape,
    ) -> Result<(), Error> {
        let checks = Checks::new(OPERATION, &self.context);
        checks.device("stream", stream.context())?;
        match self.mode {
            Mode::Naive => return stage2(stage2::Variant::Naive, stream, inputs, outputs, shape),
            Mode::Tiled => return stage2(stage2::Variant::Tiled, stream, inputs, outputs, shape),
            Mode::Library | Mode::Padded => shape.check(&checks, &inputs, &outputs)?,
            Mode::Rung(rung) if Rung::F32.contains(&rung) => {
                rung.check(&checks, stream, &inputs, &outputs, shape)?;
            }
            Mode::Rung(rung) => return Err(checks.error("mode", "one in f32", rung).into()),
        }
        self.launch(&checks, None, stream, inputs, outputs, shape)
    }

    /// [`Attention::forward`] in half precision, on tensor cores: q, k, v and o are `f16` or
    /// `bf16`; sums, masks and lse are f32. By [`Mode::Library`] or [`Mode::Padded`], with every
    /// option, or in `f16` by a rung of [`Rung::F16`]. The rungs need compute capability 8.0, and
    /// those of [`Rung::HOPPER`] 9.0 itself.
    ///
    /// [`Mode::Library`] has three kernels: on a device of compute capability 9.0 itself
    /// [`Kernel::Warpgroups`], if D is at most 128, there is no block mask, and q, k and v suit
    /// tensor maps: they begin at multiples of 16 bytes, and their strides are positive multiples
    /// of 16 bytes below 2⁴⁰. Otherwise from 8.0 on [`Kernel::TensorCores`], and below 8.0
    /// [`Kernel::Converting`], the kernel in f32, which converts what it loads and stores.
    /// [`Attention::half_variant`] tells which one runs.
    ///
    /// # Errors
    ///
    /// Those of [`Attention::forward`]; a mode that has no kernel for `T`; [`Error::Load`] of a
    /// rung on a device whose compute capability it does not run on.
    pub fn forward_half<T: Half>(
        &self,
        stream: &Arc<CudaStream>,
        inputs: Inputs<'_, T>,
        outputs: Outputs<'_, T>,
        shape: &Shape,
    ) -> Result<(), Error> {
        let checks = Checks::new(OPERATION, &self.context);
        checks.device("stream", stream.context())?;
        match self.mode {
            Mode::Library | Mode::Padded => shape.check(&checks, &inputs, &outputs)?,
            Mode::Rung(rung) if Rung::F16.contains(&rung) && T::FORMAT == Format::F16 => {
                rung.check(&checks, stream, &inputs, &outputs, shape)?;
            }
            mode => {
                let expected = format!("one in {}", T::FORMAT.name());
                return Err(checks.error("mode", expected, mode).into());
            }
        }
        self.launch(&checks, Some(T::FORMAT), stream, inputs, outputs, shape)
    }

    /// Loads the kernel for a problem, and launches it if there is a query. The arguments have been
    /// checked; `format` is that of `T`, and none for f32.
    fn launch<T: DeviceRepr>(
        &self,
        checks: &Checks,
        format: Option<Format>,
        stream: &CudaStream,
        inputs: Inputs<'_, T>,
        outputs: Outputs<'_, T>,
        shape: &Shape,
    ) -> Result<(), Error> {
        let mut need = Need::of(format, shape);
        need.warpgroups = need.warpgroups && warpgroups::takes_inputs(stream, &inputs);
        let (variant, function) = self.loaded_kernel(need)?;
        let tiles = shape.sizes.nq.div_ceil(variant.tile.block_q);
        let matrices = shape.sizes.batch.saturating_mul(shape.sizes.heads);
        let blocks = checks.grid(tiles.saturating_mul(matrices))?;
        if blocks == 0 {
            return Ok(());
        }
        let config = LaunchConfig {
            grid_dim: (blocks, 1, 1),
            block_dim: (variant.tile.threads as u32, 1, 1),
            shared_mem_bytes: variant.shared_bytes() as u32,
        };
        let launch = match variant.kernel {
            Kernel::Rung(rung) if rung.is_hopper() => {
                let tile = variant.tile;
                return Ok(ladder::launch_with_maps(
                    stream, &function, config, inputs, outputs, shape, tile,
                )?);
            }
            Kernel::Warpgroups(format) => {
                return Ok(warpgroups::launch(
                    format, stream, &function, config, inputs, outputs, shape,
                )?);
            }
            Kernel::Rung(_) => ladder::launch,
            Kernel::Library | Kernel::TensorCores(_) | Kernel::Converting(_) => library::launch,
        };
        Ok(launch(stream, &function, config, inputs, outputs, shape)?)
    }

    /// The kernel that [`Attention::forward`] runs for head dimension `head_dim`, loaded: with
    /// [`Mode::Library`] one for exactly `head_dim`; if that is not committed and no compiler is
    /// installed, one for more columns, which pads.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] if the mode is stage 2's, or cannot have this head dimension on this
    /// device; [`Error::Load`].
    pub fn variant(&self, head_dim: usize) -> Result<Variant, Error> {
        let need = Need {
            format: None,
            head_dim,
            dropout: false,
            warpgroups: false,
        };
        Ok(self.loaded_kernel(need)?.0)
    }

    /// The kernel that [`Attention::forward_half`] runs for a shape, loaded: if q, k and v begin at
    /// multiples of 16 bytes, and there is no block mask. Otherwise it runs [`Kernel::TensorCores`]
    /// where this is [`Kernel::Warpgroups`].
    ///
    /// # Errors
    ///
    /// Those of [`Attention::variant`].
    pub fn half_variant(&self, format: Format, shape: &Shape) -> Result<Variant, Error> {
        Ok(self.loaded_kernel(Need::of(Some(format), shape))?.0)
    }

    /// The number of kernels that this handle has loaded.
    pub fn loaded(&self) -> usize {
        let kernels = self.kernels();
        let own = |(wanted, (runs, _)): &(&Variant, &(Variant, _))| *wanted == runs;
        kernels.iter().filter(own).count()
    }

    /// The kernel that is wanted.
    fn wanted(&self, need: Need) -> Result<Variant, Error> {
        let Need {
            format, head_dim, ..
        } = need;
        let error = |argument, expected: String| {
            let checks = Checks::new(OPERATION, &self.context);
            checks.error(argument, expected, head_dim)
        };
        let variant = match (self.mode, format) {
            (Mode::Rung(rung), _) if rung.head_dims().contains(&head_dim) => {
                let own = Variant::rung(rung, head_dim);
                own.with_tile(self.tile.unwrap_or(own.tile))
            }
            (Mode::Rung(rung), _) => {
                return Err(error("head_dim", format!("one of {:?}", rung.head_dims())).into());
            }
            (Mode::Naive | Mode::Tiled, _) => {
                return Err(error("mode", "a kernel of this stage".to_owned()).into());
            }
            (Mode::Padded, _) => self.padded(need),
            (Mode::Library, Some(format)) if need.warpgroups && self.has_warpgroups() => {
                Variant::warpgroups(format, library::padded(head_dim, &warpgroups::PADDED))
            }
            (Mode::Library, Some(format)) if self.tensor_cores => {
                let own = Variant::tensor_cores(format, head_dim);
                own.with_tile(self.tile.unwrap_or(own.tile))
            }
            (Mode::Library, _) => {
                let tuned = self.class.map(|class| class.entry(head_dim).tile);
                let tile = self
                    .tile
                    .or(tuned)
                    .ok_or_else(|| error("tile", "one in tiles.json for this device".to_owned()))?;
                let own = Variant::library(head_dim, tile);
                format.map_or(own, |format| own.converting(format))
            }
        };
        variant.check(OPERATION, self.shared)?;
        Ok(Variant {
            dropout: need.dropout,
            ..variant
        })
    }

    /// True if the device runs [`Kernel::Warpgroups`], and no other kernel's tile is asked for.
    fn has_warpgroups(&self) -> bool {
        self.warpgroups && self.tile.is_none_or(|tile| tile == warpgroups::TILE)
    }

    /// The kernel that pads a head dimension. It is committed, but for those with dropout in half
    /// precision, or of more columns than [`library::PADDED_WITH_DROPOUT`] has.
    fn padded(&self, need: Need) -> Variant {
        let Need {
            format,
            head_dim,
            dropout,
            ..
        } = need;
        let variant = match format {
            Some(format) if !self.tensor_cores => {
                let head_dim = library::padded(head_dim, &tensor_cores::PADDED);
                Variant::padded(None, head_dim).converting(format)
            }
            None if dropout => {
                let head_dim = library::padded(head_dim, &library::PADDED_WITH_DROPOUT);
                Variant::padded(None, head_dim)
            }
            format => Variant::padded(format, head_dim),
        };
        Variant { dropout, ..variant }
    }

    /// The kernel for a head dimension; if it has to be compiled and no compiler is
    /// installed, the padded one.
    fn loaded_kernel(&self, need: Need) -> Result<(Variant, CudaFunction), Error> {
        let wanted = self.wanted(need)?;
        match self.function(&wanted) {
            Err(Error::Load(gpu::Error::NvrtcMissing { .. }))
                if self.mode == Mode::Library && self.tile.is_none() =>
            {
                let padded = self.function(&self.padded(need))?;
                // So that the compiler is searched for once.
                self.kernels().insert(wanted, padded.clone());
                Ok(padded)
            }
            loaded => loaded,
        }
    }

    fn kernels(&self) -> MutexGuard<'_, HashMap<Variant, (Variant, CudaFunction)>> {
        // A panic cannot leave it half changed.
        self.kernels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The compiled kernel of a variant, loaded once and allowed the shared memory that it needs.
    fn function(&self, variant: &Variant) -> Result<(Variant, CudaFunction), Error> {
        // Held while compiling, so that no two threads compile the same kernel.
        let mut kernels = self.kernels();
        if let Some(loaded) = kernels.get(variant) {
            return Ok(loaded.clone());
        }
        let module = variant
            .with_constants(|constants| KERNELS.load(&self.context, variant.file(), constants))?;
        let function = module.load_function(variant.entry())?;
        let dynamic = CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        function.set_attribute(dynamic, variant.shared_bytes() as i32)?;
        kernels.insert(*variant, (*variant, function.clone()));
        Ok((*variant, function))
    }
}

/// Attention by stage 2, on the options that it has.
fn stage2(
    products: stage2::Variant,
    stream: &Arc<CudaStream>,
    inputs: Inputs<'_>,
    outputs: Outputs<'_>,
    shape: &Shape,
) -> Result<(), Error> {
    shape.refuse(OPERATION, &inputs, &stage2::LACKS)?;
    let Inputs { q, k, v, mask, .. } = inputs;
    let inputs = AttentionInputs { q, k, v, mask };
    let shape = AttentionShape {
        sizes: shape.sizes,
        scale: shape.scale,
        causal: shape.causal,
        dropout: shape.dropout,
        q: shape.q,
        k: shape.k,
        v: shape.v,
        o: shape.o,
    };
    // The modules stay loaded, so this costs a few look-ups.
    let kernels = stage2::Kernels::new(stream)?;
    Ok(kernels.attention(products, inputs, outputs, &shape)?)
}
