//! Recursive descent over the tokens of one module.

use super::lexer::{Token, tokens};
use super::*;

/// Parses a whole module.
pub(crate) fn parse(text: &str) -> Result<Ast<'_>, PtxError> {
    let mut parser = Parser {
        tokens: tokens(text)?,
        at: 0,
        source: SourceLine::default(),
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
                parser.skip(2);
                while parser.accept(b',') {
                    parser.skip(1);
                }
            }
            Token::Word(".address_size") => parser.skip(2),
            Token::Word(".pragma") => parser.skip_statement()?,
            Token::Word(".alias") => parser.skip_statement()?,
            Token::Word(".file") => parser.file()?,
            Token::Word(".section") => parser.section()?,
            Token::Mark(b';') => parser.skip(1),
            Token::Word(_) => parser.definition(&mut ast)?,
            _ => return Err(parser.unexpected("a directive")),
        }
    }
    if !saw_version {
        return Err(PtxError {
            line: 1,
            message: "no .version directive: this is not PTX text".into(),
        });
    }
    ast.files = parser.files;
    Ok(ast)
}

/// Scopes within scopes that a module may have; a guard against running out of stack.
const MAX_DEPTH: u32 = 64;

struct Parser<'a> {
    tokens: Vec<(Token<'a>, u32)>,
    at: usize,
    source: SourceLine,
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
        PtxError {
            line: self.line(),
            message: format!("expected {wanted}, found {found}"),
        }
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

    /// A function or a variable at module scope.
    fn definition(&mut self, ast: &mut Ast<'a>) -> Result<(), PtxError> {
        let mut external = false;
        loop {
            match self.peek() {
                Some(Token::Word(".extern")) => external = true,
                Some(Token::Word(".visible" | ".weak" | ".common")) => {}
                Some(Token::Word(".entry")) => {
                    return self.function(true).map(|f| ast.functions.push(f));
                }
                Some(Token::Word(".func")) => {
                    return self.function(false).map(|f| ast.functions.push(f));
                }
                Some(Token::Word(_)) => {
                    let line = self.line();
                    let found = self.declaration()?;
                    if external && found.iter().any(|d| d.space != Space::Shared) {
                        let message = format!(
                            "extern variable {} is not defined in this module",
                            found[0].name
                        );
                        return Err(PtxError { line, message });
                    }
                    ast.variables.extend(found);
                    return Ok(());
                }
                _ => return Err(self.unexpected("a definition")),
            }
            self.skip(1);
        }
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
        let mut max_threads = None;
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
            self.expect(b'{')?;
            Some(self.scope()?)
        };
        Ok(Function {
            name,
            is_entry,
            results,
            params,
            max_threads,
            body,
        })
    }

    fn params(&mut self) -> Result<Vec<Declaration<'a>>, PtxError> {
        self.expect(b'(')?;
        let mut params = Vec::new();
        while !self.accept(b')') {
            params.extend(self.variables()?);
            if self.peek() != Some(Token::Mark(b')')) {
                self.expect(b',')?;
            }
        }
        Ok(params)
    }

    /// Statements up to the closing brace, which is consumed.
    fn scope(&mut self) -> Result<Vec<Statement<'a>>, PtxError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.unexpected("fewer nested scopes"));
        }
        let mut statements = Vec::new();
        while !self.accept(b'}') {
            self.statement(&mut statements)?;
        }
        self.depth -= 1;
        Ok(statements)
    }

    fn statement(&mut self, out: &mut Vec<Statement<'a>>) -> Result<(), PtxError> {
        match self.peek() {
            Some(Token::Mark(b'{')) => {
                self.skip(1);
                out.push(Statement::Scope(self.scope()?));
            }
            Some(Token::Mark(b';')) => self.skip(1),
            Some(Token::Word(".loc")) => self.location()?,
            Some(Token::Word(".pragma" | ".callprototype" | ".calltargets")) => {
                self.skip_statement()?
            }
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

    /// Variables of one declaration, up to its semicolon.
    fn declaration(&mut self) -> Result<Vec<Declaration<'a>>, PtxError> {
        let found = self.variables()?;
        self.expect(b';')?;
        Ok(found)
    }

    /// `.space [.align n] [.v4] .type name [<n>] [dims] [= init] {, name …}`
    fn variables(&mut self) -> Result<Vec<Declaration<'a>>, PtxError> {
        let line = self.line();
        let space = match self.word("a state space")? {
            ".reg" => Space::Reg,
            ".global" => Space::Global,
            ".const" => Space::Const,
            ".shared" => Space::Shared,
            ".local" => Space::Local,
            ".param" => Space::Param,
            other => {
                return Err(PtxError {
                    line,
                    message: format!("unknown directive '{other}'"),
                });
            }
        };
        let (mut align, mut vector, mut ty) = (None, 1, None);
        while let Some(Token::Word(word)) = self.peek() {
            match word {
                ".align" => {
                    self.skip(1);
                    let bytes = self.unsigned()?;
                    if !bytes.is_power_of_two() || bytes > 4096 {
                        return Err(PtxError {
                            line,
                            message: format!("alignment {bytes} is not a power of two up to 4096"),
                        });
                    }
                    align = Some(bytes);
                    continue;
                }
                ".v2" => vector = 2,
                ".v4" => vector = 4,
                // Pointer attributes of a kernel parameter; its alignment is of the pointee.
                ".ptr" => {
                    self.skip(1);
                    while let Some(Token::Word(attribute)) = self.peek() {
                        match attribute {
                            ".align" => self.skip(2),
                            a if a.starts_with('.') => self.skip(1),
                            _ => break,
                        }
                    }
                    continue;
                }
                ".attribute" => {
                    while !self.accept(b')') {
                        if self.peek().is_none() {
                            return Err(self.unexpected("')'"));
                        }
                        self.skip(1);
                    }
                    continue;
                }
                w if w.starts_with('.') => ty = Some(&w[1..]),
                _ => break,
            }
            self.skip(1);
        }
        let Some(ty) = ty else {
            return Err(self.unexpected("a type"));
        };
        let mut found = Vec::new();
        loop {
            let name = self.word("a variable name")?;
            let family = if self.accept(b'<') {
                let count = self.unsigned()?;
                self.expect(b'>')?;
                Some(count.min(1 << 20) as u32)
            } else {
                None
            };
            let mut elements = 1u64;
            let mut dimensions = 0;
            while self.accept(b'[') {
                dimensions += 1;
                let n = if self.peek() == Some(Token::Mark(b']')) {
                    0
                } else {
                    self.unsigned()?
                };
                self.expect(b']')?;
                elements = elements.saturating_mul(n);
            }
            let mut init = Vec::new();
            if self.accept(b'=') {
                self.initial(&mut init)?;
                if dimensions == 1 && elements == 0 {
                    elements = init.len() as u64;
                }
            }
            if elements.saturating_mul(16) > 1 << 40 {
                return Err(PtxError {
                    line,
                    message: format!("variable {name} is too large"),
                });
            }
            found.push(Declaration {
                space,
                name,
                ty,
                vector,
                elements,
                align,
                family,
                init,
                line,
            });
            // In a parameter list the comma belongs to the list.
            if space == Space::Param || !self.accept(b',') {
                return Ok(found);
            }
        }
    }

    fn initial(&mut self, out: &mut Vec<Initial<'a>>) -> Result<(), PtxError> {
        if self.accept(b'{') {
            self.depth += 1;
            if self.depth > MAX_DEPTH {
                return Err(self.unexpected("fewer nested braces"));
            }
            while !self.accept(b'}') {
                self.initial(out)?;
                if self.peek() != Some(Token::Mark(b'}')) {
                    self.expect(b',')?;
                }
            }
            self.depth -= 1;
            return Ok(());
        }
        if let Some(Token::Word(_)) = self.peek() {
            let (name, offset, generic) = self.address_of()?;
            out.push(Initial::Address {
                name,
                offset,
                generic,
            });
            return Ok(());
        }
        let value = self.literal()?;
        if self.accept(b'(') {
            let (name, offset, generic) = self.address_of()?;
            self.expect(b')')?;
            let Literal::Int(mask) = value else {
                return Err(self.unexpected("an integer mask"));
            };
            out.push(Initial::AddressByte {
                name,
                offset,
                generic,
                mask: mask as u64,
            });
        } else {
            out.push(Initial::Bits(value));
        }
        Ok(())
    }

    /// `name`, `name+4`, `generic(name)`, `generic(name)+4`.
    fn address_of(&mut self) -> Result<(&'a str, i64, bool), PtxError> {
        let mut name = self.word("a variable name")?;
        let generic = name == "generic" && self.accept(b'(');
        if generic {
            name = self.word("a variable name")?;
            self.expect(b')')?;
        }
        let offset = if self.accept(b'+') {
            self.unsigned()? as i64
        } else {
            0
        };
        Ok((name, offset, generic))
    }

    fn instruction(&mut self) -> Result<Instruction<'a>, PtxError> {
        let line = self.line();
        let guard = if self.accept(b'@') {
            let negate = self.accept(b'!');
            Some((self.word("a predicate")?, negate))
        } else {
            None
        };
        let opcode = self.word("an opcode")?;
        let mut operands = Vec::new();
        if !self.accept(b';') {
            loop {
                operands.push(self.operand()?);
                if self.accept(b';') {
                    break;
                }
                self.expect(b',')?;
            }
        }
        Ok(Instruction {
            guard,
            opcode,
            operands,
            source: self.source,
            line,
        })
    }

    fn operand(&mut self) -> Result<Operand<'a>, PtxError> {
        let first = match self.peek() {
            Some(Token::Word("_")) => {
                self.skip(1);
                Operand::Sink
            }
            // The one named constant of PTX.
            Some(Token::Word("WARP_SZ")) => {
                self.skip(1);
                Operand::Literal(Literal::Int(32))
            }
            Some(Token::Word(name)) => {
                self.skip(1);
                match self.peek() {
                    Some(Token::Mark(b'+')) => {
                        self.skip(1);
                        Operand::Offset(name, self.signed()?)
                    }
                    _ => Operand::Name(name),
                }
            }
            Some(Token::Mark(b'!')) => {
                self.skip(1);
                Operand::Not(self.word("a predicate")?)
            }
            Some(Token::Mark(b'[')) => self.address()?,
            Some(Token::Mark(b'{')) => {
                self.skip(1);
                Operand::Vector(self.list(b'}')?)
            }
            Some(Token::Mark(b'(')) => {
                self.skip(1);
                Operand::List(self.list(b')')?)
            }
            Some(Token::Number(_) | Token::Mark(b'-')) => Operand::Literal(self.literal()?),
            _ => return Err(self.unexpected("an operand")),
        };
        if self.accept(b'|') {
            let second = self.operand()?;
            return Ok(Operand::Pair(Box::new(first), Box::new(second)));
        }
        Ok(first)
    }

    fn list(&mut self, close: u8) -> Result<Vec<Operand<'a>>, PtxError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.unexpected("fewer nested lists"));
        }
        let mut items = Vec::new();
        while !self.accept(close) {
            items.push(self.operand()?);
            if self.peek() != Some(Token::Mark(close)) {
                self.expect(b',')?;
            }
        }
        self.depth -= 1;
        Ok(items)
    }

    fn address(&mut self) -> Result<Operand<'a>, PtxError> {
        self.expect(b'[')?;
        let base = match self.peek() {
            Some(Token::Word(name)) => {
                self.skip(1);
                Some(name)
            }
            _ => None,
        };
        let offset =
            if self.accept(b'+') || base.is_none() || self.peek() == Some(Token::Mark(b'-')) {
                self.signed()?
            } else {
                0
            };
        self.expect(b']')?;
        Ok(Operand::Address { base, offset })
    }

    fn signed(&mut self) -> Result<i64, PtxError> {
        match self.literal()? {
            Literal::Int(n) => Ok(n as i64),
            _ => Err(self.unexpected("an integer")),
        }
    }

    fn unsigned(&mut self) -> Result<u64, PtxError> {
        match self.literal()? {
            Literal::Int(n) if (0..=i128::from(u64::MAX)).contains(&n) => Ok(n as u64),
            _ => Err(self.unexpected("an unsigned integer")),
        }
    }

    fn literal(&mut self) -> Result<Literal, PtxError> {
        let negative = self.accept(b'-');
        let Some(Token::Number(text)) = self.peek() else {
            return Err(self.unexpected("a number"));
        };
        let Some(value) = number(text) else {
            return Err(self.unexpected("a number"));
        };
        self.skip(1);
        Ok(match value {
            Literal::Int(n) => Literal::Int(if negative { -n } else { n }),
            Literal::F32(x) => Literal::F32(if negative { -x } else { x }),
            Literal::F64(x) => Literal::F64(if negative { -x } else { x }),
        })
    }
}

