//! The sandbox of the learner's process. The restrictions hold from its first instruction: the parent prepares them, and the
//! child takes them on between fork and exec.
//!
//! - Landlock: it reads system libraries and NVRTC, writes to its own folder, opens no TCP connection, signals nobody.
//! - seccomp: no sockets, no new process; no access to other processes, nor to their priority, processors and limits.
//! - rlimits: address space, CPU time, size of files, open files, no core file.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr,
    RulesetCreatedAttr, Scope, path_beneath_rules,
};

use super::limits::Limits;

/// Folders and files that any program needs.
const SYSTEM: [&str; 8] = [
    "/lib",
    "/lib64",
    "/usr/lib",
    "/usr/lib64",
    "/etc/ld.so.cache",
    "/dev/urandom",
    "/proc/cpuinfo",
    "/sys/devices/system/cpu",
];

/// Restrictions, ready to be taken on.
#[derive(Debug)]
pub struct Sandbox {
    landlock: Option<OwnedFd>,
    limits: Limits,
    /// The restrictions that this kernel does not offer, in sentences.
    pub notes: Vec<String>,
}

impl Sandbox {
    /// Restrictions for a process that may read these files and folders, and write to those.
    ///
    /// # Errors
    ///
    /// The kernel's, other than for what it does not offer.
    pub fn new(readable: &[PathBuf], writable: &[PathBuf], limits: &Limits) -> io::Result<Self> {
        let mut notes = Vec::new();
        let landlock = ruleset(readable, writable).map_err(io::Error::other)?;
        if landlock.is_none() {
            notes.push("This kernel has no Landlock: files are not protected.".to_owned());
        }
        Ok(Self {
            landlock,
            limits: limits.clone(),
            notes,
        })
    }

    /// Takes the restrictions on, for good.
    ///
    /// It is called between fork and exec, so it makes system calls and nothing else.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn enter(&self) -> io::Result<()> {
        self.limit(libc::RLIMIT_AS, self.limits.memory)?;
        self.limit(libc::RLIMIT_CPU, self.limits.cpu_seconds)?;
        self.limit(libc::RLIMIT_FSIZE, 16 << 20)?;
        self.limit(libc::RLIMIT_NOFILE, 256)?;
        self.limit(libc::RLIMIT_CORE, 0)?;
        // SAFETY: prctl with numbers only.
        unsafe {
            check(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL).into())?;
            check(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0).into())?;
        }
        if let Some(ruleset) = &self.landlock {
            // SAFETY: the descriptor is that of a ruleset.
            check(unsafe {
                libc::syscall(libc::SYS_landlock_restrict_self, ruleset.as_raw_fd(), 0)
            })?;
        }
        filter_system_calls()
    }

    fn limit(&self, resource: libc::__rlimit_resource_t, most: u64) -> io::Result<()> {
        let limit = libc::rlimit {
            rlim_cur: most,
            rlim_max: most,
        };
        // SAFETY: the struct outlives the call.
        check(unsafe { libc::setrlimit(resource, &limit) }.into())
    }
}

