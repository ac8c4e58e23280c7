use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cudarc::driver::sys::{CUdevice_attribute, CUfunction_attribute};
use cudarc::driver::{
    CudaContext, CudaFunction, CudaStream, DeviceSlice, LaunchConfig, PushKernelArg,
};
use gpu::arguments::{Checks, OptionalArg};

use crate::library::{self, CacheArgument, CountsMut, Device, Launch, Update, Variant};
use crate::{
    CacheShape, CacheViewMut, Dtype, Element, Error, Inputs, MAX_SPLITS, Mode, NewTokens, Outputs,
    PerSequence, Rung, Shape, Workspace, ladder,
};

/// The kernels and their headers, which kernels of other packages may include.
pub static KERNELS: gpu::Bundle = gpu::bundle!(stage4_flash_cuda::KERNELS);

/// The operation's name in errors.
const OPERATION: &str = "decode";

/// Threads of a block of `advance`, each of which counts for a sequence.
const ADVANCE_THREADS: usize = 128;

/// Warps of a block of `update_cache`, each of which moves a row.
const UPDATE_WARPS: usize = 4;

/// The kernel file that updates a cache.
pub(crate) const UPDATE: &str = "library/update_cache.cu";

/// Dynamic shared memory that a block may ask for, in bytes: every device from
/// compute 7.5 on has as much.
const DYNAMIC_SHARED: i32 = 48 << 10;

/// Decoding on one device: a handle that keeps the kernels it has loaded.
#[derive(Debug)]
pub struct Decode {
    context: Arc<CudaContext>,
    mode: Mode,
    /// Number of splits of a sequence, instead of the rule's.
    splits: Option<usize>,
    device: Device,
    kernels: Mutex<HashMap<Variant, CudaFunction>>,
}

impl Decode {
    /// Decoding on the device of `context`, by [`Mode::Library`]. Loads nothing yet.
    ///
    /// # Errors
    ///
    /// The driver's, if it does not tell how many SMs and which capability the device has.
    pub fn new(context: &Arc<CudaContext>) -> Result<Self, Error> {
        let sms = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT;
        Ok(Self {
            context: context.clone(),
            mode: Mode::default(),
            splits: None,
            device: Device {
                sms: usize::try_from(context.attribute(sms)?).unwrap_or(1),
                tensor_cores: context.compute_capability()? >= (8, 0),
            },
            kernels: Mutex::default(),
        })
    }

    /// The same, by another mode.
    pub fn with_mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// The same, with this many splits of a sequence, 1 to [`MAX_SPLITS`], whatever the rule says.
    /// [`Rung::Decode`] splits nothing.
    pub fn with_splits(mut self, splits: usize) -> Self {
        self.splits = Some(splits);
        self
    }

    /// The kernel that runs.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Number of kernels that this handle has loaded.
    pub fn loaded(&self) -> usize {
        self.kernels().len()
    }

    /// Number of splits by [`Decode::forward`] of sequences of which the longest has `longest`
    /// tokens: the rule's, or that of [`Decode::with_splits`]. 1 by a rung that splits nothing.
    pub fn splits(&self, cache: &CacheShape, shape: &Shape, longest: usize) -> usize {
        match (self.mode, self.splits) {
            (Mode::Rung(Rung::Decode), _) => 1,
            (_, Some(splits)) => splits,
            (Mode::Rung(rung), None) => rung.splits(cache, shape, longest, self.device.sms),
            (Mode::Library, None) => library::splits_of(cache, shape, longest, self.device),
        }
    }

