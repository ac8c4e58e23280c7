//! Handles: a `CUstream` or `CUfunction` is a number that is looked up in a table.
//!
//! A number is never reused, and its upper bits give the kind of object, so a null or stale handle,
//! or one of another kind, is an error.

use std::{
    collections::HashMap,
    convert::Infallible,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use crate::{
    status::{Error, Result, Status},
    sync::lock,
};

/// A handle in the C interface. Never null for an object that exists, and never an address.
pub(crate) type Handle = u64;

/// Table of the objects of one kind.
pub(crate) struct Table<T> {
    what: &'static str,
    next: AtomicU64,
    entries: Mutex<HashMap<Handle, Arc<T>>>,
}

impl<T> Table<T> {
    /// An empty table; `kind` sets its handles apart from other tables', `what` names one object in
    /// errors.
    pub(crate) fn new(kind: u64, what: &'static str) -> Self {
        Self {
            what,
            next: AtomicU64::new(kind << 44 | 1),
            entries: Mutex::default(),
        }
    }

    /// Adds the object that `make` builds for its handle.
    pub(crate) fn insert(&self, make: impl FnOnce(Handle) -> T) -> Arc<T> {
        match self.try_insert(|handle| Ok::<T, Infallible>(make(handle))) {
            Ok(thing) => thing,
        }
    }

    /// [`Table::insert`] of an object whose construction may fail.
    pub(crate) fn try_insert<E>(
        &self,
        make: impl FnOnce(Handle) -> Result<T, E>,
    ) -> Result<Arc<T>, E> {
        // By 16, so that no handle is one of the special small numbers, and all look like pointers.
        let handle = self.next.fetch_add(1, Ordering::Relaxed) << 4;
        let thing = Arc::new(make(handle)?);
        lock(&self.entries).insert(handle, Arc::clone(&thing));
        Ok(thing)
    }

    /// The object, if the handle is one of this kind.
    pub(crate) fn find(&self, handle: Handle) -> Option<Arc<T>> {
        lock(&self.entries).get(&handle).cloned()
    }

    /// The object, or `CUDA_ERROR_INVALID_HANDLE`.
    pub(crate) fn get(&self, handle: Handle) -> Result<Arc<T>> {
        self.find(handle).ok_or_else(|| self.unknown(handle))
    }

    /// Removes and returns the object, or `CUDA_ERROR_INVALID_HANDLE`.
    pub(crate) fn remove(&self, handle: Handle) -> Result<Arc<T>> {
        lock(&self.entries)
            .remove(&handle)
            .ok_or_else(|| self.unknown(handle))
    }

    /// All objects that `wanted` selects.
    pub(crate) fn select(&self, wanted: impl Fn(&T) -> bool) -> Vec<Arc<T>> {
        lock(&self.entries)
            .values()
            .filter(|thing| wanted(thing))
            .cloned()
            .collect()
    }

    /// Removes and returns all objects that `doomed` selects.
    pub(crate) fn drain(&self, doomed: impl Fn(&T) -> bool) -> Vec<Arc<T>> {
        let mut entries = lock(&self.entries);
        entries
            .extract_if(|_, thing| doomed(thing))
            .map(|(_, thing)| thing)
            .collect()
    }

    fn unknown(&self, handle: Handle) -> Error {
        let text = match handle {
            0 => format!("the {} handle is null", self.what),
            _ => format!(
                "{handle:#x} is no {}: destroyed before, or a handle of another kind",
                self.what
            ),
        };
        Status::InvalidHandle.error(text)
    }
}
