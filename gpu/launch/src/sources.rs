//! Source texts that profiles and traces name.

/// Gives the text of a source file, if it is known, by the file's name in line information.
pub type Sources<'s> = dyn Fn(&str) -> Option<&'s str> + 's;

/// A line of a file, which is numbered from 1.
pub(crate) fn line<'s>(sources: &Sources<'s>, file: &str, number: u32) -> Option<&'s str> {
    let index = usize::try_from(number).ok()?.checked_sub(1)?;
    sources(file)?.lines().nth(index)
}
