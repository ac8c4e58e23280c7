//! Rung 1 beside the dispatcher's choice, over batch sizes and lengths of sequences.

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
    /// Rung 1.
    naive: Option<Estimate>,
    /// [`Mode::Auto`].
    auto: Option<Estimate>,
    /// Parts of a sequence, by [`Mode::Auto`].
    parts: usize,
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
                let auto = case.decode(decode()?, Mode::Auto);
                rows.push(Row {
                    case,
                    naive: estimator.estimate(case.decode(decode()?, Mode::Naive), case)?,
                    auto: estimator.estimate(auto, case)?,
                    parts: match auto {
                        Operation::Decode { parts, .. } => parts,
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
            "tokens   B  parts    naive µs     auto µs  speed-up  naive bandwidth  auto bandwidth  time is"
        );
        for row in &self.rows {
            let (keys, batch) = (row.case.keys, row.case.batch);
            let (Some(naive), Some(auto)) = (row.naive, row.auto) else {
                println!(
                    "{keys:>6} {batch:>3} {:>6}  not enough device memory",
                    row.parts
                );
                continue;
            };
            println!(
                "{keys:>6} {batch:>3} {:>6} {:>11.1} {:>11.1} {:>9.2} {:>15.1}% {:>14.1}%  {}",
                row.parts,
                1e6 * naive.seconds,
                1e6 * auto.seconds,
                naive.seconds / auto.seconds,
                100.0 * self.bandwidth(&row.case, naive),
                100.0 * self.bandwidth(&row.case, auto),
                naive.how.max(auto.how),
            );
        }
        println!(
            "auto: rung 2 (split) where H = H_kv, else rung 3 (grouped), in parts by the rule"
        );
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
                    [("naive", |row| row.naive), ("auto", |row| row.auto)];
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