    /// `o = softmax(scale · q kᵀ) v` of the last `nq` tokens of each sequence on its cache:
    /// launches on `stream`, and does not wait.
    ///
    /// A query that sees no key gets `o = 0` and `lse = −inf`. If sequences are split, allocates a
    /// [`Workspace`] in the order of the stream.
    ///
    /// # Errors
    ///
    /// Sizes that do not divide or are out of range, views too short, overlapping rows of `o`, keys
    /// that are not aligned to their type, a view or stream of another device: see [`Error`]. All
    /// are found before the launch. After it, only the driver can fail.
    pub fn forward(
        &self,
        stream: &Arc<CudaStream>,
        inputs: Inputs<'_>,
        outputs: Outputs<'_>,
        shape: &Shape,
    ) -> Result<(), Error> {
        let checks = Checks::new(OPERATION, &self.context);
        checks.device("stream", stream.context())?;
        shape.check(&checks, &inputs, &outputs)?;
        let longest = inputs.cache.lengths.host.iter().copied().max();
        let splits = self.splits(&inputs.cache.shape, shape, longest.unwrap_or(0));
        check_splits(&checks, splits)?;
        if let Mode::Rung(rung) = self.mode {
            return match rung.check(&checks, stream, &inputs, &outputs, shape)? {
                true => {
                    let kernel = |variant, kernel| self.function(variant, kernel);
                    let blocks = rung.blocks(&inputs.cache.shape, shape);
                    let grid = match (rung, self.splits) {
                        (Rung::Split, None) => None, // `split::launch` has the rule of `splits` in it
                        _ => Some(ladder::Grid { blocks, splits }),
                    };
                    rung.launch(stream, kernel, inputs, outputs, shape, grid)
                }
                false => Ok(()),
            };
        }
        let launch = self.plan(&checks, stream, &inputs, shape, splits)?;
        let (queries, head_dim) = (launch.sizes.queries(), launch.sizes.head_dim);
        let mut workspace = match splits {
            1 => None,
            _ => Some(Workspace::new(stream, splits, queries, head_dim)?),
        };
        launch.run(stream, &inputs, outputs, workspace.as_mut(), || {
            self.combine()
        })
    }

    /// The same in a workspace of the caller's: it says how many splits a sequence has, and nothing
    /// is allocated. So a CUDA graph can capture it.
    ///
    /// # Errors
    ///
    /// Those of [`Decode::forward`]; `workspace`, if it is too small; `mode`, if that is
    /// a rung, which allocates.
    pub fn forward_in(
        &self,
        stream: &Arc<CudaStream>,
        inputs: Inputs<'_>,
        outputs: Outputs<'_>,
        shape: &Shape,
        workspace: &mut Workspace,
    ) -> Result<(), Error> {
        let checks = Checks::new(OPERATION, &self.context);
        checks.device("stream", stream.context())?;
        shape.check(&checks, &inputs, &outputs)?;
        if self.mode != Mode::Library {
            return Err(checks.error("mode", Mode::Library, self.mode).into());
        }
        check_splits(&checks, workspace.splits())?;
        let launch = self.plan(&checks, stream, &inputs, shape, workspace.splits())?;
        workspace.check(&checks, launch.sizes.queries(), launch.sizes.head_dim)?;
        launch.run(stream, &inputs, outputs, Some(workspace), || self.combine())
    }

    fn plan(
        &self,
        checks: &Checks,
        stream: &Arc<CudaStream>,
        inputs: &Inputs<'_>,
        shape: &Shape,
        splits: usize,
    ) -> Result<Launch, Error> {
        let function = |variant, kernel| self.function(variant, kernel);
        Launch::plan(checks, stream, inputs, shape, splits, self.device, function)
    }

    fn combine(&self) -> Result<CudaFunction, Error> {
        self.function(("library/combine.cu", vec![]), "combine")
    }

    /// Adds the new tokens to the lengths on the device, as a `prepare_advance` of the cache has
    /// announced: launches on `stream`, and does not wait.
    ///
    /// # Errors
    ///
    /// A stream or cache of another device; the driver's.
    ///
    /// # Safety
    ///
    /// It is launched or replayed once after each `prepare_advance` of the cache, and not
    /// otherwise. Then the lengths on the device are those that the host has checked, and
    /// kernels stay inside the cache.
    pub unsafe fn advance(
        &self,
        stream: &Arc<CudaStream>,
        mut counts: CountsMut<'_>,
    ) -> Result<(), Error> {
        let checks = Checks::new("advance", &self.context);
        checks.device("stream", stream.context())?;
        checks.device("counts", counts.lengths.stream().context())?;
        let [batch] = checks.sizes([("batch", counts.batch)])?;
        if batch == 0 {
            return Ok(());
        }
        let function = self.function(("library/advance.cu", vec![]), "advance")?;
        let mut builder = stream.launch_builder(&function);
        builder.arg(&mut counts.lengths);
        builder.arg(&counts.new).arg(&batch);
        let config = LaunchConfig {
            grid_dim: (counts.batch.div_ceil(ADVANCE_THREADS) as u32, 1, 1),
            block_dim: (ADVANCE_THREADS as u32, 1, 1),
            shared_mem_bytes: 0,
        };
        // SAFETY: these are the parameters of `advance`, in order. Both arrays have a
        // number for each sequence.
        unsafe { builder.launch(config) }?;
        Ok(())
    }

