//! Conversions where there is no C library.

use sprintf::{Printf, vsprintf};

use super::Value;

/// The bytes of a value's text. The conversion is one for its type: `%-8s`, `%c`, `%lld`, `%.3f`.
pub(super) fn convert(conversion: String, value: &Value) -> Vec<u8> {
    let number: &dyn Printf = match value {
        Value::Text(text) => return padded(&conversion, text),
        Value::Character(c) => return padded(&conversion, &[*c]),
        Value::Integer(value) if conversion.ends_with(['d', 'i']) => value,
        Value::Integer(value) => &value.cast_unsigned(),
        Value::Float(value) => value,
    };
    let text = vsprintf(&conversion, &[number]);
    text.map_or(conversion.into_bytes(), String::into_bytes)
}

/// A text, cut to the conversion's precision and padded to its width, in bytes as C counts them.
fn padded(conversion: &str, text: &[u8]) -> Vec<u8> {
    let numbers = conversion.trim_matches(|c: char| !c.is_ascii_digit() && c != '.');
    let (width, precision) = numbers.split_once('.').unwrap_or((numbers, "1000"));
    let text = &text[..text.len().min(precision.parse().unwrap_or(0))];
    let mut padding = vec![b' '; width.parse().unwrap_or(0usize).saturating_sub(text.len())];
    match conversion.contains('-') {
        true => [text, &padding].concat(),
        false => {
            padding.extend_from_slice(text);
            padding
        }
    }
}
