//! Answers requests as the WebAssembly module does, for `same.mjs`: a request a line on standard
//! input, an answer a line on standard output.
//!
//!     cargo run -p gpu-web --example answers < requests

use std::io::{self, BufRead, Write};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut device = gpu_web::device()?;
    let mut output = io::stdout().lock();
    for request in io::stdin().lock().lines() {
        let answer = gpu_web::answer(&mut device, &request?);
        writeln!(output, "{}", serde_json::to_string(&answer)?)?;
    }
    Ok(())
}
