//! Metrics from Nsight Compute: the CSV of `ncu --csv --page raw` (a column for each metric) and of
//! `ncu --csv` (the details page: a row for each metric).
//!
//! Read leniently: lines before the table are skipped, unknown columns and metrics too.

use std::collections::BTreeMap;

use anyhow::{Context, bail};
use gpu_launch::readable;

use super::metrics::FIGURES;
use crate::cli::csv;

/// One profiled launch.
#[derive(Debug, Clone, Default)]
pub struct Kernel {
    /// The kernel's name, without its parameters.
    pub name: String,
    /// Values by metric, in units of seconds, bytes, shares of 1, or counts.
    metrics: BTreeMap<String, f64>,
}

impl Kernel {
    /// The value of a report's figure, if the metrics for it were collected.
    pub fn figure(&self, key: &str) -> Option<f64> {
        let (_, sums) = FIGURES.iter().find(|(figure, _)| *figure == key)?;
        let value = |metric: &&str| self.metrics.get(*metric).copied();
        sums.iter().find_map(|sum| sum.iter().map(value).sum())
    }

    /// True if it is this kernel, whose name may be as C++ compilers write it: `_Z5scalePf`.
    fn is(&self, kernel: &str) -> bool {
        let name = self.name.as_str();
        kernel == name
            || readable(kernel) == name
            || readable(kernel).split('<').next() == Some(name)
    }
}

/// The first launch of `kernel` in an exported report.
pub fn find(text: &str, kernel: &str) -> anyhow::Result<Kernel> {
    let kernels = parse(text)?;
    let found = kernels.iter().find(|found| found.is(kernel)).cloned();
    found.with_context(|| {
        let names: Vec<&str> = kernels.iter().map(|kernel| &*kernel.name).collect();
        format!("it has no launch of {kernel}, only of {}", names.join(", "))
    })
}

/// The launches of an exported report, in order.
fn parse(text: &str) -> anyhow::Result<Vec<Kernel>> {
    let mut rows = csv::rows(text)
        .into_iter()
        .skip_while(|row| !row.iter().any(|cell| cell == "Kernel Name"));
    let Some(header) = rows.next() else {
        bail!("no column \"Kernel Name\": export it with `ncu --csv --page raw`");
    };
    let rows: Vec<Vec<String>> = rows.filter(|row| row.len() == header.len()).collect();
    let column = |name: &str| header.iter().position(|cell| cell == name);
    let name = column("Kernel Name").unwrap_or_default();
    let kernels = match (column("Metric Name"), column("Metric Value")) {
        (Some(metric), Some(value)) => {
            let columns = Details {
                id: column("ID"),
                name,
                metric,
                value,
                unit: column("Metric Unit"),
            };
            columns.kernels(&rows)
        }
        _ => raw(&header, &rows, name),
    };
    if kernels.is_empty() {
        bail!("the table has no launch");
    }
    Ok(kernels)
}

/// A row for each launch. The first row may hold the units of the columns.
fn raw(header: &[String], rows: &[Vec<String>], name: usize) -> Vec<Kernel> {
    let (units, rows) = match rows.split_first() {
        Some((first, rest)) if first[name].is_empty() => (Some(first), rest),
        _ => (None, rows),
    };
    let kernel = |row: &Vec<String>| {
        let mut kernel = Kernel::named(&row[name]);
        for (column, metric) in header.iter().enumerate() {
            let unit = units.map_or("", |units| &units[column]);
            kernel.add(metric, &row[column], unit);
        }
        kernel
    };
    rows.iter().map(kernel).collect()
}

/// The columns of the details page.
struct Details {
    id: Option<usize>,
    name: usize,
    metric: usize,
    value: usize,
    unit: Option<usize>,
}

