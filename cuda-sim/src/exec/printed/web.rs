//! Output where there is no process: it is kept until it is asked for.

use std::sync::Mutex;

use crate::sync::lock;

static OUTPUT: Mutex<Vec<u8>> = Mutex::new(Vec::new());

/// What kernels have printed since the last call.
pub fn take_output() -> Vec<u8> {
    std::mem::take(&mut lock(&OUTPUT))
}

pub(super) fn write(text: &[u8]) {
    lock(&OUTPUT).extend_from_slice(text);
}

pub(super) fn notice(text: &[u8]) {
    write(text);
}
