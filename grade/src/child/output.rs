//! Captured output, of which the first and the last part are kept.

use std::io::Read;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

/// Bytes kept of the beginning.
const FIRST: usize = 64 << 10;

/// Bytes kept of the end.
const LAST: usize = 16 << 10;

/// Bytes after which a program is stopped.
pub const MOST: u64 = 64 << 20;

/// Output that a thread reads to its end, so that no writer waits.
#[derive(Debug)]
pub struct Captured {
    kept: Arc<Mutex<Kept>>,
    reader: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Kept {
    first: Vec<u8>,
    last: Vec<u8>,
    dropped: u64,
}

impl Captured {
    /// Reads all of `pipe`.
    pub fn new(mut pipe: impl Read + Send + 'static) -> Self {
        let kept = Arc::new(Mutex::new(Kept::default()));
        let shared = kept.clone();
        let reader = thread::spawn(move || {
            let mut buffer = vec![0; 64 << 10];
            while let Ok(read @ 1..) = pipe.read(&mut buffer) {
                lock(&shared).add(&buffer[..read]);
            }
        });
        Self {
            kept,
            reader: Some(reader),
        }
    }

    /// Waits for the end of the pipe.
    pub fn wait(&mut self) {
        if let Some(reader) = self.reader.take() {
            let _ = reader.join(); // it does not panic
        }
    }

    /// True if more was read than a program may write.
    pub fn is_full(&self) -> bool {
        lock(&self.kept).dropped > MOST
    }

    /// The text that was read so far.
    pub fn text(&self) -> String {
        lock(&self.kept).text()
    }
}

fn lock(kept: &Mutex<Kept>) -> MutexGuard<'_, Kept> {
    kept.lock().unwrap_or_else(PoisonError::into_inner) // bytes are only appended
}

impl Kept {
    fn add(&mut self, bytes: &[u8]) {
        let (first, rest) = bytes.split_at(bytes.len().min(FIRST - self.first.len()));
        self.first.extend(first);
        self.last.extend(rest);
        let excess = self.last.len().saturating_sub(LAST);
        self.last.drain(..excess);
        self.dropped += excess as u64;
    }

    fn text(&self) -> String {
        let mut text = String::from_utf8_lossy(&self.first).into_owned();
        if self.dropped > 0 {
            text += &format!("\n[… {} bytes left out …]\n", self.dropped);
        }
        text + &String::from_utf8_lossy(&self.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_and_the_last_bytes_are_kept() {
        let text = |bytes: Vec<u8>| {
            let mut captured = Captured::new(std::io::Cursor::new(bytes));
            captured.wait();
            captured.text()
        };
        assert_eq!(text(b"short".to_vec()), "short");
        let mut long = vec![b'a'; 200_000];
        long[0] = b'<';
        *long.last_mut().unwrap() = b'>';
        let kept = text(long);
        assert!(kept.starts_with("<a") && kept.ends_with("a>"));
        let left_out = 200_000 - FIRST - LAST;
        assert!(kept.contains(&format!("[… {left_out} bytes left out …]")));
        assert!(kept.len() < FIRST + LAST + 100);
    }
}
