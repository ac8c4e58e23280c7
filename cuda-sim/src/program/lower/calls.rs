//! Inlining of calls.
//!
//! A call through a pointer becomes a comparison and a branch for each function that it may mean,
//! with that function inlined behind it. Recursion is unrolled as far as its code stays small: each
//! level has registers and local memory of its own.

use std::collections::HashSet;

use super::builder::{Binding, Lowering, Scope};
use crate::program::instruction::Constant;
use crate::program::kernel::Unsupported;
use crate::program::op::{Comparison, Condition, Op, R, Type};
use crate::program::variables::scalar;
use crate::ptx::{self, Declaration, Function, Operand, PtxError, Space};

/// Maximum depth of calls.
const MAX_CALLS: usize = 64;
/// Levels of a function that calls itself at one place.
const MAX_LEVELS: usize = 32;
/// Instructions of a function that calls itself at several places, with all its levels.
const MAX_FUNCTION: usize = 1 << 9;
/// Instructions that are unrolled in one kernel: analyses take time that grows with the square of
/// its length.
const MAX_UNROLLED: usize = 1 << 13;
/// Local memory of a thread beyond which no recursion is unrolled.
const MAX_UNROLLED_LOCAL: u64 = 128 << 10;

/// The operands of a call: variables, and values for parameters that are registers.
#[derive(Clone, Copy)]
struct Passed<'c, 'a> {
    results: &'c [Operand<'a>],
    arguments: &'c [Operand<'a>],
}

impl Passed<'_, '_> {
    fn fits(&self, function: &Function<'_>) -> bool {
        self.results.len() == function.results.len()
            && self.arguments.len() == function.params.len()
    }
}

impl<'a> Lowering<'a> {
    /// A call that is guarded is one that the other threads jump over.
    pub(super) fn guarded_call(
        &mut self,
        instruction: &'a ptx::Instruction<'a>,
        guard: Option<Condition>,
    ) -> Result<(), PtxError> {
        let Some(Condition { p, negate }) = guard else {
            return self.call(instruction);
        };
        let behind = self.new_label();
        let skip = Condition { p, negate: !negate };
        let target = behind as u32;
        self.emit(Op::Branch { target }, Some(skip));
        self.call(instruction)?;
        self.place_label(behind);
        Ok(())
    }

