//! Arguments that `run`, `check`, `profile` and `ptx` share: the kernel file, and the launch, which flags may change.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use gpu::invocation::{Argument, Invocation, constant, extent};
use gpu::kernel_file::{CompiledFile, KernelFile};

/// A kernel file and the constants that it is compiled with.
#[derive(Args)]
pub struct FileArguments {
    /// The kernel file, .cu or .ptx.
    pub file: PathBuf,

    /// Compile with -DNAME=VALUE; replaces a constant of that name in the file's `// define:`.
    #[arg(short = 'D', value_name = "NAME=VALUE", value_parser = constant)]
    define: Vec<(String, String)>,
}

/// A kernel file and its launch. Flags replace what the file's comments state.
#[derive(Args)]
pub struct LaunchArguments {
    #[command(flatten)]
    file: FileArguments,

    /// The kernel, if the file has several.
    #[arg(long, value_name = "NAME")]
    kernel: Option<String>,

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
    ///   {FIELD,FIELD,…}   a struct, like {i64=4096,64,1,f32=0.5}; alignas(16){…} with __align__(16)
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
    /// Launch and arguments.
    pub invocation: Invocation,
    /// PTX and sources.
    pub compiled: CompiledFile,
}

impl FileArguments {
    /// Reads and compiles the file.
    pub fn open(&self) -> anyhow::Result<Job> {
        let file = KernelFile::read(&self.file)?;
        let folder = self.file.parent().unwrap_or(Path::new(""));
        let mut invocation = Invocation::parse(file.text(), folder)
            .with_context(|| self.file.display().to_string())?;
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
        Ok(Job {
            compiled: file.compile(&constants)?,
            file: self.file.clone(),
            invocation,
        })
    }
}

impl LaunchArguments {
    /// Reads and compiles the file, and puts together its launch.
    pub fn open(&self) -> anyhow::Result<Job> {
        let mut job = self.file.open()?;
        let stated = &mut job.invocation;
        if self.kernel.is_some() {
            stated.kernel.clone_from(&self.kernel);
        }
        stated.grid = self.grid.or(stated.grid);
        stated.block = self.block.or(stated.block);
        stated.shared = self.shared.unwrap_or(stated.shared);
        if !self.arguments.is_empty() {
            stated.arguments.clone_from(&self.arguments);
        }
        Ok(job)
    }
}

impl Job {
    /// The kernel and its launch in one line: `scale of x.cu, grid (4, 1, 1), block (64, 1, 1)`.
    pub fn title(&self, kernel: &str) -> String {
        let size = |size: Option<[u32; 3]>| {
            let [x, y, z] = size.unwrap_or_default();
            format!("({x}, {y}, {z})")
        };
        let stated = &self.invocation;
        let mut title = format!(
            "{kernel} of {}, grid {}, block {}",
            self.file.display(),
            size(stated.grid),
            size(stated.block)
        );
        if stated.shared > 0 {
            title += &format!(", {} bytes of dynamic shared memory", stated.shared);
        }
        title
    }
}
