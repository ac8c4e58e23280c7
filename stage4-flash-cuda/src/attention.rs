use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};

use cudarc::driver::sys::{CUdevice_attribute, CUfunction_attribute};
use cudarc::driver::{CudaContext, CudaFunction, CudaStream, LaunchConfig};
use gpu::arguments::Checks;
use stage2_naive_cuda::{self as stage2, AttentionInputs, AttentionShape};

use crate::mode::Implementation;
use crate::rungs::{Launch, Rung};
use crate::tiles::{Class, Dtype, Tile};
use crate::{Error, Inputs, Mode, Outputs, Shape, Strategy, Variant, tiles};

/// The operation's name in errors.
pub(crate) const OPERATION: &str = "attention";

/// The kernels of `kernels/` and their committed PTX. A later stage names them in its own [`gpu::bundle!`] to include the
/// headers.
pub static KERNELS: gpu::Bundle = gpu::bundle!();

/// Attention on one device, by one [`Mode`]: a handle that keeps the kernels it has compiled.
#[derive(Debug)]
pub struct Attention {
    context: Arc<CudaContext>,
    mode: Mode,
    /// Instead of the table's.
    tile: Option<Tile>,
    class: Option<&'static Class>,
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
        let shared = usize::try_from(context.attribute(shared)?).unwrap_or(0);
        Ok(Self {
            context: context.clone(),
            mode: Mode::default(),
            tile: None,
            class: tiles::class(context.compute_capability()?, shared),
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

    /// The same, by one strategy and with this tile, whatever the table says.
    pub fn with_tile(mut self, strategy: Strategy, tile: Tile) -> Self {
        self.mode = Mode::FusedBy(strategy);
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
    /// compiles it if it is not a committed one; without a compiler, [`Mode::Fused`] takes the kernel of
    /// [`Strategy::Padded`], and says so on standard error, once. The fused modes allocate nothing; [`Mode::Naive`] and [`Mode::Tiled`]
    /// allocate the scores, `[B, H, nq, nk]`.
    ///
    /// # Errors
    ///
    /// Sizes that do not divide, views too short for their strides, overlapping rows of `o`, a view or stream of another
    /// device, sizes beyond 2³⁰, a tile that does not fit, an option or strides that the mode lacks: see [`Error`]. All are
    /// found before the launch. After it, only the driver can fail.
    pub fn forward(
        &self,
        stream: &Arc<CudaStream>,
        inputs: Inputs<'_>,
        outputs: Outputs<'_>,
        shape: &Shape,
    ) -> Result<(), Error> {
        let checks = Checks::new(OPERATION, &self.context);
        checks.device("stream", stream.context())?;
        match self.mode.implementation() {
            Implementation::Stage2(products) => stage2(products, stream, inputs, outputs, shape),
            Implementation::Fused(strategies) => {
                shape.check(&checks, &inputs, &outputs)?;
                let (batch, heads) = (shape.sizes.batch, shape.sizes.heads);
                let able = |rung: &dyn Rung| shape.refuse(OPERATION, &inputs, rung.lacks());
                let variant =
                    self.loadable(self.fastest(strategies, shape.sizes.head_dim, able)?)?;
                let tiles = shape.sizes.nq.div_ceil(variant.tile.block_q);
                let blocks = checks.grid(tiles.saturating_mul(batch).saturating_mul(heads))?;
                if blocks == 0 {
                    return Ok(());
                }
                let launch = Launch {
                    stream,
                    function: self.function(&variant)?,
                    config: LaunchConfig {
                        grid_dim: (blocks, 1, 1),
                        block_dim: (variant.tile.threads as u32, 1, 1),
                        shared_mem_bytes: variant.dynamic_bytes(),
                    },
                    inputs,
                    outputs,
                    shape,
                };
                Ok(variant.strategy.rung().launch(launch)?)
            }
        }
    }

    /// The kernel that [`Attention::forward`] uses for head dimension `head_dim`, if no option is asked for, and if it is
    /// committed or can be compiled.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] if the mode is stage 2's, or no strategy of it can have this head dimension on this device.
    pub fn variant(&self, head_dim: usize) -> Result<Variant, Error> {
        match self.mode.implementation() {
            Implementation::Stage2(_) => Err(self.no_tile(self.mode, head_dim)),
            Implementation::Fused(strategies) => self.fastest(strategies, head_dim, |_| Ok(())),
        }
    }

    /// Whether the kernel for head dimension `head_dim` has committed PTX, so that none is compiled on first use.
    ///
    /// # Errors
    ///
    /// Those of [`Attention::variant`].
    pub fn is_committed(&self, head_dim: usize) -> Result<bool, Error> {
        let variant = self.variant(head_dim)?;
        let file = variant.file();
        Ok(variant.with_constants(|constants| KERNELS.is_committed(file, constants))?)
    }

    /// How many kernels this handle has loaded.
    pub fn loaded(&self) -> usize {
        self.kernels().len()
    }

    /// The compiler's report on the kernel for head dimension `head_dim`: a line for each architecture, such as
    /// `sm_80 options: registers 100, spill stores 0, spill loads 0, shared 20608`. Empty if the PTX was made
    /// here and is not committed.
    ///
    /// # Errors
    ///
    /// Those of [`Attention::variant`], and if the kernel cannot be compiled.
    pub fn resources(&self, head_dim: usize) -> Result<Vec<String>, Error> {
        let variant = self.variant(head_dim)?;
        let ptx = variant.with_constants(|constants| KERNELS.ptx(variant.file(), constants))?;
        let lines = ptx.lines().filter_map(|line| line.strip_prefix("// "));
        let lines = lines.filter(|line| line.starts_with("sm_"));
        Ok(lines.map(str::to_owned).collect())
    }

    fn kernels(&self) -> MutexGuard<'_, HashMap<Variant, CudaFunction>> {
        // A panic cannot leave it half changed.
        self.kernels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Of the strategies that fit the device and are `able`, the one with the least time in the table. If there
    /// is none, the first error: that of a tile before that of a strategy that is not `able`.
    fn fastest(
        &self,
        strategies: &[Strategy],
        head_dim: usize,
        able: impl Fn(&dyn Rung) -> Result<(), Error>,
    ) -> Result<Variant, Error> {
        let candidates = strategies.iter().map(|&strategy| {
            able(strategy.rung())?;
            self.candidate(strategy, head_dim)
        });
        let faster = |a: Result<(f64, Variant), Error>, b| match (a, b) {
            (Ok(a), Ok(b)) => Ok(if b.0 < a.0 { b } else { a }),
            (Ok(able), Err(_)) | (Err(_), Ok(able)) => Ok(able),
            (Err(Error::Attention(_)), Err(of_tile @ Error::Argument(_))) => Err(of_tile),
            (Err(first), Err(_)) => Err(first),
        };
        let fastest = candidates.reduce(faster);
        let nothing = || Err(self.no_tile(self.mode, head_dim));
        Ok(fastest.unwrap_or_else(nothing)?.1)
    }

    /// This kernel; if it has to be compiled and no compiler is there, and the mode leaves the choice, the padded one for its
    /// head dimension, whose PTX is committed.
    fn loadable(&self, variant: Variant) -> Result<Variant, Error> {
        let compiler_missing =
            |error: &Error| matches!(error, Error::Load(gpu::Error::NvrtcMissing { .. }));
        match self.function(&variant) {
            Err(error) if self.mode == Mode::Fused && compiler_missing(&error) => {
                let (_, padded) = self.candidate(Strategy::Padded, variant.head_dim)?;
                static SAID: Once = Once::new();
                SAID.call_once(|| eprintln!("stage 4: {}", without_compiler(&variant, &padded)));
                Ok(padded)
            }
            loaded => loaded.map(|_| variant),
        }
    }

    /// A strategy's kernel for a head dimension, and its time in the table; 0 with a tile of the caller's.
    fn candidate(&self, strategy: Strategy, head_dim: usize) -> Result<(f64, Variant), Error> {
        let entry = |class: &'static Class| class.entry(Dtype::F32, strategy, head_dim);
        let (ms, tile) = match (self.tile, self.class.and_then(entry)) {
            (Some(tile), _) => (0.0, tile),
            (None, Some(entry)) => (entry.ms, entry.tile),
            (None, None) => return Err(self.no_tile(strategy, head_dim)),
        };
        let variant = Variant::new(strategy, head_dim, tile);
        variant.check(OPERATION, self.shared)?;
        Ok((ms, variant))
    }

    fn no_tile(&self, of: impl fmt::Display, head_dim: usize) -> Error {
        let checks = Checks::new(OPERATION, &self.context);
        let actual = format!("none for {of} at D = {head_dim}");
        checks.error("tile", "one in tiles.json", actual).into()
    }

    /// The compiled kernel of a variant, loaded once and allowed the shared memory that it needs.
    fn function(&self, variant: &Variant) -> Result<CudaFunction, Error> {
        // Held while compiling, so that no two threads compile the same kernel.
        let mut kernels = self.kernels();
        if let Some(function) = kernels.get(variant) {
            return Ok(function.clone());
        }
        let module = variant
            .with_constants(|constants| KERNELS.load(&self.context, variant.file(), constants))?;
        let function = module.load_function(variant.strategy.rung().kernel())?;
        let dynamic = CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        function.set_attribute(dynamic, variant.dynamic_bytes() as i32)?;
        kernels.insert(*variant, function.clone());
        Ok(function)
    }
}

/// What is said of a head dimension that no compiled kernel is for.
fn without_compiler(variant: &Variant, padded: &Variant) -> String {
    let columns = padded
        .constants()
        .into_iter()
        .find(|(name, _)| *name == "COLUMNS");
    format!(
        "D = {} runs on a slower kernel, padded to {} columns: {} for it has to be compiled, and there is no compiler; \
         `fetch-nvrtc` of the program `gpu` installs one",
        variant.head_dim,
        columns.map_or_else(String::new, |(_, columns)| columns),
        variant.file(),
    )
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
        q: shape.q,
        k: shape.k,
        v: shape.v,
        o: shape.o,
    };
    // The modules stay loaded, so this costs a few look-ups.
    let kernels = stage2::Kernels::new(stream)?;
    Ok(kernels.attention(products, inputs, outputs, &shape)?)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use stage1_reference::{Error as Refusal, Feature};

    use super::*;

    const FLASH: Strategy = Strategy::Flash;
    const EXACT: Strategy = Strategy::Exact;
    const TILED: Strategy = Strategy::RegisterTiled;

    /// At D = 64, with a window, which rung 1 lacks. The table has these times, in milliseconds.
    #[rstest]
    #[case::the_faster_of_two(&[(TILED, 2.0), (EXACT, 1.0)], &[TILED, EXACT], "exact")]
    #[case::the_fastest_lacks_it(&[(FLASH, 1.0), (TILED, 2.0)], &[FLASH, TILED], "register-tiled")]
    #[case::no_tile_for_it(&[(EXACT, 2.0)], &[TILED, EXACT], "exact")]
    #[case::a_missing_tile_before_a_refusal(&[(FLASH, 1.0)], &[FLASH, TILED], "none for register-tiled")]
    #[case::in_any_order(&[(FLASH, 1.0)], &[TILED, FLASH], "none for register-tiled")]
    #[case::a_refusal_alone(&[(FLASH, 1.0)], &[FLASH], "window")]
    fn the_fastest_that_can_or_the_reason_that_there_is_none(
        #[case] times: &[(Strategy, f64)],
        #[case] strategies: &[Strategy],
        #[case] expected: &str,
    ) {
        let mut attention = Attention::new(&gpu::context(0).unwrap()).unwrap();
        let known = attention.class.unwrap();
        let entry = |&(strategy, ms)| tiles::Entry {
            ms,
            ..known.entry(Dtype::F32, strategy, 64).unwrap().clone()
        };
        attention.class = Some(Box::leak(Box::new(Class {
            tiles: times.iter().map(entry).collect(),
            ..known.clone()
        })));
        let with_window = |rung: &dyn Rung| match rung.lacks().contains(&Feature::Window) {
            true => Err(Error::Attention(Refusal::Unsupported {
                operation: OPERATION,
                feature: Feature::Window,
            })),
            false => Ok(()),
        };
        let text = match attention.fastest(strategies, 64, with_window) {
            Ok(variant) => variant.strategy.to_string(),
            Err(error) => error.to_string(),
        };
        assert!(text.contains(expected), "{text}");
    }
}
