//! Mathematics: `$…$` and `$$…$$` become MathML while the book is built, so that a page needs no script for it.

use anyhow::{Result, bail};
use pulldown_latex::config::{DisplayMode, RenderConfig};
use pulldown_latex::{Parser, Storage, push_mathml};

/// Replaces the formulas of a chapter. Code, in fences or backticks, is left as it is.
pub fn render(text: &str) -> Result<String> {
    let mut out = String::with_capacity(text.len());
    let mut fence: Option<&str> = None;
    let mut prose = String::new(); // formulas may cross lines, so prose is collected up to the next fence
    for line in text.split_inclusive('\n') {
        let start = line.trim_start();
        let mark = ["```", "~~~"]
            .into_iter()
            .find(|mark| start.starts_with(mark));
        match (fence, mark) {
            (None, Some(mark)) => {
                out += &formulas(&std::mem::take(&mut prose))?;
                out += line;
                fence = Some(mark);
            }
            (Some(open), _) => {
                out += line;
                if mark == Some(open) {
                    fence = None;
                }
            }
            (None, None) => prose += line,
        }
    }
    out += &formulas(&prose)?;
    Ok(out)
}

fn formulas(prose: &str) -> Result<String> {
    let mut out = String::with_capacity(prose.len());
    let mut rest = prose;
    while let Some(at) = rest.find(['`', '$']) {
        out += &rest[..at];
        rest = &rest[at..];
        if rest.starts_with('`') {
            let ticks = rest.len() - rest.trim_start_matches('`').len();
            let (mark, after) = rest.split_at(ticks);
            let code = after
                .find(mark)
                .map_or(rest.len(), |end| ticks + end + ticks);
            out += &rest[..code];
            rest = &rest[code..];
            continue;
        }
        let mark = if rest.starts_with("$$") { "$$" } else { "$" };
        let after = &rest[mark.len()..];
        let Some(end) = after.find(mark) else {
            bail!("a formula is not closed: {}", first_line(rest));
        };
        out += &formula(&after[..end], mark == "$$")?;
        rest = &after[end + mark.len()..];
    }
    out += rest;
    Ok(out)
}

/// The thin space between a factor and the name of a function.
const SPACE: &str = "<mspace width=\"0.1667em\" />";

fn formula(latex: &str, block: bool) -> Result<String> {
    let storage = Storage::new();
    let events: Vec<_> = Parser::new(latex, &storage).collect();
    if let Some(error) = events.iter().find_map(|event| event.as_ref().err()) {
        bail!("in the formula {latex:?}: {error}");
    }
    let mut mathml = String::new();
    let config = RenderConfig {
        display_mode: if block {
            DisplayMode::Block
        } else {
            DisplayMode::Inline
        },
        annotation: None,
        ..RenderConfig::default()
    };
    push_mathml(&mut mathml, events.into_iter(), config)?;
    if mathml.contains('\\') {
        bail!("in the formula {latex:?}: a backslash is left, which would be shown");
    }
    // The space before a function is set in front of its index, where it would be a third part of the index.
    for index in ["<msub>", "<msup>", "<msubsup>", "<munder>", "<mover>"] {
        let inside = format!("{index}{SPACE}");
        mathml = mathml.replace(&inside, &format!("{SPACE}{index}"));
    }
    // Chromium paints only the first letter of a word that lies directly in a formula; within a row it paints all.
    let mathml = mathml
        .replacen('>', "><mrow>", 1)
        .replace("</math>", "</mrow></math>");
    let escaped = mathml
        .replace("<mo>/</mo>", "<mo lspace=\"0\" rspace=\"0\">/</mo>") // as TeX sets it
        .replace('\n', " ")
        .replace("&amp;nbsp;", "\u{a0}") // the space of `\\ ` in a text, which the writer escapes twice
        // Markdown would read these as its own.
        .replace('*', "&#42;")
        .replace('_', "&#95;");
    Ok(if block {
        format!("<div class=\"formula\">{escaped}</div>")
    } else {
        escaped
    })
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or("")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formulas_become_mathml_and_code_does_not() {
        let html = render("a $x^2$ `$b$`\n```sh\necho $HOME\n```\n$$\\frac{1}{2}$$\n").unwrap();
        assert_eq!(html.matches("<math").count(), 2, "{html}");
        assert!(
            html.contains("`$b$`") && html.contains("echo $HOME"),
            "{html}"
        );
    }

    #[test]
    fn a_formula_is_one_row() {
        let html = render("$$x \\leftarrow \\max(x, y)$$").unwrap();
        assert!(
            html.contains("<math display=\"block\"><mrow><mi>x</mi>"),
            "{html}"
        );
        assert!(html.contains("</mrow></math>"), "{html}");
    }

    #[test]
    fn a_space_in_a_text_is_a_space() {
        let html = render("$q,\\ o$").unwrap();
        assert!(html.contains('\u{a0}') && !html.contains("nbsp"), "{html}");
    }

    #[test]
    fn the_index_of_a_function_has_two_parts() {
        let html = render("$2 \\log_2 T$").unwrap();
        assert!(
            html.contains("<msub><mi>log</mi><mn>2</mn></msub>"),
            "{html}"
        );
    }

    #[test]
    fn a_formula_that_cannot_be_read_is_an_error() {
        assert!(render("an open $x").is_err());
        assert!(render("$\\frac{1}$").is_err());
        assert!(render("$\\nonsense{1}$").is_err());
        assert!(render("$\\text{BLOCK\\_Q}$").is_err());
    }
}
