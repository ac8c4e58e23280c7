//! A module whose variables have places in device memory.

use std::{collections::BTreeMap, ptr, sync::Arc};

use crate::{
    launch::PtxTarget,
    memory::arena::{Arena, Kind, Owner},
    program::{Kernel, Module},
    status::{Result, Status},
};

/// A module whose variables have places in device memory, and their initial values.
pub(crate) struct PlacedModule {
    pub(crate) module: Module,
    /// Address and size in bytes of each variable, by name. Sorted: variables are freed in the same
    /// order on every run, so that later allocations have the same addresses.
    variables: BTreeMap<String, (u64, u64)>,
    pub(crate) target: PtxTarget,
}

impl PlacedModule {
    /// Parses PTX, places its variables in device memory and writes their initial values.
    pub(crate) fn load(arena: &Arena, context: u64, ptx: &str) -> Result<PlacedModule> {
        let target = PtxTarget::declared_in(ptx);
        target.check()?;
        let mut module =
            Module::load(ptx).map_err(|error| Status::InvalidPtx.error(error.to_string()))?;
        let owner = Owner {
            kind: Kind::Variable,
            context,
            pool: 0,
        };
        let mut variables = BTreeMap::new();
        let mut addresses = Vec::new();
        for variable in module.variables() {
            match arena.allocate(variable.bytes.max(1), owner) {
                Ok(addr) => {
                    addresses.push(addr);
                    variables.insert(variable.name.clone(), (addr, variable.bytes));
                }
                Err(error) => {
                    free_variables(arena, addresses);
                    return Err(error.into());
                }
            }
        }
        for (addr, image) in module.place(&addresses) {
            arena.check_range("a variable's initial value", addr, image.len() as u64)?;
            // SAFETY: the range was just allocated and checked, and no kernel has its address yet.
            unsafe { ptr::copy_nonoverlapping(image.as_ptr(), addr as *mut u8, image.len()) };
        }
        Ok(PlacedModule {
            module,
            variables,
            target,
        })
    }

    /// The kernel of that name.
    pub(crate) fn kernel(&self, name: &str) -> Result<Arc<Kernel>> {
        self.module.kernel(name).ok_or_else(|| {
            Status::NotFound.error(format!(
                "the module has no kernel `{name}` (is it `extern \"C\" __global__`?)"
            ))
        })
    }

    /// Address and size in bytes of a variable.
    pub(crate) fn variable(&self, name: &str) -> Result<(u64, u64)> {
        self.variables.get(name).copied().ok_or_else(|| {
            Status::NotFound.error(format!(
                "the module has no variable `{name}` in global or constant memory"
            ))
        })
    }

    /// Frees its variables. No kernel of it may run any more.
    pub(crate) fn free(&self, arena: &Arena) {
        free_variables(arena, self.variables.values().map(|&(addr, _)| addr));
    }
}

fn free_variables(arena: &Arena, addresses: impl IntoIterator<Item = u64>) {
    for addr in addresses {
        // Each was allocated by `load`, and only this frees it: it cannot fail.
        let _ = arena.free(addr, &[Kind::Variable]);
    }
}
