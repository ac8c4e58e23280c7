//! Settings: the environment variables `CUDA_SIM_…`, read once, when the driver starts.

use std::{ffi::OsString, ops::RangeInclusive, path::PathBuf, str::FromStr, sync::LazyLock};

use crate::{
    device::{DEVICES, Device},
    install_error::InstallError,
};

/// Settings of the environment.
#[derive(Debug, PartialEq)]
pub(crate) struct Settings {
    /// Host threads that run blocks; as many as there are cores if the environment does not say.
    pub(crate) threads: Option<usize>,
    /// Device memory in bytes.
    pub(crate) memory: Option<u64>,
    /// Instructions that one warp may run.
    pub(crate) budget: u64,
    /// Instructions that all warps of a launch together may run.
    pub(crate) launch_budget: u64,
    /// Permutes the order of blocks and warps.
    pub(crate) seed: Option<u64>,
    /// True if launches look for races and uninitialised reads.
    pub(crate) checks: bool,
    /// Mode of adding floats in matrix products.
    pub(crate) mma: MmaMode,
    pub(crate) device: &'static Device,
    /// Destination of reports of faults.
    pub(crate) report: Option<Target>,
}

/// Mode in which `mma` adds the products of floats. README.md, "Matrix products", has the
/// definitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MmaMode {
    /// As measurements of tensor cores have shown.
    Exact,
    /// By fused multiply-adds in f32, in the order of the columns of A.
    Fast,
}

/// Destination of reports (`CUDA_SIM_REPORT`).
#[derive(Debug, PartialEq)]
pub(crate) enum Target {
    Off,
    Stderr,
    /// A file, at the end of which reports are added.
    File(PathBuf),
}

impl Target {
    /// From the variable's value.
    pub(crate) fn parse(text: &str) -> Option<Target> {
        match text {
            "" => None,
            "off" => Some(Target::Off),
            "stderr" => Some(Target::Stderr),
            path => Some(Target::File(path.into())),
        }
    }
}

static DEFAULTS: Settings = Settings {
    threads: None,
    memory: None,
    budget: 1 << 28,
    launch_budget: 1 << 36,
    seed: None,
    checks: true,
    mma: MmaMode::Exact,
    device: &DEVICES[0],
    report: None,
};

static CHOSEN: LazyLock<Result<Settings, InstallError>> =
    LazyLock::new(|| Settings::read(|name| std::env::var_os(name)));

/// The settings of this process.
///
/// # Errors
/// A variable whose value is wrong. The driver does not start then.
pub(crate) fn chosen() -> Result<&'static Settings, InstallError> {
    CHOSEN.as_ref().map_err(Clone::clone)
}

/// [`chosen`], for what runs only when the driver has started.
pub(crate) fn settings() -> &'static Settings {
    CHOSEN.as_ref().unwrap_or(&DEFAULTS)
}

/// The device that `CUDA_SIM_DEVICE` names, or the default.
pub(crate) fn device() -> &'static Device {
    settings().device
}

/// Bytes of memory of the product whose times are modelled. `cuDeviceTotalMem` has the simulator's
/// memory instead, which is usually less (`CUDA_SIM_MEMORY`): a time can be modelled for problems
/// that do not fit.
pub fn product_memory() -> u64 {
    device().memory_bytes
}

impl Settings {
    /// The settings in an environment whose variables `variable` looks up.
    fn read(variable: impl Fn(&str) -> Option<OsString>) -> Result<Settings, InstallError> {
        let whole = |name, least, most, unit| {
            let takes = || format!("a whole number{unit} from {least} to {most}");
            setting(&variable, name, takes, |text| number(text, least..=most))
        };
        let devices = || format!("one of {}", DEVICES.map(|device| device.name).join(", "));
        let device = |text: &str| DEVICES.iter().find(|device| device.name == text);
        let on_or_off = |text: &str| match text {
            "on" => Some(true),
            "off" => Some(false),
            _ => None,
        };
        let exact_or_fast = |text: &str| match text {
            "exact" => Some(MmaMode::Exact),
            "fast" => Some(MmaMode::Fast),
            _ => None,
        };
        let threads = whole("CUDA_SIM_THREADS", 1, 4096, " of host threads")?;
        let memory = whole("CUDA_SIM_MEMORY", 1, 1 << 20, " of MiB")?;
        let budget = whole("CUDA_SIM_BUDGET", 1, u64::MAX, " of instructions")?;
        let launch_budget = whole("CUDA_SIM_LAUNCH_BUDGET", 1, u64::MAX, " of instructions")?;
        let seed = whole("CUDA_SIM_SEED", 0, u64::MAX, "")?;
        let checks = setting(
            &variable,
            "CUDA_SIM_CHECK",
            || "on or off".into(),
            on_or_off,
        )?;
        let mma = setting(
            &variable,
            "CUDA_SIM_MMA",
            || "exact or fast".into(),
            exact_or_fast,
        )?;
        let device = setting(&variable, "CUDA_SIM_DEVICE", devices, device)?;
        let report = setting(
            &variable,
            "CUDA_SIM_REPORT",
            || "off, stderr, or the path of a file".into(),
            Target::parse,
        )?;
        Ok(Settings {
            threads: threads.map(|threads| threads as usize),
            memory: memory.map(|mebibytes| mebibytes << 20),
            budget: budget.unwrap_or(DEFAULTS.budget),
            launch_budget: launch_budget.unwrap_or(DEFAULTS.launch_budget),
            seed,
            checks: checks.unwrap_or(DEFAULTS.checks),
            mma: mma.unwrap_or(DEFAULTS.mma),
            device: device.unwrap_or(DEFAULTS.device),
            report,
        })
    }
}

