//! `printf` and `assert` of device code.

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

/// What the first thread's failed `assert` says. The registers hold the addresses of its texts, and the line.
pub(crate) fn assertion(
    warp: &ActiveWarp<'_>,
    memory: &BlockMemory<'_>,
    message: R,
    file: R,
    line: R,
) -> FaultKind {
    let lane = warp.mask.trailing_zeros() & 31;
    let address = |r: R| warp.registers.read::<u64>(r)[lane as usize];
    let message = memory.text(warp, address(message), lane);
    let file = memory.text(warp, address(file), lane);
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
    let mut out = String::new();
    let mut rest = format.as_str();
    while let Some(percent) = rest.find('%') {
        out.push_str(&rest[..percent]);
        rest = &rest[percent..];
        let Some((spec, length)) = Spec::parse(rest) else {
            out.push('%');
            rest = rest.strip_prefix("%%").unwrap_or(&rest[1..]);
            continue;
        };
        rest = &rest[length..];
        count += 1;
        // Arguments lie in a row, aligned to their size: int in 4 bytes, long, double and pointers in 8.
        let bytes = spec.bytes();
        at = at.next_multiple_of(bytes);
        let value = (0..bytes).fold(0, |v, i| {
            v | u64::from(memory.byte(warp, at + i, lane).unwrap_or(0)) << (8 * i)
        });
        at += bytes;
        out.push_str(&spec.format(value, |address| memory.text(warp, address, lane)));
    }
    out.push_str(rest);
    memory.printed.add(out);
    count
}

/// One conversion: `%-08.3lf`.
struct Spec {
    left: bool,
    zero: bool,
    plus: bool,
    width: usize,
    precision: Option<usize>,
    long: bool,
    kind: char,
}

impl Spec {
    fn parse(text: &str) -> Option<(Spec, usize)> {
        let mut spec = Spec {
            left: false,
            zero: false,
            plus: false,
            width: 0,
            precision: None,
            long: false,
            kind: ' ',
        };
        let mut after_dot = false;
        for (i, c) in text.char_indices().skip(1) {
            match c {
                '-' => spec.left = true,
                '+' => spec.plus = true,
                ' ' | '#' => {}
                '0' if !after_dot && spec.width == 0 => spec.zero = true,
                '0'..='9' => {
                    let field = if after_dot {
                        spec.precision.get_or_insert(0)
                    } else {
                        &mut spec.width
                    };
                    *field = (*field * 10 + c as usize - '0' as usize).min(1000);
                }
                '.' => {
                    after_dot = true;
                    spec.precision = Some(0);
                }
                'l' | 'j' | 'z' | 't' => spec.long = true,
                'h' => {}
                'd' | 'i' | 'u' | 'x' | 'X' | 'o' | 'c' | 's' | 'p' | 'f' | 'F' | 'e' | 'E'
                | 'g' | 'G' => {
                    spec.kind = c;
                    return Some((spec, i + 1));
                }
                _ => return None,
            }
        }
        None
    }

    fn bytes(&self) -> u64 {
        match self.kind {
            's' | 'p' | 'f' | 'F' | 'e' | 'E' | 'g' | 'G' => 8,
            _ if self.long => 8,
            _ => 4,
        }
    }

    /// At least as many digits as the precision asks for.
    fn digits(&self, number: String) -> String {
        let (sign, digits) = match number.strip_prefix('-') {
            Some(digits) => ("-", digits),
            None => ("", number.as_str()),
        };
        format!(
            "{sign}{digits:0>width$}",
            width = self.precision.unwrap_or(0)
        )
    }

    fn format(&self, value: u64, string: impl FnOnce(u64) -> String) -> String {
        let number = f64::from_bits(value);
        let precision = self.precision.unwrap_or(6);
        let body = match self.kind {
            'd' | 'i' if self.long => self.digits((value as i64).to_string()),
            'd' | 'i' => self.digits((value as i32).to_string()),
            'u' => self.digits(value.to_string()),
            'x' => self.digits(format!("{value:x}")),
            'X' => self.digits(format!("{value:X}")),
            'o' => self.digits(format!("{value:o}")),
            'p' => format!("{value:#x}"),
            'c' => char::from(value as u8).to_string(),
            's' => string(value)
                .chars()
                .take(self.precision.unwrap_or(usize::MAX))
                .collect(),
            _ if number.is_nan() => "nan".to_string(),
            _ if number.is_infinite() => number.to_string(),
            'e' | 'E' => exponent_form(number, precision),
            'g' | 'G' => shorter_form(number, precision.max(1)),
            _ => format!("{number:.precision$}"),
        };
        let signed = matches!(self.kind, 'd' | 'i' | 'f' | 'F' | 'e' | 'E' | 'g' | 'G');
        let body = if matches!(self.kind, 'E' | 'F' | 'G') {
            body.to_uppercase()
        } else {
            body
        };
        let body = if self.plus && signed && !body.starts_with('-') {
            format!("+{body}")
        } else {
            body
        };
        let width = self.width;
        match (self.left, self.zero) {
            (true, _) => format!("{body:<width$}"),
            (false, true) => match body.strip_prefix('-') {
                Some(digits) => format!("-{digits:0>w$}", w = width.saturating_sub(1)),
                None => format!("{body:0>width$}"),
            },
            (false, false) => format!("{body:>width$}"),
        }
    }
}

/// `%g`: the fixed or the exponent form, whichever C takes for that exponent, without zeros at its end.
fn shorter_form(number: f64, digits: usize) -> String {
    let exponential = exponent_form(number, digits - 1);
    let (mantissa, exponent) = exponential.split_once('e').unwrap_or((&exponential, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trimmed = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_string(),
        false => text.to_string(),
    };
    if exponent < -4 || exponent >= digits as i32 {
        let tail = &exponential[mantissa.len()..];
        return trimmed(mantissa) + tail;
    }
    let places = (digits as i32 - 1 - exponent) as usize;
    trimmed(&format!("{number:.places$}"))
}

/// C writes at least two digits of exponent, with its sign.
fn exponent_form(number: f64, precision: usize) -> String {
    let text = format!("{number:.precision$e}");
    match text.split_once('e') {
        Some((mantissa, exponent)) => match exponent.strip_prefix('-') {
            Some(digits) => format!("{mantissa}e-{digits:0>2}"),
            None => format!("{mantissa}e+{exponent:0>2}"),
        },
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::Spec;

    #[test]
    fn numbers_look_as_in_c() {
        let show = |spec: &str, value: u64| {
            let (spec, length) = Spec::parse(spec).expect("a conversion");
            assert!(length > 1);
            spec.format(value, |_| "text".into())
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
            assert_eq!(show(spec, x.to_bits()), wanted, "{spec} of {x}");
        }
        for (spec, x, wanted) in [
            ("%d", u64::from(u32::MAX), "-1"),
            ("%.4d", -7i64 as u64, "-0007"),
            ("%+u", 7, "7"),
            ("%-5x|", 255, "ff   "),
            ("%lld", u64::MAX, "-1"),
            ("%.2s", 0, "te"),
            ("%c", 65, "A"),
        ] {
            assert_eq!(show(spec, x), wanted, "{spec} of {x}");
        }
    }
}
