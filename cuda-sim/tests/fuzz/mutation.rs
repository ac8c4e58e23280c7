//! Small damage to a text: to its bytes, its words, its numbers, its lines.

use super::random::Random;

/// `text` with one to eight changes; pieces of `other` may get into it.
pub fn mutate(random: &mut Random, text: &[u8], other: &[u8]) -> Vec<u8> {
    let mut out = text.to_vec();
    for _ in 0..=random.below(8) {
        if out.is_empty() {
            return out;
        }
        change(random, &mut out, other);
    }
    // Longer ones find nothing new.
    out.truncate(1 << 18);
    out
}

fn change(random: &mut Random, text: &mut Vec<u8>, other: &[u8]) {
    const MARKS: &[u8] = b"{}[]();:,.<>%@!|+-_= \n\t\"/*0x";
    let at = random.below(text.len());
    match random.below(12) {
        0 => text[at] ^= 1 << random.below(8),
        1 => text[at] = *random.pick(MARKS),
        2 => text.truncate(at),
        3 => {
            let other = piece(random, other);
            text.splice(at..at, other);
        }
        4 => {
            let line = line(text, at);
            text.drain(line);
        }
        5 => {
            let copy = text[line(text, at)].to_vec();
            let to = line(text, random.below(text.len())).start;
            let times = 1 + random.below(3);
            text.splice(to..to, copy.repeat(times));
        }
        6 => {
            let word = word(text, at);
            text.drain(word);
        }
        7 | 8 => {
            // A word in the place of another.
            let source = if random.one_in(3) && !other.is_empty() {
                other
            } else {
                &text[..]
            };
            let from = word(source, random.below(source.len()));
            let copy = source[from].to_vec();
            let to = word(text, at);
            text.splice(to, copy);
        }
        9 => {
            // A modifier more or less.
            let modifiers: [&[u8]; 8] = [
                b".sat", b".ftz", b".wide", b".v4", b".u64", b".b8", b".shared", b".sync",
            ];
            let end = word(text, at).end;
            text.splice(end..end, random.pick(&modifiers).to_vec());
        }
        _ => {
            // Another number.
            if let Some(digit) = text[at..].iter().position(u8::is_ascii_digit) {
                let to = word(text, at + digit);
                let number = match random.below(3) {
                    0 => format!("{}", random.number()),
                    1 => format!("-{}", random.number()),
                    _ => format!("{:#x}", random.number()),
                };
                text.splice(to, number.into_bytes());
            }
        }
    }
}

fn piece(random: &mut Random, text: &[u8]) -> Vec<u8> {
    if text.is_empty() {
        return Vec::new();
    }
    let at = random.below(text.len());
    let end = (at + random.below(400)).min(text.len());
    text[at..end].to_vec()
}

fn around(text: &[u8], at: usize, holds: impl Fn(u8) -> bool) -> std::ops::Range<usize> {
    let before = text[..at].iter().rposition(|&c| !holds(c));
    let after = text[at..].iter().position(|&c| !holds(c));
    before.map_or(0, |i| i + 1)..after.map_or(text.len(), |i| at + i)
}

fn word(text: &[u8], at: usize) -> std::ops::Range<usize> {
    around(text, at, |c| {
        c.is_ascii_alphanumeric() || b"_$%.".contains(&c)
    })
}

/// The line around `at`, its end included.
fn line(text: &[u8], at: usize) -> std::ops::Range<usize> {
    let found = around(text, at, |c| c != b'\n');
    found.start..(found.end + 1).min(text.len())
}
