use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cudarc::driver::sys::{CUdevice_attribute, CUfunction_attribute};
use cudarc::driver::{
    CudaContext, CudaFunction, CudaStream, CudaViewMut, DeviceSlice, LaunchConfig, PushKernelArg,
};
use gpu::arguments::{Checks, OptionalArg, Strides};

use crate::problem::{self, Problem, Update};
use crate::rungs::{Grid, Rows, Sizes};
use crate::{
    CacheShape, CacheViewMut, CountsMut, Error, Inputs, MAX_SPLITS, Mode, NewTokens, Outputs,
    PerSequence, Shape, Workspace, splits,
};

/// The kernels and their headers, which kernels of other packages may include.
pub static KERNELS: gpu::Bundle = gpu::bundle!();

/// The operation's name in errors.
const OPERATION: &str = "decode";

/// Tiles of keys up to which a sequence is not split: a block reads as many in the time of the launch that merges parts. On the
/// modelled H100 a tile takes 0.7 µs and the launch 3.4 µs.
const SHORT: usize = 4;

/// Threads of a block of `advance`, each of which counts for a sequence.
const ADVANCE_THREADS: usize = 128;

/// Warps of a block of `update_cache`, each of which moves a row.
const UPDATE_WARPS: usize = 4;

/// Dynamic shared memory that a block may ask for, in bytes: every device from compute 7.5 on has as much.
const DYNAMIC_SHARED: i32 = 48 << 10;

/// Decoding on one device: a handle that keeps the kernels it has loaded.
#[derive(Debug)]
pub struct Decode {
    context: Arc<CudaContext>,
    mode: Mode,
    /// Parts of a sequence, instead of the rule's.
    splits: Option<usize>,
    sms: usize,
    kernels: Mutex<HashMap<Variant, CudaFunction>>,
}

/// A kernel file and its `-D` constants.
pub(crate) type Variant = (&'static str, Vec<(&'static str, String)>);

impl Decode {
    /// Decoding on the device of `context`, by [`Mode::Auto`]. Loads nothing yet.
    ///
    /// # Errors
    ///
    /// The driver's, if it does not tell how many SMs the device has.
    pub fn new(context: &Arc<CudaContext>) -> Result<Self, Error> {
        let sms = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT;
        Ok(Self {
            context: context.clone(),
            mode: Mode::default(),
            splits: None,
            sms: usize::try_from(context.attribute(sms)?).unwrap_or(1),
            kernels: Mutex::default(),
        })
    }

    /// The same, by another mode.
    pub fn with_mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// The same, with sequences split into this many parts, 1 to [`MAX_SPLITS`], whatever the rule says. [`Mode::Naive`]
    /// splits nothing.
    pub fn with_splits(mut self, splits: usize) -> Self {
        self.splits = Some(splits);
        self
    }

    /// Which kernel runs.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// How many kernels this handle has loaded.
    pub fn loaded(&self) -> usize {
        self.kernels().len()
    }

    /// The number of parts into which [`Decode::forward`] splits sequences, of which the longest has `longest` tokens: the
    /// rule's, or that of [`Decode::with_splits`]. 1 by a rung that splits nothing, and by the rule of 4 tiles of keys or fewer.
    pub fn parts(&self, cache: &CacheShape, shape: &Shape, longest: usize) -> usize {
        let sizes = Sizes::new(cache, shape);
        let rung = self.mode.rung(sizes.rows());
        match (rung.splits(), self.splits) {
            (false, _) => 1,
            (true, Some(splits)) => splits,
            (true, None) => {
                let keys = longest.min(shape.window().saturating_add(shape.nq));
                let rows = Rows {
                    dtype: cache.dtype,
                    head_dim: cache.head_dim,
                    aligned: true,
                };
                match keys <= SHORT * rung.tile(rows) {
                    true => 1,
                    false => splits(rung.grid(&sizes).blocks, keys, self.sms),
                }
            }
        }
    }

