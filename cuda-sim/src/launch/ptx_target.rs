//! The `.target` of a PTX module, and its check against the device.

use crate::{
    settings::device,
    status::{Result, Status},
};

/// The architecture that PTX is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PtxTarget {
    /// `10 × major + minor`; 0 if the PTX does not say.
    pub(crate) capability: u32,
    /// `a`: for that architecture and no other. `f`: for later ones of the same major number too.
    suffix: Option<char>,
}

impl PtxTarget {
    /// From the first `.target sm_…` of a module.
    pub(crate) fn declared_in(ptx: &str) -> Self {
        let after = ptx
            .split_once(".target")
            .map_or("", |(_, after)| after.trim_start());
        let digits = after.strip_prefix("sm_").unwrap_or("");
        let end = digits
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(digits.len());
        Self {
            capability: digits[..end].parse().unwrap_or(0),
            suffix: digits[end..]
                .chars()
                .next()
                .filter(|c| matches!(c, 'a' | 'f')),
        }
    }

    /// An error if the device cannot run it, with the code that NVIDIA's driver gives.
    pub(crate) fn check(self) -> Result {
        let PtxTarget { capability, suffix } = self;
        let device = device();
        let fits = match suffix {
            None => capability <= device.capability.number,
            Some('f') => {
                (capability..capability / 10 * 10 + 10).contains(&device.capability.number)
            }
            Some(_) => capability == device.capability.number,
        };
        if fits {
            return Ok(());
        }
        let text = format!(
            "the PTX is for sm_{capability}{}, and {} is sm_{}: compile for compute_{} (CUDA_SIM_DEVICE chooses the device)",
            suffix.map(String::from).unwrap_or_default(),
            device.full_name(),
            device.capability.number,
            device.capability.number.min(capability),
        );
        Err(Status::InvalidPtx.error(text))
    }
}

#[cfg(test)]
mod tests {
    use super::PtxTarget;

    #[test]
    fn target_is_read_from_the_directive() {
        let target = |ptx| {
            let target = PtxTarget::declared_in(ptx);
            (target.capability, target.suffix)
        };
        assert_eq!(
            target(".version 8.4\n.target sm_75\n.address_size 64"),
            (75, None)
        );
        assert_eq!(
            target(".target sm_90a, texmode_independent"),
            (90, Some('a'))
        );
        assert_eq!(target(".target sm_100f"), (100, Some('f')));
        assert_eq!(target(".target"), (0, None));
        assert_eq!(target(""), (0, None));
        // The tests' device is sm_90.
        for (ptx, fits) in [
            (".target sm_90a", true),
            (".target sm_90f", true),
            (".target sm_80", true),
            (".target sm_80a", false),
            (".target sm_80f", false),
            (".target sm_91", false),
        ] {
            assert_eq!(PtxTarget::declared_in(ptx).check().is_ok(), fits, "{ptx}");
        }
    }
}
