//! Comments that were meant to state a launch and are misspelt: left alone, they would be ignored.

use crate::argument::Argument;
use crate::fields::Position;
use crate::values::Type;

/// Reads the text behind `//` of a comment that states nothing. If it looks like a misspelt
/// directive, this is what is wrong with it.
///
/// Prose is not to be refused: the word before the colon must be nearly that of a directive, and
/// what follows must begin as it does there.
pub(crate) fn directive(comment: &str) -> Option<String> {
    if let Some(meant) = without_colon(comment) {
        return Some(ignored(meant));
    }
    let (before, rest) = comment.split_once(':')?;
    let mut words = before.split_whitespace();
    let word = words.next()?.to_lowercase();
    let number = words.next();
    if words.next().is_some() {
        return None;
    }
    let first = rest.split_whitespace().next()?;
    let setting = first.contains('=');
    let has_number = number.is_some_and(|number| number.starts_with(|c: char| c.is_ascii_digit()));
    let begins_alike = |name: &str| match name {
        "args" => {
            let braces = ["{", "tensormap{"];
            let begins = braces.iter().any(|brace| first.starts_with(brace));
            number.is_none() && (setting || begins || first == "null")
        }
        "arch" => number.is_none() && first.starts_with("compute_"),
        "expect" => (number.is_none() || has_number) && Type::parse(first).is_ok(),
        _ => number.is_none() && setting,
    };
    let meant = ["launch", "args", "define", "expect", "arch"]
        .into_iter()
        .find(|name| strsim::osa_distance(&word, name) <= name.len() / 3 && begins_alike(name))?;
    let meant = match number {
        Some(number) => format!("{meant} {number}"),
        None if meant == "expect" => "expect N".to_owned(),
        None => meant.to_owned(),
    };
    Some(ignored(&meant))
}

fn ignored(meant: &str) -> String {
    format!("this would be ignored; write it `// {meant}: …`, from the beginning of the line")
}

/// The directive that a comment states without a colon: `// launch grid=4`, `// expect 0 f32 1 2`.
fn without_colon(comment: &str) -> Option<&'static str> {
    let mut words = comment.split_whitespace();
    let (word, first) = (words.next()?, words.next()?);
    let key = first.split('=').next().filter(|_| first.contains('='));
    let is = match word {
        "launch" => key.is_some_and(|key| {
            ["grid", "block", "shared", "cooperative", "kernel", "pass"].contains(&key)
        }),
        "args" => Argument::parse(first).is_ok(),
        "define" => key.is_some() && words.next().is_none(),
        "expect" => {
            first.parse::<Position>().is_ok()
                && words.next().is_some_and(|word| Type::parse(word).is_ok())
        }
        _ => false,
    };
    let directives = ["launch", "args", "define", "expect N"];
    let meant = directives.into_iter().find(|name| name.starts_with(word))?;
    is.then_some(meant)
}
