//! Grades a variant.

use std::fs;

use grade::cause::Cause;
use grade::grade::Settings;
use grade::places::Places;
use grade::report::Points;
use grade::verdict::{Kind, TaskGrade};

use super::file::{Folder, Variant, root};

/// The grade of a variant.
#[derive(Debug, Clone)]
pub struct Verdict(TaskGrade);

/// Grades a variant, in a folder of this worker.
pub fn grade(variant: &Variant, worker: usize) -> Verdict {
    let name = format!("variant-{worker}");
    let places = |folder| Places::submission(root(), &name, folder);
    let submission = places(root().to_owned()).scratch.join("submission");
    let folder = submission.join(variant.task.folder());
    let _ = fs::remove_dir_all(&submission);
    for (file, text) in variant.files().unwrap() {
        let path = folder.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let settings = Settings::new(places(submission));
    let grade = grade::grade::grade(&settings, &[variant.task], |_| {}).unwrap();
    Verdict(grade.tasks.into_iter().next().unwrap())
}

impl Verdict {
    pub fn share(&self, kind: Kind) -> f64 {
        let criterion = self
            .0
            .criteria
            .iter()
            .find(|criterion| criterion.kind == kind);
        criterion.map_or(0.0, |criterion| criterion.share)
    }

    /// The causes that findings name.
    fn causes(&self) -> Vec<Cause> {
        let mut causes: Vec<Cause> = self
            .0
            .findings
            .iter()
            .filter_map(|finding| finding.cause)
            .collect();
        causes.sort();
        causes.dedup();
        causes
    }

    /// A line for the log.
    pub fn line(&self, variant: &Variant) -> String {
        let shares = Kind::ALL.map(|kind| format!("{kind} {:.3}", self.share(kind)));
        format!(
            "{}/{}: {} | {:?} | {} | {:.1} s",
            variant.folder.name(),
            variant.name,
            shares.join(", "),
            self.causes(),
            self.0.headline.replace('\n', " "),
            self.0.seconds
        )
    }

    /// Where it differs from what it must be.
    pub fn complaints(&self, variant: &Variant) -> Vec<String> {
        let mut complaints = Vec::new();
        for kind in Kind::ALL {
            let share = self.share(kind);
            if let Some(expected) = variant.said.shares.share(kind)
                && !expected.holds(share)
            {
                complaints.push(format!("{kind} is {share:.3}, not {expected:?}"));
            }
        }
        let (causes, expected) = (self.causes(), variant.said.causes());
        if causes != expected {
            complaints.push(format!("the causes are {causes:?}, not {expected:?}"));
        }
        if let Some(words) = &variant.said.says
            && !self.text().contains(words)
        {
            complaints.push(format!("`{words}` is not in: {}", self.text()));
        }
        if variant.folder != Folder::Unusual && Points::is_full(&self.0) {
            complaints.push("it loses no points".to_owned());
        }
        complaints
    }

    /// All that the grader says.
    fn text(&self) -> String {
        let findings = self.0.findings.iter();
        let findings = findings.map(|finding| format!("{}\n{}", finding.sentence, finding.detail));
        let findings: Vec<String> = findings.collect();
        format!(
            "{}\n{}\n{}",
            self.0.headline,
            findings.join("\n"),
            self.0.output
        )
    }
}
