//! A loaded module: kernels and variables.

use std::collections::HashMap;
use std::sync::Arc;

use super::instruction::Constant;
use super::kernel::Kernel;
use super::variables::{Variable, VariableTable, masked};
use super::{lower, needed_target, ptxas_report};
use crate::ptx::{self, PtxError};
use crate::settings::device;

/// One PTX module, decoded.
#[derive(Debug)]
pub struct Module {
    kernels: HashMap<String, Arc<Kernel>>,
    variables: Vec<Variable>,
}

impl Module {
    /// True if PTX text has only instructions that its own `.target` has.
    ///
    /// # Errors
    /// Text that is not PTX, and an instruction that the target lacks.
    pub(crate) fn check_target(text: &str) -> Result<(), PtxError> {
        needed_target::check(&ptx::parse(text)?)
    }

    /// Parses and decodes PTX text.
    ///
    /// # Errors
    /// Text that is not PTX, names that are not defined, variables that are too large, known
    /// instructions that the module's `.target` lacks. Unknown instructions are no error here.
    pub fn load(text: &str) -> Result<Module, PtxError> {
        let ast = ptx::parse(text)?;
        needed_target::check(&ast)?;
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
            kernel.resources = ptxas_report::find(text, &kernel.name, device().capability.number);
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

    /// Fixes the device addresses of [`Module::variables`] and returns the bytes to write at each;
    /// what lies behind them is zero.
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
                    *constant = Constant::address(address, wide);
                }
            }
        }
        let image = |variable: &Variable| {
            let mut image = variable.image.clone();
            for r in &variable.relocations {
                let address = addresses[r.target].wrapping_add_signed(r.offset);
                let value = masked(address, r.mask);
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

    /// All kernels, by name.
    pub fn kernels(&self) -> Vec<Arc<Kernel>> {
        let mut kernels: Vec<_> = self.kernels.values().map(Arc::clone).collect();
        kernels.sort_by(|a, b| a.name.cmp(&b.name));
        kernels
    }

    /// The kernel of that name.
    pub fn kernel(&self, name: &str) -> Option<Arc<Kernel>> {
        self.kernels.get(name).map(Arc::clone)
    }
}
