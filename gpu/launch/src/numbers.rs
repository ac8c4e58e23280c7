//! Numbers as they are written in reports.

/// `2.51 µs`
pub fn seconds(value: f64) -> String {
    let (scaled, unit) = match value {
        value if value >= 1.0 => (value, "s"),
        value if value >= 1e-3 => (value * 1e3, "ms"),
        value if value >= 1e-6 => (value * 1e6, "µs"),
        value => (value * 1e9, "ns"),
    };
    let digits = if scaled >= 100.0 {
        0
    } else if scaled >= 10.0 {
        1
    } else {
        2
    };
    format!("{scaled:.digits$} {unit}")
}

/// `31.8`, and `0.0012` where one digit would be none.
pub fn quotient(value: f64) -> String {
    if value == 0.0 || value >= 0.1 {
        format!("{value:.1}")
    } else {
        format!("{value:.1e}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_three_digits_and_a_quotient_one_or_two() {
        assert_eq!(
            [2.0, 0.0123, 9.87e-6, 1e-9].map(seconds),
            ["2.00 s", "12.3 ms", "9.87 µs", "1.00 ns"]
        );
        assert_eq!(
            [0.0, 31.84, 0.0123].map(quotient),
            ["0.0", "31.8", "1.2e-2"]
        );
    }
}