/// Integers (decimal, hexadecimal, octal, binary, suffix `U`), `0f` and `0d` bit patterns, decimal floats.
fn number(text: &str) -> Option<Literal> {
    let bytes = text.as_bytes();
    if bytes.len() > 2 && bytes[0] == b'0' {
        match bytes[1] {
            b'f' | b'F' => {
                return u32::from_str_radix(&text[2..], 16)
                    .ok()
                    .map(|b| Literal::F32(f32::from_bits(b)));
            }
            b'd' | b'D' => {
                return u64::from_str_radix(&text[2..], 16)
                    .ok()
                    .map(|b| Literal::F64(f64::from_bits(b)));
            }
            _ => {}
        }
    }
    let digits = text.strip_suffix(['U', 'u']).unwrap_or(text);
    let int = |digits: &str, radix| {
        u64::from_str_radix(digits, radix)
            .ok()
            .map(|n| Literal::Int(i128::from(n)))
    };
    match bytes {
        [b'0', b'x' | b'X', ..] => int(&digits[2..], 16),
        [b'0', b'b' | b'B', ..] => int(&digits[2..], 2),
        _ if text.contains('.') => text.parse().ok().map(Literal::F64),
        [b'0', _, ..] => int(digits, 8),
        _ => int(digits, 10),
    }
}
