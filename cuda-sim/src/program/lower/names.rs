//! Names: their meaning by scope, and the layout of variables.

use super::builder::{Binding, Lowering, MAX_CODE, Scope, VariableSpace};
use crate::program::instruction::VirtualRegister;
use crate::program::op::{P, R};
use crate::program::variables::{layout, scalar};
use crate::ptx::{Declaration, PtxError, Space};

/// Predicates that one kernel may have after inlining: each warp has a word for each.
const MAX_PREDICATES: u32 = 1 << 18;

impl<'a> Lowering<'a> {
    pub(super) fn declare(&mut self, declared: &'a Declaration<'a>) -> Result<(), PtxError> {
        let binding = match declared.space {
            Space::Reg => return self.declare_registers(declared),
            Space::Shared => self.place_shared(declared)?,
            Space::Local | Space::Param => {
                let (size, align) = layout(declared)?;
                let offset = self.local_bytes.next_multiple_of(align);
                self.local_bytes = offset + size;
                Binding::Memory(VariableSpace::Local, offset)
            }
            Space::Global | Space::Const => {
                let message = format!(
                    "variable {} in device memory is declared inside a function",
                    declared.name
                );
                return Err(PtxError::new(declared.line, message));
            }
        };
        self.bind(declared.name, binding);
        Ok(())
    }

    fn declare_registers(&mut self, declared: &'a Declaration<'a>) -> Result<(), PtxError> {
        let count = declared.family.unwrap_or(1);
        let first = match declared.ty {
            "pred" => {
                let first = P(self.predicates);
                self.predicates = self.predicates.saturating_add(count);
                Binding::Predicate(first)
            }
            "b128" => Binding::B128 {
                low: self.new_registers(2 * count as usize, true),
            },
            ty => match scalar(ty) {
                Some(ty) => {
                    let wide = ty.is_wide();
                    let r = self.new_registers(count as usize, wide);
                    Binding::Register { r, wide }
                }
                None => Binding::Opaque,
            },
        };
        if self.registers.len() > MAX_CODE || self.predicates > MAX_PREDICATES {
            return Err(PtxError::new(declared.line, "too many registers"));
        }
        match declared.family {
            Some(_) => self.scope().families.push((declared.name, count, first)),
            None => self.bind(declared.name, first),
        }
        Ok(())
    }

    /// The first of `count` new registers in a row.
    pub(super) fn new_registers(&mut self, count: usize, wide: bool) -> R {
        let first = R(self.registers.len() as u32);
        let register = VirtualRegister {
            wide,
            pinned: false,
        };
        self.registers
            .resize(self.registers.len() + count, register);
        first
    }

    fn place_shared(&mut self, declared: &'a Declaration<'a>) -> Result<Binding, PtxError> {
        let (size, align) = layout(declared)?;
        if size == 0 {
            self.dynamic_align = self.dynamic_align.max(align);
            self.dynamic_name = Some(declared.name);
            return Ok(Binding::DynamicShared);
        }
        let offset = match self.shared.get(declared.name) {
            Some(&(offset, _)) => offset,
            None => {
                let offset = self.shared_bytes.next_multiple_of(align);
                self.shared_bytes = offset + size;
                self.shared.insert(declared.name, (offset, size));
                offset
            }
        };
        Ok(Binding::Memory(VariableSpace::Shared, offset))
    }

    pub(super) fn open_scope(&mut self) {
        self.scopes.push(Scope::default());
    }

    pub(super) fn scope(&mut self) -> &mut Scope<'a> {
        if self.scopes.is_empty() {
            self.open_scope();
        }
        let last = self.scopes.len() - 1;
        &mut self.scopes[last]
    }

    pub(super) fn bind(&mut self, name: &'a str, binding: Binding) {
        self.scope().names.insert(name, binding);
    }

    /// Meaning of `name` in the current scope.
    pub(in crate::program) fn find(&mut self, name: &str) -> Option<Binding> {
        for scope in self.scopes.iter().rev() {
            if let Some(binding) = scope.names.get(name) {
                return Some(*binding);
            }
            let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
            let Ok(index) = name[stem.len()..].parse::<u32>() else {
                continue;
            };
            let family = scope
                .families
                .iter()
                .find(|(prefix, n, _)| *prefix == stem && index < *n);
            if let Some((_, _, first)) = family {
                return Some(match *first {
                    Binding::Register { r, wide } => Binding::Register {
                        r: R(r.0 + index),
                        wide,
                    },
                    Binding::B128 { low } => Binding::B128 {
                        low: R(low.0 + 2 * index),
                    },
                    Binding::Predicate(p) => Binding::Predicate(P(p.0 + index)),
                    other => other,
                });
            }
        }
        if let Some(&index) = self.table.index.get(name) {
            return Some(Binding::Variable(index));
        }
        if let Some(named) = self.table.functions.get(name) {
            return Some(Binding::Function(named.address));
        }
        let shared = *self.table.shared.get(name)?;
        self.place_shared(shared).ok()
    }

    /// Labels that `brx.idx` lists under `name`.
    pub(in crate::program) fn branch_table(&mut self, name: &str) -> Option<u32> {
        let targets = self
            .scopes
            .iter()
            .rev()
            .find_map(|s| s.branch_targets.get(name))?
            .clone();
        let labels = targets
            .iter()
            .map(|t| match self.find(t) {
                Some(Binding::Label(label)) => Some(label),
                _ => None,
            })
            .collect::<Option<Vec<_>>>()?;
        self.branch_tables.push(labels);
        Some(self.branch_tables.len() as u32 - 1)
    }
}
