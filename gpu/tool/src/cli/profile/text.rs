//! A report as text of at most 100 columns: figures, then the source with a column for each kind of
//! cost.

use gpu::profile::{Counters, Resource, Sectors};
use gpu_launch::numbers::{quotient, seconds};
use gpu_launch::report::{Figure, Line, Report, Unit, listed};
use gpu_tool::ink::Ink;

use crate::cli::numbers::{cut, grouped, percent, short};

/// Columns that are left for the source.
const SOURCE_WIDTH: usize = 50;

/// In which order lines are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Order {
    /// As they stand in their files, with the lines between.
    File,
    /// By their share of what bounds the modelled time.
    Time,
    /// By warp instructions.
    Instructions,
    /// By sectors of global memory.
    Sectors,
    /// By wavefronts that bank conflicts add.
    Conflicts,
}

/// The whole report.
pub fn render(report: &Report, order: Order, ink: Ink) -> String {
    let mut text = format!("{}\n\n", ink.bold(&report.title));
    let with_ncu = report
        .figures
        .iter()
        .any(|figure| figure.measured.is_some());
    if with_ncu {
        text += &format!(
            "  {:<28} {:>18} {:>18} {:>8}\n",
            "", "counted", "ncu", "ratio"
        );
    }
    for figure in &report.figures {
        text += figure_line(figure, &report.device, with_ncu).trim_end();
        text.push('\n');
    }
    for line in report.model.iter().chain(&instructions(report)) {
        text += &format!("  {line}\n");
    }
    if with_ncu {
        text += "  counted: PTX instructions; ncu: machine instructions, of which there may be more or fewer\n";
    }
    text += "\n line  issue   instr   sectors  bank lanes split\n";
    match order {
        Order::File => in_file_order(report, ink, &mut text),
        _ => sorted(report, order, ink, &mut text),
    }
    text += "\n\
        issue    share of all warp instructions       instr  warp instructions\n\
        sectors  32-byte sectors of global memory per request / sectors that its bytes would fill\n\
        bank     wavefronts of shared memory / wavefronts that it would take without bank conflicts\n\
        lanes    active threads, of 32                split  divergent branches\n";
    text
}

/// Shares of the classes of instructions.
fn instructions(report: &Report) -> Vec<String> {
    let total = report.warp_instructions() as f64;
    let classes = report.classes.iter();
    let shares = classes.map(|&(name, count)| format!("{name} {}", percent(count as f64 / total)));
    listed("instructions:", &shares.collect::<Vec<_>>())
}

fn figure_line(figure: &Figure, device: &str, with_ncu: bool) -> String {
    let label = match &*figure.key {
        "time" => format!("{} ({device})", figure.label),
        _ => figure.label.clone(),
    };
    let mut line = format!("  {label:<28} {:>18}", written(figure.value, figure.unit));
    if with_ncu && let Some(measured) = figure.measured {
        let ratio = if measured == 0.0 {
            String::new()
        } else {
            format!("{:.2}", figure.value / measured)
        };
        line += &format!(" {:>18} {ratio:>8}", written(measured, figure.unit));
    }
    line
}

fn in_file_order(report: &Report, ink: Ink, text: &mut String) {
    let total = report.warp_instructions();
    let mut last: Option<&Line> = None;
    for line in &report.lines {
        match last.filter(|last| last.file == line.file) {
            None if line.file.is_empty() => {}
            None => *text += &format!("{}\n", ink.dim(&line.file)),
            Some(last) if last.number + 1 < line.number => *text += "    …\n",
            Some(_) => {}
        }
        row(line, "", total, ink, text);
        last = Some(line);
    }
}

fn sorted(report: &Report, order: Order, ink: Ink, text: &mut String) {
    let total = report.warp_instructions();
    let mut lines: Vec<(u64, &Line)> = report
        .lines
        .iter()
        .filter_map(|line| Some((cost(line.counters.as_ref()?, order, report.bound), line)))
        .collect();
    lines.sort_by(|(a, _), (b, _)| b.cmp(a)); // stable: equal ones stay in file order
    let several = lines
        .windows(2)
        .any(|pair| pair[0].1.file != pair[1].1.file);
    for (_, line) in lines {
        let name = line.file.rsplit('/').next().unwrap_or_default();
        let prefix = if several && !name.is_empty() {
            format!("{name}: ")
        } else {
            String::new()
        };
        row(line, &prefix, total, ink, text);
    }
}

