//! Grades a variant.

use std::fs;

use grade::cause::Cause;
use grade::grade::Settings;
use grade::places::Places;
use grade::report::Points;
use grade::verdict::{Kind, TaskGrade};

use super::file::{Folder, Variant, root};

/// The grade of a variant, by step.
#[derive(Debug, Clone)]
pub struct Verdict(Vec<TaskGrade>);

/// Grades a variant, in a folder of this worker.
pub fn grade(variant: &Variant, worker: usize) -> Verdict {
    let name = format!("variant-{worker}");
    let places = |folder| Places::submission(root(), &name, folder);
    let submission = places(root().to_owned()).scratch.join("submission");
    let folder = submission.join(variant.tasks[0].folder());
    let _ = fs::remove_dir_all(&submission);
    for (file, text) in variant.files().unwrap() {
        let path = folder.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let settings = Settings::new(places(submission));
    Verdict(
        grade::grade::grade(&settings, &variant.tasks, |_| {})
            .unwrap()
            .tasks,
    )
}

impl Verdict {
    /// The shares of a criterion, by step.
    pub fn shares(&self, kind: Kind) -> impl Iterator<Item = f64> {
        self.0.iter().map(move |task| {
            let mut criteria = task.criteria.iter();
            let criterion = criteria.find(|criterion| criterion.kind == kind);
            criterion.map_or(0.0, |criterion| criterion.share)
        })
    }

    /// The causes that findings name.
    fn causes(&self) -> Vec<Cause> {
        let findings = self.0.iter().flat_map(|task| &task.findings);
        let mut causes: Vec<Cause> = findings.filter_map(|finding| finding.cause).collect();
        causes.sort();
        causes.dedup();
        causes
    }

    /// A line for the log.
    pub fn line(&self, variant: &Variant) -> String {
        let shares = Kind::ALL.map(|kind| {
            let shares: Vec<String> = self
                .shares(kind)
                .map(|share| format!("{share:.3}"))
                .collect();
            format!("{kind} {}", shares.join(" "))
        });
        let headlines = self.0.iter().map(|task| task.headline.replace('\n', " "));
        let headlines: Vec<String> = headlines.collect();
        format!(
            "{}/{}: {} | {:?} | {} | {:.1} s",
            variant.folder.name(),
            variant.name,
            shares.join(", "),
            self.causes(),
            headlines.join(" | "),
            self.0.iter().map(|task| task.seconds).sum::<f64>()
        )
    }

    /// Where it differs from what it must be.
    pub fn complaints(&self, variant: &Variant) -> Vec<String> {
        let mut complaints = Vec::new();
        for kind in Kind::ALL {
            for (task, share) in variant.tasks.iter().zip(self.shares(kind)) {
                if let Some(expected) = variant.share(task, kind)
                    && !expected.holds(share)
                {
                    let name = task.name();
                    complaints.push(format!("{name}: {kind} is {share:.3}, not {expected:?}"));
                }
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
        if variant.folder != Folder::Unusual && self.0.iter().all(Points::is_full) {
            complaints.push("it loses no points".to_owned());
        }
        complaints
    }

    /// All that the grader says.
    fn text(&self) -> String {
        let mut text = String::new();
        for task in &self.0 {
            text += &format!("{}\n{}\n", task.headline, task.output);
            for finding in &task.findings {
                text += &format!("{}\n{}\n", finding.sentence, finding.detail);
            }
        }
        text
    }
}
