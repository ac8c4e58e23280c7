//! Standard output that holds a verdict or JSON and nothing else: what kernels print goes to
//! standard error.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;

use anyhow::Context;

use gpu_tool::ink::Ink;

/// The standard output of this process, for the program alone.
pub struct Output(File);

impl Output {
    /// Takes standard output; the descriptor that kernels print to is standard error from now on.
    pub fn take() -> anyhow::Result<Output> {
        let own = io::stdout().as_fd().try_clone_to_owned();
        let own = own.context("keeping standard output")?;
        // SAFETY: both descriptors are open, and nothing of this program is buffered for standard
        // output.
        if unsafe { libc::dup2(libc::STDERR_FILENO, libc::STDOUT_FILENO) } < 0 {
            return Err(io::Error::last_os_error()).context("setting standard output aside");
        }
        Ok(Output(own.into()))
    }

    /// Colour as for standard output.
    pub fn ink(&self) -> Ink {
        Ink::for_stream(&self.0)
    }

    /// Writes, as [`super::print`] does.
    pub fn print(&mut self, text: &str) -> anyhow::Result<()> {
        super::write(&mut self.0, text)
    }
}
