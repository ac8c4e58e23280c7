//! User objects: resources of the program, each with a destructor, which is called when the last
//! reference goes.

use std::{
    collections::HashMap,
    sync::{
        Arc, LazyLock, Mutex, Weak,
        mpsc::{Sender, channel},
    },
    thread,
};

use super::host_function::{HostAddress, HostFunction, run_host_function};
use crate::{
    driver::ffi::{Error, Handle, Result, Status, Table},
    sync::lock,
};

/// The objects that handles stand for, kept alive by their references alone.
pub(crate) type UserObjects = Table<Weak<UserObject>>;

/// A resource of the program.
pub(crate) struct UserObject {
    handle: Handle,
    destroy: HostFunction,
    data: HostAddress,
    /// Table in which its handle is looked up.
    all: &'static UserObjects,
}

impl UserObject {
    /// An object whose destructor is `destroy` with `data`.
    pub(crate) fn new(
        all: &'static UserObjects,
        destroy: HostFunction,
        data: HostAddress,
    ) -> Arc<Self> {
        Arc::new_cyclic(|object| {
            let mut handle = 0;
            all.insert(|new| {
                handle = new;
                Weak::clone(object)
            });
            Self {
                handle,
                destroy,
                data,
                all,
            }
        })
    }

    /// The object of a handle.
    pub(crate) fn find(all: &UserObjects, handle: Handle) -> Result<Arc<Self>> {
        all.get(handle)?.upgrade().ok_or_else(|| {
            Status::InvalidHandle.error(format!("user object {handle:#x} is being destroyed"))
        })
    }

    pub(crate) fn handle(&self) -> Handle {
        self.handle
    }
}

/// Calls destructors in a thread of the driver, in the order in which the last references went: who
/// gives up the last one may hold a lock that the destructor takes.
static DESTRUCTORS: LazyLock<Sender<(HostFunction, HostAddress)>> = LazyLock::new(|| {
    let (sender, receiver) = channel();
    // Without a thread there is no receiver, and destructors are called where the last reference
    // goes.
    let _ = thread::Builder::new()
        .name("cuda-sim destructors".to_owned())
        .spawn(move || {
            for (destroy, data) in receiver {
                run_host_function(destroy, data);
            }
        });
    sender
});

impl Drop for UserObject {
    fn drop(&mut self) {
        // Always there: nothing else removes it.
        let _ = self.all.remove(self.handle);
        if DESTRUCTORS.send((self.destroy, self.data)).is_err() {
            run_host_function(self.destroy, self.data);
        }
    }
}

/// References to user objects that one owner has, the program or a graph, with their number.
#[derive(Default)]
pub(crate) struct References(Mutex<HashMap<Handle, (Arc<UserObject>, u64)>>);

impl References {
    /// Adds `count` references to an object.
    pub(crate) fn add(&self, object: Arc<UserObject>, count: u32) {
        let mut owned = lock(&self.0);
        owned.entry(object.handle).or_insert((object, 0)).1 += u64::from(count);
    }

    /// Gives up `count` references to an object; an error that names `owner` if it has fewer.
    pub(crate) fn remove(&self, owner: &str, object: &UserObject, count: u32) -> Result {
        let mut owned = lock(&self.0);
        let has = owned.get(&object.handle).map_or(0, |(_, has)| *has);
        match has.checked_sub(count.into()) {
            None => {
                return Err(Error::value(format!(
                    "count is {count}, but {owner} owns {has} references to the object"
                )));
            }
            Some(0) => drop(owned.remove(&object.handle)),
            Some(left) => {
                owned
                    .entry(object.handle)
                    .and_modify(|(_, has)| *has = left);
            }
        }
        Ok(())
    }
}

impl Clone for References {
    /// As many references to each object, of another owner.
    fn clone(&self) -> Self {
        Self(Mutex::new(lock(&self.0).clone()))
    }
}
