//! Variables and their initial values.

use super::*;

impl<'a> Parser<'a> {
    /// Variables of one declaration, up to its semicolon.
    pub(super) fn declaration(&mut self) -> Result<Vec<Declaration<'a>>, PtxError> {
        let found = self.variables()?;
        self.expect(b';')?;
        Ok(found)
    }

    /// `.space [.align n] [.v4] .type name [<n>] [dims] [= init] {, name …}`
    pub(super) fn variables(&mut self) -> Result<Vec<Declaration<'a>>, PtxError> {
        let line = self.line();
        let space = match self.word("a state space")? {
            ".reg" => Space::Reg,
            ".global" => Space::Global,
            ".const" => Space::Const,
            ".shared" => Space::Shared,
            ".local" => Space::Local,
            ".param" => Space::Param,
            other => {
                return Err(PtxError::new(line, format!("unknown directive '{other}'")));
            }
        };
        let (mut align, mut vector, mut ty) = (None, 1, None);
        while let Some(Token::Word(word)) = self.peek() {
            match word {
                ".align" => {
                    self.skip(1);
                    let bytes = self.unsigned()?;
                    if !bytes.is_power_of_two() || bytes > 4096 {
                        return Err(PtxError::new(
                            line,
                            format!("alignment {bytes} is not a power of two up to 4096"),
                        ));
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
                match is_opaque(ty) {
                    // `{ filter_mode = nearest }`
                    true => self.skip_braces()?,
                    false => self.initial(&mut init)?,
                }
                if dimensions == 1 && elements == 0 {
                    elements = init.len() as u64;
                }
            }
            if elements.saturating_mul(16) > 1 << 40 {
                return Err(PtxError::new(line, format!("variable {name} is too large")));
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
            return self.nested("nested braces", |parser| {
                parser.separated(b'}', |parser| parser.initial(out))
            });
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
}
