//! Functions that cudarc looks up and this driver does not have. They must exist: cudarc panics on a missing symbol.

use crate::driver::ffi::{Code, Error, guard};

/// Exports functions that ignore their arguments and return `CUDA_ERROR_NOT_SUPPORTED`.
macro_rules! unsupported {
    ($($name:ident: $what:literal;)*) => {$(
        #[doc = concat!("Not supported: ", $what, ".")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name() -> Code {
            guard(|| Err(Error::unsupported($what)))
        }
    )*};
}

unsupported! {
    cuImportExternalMemory: "external memory";
    cuExternalMemoryGetMappedBuffer: "external memory";
    cuDestroyExternalMemory: "external memory";
    cuOccupancyMaxActiveClusters: "thread block clusters";
    cuOccupancyMaxPotentialClusterSize: "thread block clusters";
}
