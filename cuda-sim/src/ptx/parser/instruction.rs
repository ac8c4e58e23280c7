//! Instructions, operands and numbers.

use std::borrow::Cow;

use super::*;

impl<'a> Parser<'a> {
    pub(super) fn instruction(&mut self) -> Result<Instruction<'a>, PtxError> {
        let line = self.line();
        let guard = if self.accept(b'@') {
            let negate = self.accept(b'!');
            Some((self.word("a predicate")?, negate))
        } else {
            None
        };
        let mut opcode = Cow::Borrowed(self.word("an opcode")?);
        while let Some(Token::Word(modifier)) = self.peek()
            && modifier.starts_with('.')
        {
            self.skip(1);
            opcode.to_mut().push_str(modifier);
        }
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
            used_bytes: self.used_bytes.take(),
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
                let mut items = self.list(b'}')?;
                match items.pop() {
                    // Braces around one element say nothing.
                    Some(only) if items.is_empty() => only,
                    last => {
                        items.extend(last);
                        Operand::Vector(items)
                    }
                }
            }
            Some(Token::Mark(b'(')) => {
                self.skip(1);
                Operand::List(self.list(b')')?)
            }
            Some(Token::Number(_) | Token::Mark(b'-')) => Operand::Literal(self.literal()?),
            _ => return Err(self.unexpected("an operand")),
        };
        if self.accept(b'|') {
            let second = self.nested("operands in a row of '|'", Self::operand)?;
            return Ok(Operand::Pair(Box::new(first), Box::new(second)));
        }
        Ok(first)
    }

    fn list(&mut self, close: u8) -> Result<Vec<Operand<'a>>, PtxError> {
        let mut items = Vec::new();
        self.nested("nested lists", |parser| {
            parser.separated(close, |parser| {
                items.push(parser.operand()?);
                Ok(())
            })
        })?;
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
        if self.accept(b',') {
            let place = self.list(b']')?;
            return Ok(Operand::Texel {
                base,
                offset,
                place,
            });
        }
        self.expect(b']')?;
        Ok(Operand::Address { base, offset })
    }

    fn signed(&mut self) -> Result<i64, PtxError> {
        match self.literal()? {
            Literal::Int(n) => Ok(n as i64),
            _ => Err(self.unexpected("an integer")),
        }
    }

    pub(super) fn unsigned(&mut self) -> Result<u64, PtxError> {
        match self.literal()? {
            Literal::Int(n) if (0..=i128::from(u64::MAX)).contains(&n) => Ok(n as u64),
            _ => Err(self.unexpected("an unsigned integer")),
        }
    }

    pub(super) fn literal(&mut self) -> Result<Literal, PtxError> {
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

/// The mask in `used_bytes_mask 4095`; `None` for another pragma.
pub(super) fn used_bytes_mask(pragma: &str) -> Option<Result<u32, String>> {
    let mask = pragma.trim().strip_prefix("used_bytes_mask")?.trim();
    let value = match number(mask) {
        Some(Literal::Int(n)) => u32::try_from(n).ok(),
        _ => None,
    };
    Some(value.ok_or_else(|| format!("'{mask}' is no mask of used bytes")))
}

/// Integers (decimal, hexadecimal, octal, binary, suffix `U`), `0f` and `0d` bit patterns, decimal
/// floats.
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
