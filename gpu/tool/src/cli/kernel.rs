//! Arguments that `run`, `check`, `profile` and `ptx` share: the kernel file, and the launch, which
//! flags may change.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, anyhow, ensure};
use clap::Args;
use gpu::architecture::Architecture;
use gpu::unit::STANDARD;
use gpu_launch::{
    Argument, Invocation, InvocationError, Launch, LaunchError, Prepared, constant, extent,
};
use gpu_tool::kernel_file::{CompiledFile, KernelFile, Options};
use gpu_tool::{CudaDevice, HostFunction};

use super::watch::{self, Watch};

/// A kernel file and how it is compiled.
#[derive(Args)]
pub struct FileArguments {
    /// The kernel file, .cu, .cuh or .ptx. Host code in it is not compiled.
    pub file: PathBuf,

    /// Compile with -DNAME=VALUE; replaces a constant of that name in the file's `// define:`.
    #[arg(short = 'D', value_name = "NAME=VALUE", value_parser = constant)]
    define: Vec<(String, String)>,

    /// Look for headers in this folder too, after the file's own.
    #[arg(short = 'I', value_name = "FOLDER")]
    include: Vec<PathBuf>,

    /// Compile for this architecture, like compute_80, in place of that of the file's `// arch:`.
    #[arg(long, value_name = "ARCHITECTURE", value_parser = architecture)]
    arch: Option<Architecture>,

    /// Compile by this C++ standard: c++14, c++17 or c++20.
    #[arg(long, value_name = "STANDARD", value_parser = standard, default_value = STANDARD)]
    std: String,

    /// Compile with nvcc's --use_fast_math: approximate division, roots and elementary functions,
    /// subnormal numbers as zero.
    #[arg(long)]
    fast_math: bool,

    /// The kernel, if the file has several; its launch alone, if the file states several; an
    /// instance of a template like 'scale<4>'.
    #[arg(long, value_name = "NAME")]
    kernel: Option<String>,

    /// End after so many seconds, with exit status 124. Without it, compiling ends after 8 s of
    /// processor time.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    timeout: Option<Duration>,
}

fn architecture(text: &str) -> Result<Architecture, String> {
    Architecture::parse(text).ok_or_else(|| "write it like compute_80 or compute_90a".to_owned())
}

fn standard(text: &str) -> Result<String, String> {
    let known = ["c++14", "c++17", "c++20"].contains(&text);
    known
        .then(|| text.to_owned())
        .ok_or_else(|| "it is c++14, c++17 or c++20".to_owned())
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| *seconds > 0.0);
    let duration = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    duration.ok_or_else(|| "it is a number of seconds above 0".to_owned())
}

/// A kernel file and its launch. Flags replace what the file's comments state.
#[derive(Args)]
pub struct LaunchArguments {
    #[command(flatten)]
    file: FileArguments,

    /// Grid, in blocks: x, or x,y, or x,y,z.
    #[arg(long, value_name = "X,Y,Z", value_parser = extent)]
    grid: Option<[u32; 3]>,

    /// Block, in threads: x, or x,y, or x,y,z.
    #[arg(long, value_name = "X,Y,Z", value_parser = extent)]
    block: Option<[u32; 3]>,

    /// Dynamic shared memory per block.
    #[arg(long, value_name = "BYTES")]
    shared: Option<u32>,

    /// An argument of the kernel, once for each, in order:
    ///   TYPE=VALUE        a scalar, like i32=256
    ///   TYPE[COUNT]=INIT  a buffer, like f32[256]=iota or f32[]=@x.npy
    ///   TYPExN={VALUE,…}  a CUDA vector, like f32x4={1,2,3,4}
    ///   {FIELD,FIELD,…}   a struct, like {i64=4096,64,1,f32=0.5}; alignas(16){…} if __align__(16)
    ///   tensormap{BUFFER,SIZES,box=SIZES,KEY=VALUE,…}  a CUtensorMap of the tensor in another
    ///                     argument, like tensormap{0,64x8,box=64x8,swizzle=128}; see the README
    ///   null              the null pointer
    /// TYPE: u8 i8 u16 i16 f16 bf16 u32 i32 u64 i64 f32 f64
    /// INIT: zeros ones iota random random:SEED uninit {1,2,3} @file.npy
    #[arg(long = "arg", value_name = "ARG", value_parser = Argument::parse, verbatim_doc_comment)]
    arguments: Vec<Argument>,
}

/// A kernel that is compiled, and how it is launched.
pub struct Job {
    /// The file, as the user named it.
    pub file: PathBuf,
    /// Launches and arguments.
    pub invocation: Invocation,
    /// PTX and sources.
    pub compiled: CompiledFile,
    /// Its time limit.
    pub watch: Watch,
}

