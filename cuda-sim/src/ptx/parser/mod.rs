//! Recursive descent over the tokens of one module.

mod declaration;
mod instruction;

use std::cmp::Ordering;
use std::ops::Range;

use super::lexer::{Token, tokens};
use super::*;

/// Parses a whole module.
pub(crate) fn parse(text: &str) -> Result<Ast<'_>, PtxError> {
    let mut parser = Parser {
        tokens: tokens(text)?,
        at: 0,
        source: SourceLine::default(),
        used_bytes: None,
        files: Vec::new(),
        depth: 0,
    };
    let mut ast = Ast::default();
    let mut saw_version = false;
    while let Some(word) = parser.peek() {
        match word {
            Token::Word(".version") => {
                parser.skip(2);
                saw_version = true;
            }
            Token::Word(".target") => {
                parser.skip(1);
                if let Some(Token::Word(name)) = parser.peek() {
                    let target = capability(name);
                    let is_specific = name.ends_with('a');
                    ast.is_specific = match target.cmp(&ast.target) {
                        Ordering::Less => ast.is_specific,
                        Ordering::Equal => ast.is_specific || is_specific,
                        Ordering::Greater => is_specific,
                    };
                    ast.target = ast.target.max(target);
                }
                parser.skip(1);
                while parser.accept(b',') {
                    parser.skip(1);
                }
            }
            Token::Word(".address_size") => parser.skip(2),
            Token::Word(".pragma" | ".alias") => parser.skip_statement()?,
            Token::Word(".file") => parser.file()?,
            Token::Word(".section") => parser.section()?,
            Token::Mark(b';') => parser.skip(1),
            Token::Word(_) => parser.definition(&mut ast)?,
            _ => return Err(parser.unexpected("a directive")),
        }
    }
    if !saw_version {
        return Err(PtxError::new(
            1,
            "no .version directive: this is not PTX text",
        ));
    }
    ast.files = parser.files;
    ast.inline_asm = inline_asm(text);
    Ok(ast)
}

/// 75 of `sm_75`, 90 of `sm_90a`.
fn capability(name: &str) -> Option<u32> {
    let number = name.strip_prefix("sm_")?;
    number.trim_end_matches(['a', 'f']).parse().ok()
}

/// The lines between the comments that the compiler writes around inline PTX.
fn inline_asm(text: &str) -> Vec<Range<u32>> {
    let mut ranges = Vec::new();
    let mut start = None;
    for (number, line) in (1..).zip(text.lines()) {
        match line.trim() {
            "// begin inline asm" => start = Some(number),
            "// end inline asm" => ranges.extend(start.take().map(|start| start..number)),
            _ => {}
        }
    }
    ranges
}

/// Scopes within scopes that a module may have; a guard against running out of stack.
const MAX_DEPTH: u32 = 64;