impl Details {
    /// A row for each metric of each launch; launches are told apart by their ID.
    fn kernels(&self, rows: &[Vec<String>]) -> Vec<Kernel> {
        let mut kernels: Vec<(&str, Kernel)> = Vec::new();
        for row in rows {
            let id = self.id.map_or("", |id| &row[id]);
            let known = kernels
                .last()
                .is_some_and(|(last, kernel)| *last == id && kernel.name == base(&row[self.name]));
            if !known {
                kernels.push((id, Kernel::named(&row[self.name])));
            }
            if let Some((_, kernel)) = kernels.last_mut() {
                let unit = self.unit.map_or("", |unit| &row[unit]);
                kernel.add(&row[self.metric], &row[self.value], unit);
            }
        }
        kernels.into_iter().map(|(_, kernel)| kernel).collect()
    }
}

impl Kernel {
    fn named(name: &str) -> Kernel {
        Kernel {
            name: base(name).to_owned(),
            metrics: BTreeMap::new(),
        }
    }

    /// Adds a metric if its value is a number, such as `1,234.5`.
    fn add(&mut self, metric: &str, value: &str, unit: &str) {
        if let Ok(value) = value.replace(',', "").parse::<f64>() {
            self.metrics.insert(metric.to_owned(), value * factor(unit));
        }
    }
}

/// `scale` of `void scale<float>(float *, int)`.
fn base(name: &str) -> &str {
    let name = name.split(['(', '<']).next().unwrap_or(name).trim();
    name.rsplit(' ').next().unwrap_or(name)
}

