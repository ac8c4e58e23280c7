use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cudarc::driver::sys::{CUdevice_attribute, CUfunction_attribute};
use cudarc::driver::{CudaContext, CudaFunction, CudaModule, CudaStream};
use cudarc::nvrtc::Ptx;
use stage1_reference::{Options, Sizes};
use stage2_naive_cuda::check::Checks;
use stage2_naive_cuda::{self as stage2, Strides};

use crate::launch::launch;
use crate::tiles::Tile;
use crate::{Error, Inputs, Mode, Outputs, Shape, Strategy, Variant, tiles};

/// The operation's name in errors.
pub(crate) const OPERATION: &str = "attention";

pub(crate) static KERNELS: gpu::Bundle = gpu::bundle!();

/// Attention on one device, by one [`Mode`]: a handle that keeps the kernels it has compiled.
#[derive(Debug)]
pub struct Attention {
    context: Arc<CudaContext>,
    mode: Mode,
    /// Instead of the table's.
    tile: Option<Tile>,
    capability: (i32, i32),
    /// Shared memory that a block can have, in bytes.
    shared: usize,
    kernels: Mutex<HashMap<Variant, CudaFunction>>,
}

impl Attention {
    /// Attention on the device of `context`, by [`Mode::Fused`]. Compiles nothing yet.
    ///
    /// # Errors
    ///
    /// The driver's, if it does not tell what the device can do.
    pub fn new(context: &Arc<CudaContext>) -> Result<Self, Error> {
        let shared = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN;
        let shared = context.attribute(shared)?;
        Ok(Self {
            context: context.clone(),
            mode: Mode::default(),
            tile: None,
            capability: context.compute_capability()?,
            shared: usize::try_from(shared).unwrap_or(0),
            kernels: Mutex::default(),
        })
    }

    /// The same, by another mode.
    pub fn with_mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// The same, with this tile for the fused kernels, whatever the table says.
    pub fn with_tile(mut self, tile: Tile) -> Self {
        self.tile = Some(tile);
        self
    }

    /// Which implementation runs.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// `o = softmax(scale · q kᵀ + mask) v` on device memory: launches on `stream`, and does not wait.
    ///
    /// A row that sees no key gets `o = 0` and `lse = −inf`. The first call for a head dimension loads a kernel, or
    /// compiles it if it is not a committed one. The fused modes allocate nothing; [`Mode::Naive`] and [`Mode::Tiled`]
    /// allocate the scores, `[B, H, nq, nk]`, and wait for the key lengths, if there are any.
    ///
    /// # Errors
    ///
    /// Sizes that do not divide, views too short for their strides, overlapping rows of `o`, a view or stream of another
    /// device, sizes beyond 2³⁰, a tile that does not fit: see [`Error`]. All are found before the launch. After it, only the driver can fail.
    pub fn forward(
        &self,
        stream: &Arc<CudaStream>,
        inputs: Inputs<'_>,
        outputs: Outputs<'_>,
        shape: &Shape,
    ) -> Result<(), Error> {
        if stream.context().ordinal() != self.context.ordinal() {
            return Err(Error::Refused(stage2::Error::WrongDevice {
                operation: OPERATION,
                argument: "stream",
                actual: stream.context().ordinal(),
                expected: self.context.ordinal(),
            }));
        }
        self.check(&inputs, &outputs, shape)?;
        match self.mode {
            Mode::Naive => self.stage2(stage2::Variant::Naive, stream, inputs, outputs, shape),
            Mode::Tiled => self.stage2(stage2::Variant::Tiled, stream, inputs, outputs, shape),
            Mode::Fused | Mode::FusedBy(_) => self.fused(stream, inputs, outputs, shape),
        }
    }

    /// The compiled kernel that [`Attention::forward`] uses for head dimension `head_dim`; `None` if the mode is stage 2's.
    ///
    /// # Errors
    ///
    /// [`Error::SharedMemory`] or [`Error::Tile`] if the strategy cannot have this head dimension on this device.
    pub fn variant(&self, head_dim: usize) -> Result<Option<Variant>, Error> {
        match self.mode {
            Mode::Naive | Mode::Tiled => Ok(None),
            Mode::FusedBy(strategy) => self.variant_by(strategy, head_dim).map(Some),
            Mode::Fused => {
                let best = self.variant_by(Strategy::RegisterTiled, head_dim);
                // A tile that the caller chose is for that kernel, whatever the error.
                match self.tile {
                    Some(_) => best.map(Some),
                    None => best
                        .or_else(|_| self.variant_by(Strategy::Split, head_dim))
                        .map(Some),
                }
            }
        }
    }

    /// How many kernels this handle has loaded.
    pub fn loaded(&self) -> usize {
        self.kernels().len()
    }

    /// The compiler's report on the kernel for head dimension `head_dim`: a line for each architecture, such as
    /// `sm_80 fused: registers 100, spill stores 0, spill loads 0, shared 20608`. `None` if the mode is stage 2's, or the
    /// kernel's PTX was made here and not committed.
    ///
    /// # Errors
    ///
    /// Those of [`Attention::variant`], and if the kernel cannot be compiled.
    pub fn resources(&self, head_dim: usize) -> Result<Option<Vec<String>>, Error> {
        let Some(variant) = self.variant(head_dim)? else {
            return Ok(None);
        };
        let constants = variant.constants();
        let constants: Vec<(&str, &str)> = (constants.iter())
            .map(|(name, value)| (*name, &**value))
            .collect();
        let ptx = KERNELS.ptx(variant.file(), &constants)?;
        let lines = ptx.lines().filter_map(|line| line.strip_prefix("// "));
        let lines: Vec<String> = (lines.filter(|line| line.starts_with("sm_")))
            .map(str::to_owned)
            .collect();
        Ok((!lines.is_empty()).then_some(lines))
    }

