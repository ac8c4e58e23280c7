//! Findings that tell the same fault: one of them is shown, the others are counted.

use crate::verdict::{Cause, Finding, Kind, TaskGrade};

/// A fault, shown by the first finding that tells it.
#[derive(Debug, PartialEq)]
pub struct Group<'a> {
    /// The first.
    pub first: &'a Finding,
    /// The number of others.
    pub more: usize,
    /// The place that the cause says to look at, unless the headline or an earlier fault says it.
    pub remedy: Option<&'static str>,
}

impl Group<'_> {
    /// `and 37 more like it`; nothing if there is no other.
    pub fn others(&self) -> Option<String> {
        (self.more > 0).then(|| format!("and {} more like it", self.more))
    }
}

/// The distinct faults, in the order of their first findings.
pub fn groups(task: &TaskGrade) -> Vec<Group<'_>> {
    let mut groups: Vec<(Fault, Group<'_>)> = Vec::new();
    for finding in &task.findings {
        let fault = Fault::new(finding);
        match groups.iter_mut().find(|(known, _)| *known == fault) {
            Some((_, group)) => group.more += 1,
            None => {
                let remedy = finding.cause.map(Cause::sentence).filter(|remedy| {
                    let said = |(_, group): &(Fault, Group<'_>)| group.remedy == Some(remedy);
                    !task.headline.contains(remedy) && !groups.iter().any(said)
                });
                groups.push((
                    fault,
                    Group {
                        first: finding,
                        more: 0,
                        remedy,
                    },
                ));
            }
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}

/// The common part of the findings of one fault: the cause, or else the sentence, but for its numbers.
#[derive(PartialEq)]
struct Fault(Kind, Result<Cause, String>);

impl Fault {
    fn new(finding: &Finding) -> Self {
        let sentence = || without_numbers(&finding.sentence);
        Self(finding.kind, finding.cause.ok_or_else(sentence))
    }
}

/// The words of a sentence, with `#` for those that hold a digit or are NaN or infinite.
fn without_numbers(sentence: &str) -> String {
    let word = |word: &str| {
        let letters = word.trim_matches(|c: char| !c.is_alphanumeric());
        let number = letters.chars().any(|c| c.is_ascii_digit())
            || matches!(letters, "NaN" | "inf" | "infinity");
        if number { "#" } else { word }.to_owned()
    };
    let words: Vec<String> = sentence.split_whitespace().map(word).collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(kind: Kind, sentence: &str, cause: Option<Cause>) -> Finding {
        Finding {
            kind,
            case: String::new(),
            sentence: sentence.to_owned(),
            cause,
            detail: String::new(),
        }
    }

    #[test]
    fn findings_are_of_one_fault_by_cause_or_by_their_words() {
        let scale = Some(Cause::MissingScale);
        let findings = [
            finding(Kind::Correct, "o[0, 1] is 0.5, expected 0.25.", None),
            finding(Kind::Correct, "o[7, 33] is NaN, expected 1e-3.", None),
            finding(Kind::Correct, "lse[7] is 2.5, expected 1.", None),
            finding(Kind::Robust, "o[0, 1] is 0.5, expected 0.25.", None),
            finding(Kind::Correct, "o[0, 1] is 0.5, expected 0.25.", scale),
            finding(Kind::Correct, "lse[1] is 0.5, expected 0.25.", scale),
        ];
        let mut task = super::super::example::grade().tasks.remove(1);
        task.findings = findings.to_vec();
        let groups = groups(&task);
        let entry = |group: &Group<'_>| (group.first.clone(), group.more);
        let expected = [(0, 1), (2, 0), (3, 0), (4, 1)].map(|(i, n)| (findings[i].clone(), n));
        assert_eq!(groups.iter().map(entry).collect::<Vec<_>>(), expected);
        assert_eq!(groups[0].others().unwrap(), "and 1 more like it");
        assert_eq!(groups[1].others(), None);
        assert_eq!(
            groups[3].remedy,
            scale.map(Cause::sentence),
            "the first with it"
        );
    }

    #[test]
    fn a_remedy_is_said_once() {
        let scale = Some(Cause::MissingScale);
        let mut task = super::super::example::grade().tasks.remove(1);
        task.findings = [Kind::Correct, Kind::Robust]
            .map(|kind| finding(kind, "o is wrong.", scale))
            .into();
        let said = |task: &TaskGrade| groups(task).iter().filter_map(|group| group.remedy).count();
        assert_eq!(said(&task), 1);
        task.headline = format!("o is wrong. {}", Cause::MissingScale.sentence());
        assert_eq!(said(&task), 0);
    }
}
