//! The simulated device in a browser: PTX and the comments that state its launch go in, results,
//! reports and counters come out, all as JSON.
//!
//! ```
//! let mut device = gpu_web::device()?;
//! let arguments = "f32[9]=iota f32[9]=ones f32[9]=uninit i32=9";
//! let request = serde_json::json!({
//!     "ptx": include_str!("../../ptx/vector_add.ptx"),
//!     "launch": format!("// launch: grid=1 block=256\n// args: {arguments}"),
//!     "values": 3,
//! });
//! let answer = gpu_web::answer(&mut device, &request.to_string());
//! assert_eq!(answer.buffers[2].values, ["1", "2", "3"]);
//! assert_eq!(answer.launches[0]["figures"]["flops_f32"]["value"], 9.0);
//! # Ok::<(), cuda_sim::InstallError>(())
//! ```
//!
//! - `request`: what is asked; [`answer`]: what comes back, and how
//! - `device`: [`gpu_launch::Device`] by [`cuda_sim::Simulator`]
//! - `exports`: the functions of the WebAssembly module; `book/theme/simulator.js` calls them

mod answer;
mod device;
#[cfg(target_arch = "wasm32")]
mod exports;
mod request;

pub use answer::{Answer, Buffer, Fault, answer};
pub use request::{Request, TraceRequest};

use cuda_sim::{InstallError, Simulator};

/// Device memory, in bytes. Records of accesses take nine times as much of the page's memory.
const MEMORY: u64 = 8 << 20;

/// A device for a page.
///
/// # Errors
/// There is too little memory.
pub fn device() -> Result<Simulator, InstallError> {
    Simulator::new(MEMORY)
}
