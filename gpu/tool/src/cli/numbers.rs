//! Numbers as they are written in tables.

/// `1,234,567`
pub fn grouped(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1234`, `12.3k`, `1.23M`: at most six characters.
pub fn short(count: u64) -> String {
    let mut value = count as f64;
    if count < 10_000 {
        return count.to_string();
    }
    for suffix in ["k", "M", "G", "T"] {
        value /= 1000.0;
        if value < 999.5 {
            let digits = if value < 9.995 {
                2
            } else if value < 99.95 {
                1
            } else {
                0
            };
            return format!("{value:.digits$}{suffix}");
        }
    }
    format!("{:.0}P", value / 1000.0)
}

/// `95.9%`
pub fn percent(share: f64) -> String {
    format!("{:.1}%", 100.0 * share)
}

/// The text, cut off with `…` if it has more characters than `width`.
pub fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().take(width - 1).collect();
    kept + "…"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_to_their_columns() {
        let shorts = [
            0,
            9_999,
            10_000,
            12_345,
            999_499,
            999_500,
            123_456_789,
            u64::MAX,
        ];
        let written = shorts.map(short);
        assert_eq!(
            written,
            [
                "0", "9999", "10.0k", "12.3k", "999k", "1.00M", "123M", "18447P"
            ]
        );
        assert_eq!(
            [0.0, 1.0, 999.0, 1000.0, 1e6].map(grouped),
            ["0", "1", "999", "1,000", "1,000,000"]
        );
    }
}
