//! The next step of a learner.

use super::Points;
use crate::tasks::{TASKS, Task};
use crate::verdict::{Grade, TaskGrade};

/// The first task without full marks, and the commands that help with it. Bonus tasks come last.
pub fn advice(grade: &Grade) -> String {
    let open = |bonus: bool| {
        let mut tasks = grade.tasks.iter();
        tasks.find(|task| task.bonus == bonus && !Points::is_full(task))
    };
    let task = open(false).or_else(|| open(true)).and_then(task_of);
    match task {
        Some(task) => next(task),
        None if grade.tasks.len() == TASKS.len() => {
            "All tasks have full marks. `cargo grade --results Results.md` writes the figures of the assignment.\n"
                .to_owned()
        }
        None => "Full marks. `cargo grade next` finds the next task.\n".to_owned(),
    }
}

/// The files to open, and the commands that help.
pub fn next(task: &Task) -> String {
    let name = task.name();
    let files: Vec<String> = task
        .files
        .iter()
        .map(|file| format!("exercises/{}/{file}", task.folder()))
        .collect();
    format!(
        "Next: {name}, {title}\n  write    {files}\n  then     cargo grade watch {name}   grades it at every save\n  \
         stuck?   cargo grade hint {name}\n",
        title = task.title,
        files = files.join("\n           "),
    )
}

fn task_of(graded: &TaskGrade) -> Option<&'static Task> {
    let mut tasks = TASKS.iter();
    tasks.find(|task| task.stage == graded.stage && task.id == graded.task)
}

#[cfg(test)]
mod tests {
    use super::super::example;
    use super::*;

    #[test]
    fn behind_a_step_comes_the_next() {
        let mut grade = example::grade();
        grade.tasks.truncate(2);
        for (task, step) in grade.tasks.iter_mut().zip(["flash/tile", "flash/online"]) {
            (task.stage, task.task) = (4, step.to_owned());
        }
        let said = advice(&grade);
        assert!(said.starts_with("Next: 4/flash/online, "), "{said}");
        assert!(said.contains("cargo grade watch 4/flash/online"), "{said}");
    }

    #[test]
    fn the_first_open_task_is_next_and_a_bonus_comes_last() {
        let mut grade = example::grade();
        assert!(advice(&grade).starts_with("Next: 2/softmax, "));
        assert!(advice(&grade).contains("exercises/stage2/kernels/softmax.cu"));
        for task in &mut grade.tasks {
            if !task.bonus {
                task.score = task.points;
            }
        }
        assert!(advice(&grade).starts_with("Next: 5/split, "));
        grade.tasks.retain(|task| !task.bonus);
        assert!(advice(&grade).starts_with("Full marks."));
    }
}
