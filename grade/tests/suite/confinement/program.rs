//! Tries ways to open files, and says of each whether it did.
#![allow(unused_imports)]

use std::fs::{self, File, OpenOptions};
use std::io::Read;
use std::os::fd::FromRawFd;
use std::os::unix::fs::symlink;
use std::process::Command;

fn from_descriptor(number: i32) -> bool {
    // SAFETY: if it is not open, reading fails.
    let file = std::mem::ManuallyDrop::new(unsafe { File::from_raw_fd(number) });
    (&*file).read(&mut [0]).is_ok()
}

macro_rules! println {
    ($($text:tt)*) => { eprintln!($($text)*) };
}

fn main() {
    WAYS
}
