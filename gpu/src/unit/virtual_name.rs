//! Virtual names of files: a path from the workspace's root, or the path that was given, behind a
//! root of their own.

const ROOT: &str = "/k/";

/// The virtual name of a path.
pub fn virtual_name(path: &str) -> String {
    format!("{ROOT}{path}")
}

/// A name as it is shown: the path of a virtual name; any other as it is.
pub fn shown(name: &str) -> &str {
    name.strip_prefix(ROOT).unwrap_or(name)
}

/// A text with its virtual names as they are shown. Where the root is a part of another path, as in
/// `/tmp/k/h.cu`, it stays.
pub(crate) fn shown_in(text: &str) -> String {
    let is_outside_names = |c: char| c.is_whitespace() || "\"'(<".contains(c);
    let mut shown = String::with_capacity(text.len());
    let mut end = 0;
    for (at, root) in text.match_indices(ROOT) {
        if text[..at].chars().next_back().is_none_or(is_outside_names) {
            shown += &text[end..at];
            end = at + root.len();
        }
    }
    shown + &text[end..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_virtual_names_lose_their_root() {
        for (text, expected) in [
            ("/k/a.cu(3): error: no", "a.cu(3): error: no"),
            ("/k//tmp/k/h.cu(3): error", "/tmp/k/h.cu(3): error"),
            ("/k//k/k/h.cu", "/k/k/h.cu"),
            (
                "at line 1 of \"/k/p/a.cu\"\n/k/a.cu:",
                "at line 1 of \"p/a.cu\"\na.cu:",
            ),
            ("in /tmp/k/h.cu, ../k/h.cu", "in /tmp/k/h.cu, ../k/h.cu"),
            ("é/k/h.cu k/k/", "é/k/h.cu k/k/"),
            ("/k/", ""),
            ("", ""),
        ] {
            assert_eq!(shown_in(text), expected);
        }
        assert_eq!(shown(&virtual_name("/k/a.cu")), "/k/a.cu");
        assert_eq!(shown("/tmp/k/h.cu"), "/tmp/k/h.cu");
    }
}
