//! A loaded module: kernels and variables.

use std::collections::HashMap;
use std::sync::Arc;

use super::family::Family;
use super::latency::Latency;
use super::lower;
use super::op::{Condition, Flow, Op, R, Special};
use super::report;
use super::variables::VariableTable;
use crate::device::device;
use crate::profile::Resources;
use crate::ptx::{self, PtxError, SourceLine};

/// One PTX module, decoded.
#[derive(Debug)]
pub struct Module {
    kernels: HashMap<String, Arc<Kernel>>,
    variables: Vec<Variable>,
}

/// A `.global` or `.const` variable of a module.
#[derive(Debug, Clone)]
pub struct Variable {
    /// Name in PTX; C++ names are mangled.
    pub name: String,
    /// Size in bytes.
    pub bytes: u64,
    /// Its first bytes; those behind them are zero.
    pub(super) image: Vec<u8>,
    pub(super) relocations: Vec<Relocation>,
}

/// An address inside the initial image of a variable.
#[derive(Debug, Clone)]
pub(super) struct Relocation {
    /// Where in the image.
    pub at: usize,
    /// Bytes that hold the address, or a masked byte of it.
    pub bytes: usize,
    pub target: usize,
    pub offset: i64,
    /// `Some(0xFF00)` if only that byte of the address is stored.
    pub mask: Option<u64>,
}

/// One kernel parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Param {
    /// Offset in the parameter block, in bytes.
    pub offset: usize,
    /// Size in bytes.
    pub bytes: usize,
    /// Alignment in bytes.
    pub align: usize,
}

/// A kernel, ready to run.
#[derive(Debug)]
pub struct Kernel {
    /// Name in PTX.
    pub name: String,
    /// Parameters in order.
    pub params: Vec<Param>,
    /// Bytes of the parameter block.
    pub param_bytes: usize,
    /// Static shared memory per block, in bytes.
    pub shared_bytes: u32,
    /// Local memory per thread, in bytes.
    pub local_bytes: u32,
    /// Threads per block that the kernel was compiled for (`__launch_bounds__`), at most 1024.
    pub max_threads: u32,
    /// What the compiler reported for the simulated device.
    pub(crate) resources: Option<Resources>,
    pub(crate) code: Vec<Instruction>,
    /// Where each instruction is counted, if it is.
    pub(crate) counted_at: Vec<Option<u32>>,
    /// Source line of each instruction.
    pub(crate) source: Vec<SourceLine>,
    pub(crate) files: Arc<Vec<(u32, String)>>,
    /// Registers with a value that no instruction writes.
    pub(crate) constants: Vec<(R, Constant)>,
    pub(crate) specials: Vec<(R, Special)>,
    /// 32-lane planes per warp.
    pub(crate) planes: u32,
    /// The first of them, which hold `constants` and `specials`.
    pub(crate) pinned_planes: u32,
    pub(crate) predicates: u32,
    pub(crate) branch_tables: Vec<Vec<u32>>,
    /// Texts of unknown instructions.
    pub(crate) texts: Vec<String>,
    /// Registers that may be used unset.
    pub(crate) tracked: u32,
    /// How what is unset passes through operations.
    pub(crate) flows: Vec<Flow>,
    /// Memory instructions; each has a number below this.
    pub(crate) sites: u32,
    /// For each, the first one of its stretch that has the same base register, if it is another one.
    pub(crate) leaders: Vec<Option<u32>>,
    /// By basic block.
    pub(crate) latencies: Vec<Latency>,
    /// Some thread may order what it does for others, other than by a barrier.
    pub(crate) has_fences: bool,
    /// Some thread may change device memory by an atomic operation.
    pub(crate) has_atomics: bool,
    /// What its blocks do may depend on their order.
    pub(crate) blocks_communicate: bool,
    pub(crate) shared_arrays: Vec<SharedArray>,
    /// By memory instruction: the first byte of the shared array in which its addresses lie, and the first byte behind;
    /// `None` if that is not known.
    pub(crate) arrays: Vec<Option<(u64, u64)>>,
    /// Offset of dynamic shared memory.
    pub(crate) dynamic_shared_offset: u32,
}

/// An array in shared memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SharedArray {
    pub name: String,
    /// Offset of its first byte.
    pub start: u64,
    /// Size; `None` for dynamic shared memory, which goes to the end.
    pub bytes: Option<u64>,
}

/// A decoded operation and its guard.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Instruction {
    pub op: Op,
    pub guard: Option<Condition>,
    /// Operations that run when this one does, and are counted with it; 0 if it is counted with another, or not at all.
    pub counts: u32,
    /// How it is run; `None` if it does more than change registers.
    pub family: Option<Family>,
    /// Operations from this one on that have a family and are run by the same threads.
    pub run: u32,
}

impl Instruction {
    /// An operation that is not laid out with others yet.
    pub(super) fn new(op: Op, guard: Option<Condition>) -> Instruction {
        Instruction {
            op,
            guard,
            counts: 0,
            family: None,
            run: 0,
        }
    }
}