/// The value of a variable, without white space around it; `None` if it is not set.
fn setting<T>(
    variable: impl Fn(&str) -> Option<OsString>,
    name: &'static str,
    takes: impl Fn() -> String,
    parse: impl Fn(&str) -> Option<T>,
) -> Result<Option<T>, InstallError> {
    let Some(value) = variable(name) else {
        return Ok(None);
    };
    let value = value.to_string_lossy();
    let parsed = parse(value.trim()).ok_or_else(|| InstallError::Setting {
        name,
        value: value.into_owned(),
        takes: takes(),
    })?;
    Ok(Some(parsed))
}

fn number<T: FromStr + PartialOrd>(text: &str, range: RangeInclusive<T>) -> Option<T> {
    text.parse().ok().filter(|number| range.contains(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(name: &str, value: &str) -> Result<Settings, InstallError> {
        Settings::read(|asked| (asked == name).then(|| value.into()))
    }

    #[test]
    fn each_variable_changes_its_setting() {
        assert_eq!(Settings::read(|_| None).as_ref(), Ok(&DEFAULTS));
        let read = |name, value| read(name, value).expect("a good value");
        assert_eq!(read("CUDA_SIM_THREADS", "3").threads, Some(3));
        assert_eq!(read("CUDA_SIM_MEMORY", " 64 ").memory, Some(64 << 20));
        assert_eq!(read("CUDA_SIM_BUDGET", "1").budget, 1);
        assert_eq!(read("CUDA_SIM_LAUNCH_BUDGET", "2").launch_budget, 2);
        assert_eq!(read("CUDA_SIM_SEED", "0").seed, Some(0));
        assert!(!read("CUDA_SIM_CHECK", "off").checks);
        assert!(read("CUDA_SIM_CHECK", "on").checks);
        assert_eq!(read("CUDA_SIM_MMA", "fast").mma, MmaMode::Fast);
        assert_eq!(read("CUDA_SIM_MMA", " exact").mma, MmaMode::Exact);
        assert_eq!(read("CUDA_SIM_DEVICE", "t4").device.name, "t4");
        assert_eq!(read("CUDA_SIM_REPORT", "off").report, Some(Target::Off));
        let file = Some(Target::File("/tmp/faults".into()));
        assert_eq!(read("CUDA_SIM_REPORT", "/tmp/faults").report, file);
    }

    #[test]
    fn a_wrong_value_is_an_error_that_names_the_variable_and_what_it_takes() {
        for (name, takes, values) in [
            (
                "CUDA_SIM_THREADS",
                "host threads from 1 to 4096",
                &["", "0", "-1", "4097", "two"][..],
            ),
            (
                "CUDA_SIM_MEMORY",
                "MiB from 1 to 1048576",
                &["", "0", "-1", "4G", "1.5", "99999999999"],
            ),
            (
                "CUDA_SIM_BUDGET",
                "instructions from 1",
                &["", "0", "x", "1e6", "18446744073709551616"],
            ),
            ("CUDA_SIM_SEED", "number from 0", &["", "abc", "-1", "0x1"]),
            (
                "CUDA_SIM_CHECK",
                "on or off",
                &["", "maybe", "OFF", "0", "false"],
            ),
            ("CUDA_SIM_MMA", "exact or fast", &["", "Fast", "on", "f32"]),
            ("CUDA_SIM_DEVICE", "rtx4090", &["", "v100", "H100"]),
            ("CUDA_SIM_REPORT", "path of a file", &["", " "]),
        ] {
            for value in values {
                let error = read(name, value).expect_err(value);
                let text = error.to_string();
                assert!(text.contains(name) && text.contains(takes), "{text}");
                assert!(text.contains(&format!("`{value}`")), "{text}");
            }
        }
    }
}