/// Size of a unit in seconds, bytes, or 1. Nsight Compute's multiples are decimal.
fn factor(unit: &str) -> f64 {
    match unit {
        "ns" | "nsecond" => 1e-9,
        "us" | "usecond" => 1e-6,
        "ms" | "msecond" => 1e-3,
        "Kbyte" | "KB" => 1e3,
        "Mbyte" | "MB" => 1e6,
        "Gbyte" | "GB" => 1e9,
        "%" => 1e-2,
        _ => 1.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RAW: &str = "\
==PROF== Connected to process 42
\"ID\",\"Process Name\",\"Kernel Name\",\"Grid Size\",\"gpu__time_duration.sum\",\"smsp__inst_executed.sum\",\"dram__bytes_read.sum\",\"odd\"
\"\",\"\",\"\",\"\",\"usecond\",\"inst\",\"Mbyte\",\"\"
\"0\",\"app\",\"void scale<float>(float *, int)\",\"(4, 1, 1)\",\"2.00\",\"1,234,567\",\"1.5\",\"n/a \"\"x\"\"\"
\"1\",\"app\",\"copy\",\"(4, 1, 1)\",\"3.50\",\"7\",\"0\",\"\"
";

    const DETAILS: &str = "\
\"ID\",\"Kernel Name\",\"Section Name\",\"Metric Name\",\"Metric Unit\",\"Metric Value\"\r
\"0\",\"copy(int)\",\"GPU Speed Of Light Throughput\",\"Duration\",\"ns\",\"1,250\"\r
\"0\",\"copy(int)\",\"Launch Statistics\",\"Registers Per Thread\",\"register/thread\",\"16\"\r
\"0\",\"copy(int)\",\"Command line profiler metrics\",\"smsp__sass_thread_inst_executed_op_fadd_pred_on.sum\",\"inst\",\"10\"\r
\"0\",\"copy(int)\",\"Command line profiler metrics\",\"smsp__sass_thread_inst_executed_op_ffma_pred_on.sum\",\"inst\",\"100\"\r
\"0\",\"copy(int)\",\"Command line profiler metrics\",\"smsp__sass_thread_inst_executed_op_fmul_pred_on.sum\",\"inst\",\"1\"\r
\"0\",\"copy(int)\",\"Command line profiler metrics\",\"smsp__sass_thread_inst_executed_op_hadd_pred_on.sum\",\"inst\",\"3\"\r
\"0\",\"copy(int)\",\"Command line profiler metrics\",\"smsp__sass_thread_inst_executed_op_hfma_pred_on.sum\",\"inst\",\"1000\"\r
\"0\",\"copy(int)\",\"Command line profiler metrics\",\"smsp__sass_thread_inst_executed_op_hmul_pred_on.sum\",\"inst\",\"20\"\r
\"0\",\"copy(int)\",\"Command line profiler metrics\",\"sm__ops_path_tensor_src_bf16_dst_fp32.sum\",\"\",\"4,096\"\r
\"0\",\"copy(int)\",\"Command line profiler metrics\",\"sm__ops_path_tensor_src_fp16_dst_fp16.sum\",\"\",\"0\"\r
\"0\",\"copy(int)\",\"Command line profiler metrics\",\"sm__ops_path_tensor_src_fp16_dst_fp32.sum\",\"\",\"8,192\"\r
\"0\",\"copy(int)\",\"Command line profiler metrics\",\"sm__ops_path_tensor_src_tf32_dst_fp32.sum\",\"\",\"2\"\r
\"1\",\"copy(int)\",\"Occupancy\",\"Theoretical Occupancy\",\"%\",\"50\"\r
";

    #[test]
    fn the_raw_page_has_a_column_for_each_metric() {
        let scale = find(RAW, "_Z5scaleIfEvPT_i").unwrap();
        assert_eq!(scale.name, "scale");
        assert_eq!(scale.figure("time"), Some(2e-6));
        assert_eq!(scale.figure("warp_instructions"), Some(1_234_567.0));
        assert_eq!(scale.figure("dram_read"), Some(1.5e6));
        assert_eq!(scale.figure("dram_write"), None);
        assert_eq!(scale.figure("no such figure"), None);
        assert_eq!(
            find(RAW, "copy").unwrap().figure("warp_instructions"),
            Some(7.0)
        );
        let error = find(RAW, "scal").unwrap_err().to_string();
        assert_eq!(error, "it has no launch of scal, only of scale, copy");
    }

    #[test]
    fn the_details_page_has_a_row_for_each_metric() {
        let copy = find(DETAILS, "copy").unwrap();
        assert_eq!(copy.figure("time"), Some(1.25e-6));
        assert_eq!(copy.figure("registers"), Some(16.0));
        assert_eq!(copy.figure("flops_f32"), Some(211.0));
        assert_eq!(copy.figure("flops_half"), Some(4046.0));
        assert_eq!(copy.figure("flops_tensor"), Some(12290.0));
        assert_eq!(copy.figure("occupancy"), None, "that is the second launch");
        assert_eq!(parse(DETAILS).unwrap()[1].figure("occupancy"), Some(0.5));
    }

    #[test]
    fn accesses_are_summed_over_their_metrics_or_not_shown() {
        let csv = "Kernel Name,smsp__inst_executed_op_shared_ld.sum,smsp__inst_executed_op_ldsm.sum,\
            smsp__inst_executed_op_shared_st.sum,sm__ops_path_tensor_src_fp16.sum,\
            sm__ops_path_tensor_src_bf16_dst_fp32.sum,sm__ops_path_tensor_src_tf32_dst_fp32.sum,\
            sm__ops_path_tensor_src_fp64.sum\ncopy,50,1440,640,8192,16,2,1\n";
        let copy = find(csv, "copy").unwrap();
        assert_eq!(copy.figure("shared_load_requests"), Some(1490.0));
        assert_eq!(copy.figure("shared_store_requests"), None);
        assert_eq!(copy.figure("flops_tensor"), Some(8211.0));
    }

    #[test]
    fn what_is_no_report_is_an_error() {
        for csv in ["", "text\n", "\"a\",\"b\"\n\"1\",\"2\"\n"] {
            assert!(
                parse(csv).unwrap_err().to_string().contains("no column"),
                "{csv}"
            );
        }
        assert!(
            parse("Kernel Name,x\n")
                .unwrap_err()
                .to_string()
                .contains("no launch")
        );
        assert!(parse("Kernel Name,x\nshort\n").is_err());
    }
}