    /// `o = softmax(scale · q kᵀ) v` of the last `nq` tokens of each sequence on its cache: launches on `stream`, and does not
    /// wait.
    ///
    /// A query that sees no key gets `o = 0` and `lse = −inf`. If sequences are split, allocates a [`Workspace`] in the order of
    /// the stream.
    ///
    /// # Errors
    ///
    /// Sizes that do not divide or are out of range, views too short, overlapping rows of `o`, keys that are not aligned to
    /// their type, a view or stream of another device: see [`Error`]. All are found before the launch. After it, only the
    /// driver can fail.
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
        let splits = self.parts(&inputs.cache.shape, shape, longest.unwrap_or(0));
        let launch = self.plan(&checks, stream, &inputs, shape, splits)?;
        let sizes = &launch.sizes;
        let mut workspace = match splits {
            1 => None,
            _ => Some(Workspace::new(
                stream,
                splits,
                sizes.queries(),
                sizes.head_dim,
            )?),
        };
        self.run(stream, launch, inputs, outputs, workspace.as_mut())
    }

    /// The same in a workspace of the caller's: it says into how many parts sequences are split, and nothing is allocated. So a
    /// CUDA graph can capture it.
    ///
    /// # Errors
    ///
    /// Those of [`Decode::forward`]; `workspace`, if it is too small or splits sequences that the mode does not split.
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
        let launch = self.plan(&checks, stream, &inputs, shape, workspace.splits())?;
        workspace.check(&checks, launch.sizes.queries(), launch.sizes.head_dim)?;
        self.run(stream, launch, inputs, outputs, Some(workspace))
    }

    /// Checks what depends on the kernel, and loads it.
    fn plan(
        &self,
        checks: &Checks,
        stream: &Arc<CudaStream>,
        inputs: &Inputs<'_>,
        shape: &Shape,
        splits: usize,
    ) -> Result<Launch, Error> {
        let aligned = inputs.cache.is_aligned(checks, stream)?;
        let of_cache = inputs.cache.shape;
        let sizes = Sizes::new(&of_cache, shape);
        let rung = self.mode.rung(sizes.rows());
        let most = if rung.splits() { MAX_SPLITS } else { 1 };
        if !(1..=most).contains(&splits) {
            return Err(checks
                .error("splits", format_args!("1 to {most}"), splits)
                .into());
        }
        let mut grid = rung.grid(&sizes);
        grid.blocks = grid.blocks.saturating_mul(splits);
        checks.grid(grid.blocks.max(sizes.queries()))?;
        let variant = Rows {
            dtype: of_cache.dtype,
            head_dim: of_cache.head_dim,
            aligned,
        };
        let constants = constants(of_cache.dtype.name(), rung.constants(variant));
        Ok(Launch {
            function: self.function(rung.file(), rung.kernel(), constants)?,
            grid,
            problem: Problem::new(shape, inputs, splits),
            sizes,
            splits,
        })
    }

    /// Launches what was planned. There is a workspace if there are parts.
    fn run(
        &self,
        stream: &Arc<CudaStream>,
        launch: Launch,
        inputs: Inputs<'_>,
        mut outputs: Outputs<'_>,
        workspace: Option<&mut Workspace>,
    ) -> Result<(), Error> {
        let (sizes, splits) = (launch.sizes, launch.splits);
        let queries = sizes.queries();
        if queries == 0 {
            return Ok(());
        }
        let Some(workspace) = workspace.filter(|_| splits > 1) else {
            let Outputs { o, lse } = &mut outputs;
            return launch.run(stream, &inputs, o, lse.as_mut());
        };

        let combine = self.function("combine.cu", "combine", vec![])?;
        let Workspace { parts, lse, .. } = workspace;
        let problem = launch.problem;
        let mut of_parts = launch;
        of_parts.problem.o = Strides::packed(sizes.heads, sizes.nq, splits * sizes.head_dim);
        let (mut o, mut part_lse) = (parts.as_view_mut(), lse.as_view_mut());
        of_parts.run(stream, &inputs, &mut o, Some(&mut part_lse))?;
        let mut builder = stream.launch_builder(&combine);
        builder.arg(&*parts).arg(&*lse);
        builder.arg(&mut outputs.o).optional(outputs.lse.as_mut());
        builder.arg(&problem);
        let config = LaunchConfig {
            grid_dim: (queries as u32, 1, 1),
            block_dim: (MAX_SPLITS as u32, 1, 1), // a thread for the weight of each part
            shared_mem_bytes: 0,
        };
        // SAFETY: these are the parameters of `combine`, in order. The workspace has room for the problem's sizes; `o` and
        // `lse` hold every row, each of which has a block of its own; `lse` is not touched if it is null.
        unsafe { builder.launch(config) }?;
        Ok(())
    }

    /// Adds the new tokens to the lengths on the device, as a `prepare_advance` of the cache has announced: launches on
    /// `stream`, and does not wait.
    ///
    /// # Errors
    ///
    /// A stream or cache of another device; the driver's.
    ///
    /// # Safety
    ///
    /// It is launched or replayed once after each `prepare_advance` of the cache, and not otherwise. Then the lengths on the
    /// device are those that the host has checked, and kernels stay inside the cache.
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
        let function = self.function("advance.cu", "advance", vec![])?;
        let mut builder = stream.launch_builder(&function);
        builder.arg(&mut counts.lengths);
        builder.arg(&counts.new).arg(&batch);
        let config = LaunchConfig {
            grid_dim: (counts.batch.div_ceil(ADVANCE_THREADS) as u32, 1, 1),
            block_dim: (ADVANCE_THREADS as u32, 1, 1),
            shared_mem_bytes: 0,
        };
        // SAFETY: these are the parameters of `advance`, in order. Both arrays have a number for each sequence.
        unsafe { builder.launch(config) }?;
        Ok(())
    }

    /// Writes the keys and values of new tokens into a cache, converted to its element type (round to nearest, ties to even):
    /// launches on `stream`, and does not wait.
    ///
    /// The lengths of the cache count the new tokens already: the first `counts` rows of a sequence become its last tokens. So a
    /// sequence has at most `max_seq` tokens, new ones included.
    ///
    /// # Errors
    ///
    /// Views too short, a length above `max_seq`, a count above the length or above `n`, a cache that is not aligned to its
    /// type, a view or stream of another device. All are found before the launch. After it, only the driver can fail.
    pub fn update_cache(
        &self,
        stream: &Arc<CudaStream>,
        mut cache: CacheViewMut<'_>,
        counts: PerSequence<'_>,
        new: NewTokens<'_>,
    ) -> Result<(), Error> {
        let checks = Checks::new("update_cache", &self.context);
        checks.device("stream", stream.context())?;
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
        let constants = constants(dtype.name(), vec![]);
        let function = self.function("update_cache.cu", "update_cache", constants)?;
        let update = Update {
            k: new.k_strides,
            v: new.v_strides,
            cache: problem::Cache::new(&cache),
            n: new.n as i32,
            rows: rows as i32,
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
        // SAFETY: these are the parameters of `update_cache`, in order. New rows lie inside their views; the kernel writes rows
        // below the lengths, which are those on the host: the rows lie inside the cache, and their entries of the page table were
        // checked there. The table is not touched if it is null; each warp writes a row of its own.
        unsafe { builder.launch(config) }?;
        Ok(())
    }

    fn kernels(&self) -> MutexGuard<'_, HashMap<Variant, CudaFunction>> {
        // A panic cannot leave it half changed.
        self.kernels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A compiled kernel, loaded once.
    fn function(
        &self,
        file: &'static str,
        kernel: &'static str,
        constants: Vec<(&'static str, String)>,
    ) -> Result<CudaFunction, Error> {
        // Held while loading, so that no two threads load the same kernel.
        let mut kernels = self.kernels();
        let variant = (file, constants);
        if let Some(function) = kernels.get(&variant) {
            return Ok(function.clone());
        }
        let constants = variant.1.iter().map(|(name, value)| (*name, &**value));
        let module = KERNELS.load(&self.context, file, &Vec::from_iter(constants))?;
        let function = module.load_function(kernel)?;
        let dynamic = CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        function.set_attribute(dynamic, DYNAMIC_SHARED)?;
        kernels.insert(variant, function.clone());
        Ok(function)
    }
}

/// The `-D` constants of a kernel that knows the element type.
pub(crate) fn constants(
    element: &str,
    others: Vec<(&'static str, usize)>,
) -> Vec<(&'static str, String)> {
    let others = others
        .into_iter()
        .map(|(name, value)| (name, value.to_string()));
    let element = ("ELEMENT", element.to_owned());
    [element].into_iter().chain(others).collect()
}

// ANCHOR: launch
/// A launch of a rung.
struct Launch {
    function: CudaFunction,
    grid: Grid,
    problem: Problem,
    sizes: Sizes,
    splits: usize,
}

impl Launch {
    fn run(
        &self,
        stream: &Arc<CudaStream>,
        inputs: &Inputs<'_>,
        o: &mut CudaViewMut<'_, f32>,
        lse: Option<&mut CudaViewMut<'_, f32>>,
    ) -> Result<(), Error> {
        let cache = &inputs.cache;
        let mut builder = stream.launch_builder(&self.function);
        builder.arg(&inputs.q).arg(&cache.k).arg(&cache.v);
        builder.arg(&cache.lengths.device);
        builder.optional(cache.pages.as_ref().map(|pages| &pages.entries));
        builder.arg(o).optional(lse).arg(&self.problem);
        let config = LaunchConfig {
            grid_dim: (self.grid.blocks as u32, 1, 1),
            block_dim: (self.grid.threads as u32, 1, 1),
            shared_mem_bytes: self.grid.shared as u32,
        };
        // SAFETY: these are the parameters of every rung, in order. The lengths are those on the host: rows below them lie
        // inside the cache, and their entries of the page table were checked there. The table and `lse` are not touched if
        // they are null; every block writes rows of its own.
        unsafe { builder.launch(config) }?;
        Ok(())
    }
}
// ANCHOR_END: launch
