//! User objects: resources of the program that live as long as the program or a graph refers to
//! them.
//!
//! Clones and instantiations of a graph own as many references as the graph, and a launch owns
//! those of what it runs.

use std::ffi::c_void;

use crate::driver::{
    ffi::{Code, Error, Handle, Out, Result, guard},
    state::driver,
    streams::{HostAddress, HostFunction, UserObject},
};

/// `CU_USER_OBJECT_NO_DESTRUCTOR_SYNC`: the only flag, and required.
const NO_DESTRUCTOR_SYNC: u32 = 1;

/// `CU_GRAPH_USER_OBJECT_MOVE`: the program gives its references to the graph.
const MOVE: u32 = 1;

/// An error unless it is a number of references to add or to give up.
fn check_count(argument: &str, count: u32) -> Result {
    const MOST: u32 = i32::MAX as u32;
    if (1..=MOST).contains(&count) {
        return Ok(());
    }
    Err(Error::value(format!(
        "{argument} is {count}, must be 1 to {MOST}"
    )))
}

/// Creates an object, to which the program owns `count` references.
///
/// `destroy` is called with `data` in a thread of the driver after the last reference has gone. It
/// must not call the driver.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuUserObjectCreate(
    object: Out<Handle>,
    data: *mut c_void,
    destroy: Option<HostFunction>,
    count: u32,
    flags: u32,
) -> Code {
    guard(|| {
        let driver = driver()?;
        object.check("object_out")?;
        let destroy = destroy.ok_or_else(|| Error::value("destroy is null"))?;
        check_count("initialRefcount", count)?;
        if flags != NO_DESTRUCTOR_SYNC {
            return Err(Error::value(format!(
                "flags are {flags:#x}, must be CU_USER_OBJECT_NO_DESTRUCTOR_SYNC"
            )));
        }
        let new = UserObject::new(&driver.user_objects, destroy, HostAddress(data));
        let handle = new.handle();
        driver.program_references.add(new, count);
        object.set("object_out", handle)
    })
}

/// Adds references of the program.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuUserObjectRetain(object: Handle, count: u32) -> Code {
    guard(|| {
        let driver = driver()?;
        check_count("count", count)?;
        let object = UserObject::find(&driver.user_objects, object)?;
        driver.program_references.add(object, count);
        Ok(())
    })
}

/// Gives up references of the program.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuUserObjectRelease(object: Handle, count: u32) -> Code {
    guard(|| {
        let driver = driver()?;
        check_count("count", count)?;
        let object = UserObject::find(&driver.user_objects, object)?;
        driver
            .program_references
            .remove("the program", &object, count)
    })
}

/// Adds references of a graph, which it gives up when it is destroyed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphRetainUserObject(
    graph: Handle,
    object: Handle,
    count: u32,
    flags: u32,
) -> Code {
    guard(|| {
        let driver = driver()?;
        check_count("count", count)?;
        let graph = driver.graphs.get(graph)?;
        let object = UserObject::find(&driver.user_objects, object)?;
        match flags {
            0 => {}
            MOVE => driver
                .program_references
                .remove("the program", &object, count)?,
            _ => {
                return Err(Error::value(format!(
                    "{flags:#x} are no valid CUuserObjectRetain_flags"
                )));
            }
        }
        graph.references.add(object, count);
        Ok(())
    })
}

/// Gives up references of a graph.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphReleaseUserObject(
    graph: Handle,
    object: Handle,
    count: u32,
) -> Code {
    guard(|| {
        let driver = driver()?;
        check_count("count", count)?;
        let graph = driver.graphs.get(graph)?;
        let object = UserObject::find(&driver.user_objects, object)?;
        graph.references.remove("the graph", &object, count)
    })
}