/// Value of a constant register.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Constant {
    Narrow(u32),
    Wide(u64),
    /// Address of a module variable, known once the driver has placed it.
    Variable {
        index: usize,
        offset: i64,
        wide: bool,
    },
    /// An address in the static shared array that starts at `start`.
    StaticShared {
        start: u64,
        offset: i64,
        wide: bool,
    },
    /// Offset of dynamic shared memory, known once all static shared memory is laid out.
    DynamicShared {
        offset: i64,
        wide: bool,
    },
}

impl Constant {
    /// Its bits, if they do not depend on where something is placed.
    pub(super) fn number(self) -> Option<u64> {
        match self {
            Constant::Narrow(value) => Some(u64::from(value)),
            Constant::Wide(value) => Some(value),
            Constant::StaticShared { start, offset, .. } => Some(start.wrapping_add_signed(offset)),
            Constant::Variable { .. } | Constant::DynamicShared { .. } => None,
        }
    }
}

/// A place in a kernel's source.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Source {
    pub file: String,
    pub line: u32,
}

impl Module {
    /// Parses and decodes PTX text.
    ///
    /// # Errors
    /// Text that is not PTX, names that are not defined, variables that are too large. Instructions that
    /// are not known are not an error here.
    pub fn load(text: &str) -> Result<Module, PtxError> {
        let ast = ptx::parse(text)?;
        let table = VariableTable::new(&ast)?;
        let files = Arc::new(
            ast.files
                .iter()
                .map(|&(n, name)| (n, name.to_string()))
                .collect::<Vec<_>>(),
        );
        let mut kernels = HashMap::new();
        for function in ast
            .functions
            .iter()
            .filter(|f| f.is_entry && f.body.is_some())
        {
            let mut kernel = lower::kernel(&ast, &table, function, Arc::clone(&files))?;
            kernel.resources = report::find(text, &kernel.name, device().capability.number);
            kernels.insert(kernel.name.clone(), Arc::new(kernel));
        }
        Ok(Module {
            kernels,
            variables: table.variables,
        })
    }

    /// Variables that need device memory, in the order that [`Module::place`] expects.
    pub fn variables(&self) -> &[Variable] {
        &self.variables
    }

    /// Fixes the device addresses of [`Module::variables`] and returns the bytes to write at each; what lies behind
    /// them is zero.
    ///
    /// # Panics
    /// If a kernel of this module was handed out before.
    pub fn place(&mut self, addresses: &[u64]) -> Vec<(u64, Vec<u8>)> {
        for kernel in self.kernels.values_mut() {
            let kernel =
                Arc::get_mut(kernel).expect("variables are placed before kernels are handed out");
            for (_, constant) in &mut kernel.constants {
                if let Constant::Variable {
                    index,
                    offset,
                    wide,
                } = *constant
                {
                    let address = addresses[index].wrapping_add_signed(offset);
                    *constant = if wide {
                        Constant::Wide(address)
                    } else {
                        Constant::Narrow(address as u32)
                    };
                }
            }
        }
        let image = |variable: &Variable| {
            let mut image = variable.image.clone();
            for r in &variable.relocations {
                let address = addresses[r.target].wrapping_add_signed(r.offset);
                let value = match r.mask {
                    Some(mask) if mask != 0 => (address & mask) >> mask.trailing_zeros(),
                    Some(_) => 0,
                    None => address,
                };
                image[r.at..r.at + r.bytes].copy_from_slice(&value.to_le_bytes()[..r.bytes]);
            }
            image
        };
        self.variables
            .iter()
            .zip(addresses)
            .map(|(v, &address)| (address, image(v)))
            .collect()
    }

    /// The kernel of that name.
    pub fn kernel(&self, name: &str) -> Option<Arc<Kernel>> {
        self.kernels.get(name).map(Arc::clone)
    }
}

impl Kernel {
    /// Registers per thread; 0 if the compiler's report is missing.
    pub(crate) fn registers(&self) -> u32 {
        self.resources.map_or(0, |resources| resources.registers)
    }

    /// Name, first byte and size of the shared array that holds an address.
    pub(crate) fn shared_array(&self, address: u64) -> Option<(&str, u64, Option<u64>)> {
        let holds = |array: &&SharedArray| {
            let end = array.bytes.map_or(u64::MAX, |bytes| array.start + bytes);
            (array.start..end).contains(&address)
        };
        let array = self.shared_arrays.iter().find(holds)?;
        Some((&array.name, array.start, array.bytes))
    }

    /// Source place of the instruction at `pc`. The virtual root `/k/` of workspace files is taken off.
    pub(crate) fn source_of(&self, pc: u32) -> Option<Source> {
        let line = self.source.get(pc as usize).filter(|s| s.line != 0)?;
        let (_, file) = self.files.iter().find(|(number, _)| *number == line.file)?;
        Some(Source {
            file: file.strip_prefix("/k/").unwrap_or(file).to_string(),
            line: line.line,
        })
    }
}
