//! Trace of one warp of a launch, as JSON, and pictures of it. `gpu trace` writes the JSON, `gpu
//! picture` draws, and the book does both with recordings that are committed.
//!
//! - `recording`: [`Recording`], the format of the JSON
//! - `access`: [`accesses`], which draws lanes and the sectors or banks that they access
//! - `canvas`: [`Canvas`], which writes SVG; `figures.css` has the colours, light and dark

mod access;
mod canvas;
mod recording;

pub use access::{Picture, accesses};
pub use canvas::{At, Canvas, escaped};
pub use recording::{
    Access, Array, FORMAT, Kind, Pass, Recording, RecordingError, Scalar, Space, Step, Word,
};