struct Parser<'a> {
    tokens: Vec<(Token<'a>, u32, u32)>,
    at: usize,
    source: SourceLine,
    /// Used bytes of the next instruction, by a pragma.
    used_bytes: Option<u32>,
    files: Vec<(u32, &'a str)>,
    depth: u32,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<Token<'a>> {
        self.tokens.get(self.at).map(|t| t.0)
    }

    fn line(&self) -> u32 {
        self.tokens
            .get(self.at)
            .or(self.tokens.last())
            .map_or(1, |t| t.1)
    }

    /// First byte of the next word.
    fn start(&self) -> usize {
        let next = self.tokens.get(self.at);
        next.map_or(0, |&(token, _, end)| match token {
            Token::Word(text) | Token::Number(text) => end as usize - text.len(),
            Token::Text(text) => end as usize - text.len() - 2,
            Token::Mark(_) => end as usize - 1,
        })
    }

    /// The byte behind the last token that was taken.
    fn end(&self) -> usize {
        let last = self.at.checked_sub(1).and_then(|at| self.tokens.get(at));
        last.map_or(0, |&(.., end)| end as usize)
    }

    fn skip(&mut self, n: usize) {
        self.at += n;
    }

    fn accept(&mut self, mark: u8) -> bool {
        let found = self.peek() == Some(Token::Mark(mark));
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, mark: u8) -> Result<(), PtxError> {
        if self.accept(mark) {
            Ok(())
        } else {
            Err(self.unexpected(&format!("'{}'", mark as char)))
        }
    }

    fn unexpected(&self, wanted: &str) -> PtxError {
        let found = match self.peek() {
            Some(Token::Word(w) | Token::Number(w)) => format!("'{w}'"),
            Some(Token::Text(t)) => format!("\"{t}\""),
            Some(Token::Mark(m)) => format!("'{}'", m as char),
            None => "the end of the text".into(),
        };
        PtxError::new(self.line(), format!("expected {wanted}, found {found}"))
    }

    fn word(&mut self, wanted: &str) -> Result<&'a str, PtxError> {
        match self.peek() {
            Some(Token::Word(word)) => {
                self.at += 1;
                Ok(word)
            }
            _ => Err(self.unexpected(wanted)),
        }
    }

    fn skip_statement(&mut self) -> Result<(), PtxError> {
        while !self.accept(b';') {
            if self.peek().is_none() {
                return Err(self.unexpected("';'"));
            }
            self.at += 1;
        }
        Ok(())
    }

    /// `.pragma "string", "string";`: hints, but for the one that says which bytes of the next load
    /// are used.
    fn pragma(&mut self) -> Result<(), PtxError> {
        let line = self.line();
        while !self.accept(b';') {
            match self.peek() {
                Some(Token::Text(text)) => {
                    if let Some(mask) = instruction::used_bytes_mask(text) {
                        let mask = mask.map_err(|message| PtxError::new(line, message))?;
                        self.used_bytes = Some(mask);
                    }
                }
                None => return Err(self.unexpected("';'")),
                Some(_) => {}
            }
            self.skip(1);
        }
        Ok(())
    }

    /// `.file 1 "name"`, with optional time stamp and size.
    fn file(&mut self) -> Result<(), PtxError> {
        self.skip(1);
        let number = self.unsigned()? as u32;
        let Some(Token::Text(name)) = self.peek() else {
            return Err(self.unexpected("a file name"));
        };
        self.skip(1);
        while self.accept(b',') {
            self.skip(1);
        }
        self.files.push((number, name));
        Ok(())
    }

    /// `.section name { … }`: debug information, which `.loc` makes redundant here.
    fn section(&mut self) -> Result<(), PtxError> {
        self.skip(1);
        self.word("a section name")?;
        self.skip_braces()
    }

    fn skip_braces(&mut self) -> Result<(), PtxError> {
        self.expect(b'{')?;
        let mut open = 1;
        while open > 0 {
            match self.peek() {
                Some(Token::Mark(b'{')) => open += 1,
                Some(Token::Mark(b'}')) => open -= 1,
                None => return Err(self.unexpected("'}'")),
                Some(_) => {}
            }
            self.at += 1;
        }
        Ok(())
    }

    /// A function or variables at module scope.
    fn definition(&mut self, ast: &mut Ast<'a>) -> Result<(), PtxError> {
        let start = self.start();
        let mut linkage = Linkage::Local;
        let (names, is_complete) = loop {
            match self.peek() {
                Some(Token::Word(".extern")) => linkage = Linkage::Extern,
                Some(Token::Word(".visible")) => linkage = Linkage::Visible,
                Some(Token::Word(".weak" | ".common")) => linkage = Linkage::Weak,
                Some(Token::Word(kind @ (".entry" | ".func"))) => {
                    let function = self.function(kind == ".entry")?;
                    let definition = (vec![function.name], function.body.is_some());
                    ast.functions.push(function);
                    break definition;
                }
                Some(Token::Word(_)) => {
                    let found = self.declaration()?;
                    let names = found.iter().map(|declared| declared.name).collect();
                    let external = linkage == Linkage::Extern;
                    if external && found.iter().any(|d| d.space != Space::Shared) {
                        ast.external.extend(found);
                    } else {
                        ast.variables.extend(found);
                    }
                    break (names, !external);
                }
                _ => return Err(self.unexpected("a definition")),
            }
            self.skip(1);
        };
        ast.definitions.push(Definition {
            linkage,
            names,
            is_complete,
            range: start..self.end(),
        });
        Ok(())
    }

    fn function(&mut self, is_entry: bool) -> Result<Function<'a>, PtxError> {
        self.skip(1);
        while matches!(self.peek(), Some(Token::Word(".noreturn"))) {
            self.skip(1);
        }
        let results = if self.peek() == Some(Token::Mark(b'(')) {
            self.params()?
        } else {
            Vec::new()
        };
        let name = self.word("a function name")?;
        let params = if self.peek() == Some(Token::Mark(b'(')) {
            self.params()?
        } else {
            Vec::new()
        };
        let (mut max_threads, mut cluster) = (None, None);
        let mut max_registers = None;
        loop {
            match self.peek() {
                Some(Token::Word(".maxntid" | ".reqntid")) => {
                    self.skip(1);
                    let mut product = self.unsigned()?;
                    while self.accept(b',') {
                        product = product.saturating_mul(self.unsigned()?);
                    }
                    max_threads = Some(product.min(u64::from(u32::MAX)) as u32);
                }
                Some(Token::Word(".maxnreg")) => {
                    self.skip(1);
                    max_registers = Some(self.unsigned()?);
                }
                Some(Token::Word(".reqnctapercluster")) => {
                    self.skip(1);
                    let mut sizes = [1; 3];
                    for (axis, size) in sizes.iter_mut().enumerate() {
                        if axis == 0 || self.accept(b',') {
                            *size = self.unsigned()?.min(u64::from(u32::MAX)) as u32;
                        }
                    }
                    cluster = Some(sizes);
                }
                Some(Token::Word(".pragma")) => self.skip_statement()?,
                Some(Token::Word(w)) if w.starts_with('.') => {
                    self.skip(1);
                    while matches!(
                        self.peek(),
                        Some(Token::Number(_) | Token::Text(_) | Token::Mark(b','))
                    ) {
                        self.skip(1);
                    }
                }
                _ => break,
            }
        }
        let body = if self.accept(b';') {
            None
        } else {
            self.source = SourceLine::default();
            self.used_bytes = None;
            self.expect(b'{')?;
            Some(self.scope()?)
        };
        Ok(Function {
            name,
            is_entry,
            results,
            params,
            max_threads,
            bounds_registers: max_threads.is_some() || max_registers.is_some(),
            cluster,
            body,
        })
    }

    /// Parses what is between commas, up to a closing mark.
    fn separated(
        &mut self,
        close: u8,
        mut one: impl FnMut(&mut Self) -> Result<(), PtxError>,
    ) -> Result<(), PtxError> {
        while !self.accept(close) {
            one(self)?;
            if self.peek() != Some(Token::Mark(close)) {
                self.expect(b',')?;
            }
        }
        Ok(())
    }

    /// Parses what may hold itself, to a depth.
    fn nested<T>(
        &mut self,
        what: &str,
        parse: impl FnOnce(&mut Self) -> Result<T, PtxError>,
    ) -> Result<T, PtxError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.unexpected(&format!("fewer {what}")));
        }
        let parsed = parse(self)?;
        self.depth -= 1;
        Ok(parsed)
    }

    fn params(&mut self) -> Result<Vec<Declaration<'a>>, PtxError> {
        self.expect(b'(')?;
        let mut params = Vec::new();
        self.separated(b')', |parser| {
            params.extend(parser.variables()?);
            Ok(())
        })?;
        Ok(params)
    }

    /// Statements up to the closing brace, which is consumed.
    fn scope(&mut self) -> Result<Vec<Statement<'a>>, PtxError> {
        self.nested("nested scopes", |parser| {
            let mut statements = Vec::new();
            while !parser.accept(b'}') {
                parser.statement(&mut statements)?;
            }
            Ok(statements)
        })
    }

    fn statement(&mut self, out: &mut Vec<Statement<'a>>) -> Result<(), PtxError> {
        match self.peek() {
            Some(Token::Mark(b'{')) => {
                self.skip(1);
                out.push(Statement::Scope(self.scope()?));
            }
            Some(Token::Mark(b';')) => self.skip(1),
            Some(Token::Word(".loc")) => self.location()?,
            Some(Token::Word(".pragma")) => self.pragma()?,
            Some(Token::Word(".callprototype" | ".calltargets")) => self.skip_statement()?,
            Some(Token::Word(".file")) => self.file()?,
            Some(Token::Word(".section")) => self.section()?,
            Some(Token::Word(w)) if w.starts_with('.') => {
                out.extend(self.declaration()?.into_iter().map(Statement::Declare));
            }
            Some(Token::Word(_))
                if self.tokens.get(self.at + 1).map(|t| t.0) == Some(Token::Mark(b':')) =>
            {
                self.label(out)?;
            }
            Some(Token::Mark(b'@') | Token::Word(_)) => {
                out.push(Statement::Instruction(self.instruction()?))
            }
            _ => return Err(self.unexpected("a statement")),
        }
        Ok(())
    }

    fn label(&mut self, out: &mut Vec<Statement<'a>>) -> Result<(), PtxError> {
        let name = self.word("a label")?;
        self.expect(b':')?;
        match self.peek() {
            Some(Token::Word(".branchtargets")) => {
                self.skip(1);
                let mut targets = vec![self.word("a label")?];
                while self.accept(b',') {
                    targets.push(self.word("a label")?);
                }
                self.expect(b';')?;
                out.push(Statement::BranchTargets { name, targets });
            }
            Some(Token::Word(".callprototype" | ".calltargets")) => self.skip_statement()?,
            _ => out.push(Statement::Label(name)),
        }
        Ok(())
    }

    /// `.loc file line column[, function_name …, inlined_at …]`, which has no semicolon.
    fn location(&mut self) -> Result<(), PtxError> {
        self.skip(1);
        let file = self.unsigned()? as u32;
        let line = self.unsigned()? as u32;
        self.unsigned()?;
        if line != 0 {
            self.source = SourceLine { file, line };
        }
        while self.accept(b',') {
            match self.word("function_name or inlined_at")? {
                "inlined_at" => {
                    for _ in 0..3 {
                        self.unsigned()?;
                    }
                }
                _ => {
                    self.word("a name")?;
                    if self.accept(b'+') {
                        self.unsigned()?;
                    }
                }
            }
        }
        Ok(())
    }
}
