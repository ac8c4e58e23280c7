//! A package's embedded kernels and PTX, and loading them as modules.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cudarc::driver::{CudaContext, CudaModule};
use cudarc::nvrtc::Ptx;
use include_dir::Dir;

use crate::device::{device_label, refused};
use crate::ptx_file::zero_byte;
use crate::unit::{Folder, Unit};
use crate::{Error, compile};

/// The kernels of the package that calls it: a [`Bundle`] of its folders `kernels/` and `ptx/`.
///
/// Both must exist, and the package's `build.rs` must print `cargo:rerun-if-changed=` for each. Kernels may include headers
/// of other packages, as `"<package>/<file>.cuh"`, if these packages' bundles are given:
/// `bundle!(stage4_flash_cuda::KERNELS)`. Such a header is embedded by its own package, whose `build.rs` covers it; cargo
/// then builds the packages that depend on it again.
#[macro_export]
macro_rules! bundle {
    ($($lower:path),* $(,)?) => {{
        use $crate::include_dir;
        static KERNELS: include_dir::Dir<'static> =
            include_dir::include_dir!("$CARGO_MANIFEST_DIR/kernels");
        static PTX: include_dir::Dir<'static> =
            include_dir::include_dir!("$CARGO_MANIFEST_DIR/ptx");
        static LOWER: &[&$crate::Bundle] = &[$(&$lower),*];
        $crate::Bundle::new(env!("CARGO_PKG_NAME"), &KERNELS, &PTX, LOWER)
    }};
}

/// A package's kernel sources and committed PTX, embedded in the program. [`bundle!`](crate::bundle!) makes one.
#[derive(Debug)]
pub struct Bundle {
    package: &'static str,
    kernels: &'static Dir<'static>,
    ptx: &'static Dir<'static>,
    /// Packages whose headers the kernels may include.
    lower: &'static [&'static Bundle],
}

impl Bundle {
    #[doc(hidden)] // named by the expansion of `bundle!`
    pub const fn new(
        package: &'static str,
        kernels: &'static Dir<'static>,
        ptx: &'static Dir<'static>,
        lower: &'static [&'static Bundle],
    ) -> Bundle {
        Bundle {
            package,
            kernels,
            ptx,
            lower,
        }
    }

    /// The module of kernel file `file`, compiled with `-DNAME=VALUE` for each of `constants`, in any order.
    ///
    /// Within a context a module is loaded once; later calls give the same one. Its PTX is the committed one, if it
    /// was made from this source and these constants; otherwise it is compiled (see [`Bundle::ptx`]).
    ///
    /// # Errors
    ///
    /// Those of [`Bundle::ptx`]; [`Error::DeviceTooOld`]; [`Error::ZeroByteInPtx`], or [`Error::Driver`] if the driver does
    /// not accept the PTX otherwise.
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
        if !unit.architecture().runs_on(capability) {
            let (file, needs, device) = (
                unit.path(),
                unit.architecture().to_string(),
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
        if let Some(line) = zero_byte(&ptx) {
            let file = unit.path();
            return Err(Error::ZeroByteInPtx { file, line });
        }
        let module = ctx
            .load_module(Ptx::from_src(ptx))
            .map_err(|source| refused(&format!("loading {}", unit.path()), source))?;
        loaded.put(ctx, request, &module);
        Ok(module)
    }

    /// The PTX of a kernel file: the committed one if its key fits, else from the disk cache, else compiled by NVRTC.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchKernel`], [`Error::BadConstant`], [`Error::BadArchitecture`], [`Error::NotText`]: a wrong
    /// request or file. [`Error::NvrtcMissing`], [`Error::BadNvrtc`], [`Error::Compile`], [`Error::Nvrtc`]: the PTX
    /// is not committed, and cannot be made.
    pub fn ptx(&self, file: &str, constants: &[(&str, &str)]) -> Result<String, Error> {
        self.ptx_of(&self.unit(file, constants)?)
    }

    /// Whether the PTX of a kernel file is committed, so that [`Bundle::load`] needs neither cache nor compiler.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchKernel`], [`Error::BadConstant`], [`Error::BadArchitecture`], [`Error::NotText`].
    pub fn is_committed(&self, file: &str, constants: &[(&str, &str)]) -> Result<bool, Error> {
        let unit = self.unit(file, constants)?;
        let committed = compile::committed(&unit, self.committed().map(|(_, text)| text));
        Ok(committed.is_some())
    }

    /// The committed PTX files: their names and texts.
    pub fn committed(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        self.ptx
            .files()
            .filter_map(|file| Some((file.path().to_str()?, file.contents_utf8()?)))
    }

    fn unit(&self, file: &str, constants: &[(&str, &str)]) -> Result<Unit, Error> {
        let read = |folder: Folder<'_>, name: &str| match folder {
            Folder::Own => self.read(name),
            Folder::Package(package) => match self.bundle_of(package) {
                Some(bundle) => bundle.read(name),
                None => Ok(None),
            },
        };
        Unit::new(self.package, file, constants, read)?.ok_or_else(|| {
            let names = self.kernels.files().filter_map(|file| file.path().to_str());
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
    fn read(&self, name: &str) -> Result<Option<String>, Error> {
        let Some(file) = self.kernels.get_file(name) else {
            return Ok(None);
        };
        match file.contents_utf8() {
            Some(text) => Ok(Some(text.to_owned())),
            None => Err(Error::NotText {
                file: format!("{}/kernels/{name}", self.package),
            }),
        }
    }

    fn ptx_of(&self, unit: &Unit) -> Result<String, Error> {
        match compile::committed(unit, self.committed().map(|(_, text)| text)) {
            Some(text) => Ok(text.to_owned()),
            None => compile::compiled(unit),
        }
    }
}

/// What [`Bundle::load`] was asked for. The texts are embedded, so the names stand for them.
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
/// They are kept by context *object*: cudarc notes errors there, and one test's error must not reach another's.
struct Loaded(Vec<InContext>);

struct InContext {
    ctx: Arc<CudaContext>,
    modules: BTreeMap<Request, Arc<CudaModule>>,
}

impl Loaded {
    fn lock() -> MutexGuard<'static, Loaded> {
        static LOADED: Mutex<Loaded> = Mutex::new(Loaded(Vec::new()));
        LOADED.lock().unwrap_or_else(PoisonError::into_inner) // a panic cannot leave it half changed
    }

    fn get(&self, ctx: &Arc<CudaContext>, request: &Request) -> Option<Arc<CudaModule>> {
        let in_context = self
            .0
            .iter()
            .find(|in_context| Arc::ptr_eq(&in_context.ctx, ctx))?;
        in_context.modules.get(request).cloned()
    }

    fn put(&mut self, ctx: &Arc<CudaContext>, request: Request, module: &Arc<CudaModule>) {
        self.0.retain(InContext::is_used);
        let known = self
            .0
            .iter()
            .position(|in_context| Arc::ptr_eq(&in_context.ctx, ctx));
        let index = known.unwrap_or_else(|| {
            self.0.push(InContext {
                ctx: ctx.clone(),
                modules: BTreeMap::new(),
            });
            self.0.len() - 1
        });
        self.0[index].modules.insert(request, module.clone());
    }
}

impl InContext {
    /// Whether anyone but this table holds the context or a module of it. Each module holds the context once.
    fn is_used(&self) -> bool {
        let held_here = 1 + self.modules.len();
        Arc::strong_count(&self.ctx) > held_here
            || self
                .modules
                .values()
                .any(|module| Arc::strong_count(module) > 1)
    }
}
