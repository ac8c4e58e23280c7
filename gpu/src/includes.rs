//! Finds every header that a text may ask the compiler for.
//!
//! NVRTC opens a file of the host whose name it is not given the text of. So no `#include` may
//! escape this search, however it is written: with blanks, comments and line splices anywhere, and
//! with `%:` for `#`. `__has_include` opens files too. The search finds too much at worst, such as
//! the directives in `/* … */`. What macros put together, it cannot find: see `confined`.

use std::ops::Range;

/// An `#include`, or another request for a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Include {
    /// The name of the header; `None` if it is not written in quotes or angle brackets, or the file
    /// is asked for otherwise, by `#include_next` or `__has_include` for example.
    pub(crate) name: Option<String>,
    /// It is written in quotes.
    pub(crate) quoted: bool,
    /// The bytes of the name in the text.
    pub(crate) range: Range<usize>,
    /// The line, from 1.
    pub(crate) line: usize,
}

impl Include {
    fn unnamed(line: usize) -> Include {
        Include {
            name: None,
            quoted: false,
            range: 0..0,
            line,
        }
    }
}

/// The directives of a text, in order, up to the first without a name.
pub(crate) fn find(text: &str) -> Vec<Include> {
    let mut found = Vec::new();
    let (mut line, mut comment) = (1, is_comment(text));
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            b'\n' => {
                line += 1;
                comment = is_comment(&text[index + 1..]);
            }
            b'#' | b'%' | b'_' if !comment => {
                let place = Cursor::new(text, index);
                if let Some(include) = place.directive(line).or_else(|| place.condition(line)) {
                    let named = include.name.is_some();
                    found.push(include);
                    if !named {
                        return found;
                    }
                }
            }
            _ => {}
        }
    }
    found
}

/// True if the first line of a text is a comment as a whole. A `*/` might end an earlier comment
/// there.
fn is_comment(text: &str) -> bool {
    let Some(comment) = text.trim_start_matches([' ', '\t']).strip_prefix("//") else {
        return false;
    };
    !comment.lines().next().unwrap_or_default().contains("*/")
}

/// A place in a text, which is read as the compiler does after it has joined lines that end in a
/// backslash.
#[derive(Clone, Copy)]
struct Cursor<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn new(text: &'a str, at: usize) -> Cursor<'a> {
        Cursor {
            text: text.as_bytes(),
            at,
        }
    }

    /// The next byte. Backslashes at the end of lines are skipped, also those with blanks behind
    /// them.
    fn next(&mut self) -> Option<u8> {
        loop {
            let byte = *self.text.get(self.at)?;
            self.at += 1;
            if byte != b'\\' {
                return Some(byte);
            }
            let rest = &self.text[self.at..];
            let blanks = rest.iter().take_while(|byte| is_blank(byte)).count();
            if rest.get(blanks) != Some(&b'\n') {
                return Some(byte);
            }
            self.at += blanks + 1;
        }
    }

    fn peek(mut self) -> Option<u8> {
        self.next()
    }

    /// Goes past this byte if it is the next one.
    fn take(&mut self, byte: u8) -> bool {
        let mut after = *self;
        let is = after.next() == Some(byte);
        if is {
            *self = after;
        }
        is
    }

    /// Goes past blanks and comments. False if a comment is too long or has no end.
    fn skip(&mut self) -> bool {
        let begin = self.at;
        loop {
            let mut after = *self;
            match after.next() {
                Some(byte) if is_blank(&byte) => *self = after,
                Some(b'/') if after.take(b'*') => {
                    while after.at - begin < LONGEST_GAP
                        && let Some(byte) = after.next()
                    {
                        if byte == b'*' && after.take(b'/') {
                            *self = after;
                            break;
                        }
                    }
                    if self.at != after.at {
                        return false;
                    }
                }
                _ => return true,
            }
        }
    }

    /// Goes past an identifier, if one begins here; no more is read of it than tells whether it
    /// asks for a file.
    fn word(&mut self) -> Vec<u8> {
        let mut word = Vec::new();
        while let Some(byte) = self.peek()
            && (byte.is_ascii_alphanumeric() || byte == b'_')
            && word.len() < LONGEST_WORD
        {
            word.push(byte);
            self.next();
        }
        word
    }

    /// Reads the `__has_include` or its relative that may begin here.
    fn condition(mut self, line: usize) -> Option<Include> {
        let word = self.word();
        let asks = [&b"__has_include"[..], b"__has_embed"]
            .iter()
            .any(|name| word.starts_with(name));
        asks.then(|| Include::unnamed(line))
    }

    /// Reads the directive that may begin here.
    fn directive(mut self, line: usize) -> Option<Include> {
        if !(self.take(b'#') || self.take(b'%') && self.take(b':')) {
            return None;
        }
        let unnamed = Some(Include::unnamed(line));
        if !self.skip() {
            return unnamed;
        }
        let word = self.word();
        if !READING.contains(&word.as_slice()) {
            return None;
        }
        if word != b"include" || !self.skip() {
            return unnamed;
        }
        let closing = match self.next() {
            Some(b'"') => b'"',
            Some(b'<') => b'>',
            _ => return unnamed,
        };
        let (start, mut end) = (self.at, self.at);
        let mut name = Vec::new();
        while name.len() < LONGEST_NAME {
            match self.next() {
                Some(byte) if byte == closing => {
                    let Ok(name) = String::from_utf8(name) else {
                        return unnamed;
                    };
                    return Some(Include {
                        name: Some(name),
                        quoted: closing == b'"',
                        range: start..end,
                        line,
                    });
                }
                None | Some(b'\n') => return unnamed,
                Some(byte) => {
                    name.push(byte);
                    end = self.at;
                }
            }
        }
        unnamed
    }
}

