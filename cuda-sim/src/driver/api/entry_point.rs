//! Looks exported functions up by name and CUDA version, as `cuGetProcAddress` does.

use std::ffi::c_void;

use crate::{
    device::DRIVER_VERSION,
    driver::ffi::{Code, Error, In, Out, Result, Status, Text, guard},
    driver::install::address_of,
};

/// `CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM`.
const PER_THREAD_DEFAULT_STREAM: u64 = 2;

/// `CUdriverProcAddressQueryResult`.
#[derive(Clone, Copy)]
enum Query {
    Success = 0,
    NotFound = 1,
    VersionNotSufficient = 2,
}

/// Exported forms of the functions that have several, each with the CUDA version that brought it.
/// The forms of a function stand oldest first.
const FORMS: &[(&str, i32)] = &[
    ("cuCtxCreate_v2", 3020),
    ("cuCtxCreate_v3", 11040),
    ("cuCtxCreate_v4", 12050),
    ("cuCtxGetDevice", 2000),
    ("cuCtxGetDevice_v2", 13000),
    ("cuCtxSynchronize", 2000),
    ("cuCtxSynchronize_v2", 13000),
    ("cuDeviceGetUuid", 9020),
    ("cuDeviceGetUuid_v2", 11040),
    ("cuEventDestroy", 2000),
    ("cuEventDestroy_v2", 4000),
    ("cuEventElapsedTime", 2000),
    ("cuEventElapsedTime_v2", 12080),
    ("cuGetProcAddress", 11030),
    ("cuGetProcAddress_v2", 12000),
    ("cuGraphAddDependencies", 10000),
    ("cuGraphAddDependencies_v2", 12030),
    ("cuGraphAddKernelNode", 10000),
    ("cuGraphAddKernelNode_v2", 12000),
    ("cuGraphAddNode", 12020),
    ("cuGraphAddNode_v2", 12030),
    ("cuGraphAddNode_v3", 13020),
    ("cuGraphExecKernelNodeSetParams", 10010),
    ("cuGraphExecKernelNodeSetParams_v2", 12000),
    ("cuGraphExecUpdate", 10020),
    ("cuGraphExecUpdate_v2", 12000),
    ("cuGraphGetEdges", 10000),
    ("cuGraphGetEdges_v2", 12030),
    ("cuGraphInstantiate_v2", 10000),
    ("cuGraphInstantiateWithFlags", 12000),
    ("cuGraphKernelNodeGetParams", 10000),
    ("cuGraphKernelNodeGetParams_v2", 12000),
    ("cuGraphKernelNodeSetParams", 10000),
    ("cuGraphKernelNodeSetParams_v2", 12000),
    ("cuGraphNodeGetDependencies", 10000),
    ("cuGraphNodeGetDependencies_v2", 12030),
    ("cuGraphNodeGetDependentNodes", 10000),
    ("cuGraphNodeGetDependentNodes_v2", 12030),
    ("cuGraphNodeSetParams", 12020),
    ("cuGraphNodeSetParams_v2", 13020),
    ("cuGraphRemoveDependencies", 10000),
    ("cuGraphRemoveDependencies_v2", 12030),
    ("cuLaunchHostFunc", 10000),
    ("cuLaunchHostFunc_v2", 13020),
    ("cuMemAdvise", 8000),
    ("cuMemAdvise_v2", 12020),
    ("cuMemPrefetchAsync", 8000),
    ("cuMemPrefetchAsync_v2", 12020),
    ("cuMemcpy3DBatchAsync", 12080),
    ("cuMemcpy3DBatchAsync_v2", 13000),
    ("cuMemcpyBatchAsync", 12080),
    ("cuMemcpyBatchAsync_v2", 13000),
    ("cuMulticastBindAddr", 12010),
    ("cuMulticastBindAddr_v2", 13010),
    ("cuMulticastBindMem", 12010),
    ("cuMulticastBindMem_v2", 13010),
    ("cuStreamBatchMemOp", 8000),
    ("cuStreamBatchMemOp_v2", 11070),
    ("cuStreamGetCaptureInfo", 10010),
    ("cuStreamGetCaptureInfo_v2", 11030),
    ("cuStreamGetCaptureInfo_v3", 12030),
    ("cuStreamGetCtx", 9020),
    ("cuStreamGetCtx_v2", 12050),
    ("cuStreamUpdateCaptureDependencies", 11030),
    ("cuStreamUpdateCaptureDependencies_v2", 12030),
    ("cuStreamWaitValue32", 8000),
    ("cuStreamWaitValue32_v2", 11070),
    ("cuStreamWaitValue64", 9000),
    ("cuStreamWaitValue64_v2", 11070),
    ("cuStreamWriteValue32", 8000),
    ("cuStreamWriteValue32_v2", 11070),
    ("cuStreamWriteValue64", 9000),
    ("cuStreamWriteValue64_v2", 11070),
];

/// The name by which programs ask for a form: without its version.
fn name_of_form(form: &str) -> &str {
    match form {
        "cuGraphInstantiateWithFlags" => "cuGraphInstantiate",
        _ => form.split("_v").next().unwrap_or(form),
    }
}

