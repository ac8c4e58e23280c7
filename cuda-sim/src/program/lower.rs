//! Walks the statements of a kernel: scopes, names, labels, calls. Calls are inlined.
//!
//! Inlining keeps program order a valid order for reconverging lanes and needs no call stack. Recursive and
//! indirect calls cannot be inlined; they become unknown operations, which fault when reached.

use std::collections::HashMap;
use std::sync::Arc;

use super::module::{Constant, Instruction, Kernel, Param, SharedArray};
use super::op::{Condition, Op, Order, P, R, Special};
use super::registers::{self, Packing, VirtualRegister};
use super::stretches::{count_together, leaders, stretches};
use super::unset;
use super::variables::{VariableTable, layout, scalar};
use crate::device::SHARED_PER_BLOCK;
use crate::ptx::{
    self, Ast, Declaration, Function, Operand, PtxError, SourceLine, Space, Statement,
};

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
/// Predicates that one kernel may have after inlining: each warp has a word for each.
const MAX_PREDICATES: u32 = 1 << 18;
/// Basic blocks times registers, in words of 64: what finding the lifetimes of registers takes.
const MAX_LIFETIME_WORDS: usize = 1 << 24;
/// Calls within calls.
const MAX_CALLS: usize = 64;

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

#[derive(Default)]
struct Scope<'a> {
    names: HashMap<&'a str, Binding>,
    /// `%r<10>`: prefix, count, first register.
    families: Vec<(&'a str, u32, Binding)>,
    branch_targets: HashMap<&'a str, Vec<&'a str>>,
}