/// The directives that read files.
const READING: [&[u8]; 4] = [b"include", b"include_next", b"import", b"embed"];

/// More bytes than any of them has, and `__has_include`.
const LONGEST_WORD: usize = 16;

/// The longest name of a header, bytes: that of a path on Linux.
const LONGEST_NAME: usize = 4096;

/// The longest gap within a directive, bytes. Without a limit, the search would take time quadratic
/// in the text's length.
const LONGEST_GAP: usize = 4096;

fn is_blank(byte: &u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | 0x0b | 0x0c)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<Option<String>> {
        find(text).into_iter().map(|include| include.name).collect()
    }

    #[test]
    fn every_way_to_write_an_include_is_found() {
        for text in [
            "#include \"/x\"",
            "#include </x>",
            "  #  include\t\"/x\"",
            "#include\"/x\" // y",
            "%:include \"/x\"",
            "%\\\n: include </x>",
            "#inc\\\nlude \"/x\"",
            "#include \"/\\\r\nx\"",
            "#include \\  \n </x>",
            "# /* a\n b */ include /**/ \"/x\"",
            "/* a\n// */ #include \"/x\"",
            "R\"(/*)\"; \n#include \"/x\"\n//*/",
            "int x = 1; // y\n#include \"/x\"",
            "/* #include \"/x\" */",
            "\n\n\n#include \"/x\"\n",
        ] {
            assert_eq!(names(text), [Some("/x".to_owned())], "{text}");
        }
    }

    #[test]
    fn a_name_that_is_not_written_out_is_found_without_one() {
        for text in [
            "#include NAME",
            "#include STRING(/etc/passwd)",
            "#include \"/x",
            "#include \"/x\n\"",
            "#include",
            "#include_next \"x\"",
            "#import \"x\"",
            "#embed \"x\"",
            "#if __has_include(\"x\")",
            "# elif 1 && __has_include_next(<x>)",
            "#if __has_\\\ninclude(<x>)",
            "#if 1 /*\n*/ && __has_embed(<x>)",
            "#define HAS __has_include",
        ] {
            assert_eq!(names(text), [None], "{text}");
        }
    }

    #[test]
    fn other_text_is_left_alone() {
        for text in [
            "",
            "#",
            "%",
            "// #include \"x\"",
            "   // see #include NAME",
            "#define include",
            "#includes \"x\"",
            "a % include",
            "#pragma once",
            "#if __has_cpp_attribute(nodiscard)",
            "#if __has_builtin(__nvvm_add)",
            "// __has_include(<x>)",
            "_",
            "\\",
        ] {
            assert_eq!(names(text), [], "{text}");
        }
    }

    #[test]
    fn name_and_line_are_those_of_the_text() {
        let text = "// 1\n#include <a.h>\n\n  # include \"b\\\n.h\" //\n";
        let found = find(text);
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].line, found[0].quoted), (2, false));
        assert_eq!(&text[found[0].range.clone()], "a.h");
        assert_eq!((found[1].line, found[1].quoted), (4, true));
        assert_eq!(found[1].name.as_deref(), Some("b.h"));
        assert_eq!(&text[found[1].range.clone()], "b\\\n.h");
    }

    /// The search takes no time quadratic in the length of a text.
    #[test]
    fn time_grows_with_the_text() {
        let nothing = [
            "# ", "#\\ ", "%:%", "\\", "/*", "#/**/", "//\\\n", "_", "_\\\n",
        ];
        assert!(
            nothing
                .iter()
                .all(|text| find(&text.repeat(1 << 20)).is_empty())
        );
        for text in ["#/*", "#include <", "#include/*"] {
            assert_eq!(names(&text.repeat(1 << 18)), [None], "{text}");
        }
        assert_eq!(find(&"#include <x>\n".repeat(1 << 12)).len(), 1 << 12);
    }
}
