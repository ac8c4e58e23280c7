//! Inlining of calls.

use super::builder::{Lowering, Scope};
use crate::program::op::{Condition, Op};
use crate::ptx::{self, Operand, PtxError};

/// Maximum depth of calls.
const MAX_CALLS: usize = 64;

impl<'a> Lowering<'a> {
    /// A call that is guarded is one that the other threads jump over.
    pub(super) fn guarded_call(
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
}
