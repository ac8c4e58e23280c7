//! Zero bytes in a text.

/// The line, from 1, of the first zero byte of a text: a driver that gets the text would stop
/// reading there, and cudarc panics.
pub fn zero_byte(text: &str) -> Option<usize> {
    let (before, _) = text.split_once('\0')?;
    Some(before.matches('\n').count() + 1)
}