    fn kernels(&self) -> MutexGuard<'_, HashMap<Variant, CudaFunction>> {
        // A panic cannot leave it half changed.
        self.kernels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn variant_by(&self, strategy: Strategy, head_dim: usize) -> Result<Variant, Error> {
        let class = tiles::class(self.capability, self.shared);
        let from_table = || class.and_then(|class| tiles::choose_from(class, strategy, head_dim));
        let tile = self.tile.or_else(from_table).ok_or_else(|| Error::Tile {
            operation: OPERATION,
            reason: format!("tiles.json has no tile for {strategy} at D = {head_dim}"),
        })?;
        let variant = Variant {
            strategy,
            head_dim,
            tile,
        };
        variant.check(OPERATION, self.shared)?;
        Ok(variant)
    }

    fn fused(
        &self,
        stream: &Arc<CudaStream>,
        inputs: Inputs<'_>,
        outputs: Outputs<'_>,
        shape: &Shape,
    ) -> Result<(), Error> {
        let Sizes {
            batch,
            heads,
            nq,
            head_dim,
            ..
        } = shape.sizes;
        let Some(variant) = self.variant(head_dim)? else {
            return Ok(());
        };
        let blocks = (nq.div_ceil(variant.tile.block_q))
            .saturating_mul(batch)
            .saturating_mul(heads);
        let blocks = self.checks().grid(blocks)?;
        if blocks == 0 {
            return Ok(());
        }
        let function = self.function(&variant)?;
        launch(stream, &function, &variant, inputs, outputs, shape, blocks)
    }

    /// The compiled kernel of a variant, loaded once.
    fn function(&self, variant: &Variant) -> Result<CudaFunction, Error> {
        // Held while compiling, so that no two threads compile the same kernel.
        let mut kernels = self.kernels();
        if let Some(function) = kernels.get(variant) {
            return Ok(function.clone());
        }
        let constants = variant.constants();
        let constants: Vec<(&str, &str)> = (constants.iter())
            .map(|(name, value)| (*name, &**value))
            .collect();
        let module = KERNELS.load(&self.context, variant.file(), &constants)?;
        let function = of_module(variant, &module)?;
        kernels.insert(*variant, function.clone());
        Ok(function)
    }

    /// Has a variant run this PTX, which was compiled elsewhere. [`Attention::forward`] asks for no other then.
    ///
    /// # Errors
    ///
    /// The driver's, if it does not accept the PTX, or there is no such kernel in it.
    pub fn preload(&self, variant: &Variant, ptx: &str) -> Result<(), Error> {
        let module = self.context.load_module(Ptx::from_src(ptx))?;
        let function = of_module(variant, &module)?;
        self.kernels().insert(*variant, function);
        Ok(())
    }

    pub(crate) fn checks(&self) -> Checks {
        Checks::new(OPERATION, self.context.ordinal())
    }

    /// Everything about the arguments that does not depend on the mode.
    fn check(
        &self,
        inputs: &Inputs<'_>,
        outputs: &Outputs<'_>,
        shape: &Shape,
    ) -> Result<(), Error> {
        let sizes = shape.sizes;
        let Sizes {
            batch,
            heads,
            kv_heads,
            nq,
            nk,
            head_dim,
        } = sizes;
        sizes.check(OPERATION)?;
        let mut options = Options::default();
        options.scale = shape.scale;
        options.check(OPERATION, &sizes)?;
        let checks = self.checks();
        checks.sizes(&[("batch", batch), ("heads", heads), ("nq", nq), ("nk", nk)])?;
        checks.input("q", &inputs.q, [batch, heads, nq, head_dim], shape.q)?;
        checks.input("k", &inputs.k, [batch, kv_heads, nk, head_dim], shape.k)?;
        checks.input("v", &inputs.v, [batch, kv_heads, nk, head_dim], shape.v)?;
        checks.output("o", &outputs.o, [batch, heads, nq, head_dim], shape.o)?;
        if let Some(mask) = &inputs.mask {
            checks.input("mask", &mask.values, [batch, heads, nq, nk], mask.strides)?;
        }
        if let Some(lengths) = &inputs.key_lengths {
            checks.input("key_lengths", lengths, [1, 1, 1, batch], Strides::default())?;
        }
        if let Some(blocks) = &inputs.blocks {
            let words = nk.div_ceil(64).div_ceil(32);
            let shape = [batch, heads, nq.div_ceil(64), words];
            checks.input("blocks", &blocks.bits, shape, blocks.strides)?;
        }
        if let Some(lse) = &outputs.lse {
            let rows = batch.saturating_mul(heads).saturating_mul(nq);
            checks.input("lse", lse, [1, 1, 1, rows], Strides::default())?;
        }
        Ok(())
    }
}

/// The kernel of a variant, allowed the shared memory that it needs.
fn of_module(variant: &Variant, module: &Arc<CudaModule>) -> Result<CudaFunction, Error> {
    let function = module.load_function(variant.kernel())?;
    let dynamic = CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
    function.set_attribute(dynamic, variant.dynamic_bytes() as i32)?;
    Ok(function)
}
