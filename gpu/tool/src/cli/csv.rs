//! Comma-separated values.

/// The cells of a CSV text: quoted cells may hold commas, line ends and doubled quotes (RFC 4180).
pub fn rows(csv: &str) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    let mut row = Vec::new();
    let mut cell = String::new();
    let mut quoted = false;
    let mut characters = csv.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '"' if quoted && characters.peek() == Some(&'"') => {
                characters.next();
                cell.push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => row.push(std::mem::take(&mut cell)),
            '\r' if !quoted => {}
            '\n' if !quoted => {
                row.push(std::mem::take(&mut cell));
                rows.push(std::mem::take(&mut row));
            }
            other => cell.push(other),
        }
    }
    row.push(cell);
    rows.push(row);
    rows
}

#[cfg(test)]
mod tests {
    use super::rows;

    #[test]
    fn quotes_hold_commas_lines_and_quotes() {
        assert_eq!(
            rows("a,\"b,\nc\",\"d \"\"e\"\"\"\r\n,\n"),
            [vec!["a", "b,\nc", "d \"e\""], vec!["", ""], vec![""]]
        );
    }
}
