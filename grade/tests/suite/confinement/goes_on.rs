//! Answers a request without end: it goes on, and on.

use std::io::{Read, Write};

fn main() {
    let mut length = [0; 4];
    std::io::stdin().read_exact(&mut length).unwrap();
    let mut request = vec![0; u32::from_le_bytes(length) as usize];
    std::io::stdin().read_exact(&mut request).unwrap();
    // The ticket, a number whose last byte is below 128; the outcome `GoesOn`; no outputs, and so on.
    let ticket = request.iter().position(|byte| *byte < 128).unwrap() + 1;
    let mut reply = request[..ticket].to_vec();
    reply.extend([7, 0, 0, 0, 0, 0, 0, 0]);
    let mut frame = (reply.len() as u32).to_le_bytes().to_vec();
    frame.extend(reply);
    while std::io::stdout().write_all(&frame).is_ok() {}
}
