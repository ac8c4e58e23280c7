//! One split beside the rule's number of splits, over batch sizes and lengths of sequences.

use std::path::Path;

use bench_kit::{Chart, Line, Peaks};
use serde::Serialize;
use stage5_decode::{Decode, Mode};

use super::case::{Case, Operation};
use super::estimate::{Estimate, Estimator};

/// A line of the table. Times are `None` where a GPU has not enough memory.
#[derive(Debug, Serialize)]
struct Row {
    #[serde(flatten)]
    case: Case,
    /// In one split.
    whole: Option<Estimate>,
    /// In as many splits as the rule chooses.
    split: Option<Estimate>,
    /// Parts of a sequence, by the rule.
    splits: usize,
}

/// All batch sizes and lengths.
#[derive(Debug, Serialize)]
pub struct Table {
    rows: Vec<Row>,
    peaks: Peaks,
}

impl Table {
    /// Estimates `case` with each of these numbers of sequences and lengths.
    pub fn make(
        estimator: &mut Estimator,
        decode: impl Fn() -> anyhow::Result<Decode>,
        peaks: &Peaks,
        case: Case,
        [batches, lengths]: [&[usize]; 2],
    ) -> anyhow::Result<Self> {
        let mut rows = Vec::new();
        for &keys in lengths {
            for &batch in batches {
                let case = Case {
                    batch,
                    keys,
                    max_seq: keys,
                    ..case
                };
                eprintln!("lengths: {case}");
                let split = case.decode(decode()?, Mode::Library);
                let whole = Operation::Decode {
                    mode: Mode::Library,
                    splits: 1,
                };
                rows.push(Row {
                    case,
                    whole: estimator.estimate(whole, case)?,
                    split: estimator.estimate(split, case)?,
                    splits: match split {
                        Operation::Decode { splits, .. } => splits,
                        _ => 1,
                    },
                });
            }
        }
        let peaks = *peaks;
        Ok(Self { rows, peaks })
    }

    /// Prints the table.
    pub fn print(&self) {
        let [Row { case, .. }, ..] = &self.rows[..] else {
            return;
        };
        let (heads, kv_heads) = (case.heads, case.kv_heads);
        println!(
            "\nlengths: H = {heads}, H_kv = {kv_heads}, D = {}, {} cache, contiguous",
            case.head_dim, case.dtype
        );
        println!(
            "tokens   B splits  1 split µs   splits µs  speed-up 1 split's bandwidth splits' bandwidth  time is"
        );
        for row in &self.rows {
            let (keys, batch) = (row.case.keys, row.case.batch);
            let (Some(whole), Some(split)) = (row.whole, row.split) else {
                println!(
                    "{keys:>6} {batch:>3} {:>6}  not enough device memory",
                    row.splits
                );
                continue;
            };
            println!(
                "{keys:>6} {batch:>3} {:>6} {:>11.1} {:>11.1} {:>9.2} {:>18.1}% {:>16.1}%  {}",
                row.splits,
                1e6 * whole.seconds,
                1e6 * split.seconds,
                whole.seconds / split.seconds,
                100.0 * self.bandwidth(&row.case, whole),
                100.0 * self.bandwidth(&row.case, split),
                whole.how.max(split.how),
            );
        }
        println!("splits: the number that the rule chooses");
        println!(
            "bandwidth: the bytes of a step at least (k, v, q, o once) over its time, of the device's"
        );
    }

    /// The least bytes of the case over the time, as a share of the device's bandwidth.
    fn bandwidth(&self, case: &Case, estimate: Estimate) -> f64 {
        case.bytes() / estimate.seconds / self.peaks.bytes
    }

    /// Writes a chart of times and one of bandwidths, for the smallest and the largest batch.
    pub fn plot(&self, folder: &Path, source: &str) -> anyhow::Result<()> {
        let batches = || self.rows.iter().map(|row| row.case.batch);
        let ends = [batches().min(), batches().max()];
        type Value<'a> = &'a dyn Fn(&Case, Estimate) -> f64;
        let charts: [(&str, &str, Value<'_>); 2] = [
            ("latency", "µs", &|_, estimate| 1e6 * estimate.seconds),
            (
                "bandwidth",
                "% of the device's bandwidth",
                &|case, estimate| 100.0 * self.bandwidth(case, estimate),
            ),
        ];
        for (name, y_label, value) in charts {
            let mut lines = Vec::new();
            for batch in ends.into_iter().flatten() {
                type Time = fn(&Row) -> Option<Estimate>;
                let modes: [(&str, Time); 2] =
                    [("1 split", |row| row.whole), ("splits", |row| row.split)];
                for (mode, time) in modes {
                    let of_batch = self.rows.iter().filter(|row| row.case.batch == batch);
                    let point =
                        |row: &Row| Some((row.case.keys as f64, value(&row.case, time(row)?)));
                    lines.push(Line {
                        name: format!("{mode}, B = {batch}"),
                        points: of_batch.filter_map(point).collect(),
                    });
                }
            }
            let chart = Chart {
                title: &format!("{name} of a decoding step, {source}"),
                x_label: "tokens of each sequence",
                x_base: 2.0,
                y_label,
                lines,
            };
            chart.write(folder, name)?;
        }
        Ok(())
    }
}
