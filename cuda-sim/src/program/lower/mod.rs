//! Lowers a kernel's syntax tree to a flat list of operations. Calls are inlined.
//!
//! Inlining keeps program order a valid order for reconverging lanes and needs no call stack.
//!
//! - `builder`: code emitted so far; `names`: scopes and declarations
//! - `calls`: inlined calls; `finish`: analyses, register allocation, the finished kernel

mod builder;
mod calls;
mod finish;
mod names;

pub(super) use builder::{Binding, FALSE, Lowering, TRUE, VariableSpace};

use std::sync::Arc;

use self::builder::MAX_CODE;
use super::kernel::{Kernel, Param, Unsupported};
use super::op::{Condition, Op};
use super::variables::{VariableTable, layout};
use crate::ptx::{self, Ast, Function, PtxError, Statement};

/// Decodes one kernel.
pub(super) fn kernel<'a>(
    ast: &'a Ast<'a>,
    table: &'a VariableTable<'a>,
    function: &'a Function<'a>,
    files: Arc<Vec<(u32, String)>>,
) -> Result<Kernel, PtxError> {
    let mut lower = Lowering::new(ast, table);
    let mut params = Vec::new();
    let mut param_bytes = 0;
    lower.open_scope();
    for declared in &function.params {
        let (size, align) = layout(declared)?;
        let offset = u64::next_multiple_of(param_bytes, align);
        param_bytes = offset + size;
        if param_bytes > MAX_PARAM_BYTES {
            let message = format!(
                "kernel {} has more than {MAX_PARAM_BYTES} bytes of parameters",
                function.name
            );
            return Err(PtxError::new(declared.line, message));
        }
        params.push(Param {
            offset: offset as usize,
            bytes: size as usize,
            align: align as usize,
        });
        lower.bind(
            declared.name,
            Binding::Memory(VariableSpace::KernelParam, offset),
        );
    }
    lower.calls.push(function.name);
    lower.body(function.body.as_deref().unwrap_or_default())?;
    lower.emit(Op::Exit, None);
    lower.finish(function, params, param_bytes as usize, files)
}

/// Limit of CUDA for devices from Volta on.
const MAX_PARAM_BYTES: u64 = 32764;

impl<'a> Lowering<'a> {
    fn body(&mut self, statements: &'a [Statement<'a>]) -> Result<(), PtxError> {
        self.open_scope();
        for statement in statements {
            match statement {
                Statement::Label(name) => {
                    let label = self.new_label();
                    self.bind(name, Binding::Label(label));
                }
                Statement::BranchTargets { name, targets } => {
                    self.scope().branch_targets.insert(name, targets.clone());
                }
                _ => {}
            }
        }
        for statement in statements {
            match statement {
                Statement::Label(name) => {
                    if let Some(Binding::Label(label)) = self.find(name) {
                        self.place_label(label);
                    }
                }
                Statement::BranchTargets { .. } => {}
                Statement::Declare(declared) => self.declare(declared)?,
                Statement::Scope(inner) => self.body(inner)?,
                Statement::Instruction(instruction) => self.instruction(instruction)?,
            }
        }
        self.scopes.pop();
        Ok(())
    }

    fn instruction(&mut self, instruction: &'a ptx::Instruction<'a>) -> Result<(), PtxError> {
        self.current = instruction.source;
        if self.code.len() > MAX_CODE {
            return Err(PtxError::new(instruction.line, "the kernel is too long"));
        }
        let base = instruction.opcode.split('.').next().unwrap_or_default();
        let decoded = match instruction.guard {
            Some((name, negate)) => match self.find(name) {
                Some(Binding::Predicate(p)) => Some(Some(Condition { p, negate })),
                _ => None,
            },
            None => Some(None),
        };
        let Some(guard) = decoded else {
            return self.unknown(instruction, None);
        };
        self.guard = guard;
        match base {
            "call" => self.guarded_call(instruction, guard),
            "ret" => {
                let op = match self.return_label {
                    Some(label) => Op::Branch {
                        target: label as u32,
                    },
                    None => Op::Exit,
                };
                self.emit(op, guard);
                Ok(())
            }
            _ => match self.decode(instruction) {
                Some(op) => {
                    self.emit(op, guard);
                    Ok(())
                }
                None => self.unknown(instruction, guard),
            },
        }
    }

    fn unknown(
        &mut self,
        instruction: &ptx::Instruction<'_>,
        guard: Option<Condition>,
    ) -> Result<(), PtxError> {
        let ptx::Instruction { opcode, line, .. } = instruction;
        let text = format!("{opcode} (PTX line {line})");
        self.unsupported(Unsupported::Instruction(text), guard);
        Ok(())
    }

    /// A place where a thread faults.
    fn unsupported(&mut self, what: Unsupported, guard: Option<Condition>) {
        let text = self.unsupported.len() as u32;
        self.unsupported.push(what);
        self.emit(Op::Unknown { text }, guard);
    }
}
