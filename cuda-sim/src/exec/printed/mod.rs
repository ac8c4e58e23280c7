//! Output of the device's `printf`, until the launch ends.

#[cfg(not(target_arch = "wasm32"))]
mod system;
#[cfg(target_arch = "wasm32")]
mod web;

use std::collections::VecDeque;
use std::sync::Mutex;

#[cfg(not(target_arch = "wasm32"))]
use system::{notice, write};
#[cfg(target_arch = "wasm32")]
pub use web::take_output;
#[cfg(target_arch = "wasm32")]
use web::{notice, write};

use crate::sync::lock;

/// Messages of one launch, in a buffer of limited size. As in CUDA, the latest ones replace the
/// earliest ones when it is full, and all are written at the end of the launch. CUDA stores the
/// format and the arguments of a message; here its text counts.
pub(crate) struct Printed {
    /// Bytes of text that fit in.
    limit: usize,
    messages: Mutex<Messages>,
}

#[derive(Default)]
struct Messages {
    kept: VecDeque<Vec<u8>>,
    bytes: usize,
    lost: u64,
}

impl Printed {
    pub(crate) fn new(limit: usize) -> Printed {
        Printed {
            limit,
            messages: Mutex::default(),
        }
    }

    pub(crate) fn add(&self, message: Vec<u8>) {
        let mut messages = lock(&self.messages);
        messages.bytes += message.len();
        messages.kept.push_back(message);
        while messages.bytes > self.limit
            && let Some(first) = messages.kept.pop_front()
        {
            messages.bytes -= first.len();
            messages.lost += 1;
        }
    }
}

impl Drop for Printed {
    fn drop(&mut self) {
        let messages = std::mem::take(&mut *lock(&self.messages));
        for message in &messages.kept {
            write(message);
        }
        if messages.lost > 0 {
            let text = format!(
                "cuda-sim: the first {} messages of printf are lost: the launch printed more than the buffer's {} bytes \
                 (CU_LIMIT_PRINTF_FIFO_SIZE)\n",
                messages.lost, self.limit
            );
            notice(text.as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_messages_are_kept() {
        let printed = Printed::new(10);
        let kept = || {
            let messages = lock(&printed.messages);
            (
                messages.kept.iter().flatten().copied().collect::<Vec<u8>>(),
                messages.lost,
            )
        };
        for message in ["one ", "two ", "3\n"] {
            printed.add(message.into());
        }
        assert_eq!(kept(), (b"one two 3\n".to_vec(), 0));
        printed.add("four ".into());
        assert_eq!(kept(), (b"3\nfour ".to_vec(), 2));
        printed.add("more than ten".into());
        assert_eq!(kept(), (Vec::new(), 5));
        *lock(&printed.messages) = Messages::default();
    }
}
