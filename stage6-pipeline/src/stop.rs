//! Strings that end a text.

/// A filter of text that comes in pieces: passes it on up to the first of some strings, which
/// may be spread over pieces.
#[derive(Debug, Clone)]
pub struct Stop {
    strings: Vec<String>,
    /// The end of the text so far that may be the beginning of one of the strings.
    held: String,
}

impl Stop {
    /// Ends at the first of `strings`. Empty strings are left out.
    pub fn new(strings: impl IntoIterator<Item = String>) -> Self {
        let strings = strings.into_iter().filter(|string| !string.is_empty());
        Self {
            strings: strings.collect(),
            held: String::new(),
        }
    }

    /// The text that is certain to come before any of the strings, and
    /// whether one of them has come.
    pub fn push(&mut self, piece: &str) -> (String, bool) {
        self.held.push_str(piece);
        let found = self
            .strings
            .iter()
            .filter_map(|string| self.held.find(string));
        if let Some(at) = found.min() {
            self.held.truncate(at);
            return (std::mem::take(&mut self.held), true);
        }
        let open = |&at: &usize| {
            self.strings
                .iter()
                .any(|string| string.starts_with(&self.held[at..]))
        };
        let ends = self.held.char_indices().map(|(at, _)| at);
        let safe = ends.into_iter().find(open).unwrap_or(self.held.len());
        let rest = self.held.split_off(safe);
        (std::mem::replace(&mut self.held, rest), false)
    }

    /// The rest of a text that ends without any of the strings.
    pub fn finish(self) -> String {
        self.held
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::none(&[], &["one ", "two"], "one two", false)]
    #[case::empty_string(&[""], &["one"], "one", false)]
    #[case::inside(&["wo"], &["one t", "wo three"], "one t", true)]
    #[case::spread(&["abcd"], &["xa", "b", "c", "d"], "x", true)]
    #[case::nearly(&["abcd"], &["xa", "b", "c", "e"], "xabce", false)]
    #[case::open_at_the_end(&["abcd"], &["xabc"], "xabc", false)]
    #[case::overlapping(&["aab"], &["aa", "ab"], "a", true)]
    #[case::the_earlier(&["late", "er"], &["an earlier later"], "an earli", true)]
    #[case::the_longer_is_still_open(&["abc", "b"], &["ab"], "a", true)]
    #[case::letters_of_two_bytes(&["éè"], &["né", "è"], "n", true)]
    fn a_text_ends_before_the_first_string(
        #[case] strings: &[&str],
        #[case] pieces: &[&str],
        #[case] expected: &str,
        #[case] stops: bool,
    ) {
        let mut stop = Stop::new(strings.iter().map(ToString::to_string));
        let (mut text, mut stopped) = (String::new(), false);
        for piece in pieces {
            let (passed, found) = stop.push(piece);
            text += &passed;
            stopped |= found;
        }
        if !stopped {
            text += &stop.finish();
        }
        assert_eq!((&*text, stopped), (expected, stops));
    }

    #[test]
    fn text_is_held_no_longer_than_it_must() {
        let mut stop = Stop::new(["<end>".to_owned()]);
        assert_eq!(stop.push("a <b"), ("a <b".to_owned(), false));
        assert_eq!(stop.push(" <e"), (" ".to_owned(), false));
        assert_eq!(stop.push("x"), ("<ex".to_owned(), false));
    }
}
