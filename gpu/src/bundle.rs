//! A package's embedded kernels and PTX, and loading them as modules.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cudarc::driver::{CudaContext, CudaModule};
use cudarc::nvrtc::Ptx;

use crate::device::{device_label, refused};
use crate::ptx_file::{self, Resources};
use crate::sources::Sources;
use crate::unit::{Folder, Unit};
use crate::{Error, compile};

/// The kernels of the package that calls it: a [`Bundle`] of its folders `kernels/` and `ptx/`.
///
/// Without a folder `ptx/`, every kernel is compiled when it is first loaded. Cargo notices edited
/// files; it notices new ones if the package's `build.rs` prints `cargo:rerun-if-changed=` for each
/// folder. Kernels may include headers of other packages, as `"<package>/<file>.cuh"`, if these
/// packages' bundles are given: `bundle!(stage4_flash_cuda::KERNELS)`. Such a header is embedded by
/// its own package, whose `build.rs` covers it; cargo then builds the packages that depend on it
/// again.
#[macro_export]
macro_rules! bundle {
    ($($lower:path),* $(,)?) => {{
        static LOWER: &[&$crate::Bundle] = &[$(&$lower),*];
        $crate::Bundle::new(
            env!("CARGO_PKG_NAME"),
            $crate::embed::kernels!(),
            $crate::embed::ptx!(),
            LOWER,
        )
    }};
}

/// Files: the path from their folder, and the text.
type Texts = &'static [(&'static str, &'static str)];

/// A package's kernel sources and committed PTX, embedded in the program.
/// [`bundle!`](crate::bundle!) makes one.
#[derive(Debug)]
pub struct Bundle {
    package: &'static str,
    kernels: Texts,
    ptx: Texts,
    /// Packages whose headers the kernels may include.
    lower: &'static [&'static Bundle],
}

impl Bundle {
    #[doc(hidden)] // named by the expansion of `bundle!`
    pub const fn new(
        package: &'static str,
        kernels: Texts,
        ptx: Texts,
        lower: &'static [&'static Bundle],
    ) -> Bundle {
        Bundle {
            package,
            kernels,
            ptx,
            lower,
        }
    }

    /// The module of kernel file `file`, compiled with `-DNAME=VALUE` for each of `constants`, in
    /// any order.
    ///
    /// Within a context a module is loaded once; later calls give the same one. Its PTX is the
    /// committed one, if it was made from this source and these constants; otherwise it is compiled
    /// (see [`Bundle::ptx`]).
    ///
    /// # Errors
    ///
    /// Those of [`Bundle::ptx`]; [`Error::DeviceTooOld`]; [`Error::ZeroByteInPtx`], or
    /// [`Error::Driver`] if the driver does not accept the PTX otherwise.
    pub fn load(
        &self,
        ctx: &Arc<CudaContext>,
        file: &str,
        constants: &[(&str, &str)],
    ) -> Result<Arc<CudaModule>, Error> {
        let request = Request::new(self.package, file, constants);
        // Held while compiling, so that no two threads compile the same kernel.
        let mut loaded = Loaded::lock();
        if let Some(module) = loaded.get(ctx, &request) {
            return Ok(module);
        }
        let unit = self.unit(file, constants)?;
        let capability = ctx
            .compute_capability()
            .map_err(|source| refused("asking for the capability", source))?;
        if !unit.architecture.runs_on(capability) {
            let (file, needs, device) = (
                unit.path(),
                unit.architecture.to_string(),
                device_label(ctx)?,
            );
            return Err(Error::DeviceTooOld {
                file,
                needs,
                device,
                capability,
            });
        }
        let ptx = self.ptx_of(&unit)?;
        if let Some(line) = gpu_reading::zero_byte(&ptx) {
            let file = unit.path();
            return Err(Error::ZeroByteInPtx { file, line });
        }
        let module = ctx
            .load_module(Ptx::from_src(ptx))
            .map_err(|source| refused(&format!("loading {}", unit.path()), source))?;
        loaded.put(ctx, request, &module);
        loaded.sources.add(&unit);
        Ok(module)
    }

    /// The PTX of a kernel file: the committed one if its key fits, else from the disk cache, else
    /// compiled by NVRTC.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchKernel`], [`Error::BadConstant`], [`Error::BadArchitecture`],
    /// [`Error::NoSuchHeader`], [`Error::BadInclude`], [`Error::TooMuchText`]: a wrong request or
    /// file. [`Error::NvrtcMissing`], [`Error::BadNvrtc`], [`Error::Compile`], [`Error::Nvrtc`]:
    /// the PTX is not committed, and cannot be made.
    pub fn ptx(&self, file: &str, constants: &[(&str, &str)]) -> Result<String, Error> {
        self.ptx_of(&self.unit(file, constants)?)
    }

    /// Registers, spills and shared memory of a kernel file for each reported architecture. Without
    /// committed PTX they take one compilation for each architecture.
    ///
    /// # Errors
    ///
    /// Those of [`Bundle::ptx`].
    pub fn resources(
        &self,
        file: &str,
        constants: &[(&str, &str)],
    ) -> Result<Vec<Resources>, Error> {
        let unit = self.unit(file, constants)?;
        let committed = compile::committed(&unit, self.committed().map(|(_, text)| text));
        match committed {
            Some(text) => Ok(ptx_file::resources(text)),
            None => {
                let text = compile::cached(&unit, true, compile::REPORT, |nvrtc| {
                    compile::compiled_with_report(nvrtc, &unit)
                })?;
                Ok(ptx_file::resources(&text))
            }
        }
    }

    /// True if the PTX of a kernel file is committed, so that [`Bundle::load`] needs neither cache
    /// nor compiler.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchKernel`], [`Error::BadConstant`], [`Error::BadArchitecture`].
    pub fn is_committed(&self, file: &str, constants: &[(&str, &str)]) -> Result<bool, Error> {
        let unit = self.unit(file, constants)?;
        let committed = compile::committed(&unit, self.committed().map(|(_, text)| text));
        Ok(committed.is_some())
    }

    /// The committed PTX files: their names and texts.
    pub fn committed(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        self.ptx.iter().copied()
    }

    fn unit(&self, file: &str, constants: &[(&str, &str)]) -> Result<Unit, Error> {
        let read = |folder: Folder<'_>, name: &str| match folder {
            Folder::Own => Ok(self.read(name)),
            Folder::Package(package) => {
                let bundle = self.bundle_of(package);
                Ok(bundle.and_then(|bundle| bundle.read(name)))
            }
            Folder::Included | Folder::Standard => Ok(None),
        };
        Unit::new(self.package, file, constants, read)?.ok_or_else(|| {
            let names = self.kernels.iter().map(|(name, _)| *name);
            let available = names
                .filter(|name| name.ends_with(".cu"))
                .map(str::to_owned)
                .collect();
            Error::NoSuchKernel {
                package: self.package.to_owned(),
                file: file.to_owned(),
                available,
            }
        })
    }

    /// The bundle of `package`: this one, or one below it.
    fn bundle_of(&self, package: &str) -> Option<&Bundle> {
        if self.package == package {
            return Some(self);
        }
        self.lower
            .iter()
            .find_map(|bundle| bundle.bundle_of(package))
    }

    /// The text of a file of `kernels/`, if there is one.
    fn read(&self, name: &str) -> Option<String> {
        let found = self.kernels.iter().find(|(known, _)| *known == name);
        found.map(|(_, text)| (*text).to_owned())
    }

    fn ptx_of(&self, unit: &Unit) -> Result<String, Error> {
        match compile::committed(unit, self.committed().map(|(_, text)| text)) {
            Some(text) => Ok(text.to_owned()),
            None => compile::compiled(unit),
        }
    }
}

