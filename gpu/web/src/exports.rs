//! The functions of the WebAssembly module. A page asks for room, writes a request in UTF-8 there,
//! calls `answer`, and reads the answer, which stays until the next call.

use std::cell::RefCell;

use cuda_sim::Simulator;

use crate::{Answer, answer, device};

#[derive(Default)]
struct Page {
    device: Option<Simulator>,
    request: Vec<u8>,
    answer: String,
}

thread_local! {
    static PAGE: RefCell<Page> = RefCell::default();
}

/// Room for a request of so many bytes.
#[unsafe(no_mangle)]
pub extern "C" fn room(bytes: usize) -> *mut u8 {
    PAGE.with_borrow_mut(|page| {
        page.request = vec![0; bytes];
        page.request.as_mut_ptr()
    })
}

/// Answers the request in the room, and gives the number of bytes of the answer.
#[unsafe(no_mangle)]
pub extern "C" fn answer_request() -> usize {
    PAGE.with_borrow_mut(|page| {
        let request = String::from_utf8_lossy(&page.request).into_owned();
        let answered = match &mut page.device {
            Some(device) => answer(device, &request),
            None => match device() {
                Ok(device) => answer(page.device.insert(device), &request),
                Err(error) => Answer {
                    error: Some(error.to_string()),
                    ..Answer::default()
                },
            },
        };
        // An answer has no map with other keys than texts, and no number that JSON lacks.
        page.answer = serde_json::to_string(&answered).unwrap_or_default();
        page.answer.len()
    })
}

/// Where the answer begins.
#[unsafe(no_mangle)]
pub extern "C" fn answer_text() -> *const u8 {
    PAGE.with_borrow(|page| page.answer.as_ptr())
}
