//! Where a time comes from, and the clock of a device.

use std::fmt;
use std::sync::Arc;

use anyhow::Context;
use cudarc::driver::sys::CUevent_flags;
use cudarc::driver::{CudaEvent, CudaStream, DriverError};
use serde::Serialize;

/// Where a time comes from; a later variant is further from a clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum How {
    /// By the clock of a GPU.
    Measured,
    /// By the clock of a GPU, for a part of the batch that fits into memory, times
    /// the number of such parts.
    Chunked,
    /// From the counted work of the whole problem.
    Modelled,
    /// From the counted work of smaller problems.
    Extrapolated,
}

impl fmt::Display for How {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Measured => "measured",
            Self::Chunked => "measured in chunks",
            Self::Modelled => "modelled",
            Self::Extrapolated => "modelled, extrapolated",
        })
    }
}

/// Seconds of one run on the device's own clock: the median of `runs`, after one to warm up.
/// `launch` launches on `stream`, and does not wait.
///
/// All runs are queued before the first is waited for. So the host prepares one while another runs,
/// and the driver keeps the memory that a run allocates, which it would give back whenever it is
/// waited for: neither counts as the device's time.
///
/// # Errors
///
/// Those of `launch`, and the driver's.
pub fn median_seconds<E>(
    stream: &Arc<CudaStream>,
    runs: usize,
    mut launch: impl FnMut() -> Result<(), E>,
) -> anyhow::Result<f64>
where
    anyhow::Error: From<E>,
{
    let flags = Some(CUevent_flags::CU_EVENT_DEFAULT);
    launch()?;
    let mut events = Vec::with_capacity(runs);
    for _ in 0..runs.max(1) {
        let start = stream.record_event(flags)?;
        launch()?;
        events.push((start, stream.record_event(flags)?));
    }
    stream.synchronize()?;
    let seconds = |(start, end): &(CudaEvent, CudaEvent)| Ok(start.elapsed_ms(end)? / 1e3);
    let times: Result<Vec<f32>, DriverError> = events.iter().map(seconds).collect();
    let mut times = times?;
    times.sort_by(f32::total_cmp);
    let median = times.get(times.len() / 2).context("one run at least")?;
    Ok(f64::from(*median))
}