/// Cost of a line in an order of lines: the most costly come first.
fn cost(counters: &Counters, order: Order, bound: Resource) -> u64 {
    let sectors = counters.global().sectors + counters.local.sectors;
    let shared = counters.shared();
    match order {
        Order::File => 0,
        Order::Instructions => counters.warp_instructions,
        Order::Sectors => sectors,
        Order::Conflicts => shared.wavefronts.saturating_sub(shared.ideal),
        Order::Time => match bound {
            Resource::Dram | Resource::L2 => sectors,
            Resource::Shared => shared.wavefronts + counters.cache_lines,
            Resource::LoadStore => {
                counters.global().requests + counters.local.requests + shared.requests
            }
            Resource::Fp32 => counters.flops_f32 + counters.flops_half,
            Resource::Fp64 => counters.flops_f64,
            Resource::Tensor => counters.flops_tensor + counters.ops_tensor_int8,
            _ => counters.warp_instructions,
        },
    }
}

fn row(line: &Line, prefix: &str, total: u64, ink: Ink, text: &mut String) {
    let number = match line.number {
        0 => "-".to_owned(),
        number => number.to_string(),
    };
    let costs = match &line.counters {
        None => String::new(),
        Some(counters) => columns(counters, total, ink),
    };
    // Escapes have no width, so the padding is that of a row without costs.
    let padding = if costs.is_empty() { COSTS_WIDTH } else { 0 };
    let source = match (&line.source, line.number) {
        (Some(source), _) => source.replace('\t', "    "),
        (None, 0) => "(no line)".to_owned(),
        (None, _) => "(no source)".to_owned(),
    };
    let source = format!("{prefix}{source}");
    let row = format!(
        "{number:>5}{costs}{:padding$}  {}",
        "",
        cut(&source, SOURCE_WIDTH)
    );
    *text += row.trim_end();
    text.push('\n');
}

/// Characters that [`columns`] fills, without escapes.
const COSTS_WIDTH: usize = 43;

fn columns(counters: &Counters, total: u64, ink: Ink) -> String {
    let share = counters.warp_instructions as f64 / total as f64;
    let mark = |text: String, bad: bool| if bad { ink.red(&text) } else { text };

    let issue = format!("{:>7}", percent(share));
    let issue = if share >= 0.1 {
        ink.bold(&issue)
    } else {
        issue
    };
    let instructions = short(counters.warp_instructions);

    let global = counters.global();
    let sectors = match global.requests {
        0 => String::new(),
        _ => format!(
            "{}/{}",
            quotient(global.per_request()),
            quotient(ideal(global))
        ),
    };
    let scattered = global.requests > 0 && global.per_request() >= 2.0 * ideal(global).max(1.0);

    let shared = counters.shared();
    let bank = match shared.requests {
        0 => String::new(),
        _ => quotient(shared.conflict_degree()),
    };
    let lanes = counters.lanes_per_instruction();
    let split = match counters.branches {
        0 => String::new(),
        branches => percent(counters.divergent_branches as f64 / branches as f64),
    };
    format!(
        "{issue}{instructions:>8}{}{}{}{}",
        mark(format!("{sectors:>10}"), scattered),
        mark(format!("{bank:>6}"), shared.conflict_degree() >= 1.5),
        mark(format!("{:>6}", quotient(lanes)), lanes < 16.0),
        mark(format!("{split:>6}"), counters.divergent_branches > 0),
    )
}

/// Sectors per request that the bytes asked for would fill.
fn ideal(traffic: Sectors) -> f64 {
    traffic.bytes as f64 / 32.0 / traffic.requests.max(1) as f64
}

