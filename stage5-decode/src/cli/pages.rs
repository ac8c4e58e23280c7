//! Paged caches beside the contiguous one.

use bench_kit::Peaks;
use serde::Serialize;
use stage5_decode::{Decode, Mode};

use super::case::Case;
use super::estimate::{Estimate, Estimator};

/// A line of the table. The time is `None` where a GPU has not enough memory.
#[derive(Debug, Serialize)]
struct Row {
    #[serde(flatten)]
    case: Case,
    estimate: Option<Estimate>,
    /// Least bytes over the time, as a share of the device's bandwidth.
    bandwidth: Option<f64>,
}

/// The contiguous cache first, then page sizes.
#[derive(Debug, Serialize)]
pub struct Table {
    rows: Vec<Row>,
}

impl Table {
    /// Estimates `case` in each of these page sizes.
    pub fn make(
        estimator: &mut Estimator,
        decode: impl Fn() -> anyhow::Result<Decode>,
        peaks: &Peaks,
        case: Case,
        page_sizes: &[usize],
    ) -> anyhow::Result<Self> {
        let mut rows = Vec::new();
        let page_sizes = page_sizes.iter().copied().map(Some);
        for page_size in [None].into_iter().chain(page_sizes) {
            let case = Case { page_size, ..case };
            eprintln!("pages: {case}");
            let estimate = estimator.estimate(case.decode(decode()?, Mode::Library), case)?;
            let bandwidth = |estimate: Estimate| case.bytes() / estimate.seconds / peaks.bytes;
            rows.push(Row {
                case,
                estimate,
                bandwidth: estimate.map(bandwidth),
            });
        }
        Ok(Self { rows })
    }

    /// Prints the table.
    pub fn print(&self) {
        let [Row { case, estimate, .. }, ..] = &self.rows[..] else {
            return;
        };
        let (heads, kv_heads, head_dim) = (case.heads, case.kv_heads, case.head_dim);
        println!(
            "\npages: B = {}, H = {heads}, H_kv = {kv_heads}, D = {head_dim}, {} tokens, {} cache",
            case.batch, case.keys, case.dtype
        );
        println!("page size           µs  over contiguous  bandwidth  time is");
        for row in &self.rows {
            let name = match row.case.page_size {
                Some(page_size) => page_size.to_string(),
                None => "contiguous".to_owned(),
            };
            let (Some(own), Some(bandwidth), Some(contiguous)) =
                (row.estimate, row.bandwidth, estimate)
            else {
                println!("{name:10}  not enough device memory");
                continue;
            };
            println!(
                "{name:10} {:>11.1} {:>16.3} {:>9.1}%  {}",
                1e6 * own.seconds,
                own.seconds / contiguous.seconds,
                100.0 * bandwidth,
                own.how,
            );
        }
    }
}
