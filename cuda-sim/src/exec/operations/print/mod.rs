//! `printf` and `assert` of device code.

#[cfg(not(target_arch = "wasm32"))]
mod system;
#[cfg(target_arch = "wasm32")]
mod web;

#[cfg(not(target_arch = "wasm32"))]
use system::convert;
#[cfg(target_arch = "wasm32")]
use web::convert;

use crate::exec::active_warp::ActiveWarp;
use crate::exec::block_memory::BlockMemory;
use crate::exec::lane_mask::lanes;
use crate::fault::FaultKind;
use crate::program::op::R;

/// Prints the message of each warp. Register `d` gets how many arguments it had.
pub(crate) fn execute(
    warp: &mut ActiveWarp<'_>,
    memory: &BlockMemory<'_>,
    d: Option<R>,
    format: R,
    arguments: R,
) {
    let format: [u64; 32] = *warp.registers.read(format);
    let arguments: [u64; 32] = *warp.registers.read(arguments);
    let mut counts = [0u32; 32];
    for lane in lanes(warp.mask) {
        counts[lane] = print(warp, memory, format[lane], arguments[lane], lane as u32);
    }
    if let Some(d) = d {
        warp.registers.write(d, warp.mask, &counts);
    }
}

/// Text of the first thread's failed `assert`. The registers hold the addresses of its texts, and
/// the line.
pub(crate) fn assertion(
    warp: &ActiveWarp<'_>,
    memory: &BlockMemory<'_>,
    message: R,
    file: R,
    line: R,
) -> FaultKind {
    let lane = warp.mask.trailing_zeros() & 31;
    let address = |r: R| warp.registers.read::<u64>(r)[lane as usize];
    let text = |r: R| {
        let bytes = memory.text(warp, address(r), lane);
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let (message, file) = (text(message), text(file));
    let line = warp.registers.read::<u32>(line)[lane as usize];
    // The virtual root of workspace files is taken off, as in a fault's source.
    let place = format!("{}:{line}", file.strip_prefix("/k/").unwrap_or(&file));
    FaultKind::Assertion { message, place }
}

/// Prints one thread's message and returns how many arguments it had.
fn print(
    warp: &ActiveWarp<'_>,
    memory: &BlockMemory<'_>,
    format: u64,
    arguments: u64,
    lane: u32,
) -> u32 {
    let format = memory.text(warp, format, lane);
    let mut at = arguments;
    let mut count = 0;
    let mut out = Vec::new();
    let mut rest = format.as_slice();
    while let Some(percent) = rest.iter().position(|&byte| byte == b'%') {
        out.extend_from_slice(&rest[..percent]);
        rest = &rest[percent..];
        let text = rest.utf8_chunks().next().map_or("", |chunk| chunk.valid());
        let Some((spec, length)) = Spec::parse(text) else {
            out.push(b'%');
            rest = rest.strip_prefix(b"%%").unwrap_or(&rest[1..]);
            continue;
        };
        rest = &rest[length..];
        count += 1;
        // Arguments lie in a row, aligned to their size: int in 4 bytes, long, double and pointers
        // in 8.
        let bytes = spec.bytes();
        at = at.next_multiple_of(bytes);
        let value = (0..bytes).fold(0, |v, i| {
            v | u64::from(memory.byte(warp, at + i, lane).unwrap_or(0)) << (8 * i)
        });
        at += bytes;
        out.extend(spec.format(value, |address| memory.text(warp, address, lane)));
    }
    out.extend_from_slice(rest);
    memory.printed.add(out);
    count
}

/// One conversion: `%-08.3lf`.
struct Spec {
    /// Percent sign, flags, width and precision.
    start: String,
    long: bool,
    kind: char,
}

impl Spec {
    /// The conversion at the start of a text, and its length.
    fn parse(text: &str) -> Option<(Spec, usize)> {
        let is_size = |c: char| "hljzt".contains(c);
        let end = text.find(|c: char| c.is_ascii_alphabetic() && !is_size(c))?;
        let kind = char::from(text.as_bytes()[end]);
        let (start, long) = match text[1..end].trim_end_matches(is_size) {
            start if start.len() + 1 == end => (start, false),
            start => (start, !text[1 + start.len()..end].starts_with('h')),
        };
        let (width, precision) = match start.split_once('.') {
            Some((width, precision)) => (width, Some(precision)),
            None => (start, None),
        };
        let digits = width.trim_start_matches(['-', '+', ' ', '#', '0']);
        let flags = &width[..width.len() - digits.len()];
        let mut start = format!("%{flags}");
        if !digits.is_empty() {
            start += &bounded(digits)?.to_string();
        }
        if let Some(precision) = precision {
            start += &format!(".{}", bounded(precision)?);
        }
        let known = "diuxXocspfFeEgG".contains(kind);
        known.then_some((Spec { start, long, kind }, end + 1))
    }

    /// Bytes of the argument.
    fn bytes(&self) -> u64 {
        match self.kind {
            's' | 'p' | 'f' | 'F' | 'e' | 'E' | 'g' | 'G' => 8,
            _ if self.long => 8,
            _ => 4,
        }
    }

    /// The bytes of an argument's text. `string` reads the text at an address.
    fn format(&self, value: u64, string: impl FnOnce(u64) -> Vec<u8>) -> Vec<u8> {
        let Spec { start, long, kind } = self;
        let (conversion, value) = match kind {
            's' => (format!("{start}s"), Value::Text(string(value))),
            'p' => {
                let width = start.split('.').next().unwrap_or(start);
                let text = format!("{value:#x}").into_bytes();
                (format!("{width}s"), Value::Text(text))
            }
            'c' => (format!("{start}c"), Value::Character(value as u8)),
            'd' | 'i' if !long => (
                format!("{start}lld"),
                Value::Integer(i64::from(value as i32)),
            ),
            'd' | 'i' | 'u' | 'x' | 'X' | 'o' => {
                (format!("{start}ll{kind}"), Value::Integer(value as i64))
            }
            _ => {
                let number = f64::from_bits(value);
                let number = if number.is_nan() { f64::NAN } else { number };
                (format!("{start}{kind}"), Value::Float(number))
            }
        };
        convert(conversion, &value)
    }
}

/// An argument as a conversion takes it.
enum Value {
    Text(Vec<u8>),
    Character(u8),
    Integer(i64),
    Float(f64),
}

/// A width or precision, at most 1000; `None` if it is no number.
fn bounded(digits: &str) -> Option<usize> {
    let is_number = digits.bytes().all(|digit| digit.is_ascii_digit());
    is_number.then(|| {
        digits
            .bytes()
            .fold(0, |n, digit| (n * 10 + usize::from(digit - b'0')).min(1000))
    })
}

#[cfg(test)]
mod tests {
    use super::Spec;

    #[test]
    fn numbers_look_as_in_c() {
        let show = |spec: &str, value: u64| {
            let (spec, length) = Spec::parse(spec).expect("a conversion");
            assert!(length > 1);
            spec.format(value, |_| "text, é".into())
        };
        for (spec, x, wanted) in [
            ("%g", 0.1, "0.1"),
            ("%g", 1e20, "1e+20"),
            ("%g", 123_456.0, "123456"),
            ("%g", 1_234_567.0, "1.23457e+06"),
            ("%g", 0.0001, "0.0001"),
            ("%G", 0.000_012, "1.2E-05"),
            ("%.3g", -2.0 / 3.0, "-0.667"),
            ("%g", 0.0, "0"),
            ("%f", f64::NAN, "nan"),
            ("%5.1f", f64::NEG_INFINITY, " -inf"),
            ("%+.2e", 1234.5, "+1.23e+03"),
            ("%08.3f", -1.5, "-001.500"),
        ] {
            assert_eq!(show(spec, x.to_bits()), wanted.as_bytes(), "{spec} of {x}");
        }
        for (spec, x, wanted) in [
            ("%d", u64::from(u32::MAX), "-1"),
            ("%.4d", -7i64 as u64, "-0007"),
            ("%+u", 7, "7"),
            ("%-5x|", 255, "ff   "),
            ("%lld", u64::MAX, "-1"),
            ("%.2s", 0, "te"),
            ("%8.1p", 0xabc, "   0xabc"),
            ("%c", 65, "A"),
            ("%.8s", 0, "text, é"),
        ] {
            assert_eq!(show(spec, x), wanted.as_bytes(), "{spec} of {x}");
        }
        // Bytes, not characters.
        assert_eq!(show("%c", 0xe9), [0xe9]);
        assert_eq!(show("%.7s", 0), b"text, \xc3");
    }
}