fn written(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Count => grouped(value),
        Unit::Bytes => format!("{} B", grouped(value)),
        Unit::Seconds => seconds(value),
        Unit::Share => percent(value),
        Unit::Quotient => quotient(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A kernel that loads with a stride of two words and stores to shared memory with one of 32.
    fn report() -> Report {
        let mut load = Counters::default();
        load.warp_instructions = 12_000;
        load.lane_instructions = 12_000 * 31;
        load.global_loads = Sectors {
            requests: 1000,
            sectors: 8000,
            bytes: 128_000,
        };
        let mut store = Counters::default();
        store.warp_instructions = 500;
        store.lane_instructions = 500 * 8;
        store.shared_stores.requests = 500;
        store.shared_stores.wavefronts = 16_000;
        store.shared_stores.ideal = 500;
        store.branches = 400;
        store.divergent_branches = 100;
        let mut other = Counters::default();
        other.warp_instructions = 7;
        other.lane_instructions = 7 * 32;
        let line = |number, source: &str, counters| Line {
            file: "p/kernels/x.cu".to_owned(),
            number,
            source: Some(source.to_owned()),
            counters,
        };
        let figure = |key: &str, label: &str, unit, value| Figure {
            key: key.to_owned(),
            label: label.to_owned(),
            unit,
            value,
            measured: None,
        };
        Report {
            title: "x of p/kernels/x.cu, grid (10, 1, 1), block (64, 1, 1)".to_owned(),
            device: "h100".to_owned(),
            bound: Resource::Shared,
            phases: Vec::new(),
            parts: Vec::new(),
            model: vec!["bound by shared".to_owned()],
            classes: vec![
                ("integer", 10_000),
                ("async copy", 1_600),
                ("global", 400),
                ("move", 300),
                ("shared", 200),
                ("parameter", 7),
            ],
            figures: vec![
                figure("time", "modelled time", Unit::Seconds, 2.514e-6),
                figure(
                    "warp_instructions",
                    "warp instructions",
                    Unit::Count,
                    12_507.0,
                ),
                figure(
                    "dram_read",
                    "DRAM bytes read, at least",
                    Unit::Bytes,
                    1_280_000.0,
                ),
                figure("global_load_coalescing", "  coalescing", Unit::Share, 0.5),
            ],
            lines: vec![
                Line {
                    file: String::new(),
                    number: 0,
                    source: None,
                    counters: Some(other),
                },
                line(
                    8,
                    "\tfloat v = x[2 * i];  // a comment that is longer than the room that is left for it",
                    Some(load),
                ),
                line(9, "", None),
                line(10, "    x_smem[32 * threadIdx.x] = v;", Some(store)),
                line(80, "}", Some(other)),
            ],
        }
    }

    #[test]
    fn the_report_is_this_text() {
        let expected = "\
x of p/kernels/x.cu, grid (10, 1, 1), block (64, 1, 1)

  modelled time (h100)                    2.51 µs
  warp instructions                        12,507
  DRAM bytes read, at least           1,280,000 B
    coalescing                              50.0%
  bound by shared
  instructions: integer 79.9%, async copy 12.8%, global 3.2%, move 2.4%, shared 1.6%
                parameter 0.1%

 line  issue   instr   sectors  bank lanes split
    -   0.1%       7                  32.0        (no line)
p/kernels/x.cu
    8  95.9%   12.0k   8.0/4.0        31.0            float v = x[2 * i];  // a comment that is lon…
    9
   10   4.0%     500            32.0   8.0 25.0%      x_smem[32 * threadIdx.x] = v;
    …
   80   0.1%       7                  32.0        }

issue    share of all warp instructions       instr  warp instructions
sectors  32-byte sectors of global memory per request / sectors that its bytes would fill
bank     wavefronts of shared memory / wavefronts that it would take without bank conflicts
lanes    active threads, of 32                split  divergent branches
";
        let text = render(&report(), Order::File, Ink(false));
        assert_eq!(text, expected, "\n{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 100));
    }

    #[test]
    fn lines_are_sorted_by_what_is_asked() {
        let first = |order| {
            let text = render(&report(), order, Ink(false));
            let after = text.split("split\n").nth(1).unwrap().to_owned();
            after.trim_start().split(' ').next().unwrap().to_owned()
        };
        assert_eq!(first(Order::Instructions), "8");
        assert_eq!(first(Order::Sectors), "8");
        assert_eq!(first(Order::Conflicts), "10");
        assert_eq!(first(Order::Time), "10", "shared memory bounds it");
    }

    #[test]
    fn metrics_of_a_gpu_stand_beside_the_counted_ones_with_the_ratio() {
        let mut report = report();
        report.figures[0].measured = Some(5.028e-6);
        report.figures[1].measured = Some(0.0);
        let text = render(&report, Order::File, Ink(false));
        let table: Vec<&str> = text.lines().skip(2).take(4).collect();
        assert_eq!(
            table,
            [
                "                                          counted                ncu    ratio",
                "  modelled time (h100)                    2.51 µs            5.03 µs     0.50",
                "  warp instructions                        12,507                  0",
                "  DRAM bytes read, at least           1,280,000 B",
            ]
        );
    }

    #[test]
    fn colour_marks_what_is_costly_and_adds_no_width() {
        let text = render(&report(), Order::File, Ink(true));
        assert!(text.contains("\u{1b}[31m   8.0/4.0\u{1b}[0m"), "{text}");
        assert!(text.contains("\u{1b}[31m  32.0\u{1b}[0m"), "{text}");
        let mut plain = text;
        for code in ["\u{1b}[0m", "\u{1b}[1m", "\u{1b}[2m", "\u{1b}[31m"] {
            plain = plain.replace(code, "");
        }
        assert_eq!(plain, render(&report(), Order::File, Ink(false)));
    }
}
