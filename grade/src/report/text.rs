//! Text that learners' programs wrote, made safe for a terminal, Markdown and HTML; and lines of a given width.

/// The text without escape sequences and other control characters, which could recolour or clear the terminal.
pub fn plain(text: &str) -> String {
    let kept = |c: &char| !c.is_control() || matches!(c, '\n' | '\t');
    console::strip_ansi_codes(text)
        .chars()
        .filter(kept)
        .collect()
}

/// The first lines of a text, and a line that counts the others.
pub fn first_lines(text: &str, limit: usize) -> Vec<String> {
    let plain = plain(text);
    let mut lines: Vec<String> = plain.trim_end().lines().map(str::to_owned).collect();
    if lines.len() > limit {
        let more = lines.len() - limit;
        lines.truncate(limit);
        lines.push(format!("… {more} more lines"));
    }
    lines
}

/// Lines of at most `width` characters, broken at spaces; a longer word has a line of its own.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// The text for HTML, between tags and in quoted attributes.
pub fn html(text: &str) -> String {
    let mut escaped = String::new();
    for c in plain(text).chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c => escaped.push(c),
        }
    }
    escaped
}

/// The text as a code block of Markdown, in a fence longer than any within.
pub fn fenced(text: &str) -> String {
    let text = plain(text);
    let mut longest = 2;
    for line in text.lines() {
        longest = longest.max(
            line.split(|c: char| c != '`')
                .map(str::len)
                .max()
                .unwrap_or(0),
        );
    }
    let fence = "`".repeat(longest + 1);
    format!("{fence}text\n{}\n{fence}\n", text.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_cannot_paint_its_own_report() {
        let painted = "\u{1b}[2J\u{1b}[32m20/20\u{1b}[0m\r\u{7}\u{9b}31m <b>\n```\n````";
        assert!(!plain(painted).contains(|c: char| c.is_control() && c != '\n'));
        assert!(plain(painted).starts_with("20/20"));
        assert!(html(painted).contains("&lt;b&gt;"));
        let fenced = fenced(painted);
        let fence = fenced.lines().next().unwrap();
        assert_eq!(fence, "`````text");
        assert_eq!(fenced.matches("`````").count(), 2, "{fenced}");
    }

    #[test]
    fn lines_are_broken_at_spaces() {
        assert_eq!(
            wrap("one two three averylongword x", 9),
            ["one two", "three", "averylongword", "x"]
        );
        assert!(wrap("", 9).is_empty());
        assert_eq!(first_lines("a\nb\nc\n", 2), ["a", "b", "… 1 more lines"]);
        assert_eq!(first_lines("a\nb\n", 2), ["a", "b"]);
    }
}