    /// Writes the keys and values of new tokens into a cache, converted to its element type (round
    /// to nearest, ties to even): launches on `stream`, and does not wait. In the f16 cache of
    /// [`Rung::Mma`] the library writes them. Other rungs take f32.
    ///
    /// The lengths of the cache count the new tokens already: the first `counts` rows of a sequence
    /// become its last tokens. So a sequence has at most `max_seq` tokens, new ones included.
    ///
    /// # Errors
    ///
    /// Views too short, a length above `max_seq`, a count above the length or above `n`, a cache
    /// that is not aligned to its type, a view or stream of another device. All are found before
    /// the launch. After it, only the driver can fail.
    pub fn update_cache<T: Element>(
        &self,
        stream: &Arc<CudaStream>,
        mut cache: CacheViewMut<'_>,
        counts: PerSequence<'_>,
        new: NewTokens<'_, T>,
    ) -> Result<(), Error> {
        let checks = Checks::new("update_cache", &self.context);
        checks.device("stream", stream.context())?;
        if matches!(self.mode, Mode::Rung(rung) if rung.dtype() == Dtype::F32) {
            let new = new.in_f32(&checks)?;
            return match ladder::check_update(&checks, stream, &cache, &counts, &new)? {
                true => {
                    let kernel = self.function(("update_cache.cu", vec![]), "update_cache")?;
                    ladder::update_cache(stream, &kernel, cache, counts, new)
                }
                false => Ok(()),
            };
        }
        cache.check(&checks)?;
        let CacheShape {
            batch,
            kv_heads,
            dtype,
            ..
        } = cache.shape;
        new.check(&checks, &cache.shape, &cache.lengths, &counts)?;
        cache.is_aligned(&checks, stream)?;
        let rows = batch.saturating_mul(kv_heads).saturating_mul(new.n);
        let rows = checks.grid(rows)?;
        if rows == 0 {
            return Ok(());
        }
        let function = self.function((UPDATE, element(dtype)), "update_cache")?;
        let update = Update {
            k: new.k_strides,
            v: new.v_strides,
            cache: CacheArgument::new(&cache),
            n: new.n as i32,
            rows: rows as i32,
            dtype: T::DTYPE as i32,
        };
        let mut builder = stream.launch_builder(&function);
        builder.arg(&new.k).arg(&new.v);
        builder.arg(&mut cache.k).arg(&mut cache.v);
        builder.arg(&cache.lengths.device).arg(&counts.device);
        builder.optional(cache.pages.as_ref().map(|pages| &pages.entries));
        builder.arg(&update);
        let config = LaunchConfig {
            grid_dim: (rows.div_ceil(UPDATE_WARPS as u32), 1, 1),
            block_dim: (32 * UPDATE_WARPS as u32, 1, 1),
            shared_mem_bytes: 0,
        };
        // SAFETY: these are the parameters of `update_cache`, in order. New rows lie inside their
        // views; the kernel writes rows below the lengths, which are those on the host: the rows
        // lie inside the cache, and their entries of the page table were checked there. The table
        // is not touched if it is null; each warp writes a row of its own.
        unsafe { builder.launch(config) }?;
        Ok(())
    }

    fn kernels(&self) -> MutexGuard<'_, HashMap<Variant, CudaFunction>> {
        // A panic cannot leave it half changed.
        self.kernels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A compiled kernel, loaded once.
    fn function(&self, variant: Variant, kernel: &'static str) -> Result<CudaFunction, Error> {
        // Held while loading, so that no two threads load the same kernel.
        let mut kernels = self.kernels();
        if let Some(function) = kernels.get(&variant) {
            return Ok(function.clone());
        }
        let constants = variant.1.iter().map(|(name, value)| (*name, &**value));
        let module = KERNELS.load(&self.context, variant.0, &Vec::from_iter(constants))?;
        let function = module.load_function(kernel)?;
        let dynamic = CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        function.set_attribute(dynamic, DYNAMIC_SHARED)?;
        kernels.insert(variant, function.clone());
        Ok(function)
    }
}

/// The `-D` constant of a kernel that knows the element type.
pub(crate) fn element(dtype: Dtype) -> Vec<(&'static str, String)> {
    vec![("ELEMENT", dtype.name().to_owned())]
}

fn check_splits(checks: &Checks, splits: usize) -> Result<(), Error> {
    match (1..=MAX_SPLITS).contains(&splits) {
        true => Ok(()),
        false => Err(checks
            .error("splits", format_args!("1 to {MAX_SPLITS}"), splits)
            .into()),
    }
}
