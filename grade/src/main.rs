//! `cargo grade`.

use grade::tasks::TASKS;

fn main() {
    for task in TASKS {
        println!("{}  {} points  {}", task.name(), task.points, task.title);
    }
}