impl FileArguments {
    /// Reads and compiles the file. From here on its time counts.
    pub fn open(&self) -> anyhow::Result<Job> {
        let watch = Watch::start(self.timeout);
        watch.now(watch::COMPILING);
        let mut file = KernelFile::read(&self.file)?;
        let folder = self.file.parent().unwrap_or(Path::new(""));
        let mut invocation = Invocation::parse(file.text(), folder)
            .with_context(|| self.file.display().to_string())?;
        if let Some(kernel) = &self.kernel {
            choose(&mut invocation, kernel);
        }
        let kernels = invocation.launches.iter().flat_map(|launch| &launch.kernel);
        let instances = kernels.filter(|name| name.contains('<'));
        file.options = Options {
            architecture: self.arch,
            folders: self.include.clone(),
            instances: instances.cloned().collect(),
            standard: self.std.clone(),
            fast_math: self.fast_math,
        };
        let own = std::mem::take(&mut invocation.constants);
        let overridden = |name: &str| self.define.iter().any(|(given, _)| given == name);
        invocation.constants = own
            .into_iter()
            .filter(|(name, _)| !overridden(name))
            .chain(self.define.iter().cloned())
            .collect();
        let constants = invocation.constants.iter();
        let constants: Vec<(&str, &str)> =
            constants.map(|(name, value)| (&**name, &**value)).collect();
        let compiled = file.compile(&constants)?;
        if !compiled.left_out.is_empty() {
            eprintln!("note: {}", HostFunction::list(&compiled.left_out));
        }
        watch.now("preparing the launch");
        Ok(Job {
            compiled,
            file: self.file.clone(),
            invocation,
            watch,
        })
    }
}

impl LaunchArguments {
    /// As [`LaunchArguments::open`], for what shows one launch.
    pub fn open_one(&self, what: &str) -> anyhow::Result<Job> {
        let job = self.open()?;
        let launches = job.invocation.launches.len();
        ensure!(
            launches == 1,
            "{what} shows one launch; the file states {launches}: name one by --kernel"
        );
        Ok(job)
    }

    /// Reads and compiles the file, and puts together its launches.
    pub fn open(&self) -> anyhow::Result<Job> {
        let mut job = self.file.open()?;
        let stated = &mut job.invocation;
        for launch in &mut stated.launches {
            launch.grid = self.grid.or(launch.grid);
            launch.block = self.block.or(launch.block);
            launch.shared = self.shared.unwrap_or(launch.shared);
        }
        if !self.arguments.is_empty() {
            stated.arguments.clone_from(&self.arguments);
        }
        Ok(job)
    }
}

impl Job {
    /// Buffers and kernels on a device. An error names the flag that helps.
    pub fn prepare<'d>(&self, device: &'d CudaDevice) -> anyhow::Result<Prepared<'d, CudaDevice>> {
        let prepared = self.invocation.prepare(device, &self.compiled.ptx);
        prepared.map_err(|error| {
            let LaunchError::Stated(stated) = &error else {
                return error.into();
            };
            match stated {
                InvocationError::Unstated { .. } => anyhow!("{stated}, or pass --grid and --block"),
                InvocationError::WhichKernel { available } if available.is_empty() => anyhow!(
                    "{stated}; an instance of a template is compiled if it is named, like --kernel 'scale<4>'"
                ),
                _ => error.into(),
            }
        })
    }

    /// The kernels and their launches in one line: `scale of x.cu, grid (4, 1, 1), block (64, 1,
    /// 1)`.
    pub fn title(&self, prepared: &Prepared<'_, CudaDevice>) -> String {
        let launches = prepared.kernels().zip(&self.invocation.launches);
        let titles: Vec<String> = launches
            .map(|(kernel, launch)| self.title_of(kernel, launch))
            .collect();
        titles.join(", then ")
    }

    /// A kernel and its launch in one line.
    pub fn title_of(&self, kernel: &str, launch: &Launch) -> String {
        launch.title(kernel, self.file.display())
    }
}

/// Leaves the launch of this kernel, or, if there is none, the first with another kernel. What the
/// file expects of several launches is not expected of one.
fn choose(invocation: &mut Invocation, kernel: &str) {
    let launches = &mut invocation.launches;
    if launches.len() > 1 && !invocation.expectations.is_empty() {
        invocation.expectations.clear();
        eprintln!("note: the file's `// expect` is not compared: it is about all its launches");
    }
    let named = |launch: &Launch| launch.kernel.as_deref() == Some(kernel);
    let at = launches.iter().position(named).unwrap_or(0);
    launches.swap(0, at);
    launches.truncate(1);
    launches[0].kernel = Some(kernel.to_owned());
}
