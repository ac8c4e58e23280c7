//! State of lowering one kernel: code emitted so far, registers, labels, scopes.

use std::collections::HashMap;

use crate::program::instruction::{Constant, Instruction, VirtualRegister};
use crate::program::kernel::Unsupported;
use crate::program::op::{Condition, Op, P, R, Special};
use crate::program::variables::VariableTable;
use crate::ptx::{Ast, SourceLine};

/// Instructions that one kernel may have after inlining; a guard against exponential call chains.
pub(super) const MAX_CODE: usize = 1 << 21;

/// State of lowering one kernel.
pub(in crate::program) struct Lowering<'a> {
    pub(in crate::program) ast: &'a Ast<'a>,
    pub(super) table: &'a VariableTable<'a>,
    pub(super) scopes: Vec<Scope<'a>>,
    /// Names of the functions being inlined, the kernel first.
    pub(super) calls: Vec<&'a str>,
    /// Levels that are unrolled of recursive functions, by name.
    pub(super) levels: HashMap<&'a str, usize>,
    /// Calls through pointers that are being inlined.
    pub(super) pointer_calls: usize,
    /// Instructions that are unrolled of recursive functions, and where those begin that are being
    /// emitted.
    pub(super) unrolled: usize,
    pub(super) unrolling_from: Option<usize>,
    /// Target of `ret` inside an inlined function.
    pub(super) return_label: Option<usize>,
    pub(super) code: Vec<Instruction>,
    pub(super) source: Vec<SourceLine>,
    pub(super) current: SourceLine,
    /// Guard of the instruction being decoded, for steps that go before it.
    pub(super) guard: Option<Condition>,
    pub(super) registers: Vec<VirtualRegister>,
    pub(super) predicates: u32,
    pub(super) constants: HashMap<Constant, R>,
    pub(super) specials: HashMap<Special, R>,
    /// Position of each label, once it is placed.
    pub(super) labels: Vec<Option<u32>>,
    pub(super) branch_tables: Vec<Vec<usize>>,
    pub(super) unsupported: Vec<Unsupported>,
    /// Offset and size of each static shared array.
    pub(super) shared: HashMap<&'a str, (u64, u64)>,
    /// A name of dynamic shared memory.
    pub(super) dynamic_name: Option<&'a str>,
    pub(super) shared_bytes: u64,
    pub(super) dynamic_align: u64,
    pub(super) local_bytes: u64,
    /// Some instruction is about clusters of blocks.
    pub(in crate::program) uses_clusters: bool,
}

/// Meaning of a name.
#[derive(Debug, Clone, Copy)]
pub(in crate::program) enum Binding {
    Register {
        r: R,
        wide: bool,
    },
    /// A register of 128 bits: `low` and the next one, of 64 bits each.
    B128 {
        low: R,
    },
    Predicate(P),
    Memory(VariableSpace, u64),
    DynamicShared,
    Variable(usize),
    Label(usize),
    /// The address of a function.
    Function(u64),
    /// A register of a type that is not simulated.
    Opaque,
}

/// Spaces that a kernel lays out itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::program) enum VariableSpace {
    Shared,
    Local,
    KernelParam,
}

#[derive(Default)]
pub(super) struct Scope<'a> {
    pub(super) names: HashMap<&'a str, Binding>,
    /// `%r<10>`: prefix, count, first register.
    pub(super) families: Vec<(&'a str, u32, Binding)>,
    pub(super) branch_targets: HashMap<&'a str, Vec<&'a str>>,
}

/// Predicates 0 and 1 are the constants false and true.
pub(in crate::program) const FALSE: P = P(0);
pub(in crate::program) const TRUE: P = P(1);

impl<'a> Lowering<'a> {
    pub(in crate::program) fn new(ast: &'a Ast<'a>, table: &'a VariableTable<'a>) -> Self {
        Lowering {
            ast,
            table,
            scopes: Vec::new(),
            calls: Vec::new(),
            levels: HashMap::new(),
            pointer_calls: 0,
            unrolled: 0,
            unrolling_from: None,
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
            unsupported: Vec::new(),
            shared: HashMap::new(),
            dynamic_name: None,
            shared_bytes: 0,
            dynamic_align: 16,
            local_bytes: 0,
            uses_clusters: false,
        }
    }

    /// An operation that prepares the instruction being decoded, for the same threads.
    pub(in crate::program) fn emit_before(&mut self, op: Op) {
        self.emit(op, self.guard);
    }

    pub(in crate::program) fn emit(&mut self, op: Op, guard: Option<Condition>) {
        self.code.push(Instruction::new(op, guard));
        self.source.push(self.current);
    }

    pub(in crate::program) fn new_label(&mut self) -> usize {
        self.labels.push(None);
        self.labels.len() - 1
    }

    pub(in crate::program) fn place_label(&mut self, label: usize) {
        self.labels[label] = Some(self.code.len() as u32);
    }

    /// A register that holds `constant`.
    pub(in crate::program) fn constant(&mut self, constant: Constant) -> R {
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
    pub(in crate::program) fn special(&mut self, special: Special) -> R {
        let registers = &mut self.registers;
        *self
            .specials
            .entry(special)
            .or_insert_with(|| pinned(registers, false))
    }

    /// A new register, for a result that is dropped or for an intermediate value.
    pub(in crate::program) fn scratch(&mut self, wide: bool) -> R {
        self.new_registers(1, wide)
    }

    /// A predicate that nothing reads.
    pub(in crate::program) fn scratch_predicate(&mut self) -> P {
        self.predicates += 1;
        P(self.predicates - 1)
    }

    /// True if the instruction belongs to a device function, not to the kernel itself.
    pub(in crate::program) fn is_inlining(&self) -> bool {
        self.calls.len() > 1
    }
}

fn pinned(registers: &mut Vec<VirtualRegister>, wide: bool) -> R {
    registers.push(VirtualRegister { wide, pinned: true });
    R(registers.len() as u32 - 1)
}
