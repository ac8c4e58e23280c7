//! Problems that are larger than the device's memory.

/// A remark if the tensors of the largest problem need more bytes than the device has.
pub fn memory_remark(needed: f64, device: &str, bytes: u64) -> Option<String> {
    let gib = |bytes: f64| bytes / f64::from(1 << 30);
    (needed > bytes as f64).then(|| {
        format!(
            "the largest problem needs {:.1} GiB of memory; {device} has {:.1} GiB",
            gib(needed),
            gib(bytes as f64)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_problem_that_does_not_fit_is_remarked_on() {
        let bytes: u64 = 80 << 30;
        assert_eq!(memory_remark(bytes as f64, "x", bytes), None);
        assert_eq!(
            memory_remark(1.5 * bytes as f64, "x", bytes).unwrap(),
            "the largest problem needs 120.0 GiB of memory; x has 80.0 GiB"
        );
    }
}
