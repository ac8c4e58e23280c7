//! Text of a learner's program or of a compiler, cut to a length.

/// The first bytes of a text, up to `most`, and a note on the others.
pub fn cut(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let end = (0..=most).rev().find(|&at| text.is_char_boundary(at));
    let kept = &text[..end.unwrap_or(0)];
    format!("{kept} [… {} bytes left out …]", text.len() - kept.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_between_characters() {
        assert_eq!(cut("12345", 5), "12345");
        assert_eq!(cut("12345", 4), "1234 [… 1 bytes left out …]");
        assert_eq!(cut("a××", 4), "a× [… 2 bytes left out …]");
        assert_eq!(cut("××", 1), " [… 4 bytes left out …]");
    }
}