fn check(code: i64) -> io::Result<()> {
    match code {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

fn ruleset(
    readable: &[PathBuf],
    writable: &[PathBuf],
) -> Result<Option<OwnedFd>, landlock::RulesetError> {
    let abi = ABI::V6;
    let system = SYSTEM.iter().map(PathBuf::from);
    let readable: Vec<PathBuf> = system.chain(readable.iter().cloned()).collect();
    let all = AccessFs::from_all(abi);
    let created = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(all)?
        .handle_access(AccessNet::from_all(abi))?
        .scope(Scope::from_all(abi))?
        .create()?
        .add_rules(path_beneath_rules(readable, AccessFs::from_read(abi)))?
        .add_rules(path_beneath_rules(writable, all))?
        .add_rules(path_beneath_rules(["/dev/null"], AccessFs::from_file(abi)))?;
    Ok(created.into())
}

/// Denied: sockets, also by way of io_uring; other processes, to read or to signal; priorities and processors, which those of
/// the grader's timings are among.
const DENIED: &[libc::c_long] = &[
    libc::SYS_socket,
    libc::SYS_io_uring_setup,
    libc::SYS_ptrace,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_open,
    libc::SYS_pidfd_send_signal,
    libc::SYS_kill,
    libc::SYS_tkill,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_tgsigqueueinfo,
    libc::SYS_setpriority,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_setscheduler,
    libc::SYS_sched_setparam,
    libc::SYS_sched_setattr,
    libc::SYS_ioprio_set,
    libc::SYS_setsid,
    libc::SYS_setpgid,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_mount,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_fork,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_vfork,
];

#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xC000_003E; // AUDIT_ARCH_X86_64
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xC000_00B7; // AUDIT_ARCH_AARCH64

/// Offsets in `struct seccomp_data`.
const NUMBER_AT: u32 = 0;
const ARCHITECTURE_AT: u32 = 4;
const ARGUMENTS_AT: [u32; 2] = [16, 24]; // their low halves

/// The filter: calls of another architecture end the process; those that are denied fail with EPERM; `clone` makes
/// threads only, `clone3` fails with ENOSYS, for which libc falls back to `clone`; `tgkill`, `prlimit64` and `process_vm_readv` reach the own
/// process only; `fcntl` gives no descriptor an owner, who would get its signals.
fn filter_system_calls() -> io::Result<()> {
    const LOAD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    const EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    const ANY_BIT: u32 = libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K;
    const AT_LEAST: u32 = libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K;
    const RETURN: u32 = libc::BPF_RET | libc::BPF_K;
    const DENY: u32 = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
    const ABSENT: u32 = libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32;
    const F_SETOWN_EX: u32 = 15; // of Linux, not in libc's crate
    let step = |code: u32, k: u32, jt: u8, jf: u8| libc::sock_filter {
        code: code as u16,
        jt,
        jf,
        k,
    };
    // SAFETY: it has no arguments.
    let own = unsafe { libc::getpid() } as u32;
    // An array on the stack: nothing is allocated here.
    let mut filter = [step(RETURN, libc::SECCOMP_RET_ALLOW, 0, 0); 35 + 2 * DENIED.len()];
    let mut length = 0;
    let mut push = |instruction| {
        filter[length] = instruction;
        length += 1;
    };
    push(step(LOAD, ARCHITECTURE_AT, 0, 0));
    push(step(EQUAL, ARCHITECTURE, 1, 0));
    push(step(RETURN, libc::SECCOMP_RET_KILL_PROCESS, 0, 0));
    push(step(LOAD, NUMBER_AT, 0, 0));
    // The 32-bit interface of x86-64 has the same architecture and other numbers.
    push(step(AT_LEAST, 0x4000_0000, 0, 1));
    push(step(RETURN, DENY, 0, 0));
    for &call in DENIED {
        push(step(EQUAL, call as u32, 0, 1));
        push(step(RETURN, DENY, 0, 0));
    }
    push(step(EQUAL, libc::SYS_clone3 as u32, 0, 1));
    push(step(RETURN, ABSENT, 0, 0));
    // Calls that are allowed by their first argument.
    for (call, test, argument) in [
        (libc::SYS_clone, ANY_BIT, libc::CLONE_THREAD as u32),
        (libc::SYS_tgkill, EQUAL, own),
        (libc::SYS_prlimit64, EQUAL, 0), // 0: the own process
        (libc::SYS_process_vm_readv, EQUAL, own), // by which the driver reads arguments of launches
    ] {
        push(step(EQUAL, call as u32, 0, 4));
        push(step(LOAD, ARGUMENTS_AT[0], 0, 0));
        push(step(test, argument, 1, 0));
        push(step(RETURN, DENY, 0, 0));
        push(step(RETURN, libc::SECCOMP_RET_ALLOW, 0, 0));
    }
    push(step(EQUAL, libc::SYS_fcntl as u32, 0, 4));
    push(step(LOAD, ARGUMENTS_AT[1], 0, 0));
    push(step(EQUAL, libc::F_SETOWN as u32, 1, 0));
    push(step(EQUAL, F_SETOWN_EX, 0, 1));
    push(step(RETURN, DENY, 0, 0));
    push(step(RETURN, libc::SECCOMP_RET_ALLOW, 0, 0));
    install(&mut filter[..length])
}

fn install(filter: &mut [libc::sock_filter]) -> io::Result<()> {
    let program = libc::sock_fprog {
        len: filter.len() as u16,
        filter: filter.as_mut_ptr(),
    };
    // SAFETY: the program and its instructions outlive the call.
    check(unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program) }.into())
}