/// The address of the newest form of `name` that a program written for CUDA `version` knows, and
/// that the CUDA of this driver has. The later forms are exported for programs that ask the library
/// for them.
fn find(name: &str, version: i32) -> (Option<*const c_void>, Query) {
    let version = version.min(DRIVER_VERSION);
    let forms = || FORMS.iter().filter(|(form, _)| name_of_form(form) == name);
    if forms().next().is_some() {
        return match forms().rfind(|(_, since)| *since <= version) {
            Some((form, _)) => (address_of(form), Query::Success),
            None => (None, Query::VersionNotSufficient),
        };
    }
    // Every other function has one form; from CUDA 3.2 and 4.0 on it is often called `_v2`, and
    // twice `_v3`.
    let found = ["", "_v2", "_v3"]
        .iter()
        .find_map(|suffix| address_of(&format!("{name}{suffix}")));
    match found {
        Some(address) => (Some(address), Query::Success),
        None => (None, Query::NotFound),
    }
}

fn look_up(
    symbol: &Text,
    address: &Out<*const c_void>,
    version: i32,
    flags: u64,
) -> Result<(Option<*const c_void>, Query)> {
    address.check("pfn")?;
    let name = symbol.get("symbol")?;
    match flags {
        0 | 1 => Ok(find(&name, version)),
        PER_THREAD_DEFAULT_STREAM => Err(Error::unsupported(
            "functions whose default stream is the calling thread's (CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)",
        )),
        _ => Err(Error::value(format!(
            "{flags:#x} is no CUdriverProcAddress_flags"
        ))),
    }
}

/// An undocumented table of functions: none. Compilers ask for one, and do without.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetExportTable(table: Out<*const c_void>, id: In<[u8; 16]>) -> Code {
    guard(|| {
        table.check("ppExportTable")?;
        id.get("pExportTableId")?;
        Err(Status::NotFound.error("cuda-sim has no undocumented tables of functions"))
    })
}

/// Address of a function, by name and CUDA version. A name that this driver does not have is
/// `CUDA_ERROR_NOT_FOUND`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetProcAddress(
    symbol: Text,
    address: Out<*const c_void>,
    version: i32,
    flags: u64,
) -> Code {
    guard(|| {
        let (found, _) = look_up(&symbol, &address, version, flags)?;
        let missing = || {
            Status::NotFound.error(format!(
                "cuda-sim has no such function for CUDA version {version}"
            ))
        };
        address.set("pfn", found.ok_or_else(missing)?)
    })
}

/// Address of a function, by name and CUDA version. A name that this driver does not have is no
/// error: the address is null, and `status` says why.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetProcAddress_v2(
    symbol: Text,
    address: Out<*const c_void>,
    version: i32,
    flags: u64,
    status: Out<u32>,
) -> Code {
    guard(|| {
        let (found, query) = look_up(&symbol, &address, version, flags)?;
        status.set_if_given(query as u32);
        address.set("pfn", found.unwrap_or(std::ptr::null()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_exported_function_is_found_by_the_name_without_its_version() {
        for exported in include_str!("../../../symbols.txt").lines() {
            let form = FORMS.iter().find(|(form, _)| *form == exported);
            let version = form.map_or(DRIVER_VERSION, |&(_, since)| since);
            let (found, _) = find(name_of_form(exported), version);
            assert!(found.is_some(), "{exported}");
            assert_eq!(
                found == address_of(exported),
                version <= DRIVER_VERSION,
                "{exported} for CUDA {version}"
            );
        }
    }

    #[test]
    fn the_version_chooses_the_form() {
        for (version, form) in [
            (3020, "cuCtxCreate_v2"),
            (11030, "cuCtxCreate_v2"),
            (11040, "cuCtxCreate_v3"),
            (12080, "cuCtxCreate_v4"),
            (i32::MAX, "cuCtxCreate_v4"),
        ] {
            assert_eq!(
                find("cuCtxCreate", version).0,
                address_of(form),
                "{version}"
            );
        }
        assert!(matches!(
            find("cuCtxCreate", 3010),
            (None, Query::VersionNotSufficient)
        ));
        assert!(matches!(find("cuNothing", 12080), (None, Query::NotFound)));
        assert!(matches!(find("", 12080), (None, Query::NotFound)));
    }

    #[test]
    fn the_newest_form_of_what_is_simulated_is_simulated() {
        let page = include_str!("unsupported.rs");
        let lacks = |form: &str| page.split_whitespace().any(|name| name == form);
        assert!(lacks("cuGraphExecUpdate_v2"));
        for (form, _) in FORMS.iter().filter(|(form, _)| !lacks(form)) {
            let is_known = |(other, since): &&(&str, i32)| {
                name_of_form(other) == name_of_form(form) && *since <= DRIVER_VERSION
            };
            if let Some((newest, _)) = FORMS.iter().rfind(is_known) {
                assert!(!lacks(newest), "{form} is simulated, {newest} is not");
            }
        }
    }
}
