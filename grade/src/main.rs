//! The program `grade`, as the alias `cargo grade`: grades exercises, and helps to write them.

mod cli;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Grades the exercises, and helps to write them.
#[derive(Parser)]
#[command(
    name = "grade",
    bin_name = "cargo grade",
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  cargo grade next                 what to do now
  cargo grade watch softmax        grade a task again at every save
  cargo grade 4                    grade stage 4
  cargo grade --results Results.md grade everything, and write the figures of the assignment

Exit status: 0 if all graded tasks have full marks, 1 if not, 2 if they could not be graded. A bonus counts if it is named, or graded
without other tasks. `clinic` and `warm-up` have the same, but for `warm-up next`; of `story` it is 0 if all of its tasks are written, and the tokens are those of the course's decoder.
Of `class`: 0 if all submissions could be graded, 1 if not, 2 if it could not begin or write."
)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,

    #[command(flatten)]
    grading: cli::grading::Arguments,
}

#[derive(Subcommand)]
enum Command {
    /// Grade a task again whenever one of its files is saved.
    Watch(cli::watch::Arguments),
    /// Print a hint for a task: three tiers, each says more.
    Hint(cli::hint::Arguments),
    /// Find the first task without full marks, of all or of a stage, and say what to do. A step that lacks speed alone leads to the next.
    Next(cli::next::Arguments),
    /// Put the starter's files of a task back; keeps a backup.
    Reset(cli::reset::Arguments),
    /// Grade every submission of a folder, and write a table of their points.
    Class(cli::class::Arguments),
    /// Judge the kernels of the clinic, which are wrong, to be mended.
    Clinic(cli::clinic::Arguments),
    /// Judge the warm-ups, eight kernels of a few lines; `next` finds the first that is not done, `reset` puts a starter back.
    WarmUp(cli::warm_up::Arguments),
    /// Count the cost of each line of a task's kernels, beside the solution's totals.
    Profile(cli::profile::Arguments),
    /// Draw the learner's kernels into a roofline chart.
    Roofline(cli::roofline::Arguments),
    /// Show what each tile of the kernel of task 4/tune costs: registers, spills, blocks, waves, time.
    Tune(cli::tune::Arguments),
    /// Tell a story with the learner's own decoder and kernels, and say whose code ran.
    Story(cli::story::Arguments),
}

fn main() -> ExitCode {
    let Arguments { command, grading } = Arguments::parse();
    let done = |result: anyhow::Result<()>| result.map(|()| ExitCode::SUCCESS);
    let result = match command {
        None => cli::grading::run(&grading),
        Some(Command::Watch(arguments)) => done(cli::watch::run(&arguments)),
        Some(Command::Hint(arguments)) => done(cli::hint::run(&arguments)),
        Some(Command::Next(arguments)) => done(cli::next::run(&arguments)),
        Some(Command::Reset(arguments)) => done(cli::reset::run(&arguments)),
        Some(Command::Class(arguments)) => cli::class::run(&arguments),
        Some(Command::Clinic(arguments)) => cli::clinic::run(&arguments),
        Some(Command::WarmUp(arguments)) => cli::warm_up::run(&arguments),
        Some(Command::Profile(arguments)) => done(cli::profile::run(&arguments)),
        Some(Command::Roofline(arguments)) => done(cli::roofline::run(&arguments)),
        Some(Command::Tune(arguments)) => done(cli::tune::run(&arguments)),
        Some(Command::Story(arguments)) => cli::story::run(&arguments),
    };
    result.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::from(2)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_first_word_is_a_command_or_a_task() {
        Arguments::command().debug_assert();
        let parse = |words: &str| Arguments::try_parse_from(words.split(' '));
        for words in [
            "grade",
            "grade 4 softmax --secret-seed FILE --json a --html b --results c --gradescope d --yes",
            "grade --task softmax --solution",
            "grade --submission folder --own",
        ] {
            assert!(parse(words).unwrap().command.is_none(), "{words}");
        }
        for words in [
            "grade watch",
            "grade next 4",
            "grade clinic row_sum",
            "grade warm-up guard --watch",
            "grade warm-up next",
            "grade warm-up reset guard",
            "grade class submissions 4 --reports reports",
            "grade hint softmax --tier 3",
            "grade reset mha --yes",
            "grade tune --head-dim 64 --all",
        ] {
            assert!(parse(words).unwrap().command.is_some(), "{words}");
        }
        for words in [
            "grade --seed -1",
            "grade --seed 1 --secret-seed FILE",
            "grade hint softmax --tier 4",
            "grade reset",
            "grade warm-up reset",
            "grade warm-up next --watch",
            "grade class submissions",
            "grade --solution --submission folder",
        ] {
            assert!(parse(words).is_err(), "{words}");
        }
    }
}