/// The source lines of bundles' kernels that a fault names, between their neighbours.
pub(crate) fn quotes(fault: &cuda_sim::Fault) -> String {
    Loaded::lock().sources.quotes(fault)
}

/// Arguments of [`Bundle::load`]. The texts are embedded, so the names stand for them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Request {
    package: &'static str,
    file: String,
    constants: Vec<(String, String)>,
}

impl Request {
    fn new(package: &'static str, file: &str, constants: &[(&str, &str)]) -> Request {
        let mut constants: Vec<(String, String)> = constants
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        constants.sort();
        Request {
            package,
            file: file.to_owned(),
            constants,
        }
    }
}

/// The modules loaded in this process.
///
/// They are kept by context *object*: cudarc notes errors there, and one test's error must not
/// reach another's.
struct Loaded {
    contexts: Vec<InContext>,
    /// Of all modules, also of those that are gone: a fault may be told later.
    sources: Sources,
}

struct InContext {
    ctx: Arc<CudaContext>,
    modules: BTreeMap<Request, Arc<CudaModule>>,
}

impl Loaded {
    fn lock() -> MutexGuard<'static, Loaded> {
        static LOADED: Mutex<Loaded> = Mutex::new(Loaded {
            contexts: Vec::new(),
            sources: Sources::new(),
        });
        LOADED.lock().unwrap_or_else(PoisonError::into_inner) // a panic cannot leave it half changed
    }

    fn position(&self, ctx: &Arc<CudaContext>) -> Option<usize> {
        let mut contexts = self.contexts.iter();
        contexts.position(|known| Arc::ptr_eq(&known.ctx, ctx))
    }

    fn get(&self, ctx: &Arc<CudaContext>, request: &Request) -> Option<Arc<CudaModule>> {
        let in_context = &self.contexts[self.position(ctx)?];
        in_context.modules.get(request).cloned()
    }

    fn put(&mut self, ctx: &Arc<CudaContext>, request: Request, module: &Arc<CudaModule>) {
        self.contexts.retain(InContext::is_used);
        let index = self.position(ctx).unwrap_or_else(|| {
            self.contexts.push(InContext {
                ctx: ctx.clone(),
                modules: BTreeMap::new(),
            });
            self.contexts.len() - 1
        });
        self.contexts[index].modules.insert(request, module.clone());
    }
}

impl InContext {
    /// True if anyone but this table holds the context or a module of it. Each module holds the
    /// context once.
    fn is_used(&self) -> bool {
        let held_here = 1 + self.modules.len();
        Arc::strong_count(&self.ctx) > held_here
            || self
                .modules
                .values()
                .any(|module| Arc::strong_count(module) > 1)
    }
}