    /// Inlines a call, or emits one of the runtime's own functions.
    fn call(&mut self, instruction: &'a ptx::Instruction<'a>) -> Result<(), PtxError> {
        let mut lists: [&[Operand<'a>]; 2] = [&[], &[]];
        let (mut callee, mut prototype) = (None, None);
        for operand in &instruction.operands {
            match operand {
                Operand::List(items) if callee.is_none() => lists[0] = items,
                Operand::List(items) => lists[1] = items,
                Operand::Name(name) if callee.is_none() => callee = Some(*name),
                // A prototype or a list of targets: which functions fit is seen by their
                // parameters.
                Operand::Name(name) if prototype.is_none() => prototype = Some(*name),
                _ => return self.unknown(instruction, None),
            }
        }
        let Some(name) = callee else {
            return self.unknown(instruction, None);
        };
        let [results, arguments] = lists;
        let passed = Passed { results, arguments };
        match self.find(name) {
            Some(Binding::Register { r, wide: true }) => return self.call_pointer(r, passed),
            Some(Binding::Register { .. }) => return self.unknown(instruction, None),
            _ => {}
        }
        let function = self.table.functions.get(name).map(|named| named.function);
        match function {
            Some(function) if function.body.is_some() => {
                if !self.call_function(function, passed)? {
                    return self.unknown(instruction, None);
                }
            }
            Some(_) if self.runtime_call(name, results, arguments) => {}
            _ => {
                let line = instruction.line;
                let text = format!("{name}, which it does not know (PTX line {line})");
                self.unsupported(Unsupported::Call(text), None);
            }
        }
        Ok(())
    }

    /// Calls the function that `pointer` points to.
    fn call_pointer(&mut self, pointer: R, passed: Passed<'_, 'a>) -> Result<(), PtxError> {
        let table = self.table;
        let behind = self.new_label();
        let pointed_to = table.functions.values().filter(|named| named.is_pointed_to);
        let mut candidates: Vec<_> = pointed_to
            .filter(|named| named.function.body.is_some() && passed.fits(named.function))
            .collect();
        candidates.sort_unstable_by_key(|named| named.address);
        let functions = candidates.iter().map(|named| named.function);
        if self.pointer_calls >= nested_pointer_calls(functions) {
            let calls = self.pointer_calls;
            let text = format!("a function by its pointer: {calls} such calls are inlined already");
            self.unsupported(Unsupported::Call(text), None);
            return Ok(());
        }
        for named in candidates {
            let (p, next) = (self.scratch_predicate(), self.new_label());
            let differs = Op::Compare {
                op: Comparison::Ne,
                ty: Type::U64,
                ftz: false,
                d: p,
                q: None,
                a: pointer,
                b: self.constant(Constant::Wide(named.address)),
                with: None,
            };
            self.emit(differs, None);
            let target = next as u32;
            let skip = Condition { p, negate: false };
            self.emit(Op::Branch { target }, Some(skip));
            self.pointer_calls += 1;
            if !self.call_function(named.function, passed)? {
                let text = format!("{}: its parameters do not fit", named.function.name);
                self.unsupported(Unsupported::Call(text), None);
            }
            self.pointer_calls -= 1;
            let target = behind as u32;
            self.emit(Op::Branch { target }, None);
            self.place_label(next);
        }
        let parameters = passed.arguments.len();
        self.unsupported(Unsupported::Pointed { parameters }, None);
        self.place_label(behind);
        Ok(())
    }

    /// Inlines a function. False if the call does not fit it.
    fn call_function(
        &mut self,
        function: &'a Function<'a>,
        passed: Passed<'_, 'a>,
    ) -> Result<bool, PtxError> {
        if !passed.fits(function) {
            return Ok(false);
        }
        let name = function.name;
        let levels = self.calls.iter().filter(|caller| **caller == name).count();
        let too_deep = levels > 0 && levels >= self.levels(function);
        // Functions that may call each other by pointers can do so in as many orders as there are.
        let is_repeated = levels > 0 || self.pointer_calls > 1;
        let stopped = if too_deep {
            Some(format!("its calls are inlined {levels} deep already"))
        } else if self.calls.len() >= MAX_CALLS {
            Some(format!("calls are inlined {MAX_CALLS} deep already"))
        } else {
            self.no_room().filter(|_| is_repeated).map(str::to_owned)
        };
        if let Some(reason) = stopped {
            self.unsupported(Unsupported::Call(format!("{name}: {reason}")), None);
            return Ok(true);
        }
        let mut frame = Scope::default();
        for (formal, actual) in function.results.iter().zip(passed.results) {
            let Operand::Name(actual) = actual else {
                return Ok(false);
            };
            let Some(binding) = self.find(actual) else {
                return Ok(false);
            };
            frame.names.insert(formal.name, binding);
        }
        for (formal, actual) in function.params.iter().zip(passed.arguments) {
            let Some(binding) = self.bound(formal, actual) else {
                return Ok(false);
            };
            frame.names.insert(formal.name, binding);
        }
        let caller_scopes = std::mem::replace(&mut self.scopes, vec![frame]);
        let end = self.new_label();
        let caller_return = self.return_label.replace(end);
        self.calls.push(name);
        let body = function.body.as_deref().unwrap_or_default();
        match is_repeated {
            true => self.unroll(|lowering| lowering.body(body))?,
            false => self.body(body)?,
        }
        self.calls.pop();
        self.return_label = caller_return;
        self.scopes = caller_scopes;
        self.place_label(end);
        Ok(true)
    }

    /// Meaning of a parameter in a function: a copy of the argument if it is a register.
    fn bound(&mut self, formal: &Declaration<'a>, actual: &Operand<'a>) -> Option<Binding> {
        match (formal.space, scalar(formal.ty), actual) {
            (Space::Reg, Some(ty), _) => {
                let (a, wide) = self.source_any(actual, ty)?;
                (wide == ty.is_wide()).then_some(())?;
                let d = self.scratch(wide);
                self.emit(Op::Move { wide, d, a }, None);
                Some(Binding::Register { r: d, wide })
            }
            (Space::Reg, None, _) if formal.ty == "b128" => {
                let from = self.halves(actual)?;
                let low = self.new_registers(2, true);
                for (d, a) in [low, R(low.0 + 1)].into_iter().zip(from) {
                    self.emit(Op::Move { wide: true, d, a }, None);
                }
                Some(Binding::B128 { low })
            }
            (_, _, Operand::Name(name)) => self.find(name),
            _ => None,
        }
    }

    /// Emits code that counts as unrolled.
    fn unroll(
        &mut self,
        emit: impl FnOnce(&mut Self) -> Result<(), PtxError>,
    ) -> Result<(), PtxError> {
        let (outer, start) = (self.unrolling_from, self.code.len());
        self.unrolling_from = outer.or(Some(start));
        emit(self)?;
        self.unrolling_from = outer;
        if outer.is_none() {
            self.unrolled += self.code.len() - start;
        }
        Ok(())
    }

    /// Why no more may be unrolled.
    fn no_room(&self) -> Option<&'static str> {
        let present = self
            .unrolling_from
            .map_or(0, |start| self.code.len() - start);
        if self.unrolled + present >= MAX_UNROLLED {
            Some("the code of the calls that are inlined is too long already")
        } else if self.local_bytes >= MAX_UNROLLED_LOCAL {
            Some("the calls that are inlined have too much local memory already")
        } else {
            None
        }
    }

    /// Number of levels of a recursive function that are unrolled.
    fn levels(&mut self, function: &'a Function<'a>) -> usize {
        if let Some(&levels) = self.levels.get(function.name) {
            return levels;
        }
        let (mut sites, mut size) = (0, 0);
        for_each_instruction(function, &mut |instruction| {
            size += 1;
            let callees = self.callees(instruction);
            let recursive = callees.iter().filter(|f| self.reaches(f, function.name));
            sites += recursive.count();
        });
        let levels = match sites {
            0 | 1 => MAX_LEVELS,
            _ => {
                let unrolled = |levels: &usize| {
                    let calls = sites.checked_pow(*levels as u32);
                    calls.is_some_and(|calls| calls.saturating_mul(size) <= MAX_FUNCTION)
                };
                1 + (1..MAX_LEVELS).take_while(unrolled).count()
            }
        };
        self.levels.insert(function.name, levels);
        levels
    }

    /// The functions that an instruction may call.
    fn callees(&self, instruction: &ptx::Instruction<'a>) -> Vec<&'a Function<'a>> {
        if !instruction.opcode.starts_with("call") {
            return Vec::new();
        }
        let callee = instruction
            .operands
            .iter()
            .find_map(|operand| match operand {
                Operand::Name(name) => Some(*name),
                _ => None,
            });
        let functions = &self.table.functions;
        match callee {
            Some(name) if functions.contains_key(name) => vec![functions[name].function],
            Some(_pointer) => {
                let pointed_to = functions.values().filter(|named| named.is_pointed_to);
                pointed_to.map(|named| named.function).collect()
            }
            None => Vec::new(),
        }
    }

    /// True if a function is `name`, or calls it by others.
    fn reaches(&self, from: &'a Function<'a>, name: &str) -> bool {
        let (mut seen, mut left) = (HashSet::new(), vec![from]);
        while let Some(function) = left.pop() {
            if function.name == name {
                return true;
            }
            if seen.insert(function.name) {
                for_each_instruction(function, &mut |instruction| {
                    left.extend(self.callees(instruction));
                });
            }
        }
        false
    }
}

/// Depth of calls of these functions through pointers, if they may all call each other.
fn nested_pointer_calls<'a>(functions: impl ExactSizeIterator<Item = &'a Function<'a>>) -> usize {
    let count = functions.len();
    let mut instructions = 0;
    functions.for_each(|function| for_each_instruction(function, &mut |_| instructions += 1));
    // Each comes with a comparison and two branches.
    let each = instructions / count.max(1) + 3;
    let fits = |depth: &usize| {
        let calls = count.checked_pow(*depth as u32);
        calls.is_some_and(|calls| calls.saturating_mul(each) <= MAX_UNROLLED)
    };
    1 + (2..=MAX_LEVELS).take_while(fits).count()
}

fn for_each_instruction<'a>(
    function: &'a Function<'a>,
    f: &mut dyn FnMut(&'a ptx::Instruction<'a>),
) {
    function
        .body
        .as_deref()
        .unwrap_or_default()
        .iter()
        .for_each(|statement| statement.for_each_instruction(f));
}