/// State of decoding one kernel.
pub(super) struct Lower<'a> {
    ast: &'a Ast<'a>,
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

    fn finish(
        mut self,
        function: &Function<'_>,
        params: Vec<Param>,
        param_bytes: usize,
        files: Arc<Vec<(u32, String)>>,
    ) -> Result<Kernel, PtxError> {
        let too_large = |what: &str| PtxError {
            line: 0,
            message: format!("kernel {}: too much {what}", function.name),
        };
        let place = |label: usize| {
            self.labels[label].ok_or_else(|| PtxError {
                line: 0,
                message: format!("kernel {}: a label is not placed", function.name),
            })
        };
        for instruction in &mut self.code {
            if let Op::Branch { target } = &mut instruction.op {
                *target = place(*target as usize)?;
            }
        }
        let mut branch_tables = self
            .branch_tables
            .iter()
            .map(|t| t.iter().map(|&l| place(l)).collect())
            .collect::<Result<Vec<_>, _>>()?;
        if self.lifetime_words(&branch_tables) > MAX_LIFETIME_WORDS {
            return Err(too_large("code after its calls are inlined"));
        }
        let tracked = unset::watch(
            &mut self.code,
            &mut self.source,
            &mut branch_tables,
            &self.registers,
        );
        let dynamic_shared_offset = self.shared_bytes.next_multiple_of(self.dynamic_align);
        let Packing {
            places,
            planes,
            pinned,
        } = registers::pack(&mut self.code, &branch_tables, &self.registers);
        let mut sites = 0;
        let mut has_fences = false;
        for instruction in &mut self.code {
            match &mut instruction.op {
                Op::Load { access, .. } | Op::Store { access, .. } | Op::Atomic { access, .. } => {
                    access.site = sites;
                    sites += 1;
                    has_fences |= matches!(
                        access.order,
                        Order::Acquire | Order::Release | Order::AcquireRelease
                    );
                }
                Op::Fence { .. } => has_fences = true,
                _ => {}
            }
        }
        let stretches = stretches(&self.code, &branch_tables);
        let counted_at = count_together(&mut self.code, &stretches);
        let leaders = leaders(&mut self.code, &stretches);
        let mut shared_arrays: Vec<SharedArray> = self
            .shared
            .iter()
            .map(|(name, (start, bytes))| SharedArray {
                name: plain_name(name),
                start: *start,
                bytes: Some(*bytes),
            })
            .collect();
        if let Some(name) = self.dynamic_name {
            shared_arrays.push(SharedArray {
                name: plain_name(name),
                start: dynamic_shared_offset,
                bytes: None,
            });
        }
        let settle = |constant| match constant {
            Constant::DynamicShared { offset, wide } => {
                let address = dynamic_shared_offset.wrapping_add_signed(offset);
                if wide {
                    Constant::Wide(address)
                } else {
                    Constant::Narrow(address as u32)
                }
            }
            settled => settled,
        };
        let mut constants: Vec<_> = self
            .constants
            .iter()
            .filter_map(|(&c, r)| Some((places[r.0 as usize]?, settle(c))))
            .collect();
        let mut specials: Vec<_> = self
            .specials
            .iter()
            .filter_map(|(&s, r)| Some((places[r.0 as usize]?, s)))
            .collect();
        constants.sort_unstable_by_key(|c| c.0);
        specials.sort_unstable_by_key(|s| s.0);
        if self.shared_bytes > u64::from(SHARED_PER_BLOCK) {
            let message = format!(
                "kernel {}: {} bytes of static shared memory, at most {SHARED_PER_BLOCK}",
                function.name, self.shared_bytes
            );
            return Err(PtxError { line: 0, message });
        }
        if self.local_bytes > 512 << 10 {
            return Err(too_large("local memory"));
        }
        Ok(Kernel {
            name: function.name.to_string(),
            params,
            param_bytes,
            shared_bytes: u32::try_from(self.shared_bytes)
                .map_err(|_| too_large("shared memory"))?,
            local_bytes: self.local_bytes.next_multiple_of(16) as u32,
            max_threads: function.max_threads.unwrap_or(1024).min(1024),
            resources: None,
            code: self.code,
            counted_at,
            source: self.source,
            files,
            constants,
            specials,
            planes,
            pinned_planes: pinned,
            predicates: self.predicates,
            branch_tables,
            texts: self.texts,
            sites,
            leaders,
            tracked,
            has_fences,
            shared_arrays,
            dynamic_shared_offset: u32::try_from(dynamic_shared_offset)
                .map_err(|_| too_large("shared memory"))?,
        })
    }

    /// Words that the lifetimes of registers take at most: a bit for each register in each basic block.
    fn lifetime_words(&self, branch_tables: &[Vec<u32>]) -> usize {
        let ends = |op: &Op| matches!(op, Op::Branch { .. } | Op::BranchTable { .. } | Op::Exit);
        let jumps = self.code.iter().filter(|i| ends(&i.op)).count();
        let targets: usize = branch_tables.iter().map(Vec::len).sum();
        (2 * jumps + targets + 1) * self.registers.len().div_ceil(64)
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

    fn declare(&mut self, declared: &'a Declaration<'a>) -> Result<(), PtxError> {
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
                return Err(PtxError {
                    line: declared.line,
                    message,
                });
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
            ty => match scalar(ty) {
                Some(ty) => {
                    let wide = ty.is_wide();
                    let first = R(self.registers.len() as u32);
                    self.registers.resize(
                        self.registers.len() + count as usize,
                        VirtualRegister {
                            wide,
                            pinned: false,
                        },
                    );
                    Binding::Register { r: first, wide }
                }
                None => Binding::Opaque,
            },
        };
        if self.registers.len() > MAX_CODE || self.predicates > MAX_PREDICATES {
            return Err(PtxError {
                line: declared.line,
                message: "too many registers".into(),
            });
        }
        match declared.family {
            Some(_) => self.scope().families.push((declared.name, count, first)),
            None => self.bind(declared.name, first),
        }
        Ok(())
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

    /// A call that is guarded is one that the other threads jump over.
    fn guarded_call(
        &mut self,
        instruction: &'a ptx::Instruction<'a>,
        guard: Option<Condition>,
    ) -> Result<bool, PtxError> {
        let Some(Condition { p, negate }) = guard else {
            return self.call(instruction);
        };
        let behind = self.new_label();
        let skip = Condition { p, negate: !negate };
        let target = behind as u32;
        self.emit(Op::Branch { target }, Some(skip));
        let known = self.call(instruction)?;
        if !known {
            self.unknown(instruction, None)?;
        }
        self.place_label(behind);
        Ok(true)
    }

    /// Inlines a call, or emits one of the runtime's own functions. False if it can be neither.
    fn call(&mut self, instruction: &'a ptx::Instruction<'a>) -> Result<bool, PtxError> {
        let mut lists: [&[Operand<'a>]; 2] = [&[], &[]];
        let mut name = None;
        for operand in &instruction.operands {
            match operand {
                Operand::List(items) if name.is_none() => lists[0] = items,
                Operand::List(items) => lists[1] = items,
                Operand::Name(n) if name.is_none() => name = Some(*n),
                _ => return Ok(false),
            }
        }
        let Some(name) = name else { return Ok(false) };
        let ast = self.ast;
        let Some(function) = ast
            .functions
            .iter()
            .rfind(|f| f.name == name && (f.body.is_some() || !f.is_entry))
        else {
            return Ok(false);
        };
        let [results, arguments] = lists;
        let Some(body) = &function.body else {
            return Ok(self.runtime_call(name, results, arguments));
        };
        let recursive = self.calls.contains(&name) || self.calls.len() >= MAX_CALLS;
        if recursive
            || results.len() != function.results.len()
            || arguments.len() != function.params.len()
        {
            return Ok(false);
        }
        let mut frame = Scope::default();
        for (formal, actual) in function
            .results
            .iter()
            .zip(results)
            .chain(function.params.iter().zip(arguments))
        {
            let Operand::Name(actual) = actual else {
                return Ok(false);
            };
            let Some(binding) = self.find(actual) else {
                return Ok(false);
            };
            frame.names.insert(formal.name, binding);
        }
        let caller_scopes = std::mem::replace(&mut self.scopes, vec![frame]);
        let end = self.new_label();
        let caller_return = self.return_label.replace(end);
        self.calls.push(name);
        self.body(body)?;
        self.calls.pop();
        self.return_label = caller_return;
        self.scopes = caller_scopes;
        self.place_label(end);
        Ok(true)
    }

    /// Whether the instruction belongs to a device function, not to the kernel itself.
    pub(super) fn is_inlining(&self) -> bool {
        self.calls.len() > 1
    }

    // --- names ------------------------------------------------------------------------------------------

    fn open_scope(&mut self) {
        self.scopes.push(Scope::default());
    }

    fn scope(&mut self) -> &mut Scope<'a> {
        if self.scopes.is_empty() {
            self.open_scope();
        }
        let last = self.scopes.len() - 1;
        &mut self.scopes[last]
    }

    fn bind(&mut self, name: &'a str, binding: Binding) {
        self.scope().names.insert(name, binding);
    }

    /// What `name` stands for here.
    pub(super) fn find(&mut self, name: &str) -> Option<Binding> {
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
                    Binding::Predicate(p) => Binding::Predicate(P(p.0 + index)),
                    other => other,
                });
            }
        }
        if let Some(&index) = self.table.index.get(name) {
            return Some(Binding::Variable(index));
        }
        let shared = *self.table.shared.get(name)?;
        self.place_shared(shared).ok()
    }

    /// Labels that `brx.idx` lists under `name`.
    pub(super) fn branch_table(&mut self, name: &str) -> Option<u32> {
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

    // --- emission ---------------------------------------------------------------------------------------

    /// An operation that prepares the instruction being decoded, for the same threads.
    pub(super) fn emit_before(&mut self, op: Op) {
        self.emit(op, self.guard);
    }

    pub(super) fn emit(&mut self, op: Op, guard: Option<Condition>) {
        self.code.push(Instruction {
            op,
            guard,
            counts: 0,
        });
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
            Constant::Variable { wide, .. } | Constant::DynamicShared { wide, .. } => wide,
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

/// The name in the source of a variable within a function, which C++ mangles: `_ZZ3sumE6partials` is
/// `partials`. Other names stay as they are.
fn plain_name(mangled: &str) -> String {
    let inner = mangled
        .strip_prefix("_ZZ")
        .and_then(|rest| rest.split_once('E'))
        .map(|(_, name)| name);
    let name = inner.and_then(|name| {
        let digits = name.find(|c: char| !c.is_ascii_digit())?;
        let length: usize = name[..digits].parse().ok()?;
        name.get(digits..digits + length)
    });
    name.unwrap_or(mangled).to_owned()
}

fn pinned(registers: &mut Vec<VirtualRegister>, wide: bool) -> R {
    registers.push(VirtualRegister { wide, pinned: true });
    R(registers.len() as u32 - 1)
}
