//! Walks the statements of a kernel: scopes, names, labels, calls. Calls are inlined.
//!
//! Inlining keeps program order a valid order for reconverging lanes and needs no call stack. Recursive and
//! indirect calls cannot be inlined; they become unknown operations, which fault when reached.

mod calls;
mod finish;
mod names;

use std::collections::HashMap;
use std::sync::Arc;

use self::names::Scope;
use super::module::{Constant, Instruction, Kernel, Param};
use super::op::{Condition, Op, P, R, Special};
use super::registers::VirtualRegister;
use super::variables::{VariableTable, layout};
use crate::ptx::{self, Ast, Function, PtxError, SourceLine, Statement};

/// Decodes one kernel.
pub(super) fn kernel<'a>(
    ast: &'a Ast<'a>,
    table: &'a VariableTable<'a>,
    function: &'a Function<'a>,
    files: Arc<Vec<(u32, String)>>,
) -> Result<Kernel, PtxError> {
    let mut lower = Lower::new(ast, table);
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
            return Err(PtxError {
                line: declared.line,
                message,
            });
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
/// Instructions that one kernel may have after inlining; a guard against exponential call chains.
const MAX_CODE: usize = 1 << 21;
/// What a name stands for.
#[derive(Debug, Clone, Copy)]
pub(super) enum Binding {
    Register {
        r: R,
        wide: bool,
    },
    Predicate(P),
    Memory(VariableSpace, u64),
    DynamicShared,
    Variable(usize),
    Label(usize),
    /// A register of a type that is not simulated.
    Opaque,
}

/// Spaces that a kernel lays out itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum VariableSpace {
    Shared,
    Local,
    KernelParam,
}

/// State of decoding one kernel.
pub(super) struct Lower<'a> {
    pub(super) ast: &'a Ast<'a>,
    table: &'a VariableTable<'a>,
    scopes: Vec<Scope<'a>>,
    /// Names of the functions being inlined, the kernel first.
    calls: Vec<&'a str>,
    /// Where `ret` goes inside an inlined function.
    return_label: Option<usize>,
    code: Vec<Instruction>,
    source: Vec<SourceLine>,
    current: SourceLine,
    /// Guard of the instruction being decoded, for steps that go before it.
    guard: Option<Condition>,
    registers: Vec<VirtualRegister>,
    predicates: u32,
    constants: HashMap<Constant, R>,
    specials: HashMap<Special, R>,
    /// Position of each label, once it is placed.
    labels: Vec<Option<u32>>,
    branch_tables: Vec<Vec<usize>>,
    texts: Vec<String>,
    /// Offset and size of each static shared array.
    shared: HashMap<&'a str, (u64, u64)>,
    /// A name of dynamic shared memory.
    dynamic_name: Option<&'a str>,
    shared_bytes: u64,
    dynamic_align: u64,
    local_bytes: u64,
}

/// Predicates 0 and 1 are the constants false and true.
pub(super) const FALSE: P = P(0);
pub(super) const TRUE: P = P(1);

impl<'a> Lower<'a> {
    fn new(ast: &'a Ast<'a>, table: &'a VariableTable<'a>) -> Self {
        Lower {
            ast,
            table,
            scopes: Vec::new(),
            calls: Vec::new(),
            return_label: None,
            code: Vec::new(),
            source: Vec::new(),
            current: SourceLine::default(),
            guard: None,
            registers: Vec::new(),
            predicates: 2,
            constants: HashMap::new(),
            specials: HashMap::new(),
            labels: Vec::new(),
            branch_tables: Vec::new(),
            texts: Vec::new(),
            shared: HashMap::new(),
            dynamic_name: None,
            shared_bytes: 0,
            dynamic_align: 16,
            local_bytes: 0,
        }
    }

    // --- statements -------------------------------------------------------------------------------------

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
            return Err(PtxError {
                line: instruction.line,
                message: "the kernel is too long".into(),
            });
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
            "call" if self.guarded_call(instruction, guard)? => Ok(()),
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
        let text = self.texts.len() as u32;
        self.texts.push(format!(
            "{} (PTX line {})",
            instruction.opcode, instruction.line
        ));
        self.emit(Op::Unknown { text }, guard);
        Ok(())
    }

    // --- emission ---------------------------------------------------------------------------------------

    /// An operation that prepares the instruction being decoded, for the same threads.
    pub(super) fn emit_before(&mut self, op: Op) {
        self.emit(op, self.guard);
    }

    pub(super) fn emit(&mut self, op: Op, guard: Option<Condition>) {
        self.code.push(Instruction::new(op, guard));
        self.source.push(self.current);
    }

    fn new_label(&mut self) -> usize {
        self.labels.push(None);
        self.labels.len() - 1
    }

    fn place_label(&mut self, label: usize) {
        self.labels[label] = Some(self.code.len() as u32);
    }

    /// A register that holds `constant`.
    pub(super) fn constant(&mut self, constant: Constant) -> R {
        let wide = match constant {
            Constant::Narrow(_) => false,
            Constant::Wide(_) => true,
            Constant::Variable { wide, .. }
            | Constant::StaticShared { wide, .. }
            | Constant::DynamicShared { wide, .. } => wide,
        };
        let registers = &mut self.registers;
        *self
            .constants
            .entry(constant)
            .or_insert_with(|| pinned(registers, wide))
    }

    /// A register that holds a special value; all of them are 32-bit.
    pub(super) fn special(&mut self, special: Special) -> R {
        let registers = &mut self.registers;
        *self
            .specials
            .entry(special)
            .or_insert_with(|| pinned(registers, false))
    }

    /// A register that nothing reads, for results that are thrown away, or for a step in between.
    pub(super) fn scratch(&mut self, wide: bool) -> R {
        self.registers.push(VirtualRegister {
            wide,
            pinned: false,
        });
        R(self.registers.len() as u32 - 1)
    }

    /// A predicate that nothing reads.
    pub(super) fn scratch_predicate(&mut self) -> P {
        self.predicates += 1;
        P(self.predicates - 1)
    }
}

fn pinned(registers: &mut Vec<VirtualRegister>, wide: bool) -> R {
    registers.push(VirtualRegister { wide, pinned: true });
    R(registers.len() as u32 - 1)
}
