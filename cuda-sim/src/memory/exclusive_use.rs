//! Exclusive or shared use of device memory by launches of several streams or host threads.
//!
//! A launch whose blocks run at the same time has the device to itself: it may have to be undone,
//! and no other launch may have used what is undone. It ends without waiting for another launch.
//! Launches whose blocks run in order may wait for each other, so they run side by side.

use std::sync::{Condvar, Mutex};

use crate::sync::{lock, wait_while};

#[derive(Default)]
pub(crate) struct DeviceUse {
    running: Mutex<Running>,
    ended: Condvar,
}

#[derive(Default)]
struct Running {
    alone: bool,
    in_order: usize,
}

/// A launch that has the device for itself, while this value lives.
pub(crate) struct Exclusive<'a>(&'a DeviceUse);

/// A launch beside others, while this value lives.
pub(crate) struct Shared<'a>(&'a DeviceUse);

impl DeviceUse {
    /// Begins a launch that needs the device for itself, once no other such launch runs; `None` if
    /// there are others.
    pub(crate) fn exclusive(&self) -> Option<Exclusive<'_>> {
        let mut running = self.until_nobody_is_alone();
        if running.in_order > 0 {
            return None;
        }
        running.alone = true;
        Some(Exclusive(self))
    }

    /// Begins a launch that may run beside others, once none runs that needs the device for itself.
    pub(crate) fn shared(&self) -> Shared<'_> {
        self.until_nobody_is_alone().in_order += 1;
        Shared(self)
    }

    fn until_nobody_is_alone(&self) -> std::sync::MutexGuard<'_, Running> {
        wait_while(&self.ended, lock(&self.running), |running| running.alone)
    }
}

impl Drop for Exclusive<'_> {
    fn drop(&mut self) {
        lock(&self.0.running).alone = false;
        self.0.ended.notify_all();
    }
}

impl Drop for Shared<'_> {
    fn drop(&mut self) {
        lock(&self.0.running).in_order -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_launch_is_alone_or_there_are_others() {
        let device_use = DeviceUse::default();
        let (first, second) = (device_use.shared(), device_use.shared());
        assert!(device_use.exclusive().is_none());
        drop(first);
        assert!(device_use.exclusive().is_none());
        drop(second);
        let alone = device_use.exclusive().expect("nobody else");
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| drop(device_use.shared()));
            drop(alone);
            waiting.join().expect("its turn comes");
        });
        assert!(device_use.exclusive().is_some());
    }
}
