//! Figures of the devices that the simulator knows, from the table in `cuda-sim/MODEL.md`, which a test of `cuda-sim`
//! compares with the code.

use std::fs;

use anyhow::{Context, Result};

use crate::root;

const TABLE: &str = "cuda-sim/MODEL.md";

/// The figure of `device` in the row that begins with `name`.
pub fn figure(device: &str, name: &str) -> Result<String> {
    let text = fs::read_to_string(root().join(TABLE)).context(TABLE)?;
    let rows = || text.lines().filter_map(cells);
    // Other tables name devices in their header, too.
    let headers = rows().filter(|row| row.contains(&device));
    let (header, row) = headers
        .filter_map(|header| {
            let row = rows().find(|row| row.len() == header.len() && row[0] == name)?;
            Some((header, row))
        })
        .next()
        .with_context(|| format!("{TABLE} has no row {name:?} with a device {device}"))?;
    let column = header.iter().position(|&cell| cell == device).unwrap_or(0);
    Ok(row[column].to_owned())
}

/// The highest f32 rate of a device in TFLOP/s: a multiply-add, which is 2 FLOP, for each lane and clock.
pub fn peak(device: &str) -> Result<String> {
    Ok(format!("{:.1}", flops(device)? / 1e12))
}

/// The time that a device takes at least for so many f32 operations, in nanoseconds.
pub fn arithmetic(device: &str, flop: f64) -> Result<String> {
    Ok(format!("{:.1} ns", flop / flops(device)? * 1e9))
}

/// f32 operations per second.
pub fn flops(device: &str) -> Result<f64> {
    let lanes = number(device, "multiprocessors")? * number(device, "f32 lanes")?;
    Ok(lanes * 2.0 * number(device, "clock, MHz")? * 1e6)
}

/// The time that a device takes at least to read so many bytes, in microseconds.
pub fn transfer(device: &str, bytes: &str) -> Result<String> {
    let bytes: f64 = bytes.parse().context("the bytes are no number")?;
    Ok(format!("{:.0} µs", bytes / bandwidth(device)? * 1e6))
}

/// Bytes per second of device memory.
pub fn bandwidth(device: &str) -> Result<f64> {
    Ok(number(device, "DRAM, GB/s")? * 1e9)
}

/// A figure of a device, without the separators of thousands.
pub fn number(device: &str, name: &str) -> Result<f64> {
    let text = figure(device, name)?.replace(',', "");
    text.parse()
        .with_context(|| format!("{name} of {device} is {text:?}"))
}

fn cells(line: &str) -> Option<Vec<&str>> {
    let line = line.strip_prefix('|')?.strip_suffix('|')?;
    Some(line.split('|').map(str::trim).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_that_of_its_row_and_column() {
        assert_eq!(figure("a100", "multiprocessors").unwrap(), "108");
        assert!(figure("a100", "wheels").is_err());
        assert!(figure("abacus", "multiprocessors").is_err());
    }

    #[test]
    fn rates_and_times_follow_from_the_table() {
        // 108 multiprocessors, 64 lanes, 1410 MHz; 2039 GB/s.
        assert_eq!(peak("a100").unwrap(), "19.5");
        assert_eq!(transfer("a100", "2039e6").unwrap(), "1000 µs");
        assert!(transfer("a100", "many").is_err());
        // At 19.49184 TFLOP/s.
        assert_eq!(arithmetic("a100", 19.49184e6).unwrap(), "1000.0 ns");
        assert!(peak("abacus").is_err());
    }
}
