//! Remarks on a module's code: no faults, but what is likely a mistake.

use std::sync::Arc;

use super::analysis::volatile_exchange;
use super::kernel::Kernel;
use super::module::Module;

/// A remark on a kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remark {
    /// Kernel name.
    pub kernel: String,
    /// Source file and line, when the PTX has line information.
    pub source: Option<(String, u32)>,
    /// One sentence.
    pub text: &'static str,
}

/// Remarks on the kernels of PTX text, by name; none on text that is not PTX.
pub fn remarks(ptx: &str) -> Vec<Remark> {
    let Ok(module) = Module::load(ptx) else {
        return Vec::new();
    };
    let remark = |kernel: &Arc<Kernel>| {
        let load = volatile_exchange::first_load(&kernel.code)?;
        let source = kernel.source_of(load as u32);
        Some(Remark {
            kernel: kernel.name.clone(),
            source: source.map(|source| (source.file, source.line)),
            text: "lanes of a warp pass values on through volatile shared memory with no __syncwarp() between; \
                   since Volta they need not run in step, and this is a race",
        })
    };
    module.kernels().iter().filter_map(remark).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(body: &str) -> Vec<Option<u32>> {
        let ptx = format!(
            ".version 8.4\n.target sm_75\n.address_size 64\n.file 1 \"a.cu\"\n.visible .entry t()\n{{\n\
             .reg .b32 %r<9>;\n.shared .align 4 .b8 s[256];\nmov.u32 %r1, %tid.x;\nshl.b32 %r2, %r1, 2;\n\
             mov.u32 %r3, s;\nadd.u32 %r3, %r3, %r2;\n{body}\nret;\n}}\n"
        );
        let found = remarks(&ptx);
        found
            .into_iter()
            .map(|r| r.source.map(|(_, line)| line))
            .collect()
    }

    #[test]
    fn sums_of_lanes_in_step_are_remarked_on() {
        let step = |offset: u32, line: u32| {
            format!(
                ".loc 1 {line} 0\nld.volatile.shared.u32 %r4, [%r3+{offset}];\nld.volatile.shared.u32 %r5, [%r3];\n\
                 add.u32 %r5, %r5, %r4;\nst.volatile.shared.u32 [%r3], %r5;\n"
            )
        };
        let both = |between: &str| lines(&(step(64, 2) + between + &step(32, 3)));
        assert_eq!(both(""), [Some(3)]);
        assert_eq!(both("bar.warp.sync -1;\n"), []);
        assert_eq!(both("bar.sync 0;\n"), []);
        // One step, and a thread that waits at its own place.
        assert_eq!(lines(&step(64, 2)), []);
        assert_eq!(lines(&(step(0, 2) + &step(0, 3))), []);
        // Another base.
        assert_eq!(both("add.u32 %r3, %r3, 4;\n"), []);
    }
}
