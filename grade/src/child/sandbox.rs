//! The sandbox of the compiler and of the learner's process. The restrictions hold from the first instruction of a program: the
//! parent prepares them, and the child takes them on between fork and exec. Processes that it starts inherit them.
//!
//! - Landlock: it reads and writes what it is allowed, opens no TCP connection, signals nobody outside.
//! - seccomp: no sockets; no new process, if not allowed; no access to other processes, nor to their priority, processors and
//!   limits.
//! - rlimits: address space, CPU time, size of files, open files, no core file.
//! - It inherits no open file but its three pipes.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr,
    RulesetCreatedAttr, Scope, path_beneath_rules,
};

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

/// What a confined program may use, besides [`SYSTEM`].
#[derive(Debug, Clone)]
pub struct Allowed {
    /// Files and folders to read.
    pub readable: Vec<PathBuf>,
    /// Folders to read and write.
    pub writable: Vec<PathBuf>,
    /// Address space of a process, in bytes.
    pub memory: u64,
    /// CPU time of all threads of a process, in seconds.
    pub cpu_seconds: u64,
    /// Size of a file that is written, in bytes.
    pub file: u64,
    /// True if it may start processes, which have the same restrictions: the compiler starts a linker.
    pub processes: bool,
}

/// What this kernel does not offer, in a sentence.
pub fn note() -> Option<&'static str> {
    let nothing = Allowed {
        readable: Vec::new(),
        writable: Vec::new(),
        memory: 0,
        cpu_seconds: 0,
        file: 0,
        processes: false,
    };
    match ruleset(&nothing) {
        Ok(None) => Some(
            "This kernel has no Landlock: builds and programs of a submission can read any file.",
        ),
        _ => None,
    }
}

/// Restrictions, ready to be taken on.
#[derive(Debug)]
pub struct Sandbox {
    landlock: Option<OwnedFd>,
    allowed: Allowed,
}

impl Sandbox {
    /// Restrictions for a program that may use this.
    ///
    /// # Errors
    ///
    /// The kernel's, other than for what it does not offer.
    pub fn new(allowed: Allowed) -> io::Result<Self> {
        let landlock = ruleset(&allowed).map_err(io::Error::other)?;
        Ok(Self { landlock, allowed })
    }

    /// Confines a program that will be started.
    pub fn confine(self, command: &mut Command) {
        // SAFETY: `enter` makes system calls and allocates nothing.
        unsafe { command.pre_exec(move || self.enter()) };
    }

    /// Takes the restrictions on, for good.
    ///
    /// It is called between fork and exec, so it makes system calls and nothing else.
    fn enter(&self) -> io::Result<()> {
        limit(libc::RLIMIT_AS, self.allowed.memory)?;
        limit(libc::RLIMIT_CPU, self.allowed.cpu_seconds)?;
        limit(libc::RLIMIT_FSIZE, self.allowed.file)?;
        limit(libc::RLIMIT_NOFILE, 256)?;
        limit(libc::RLIMIT_CORE, 0)?;
        // SAFETY: numbers only.
        unsafe {
            // By exec, not now: one of them reports errors to the parent. Kernels before 5.11 cannot do it.
            libc::syscall(
                libc::SYS_close_range,
                3,
                u32::MAX,
                libc::CLOSE_RANGE_CLOEXEC,
            );
            check(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL).into())?;
            check(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0).into())?;
        }
        if let Some(ruleset) = &self.landlock {
            // SAFETY: the descriptor is that of a ruleset.
            check(unsafe {
                libc::syscall(libc::SYS_landlock_restrict_self, ruleset.as_raw_fd(), 0)
            })?;
        }
        filter_system_calls(self.allowed.processes)
    }
}

fn limit(resource: libc::__rlimit_resource_t, most: u64) -> io::Result<()> {
    let limit = libc::rlimit {
        rlim_cur: most,
        rlim_max: most,
    };
    // SAFETY: the struct outlives the call.
    check(unsafe { libc::setrlimit(resource, &limit) }.into())
}

fn check(code: i64) -> io::Result<()> {
    match code {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

fn ruleset(allowed: &Allowed) -> Result<Option<OwnedFd>, landlock::RulesetError> {
    let abi = ABI::V6;
    let system = SYSTEM.iter().map(PathBuf::from);
    let readable: Vec<PathBuf> = system.chain(allowed.readable.iter().cloned()).collect();
    let all = AccessFs::from_all(abi);
    let created = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(all)?
        .handle_access(AccessNet::from_all(abi))?
        .scope(Scope::from_all(abi))?
        .create()?
        .add_rules(path_beneath_rules(readable, AccessFs::from_read(abi)))?
        .add_rules(path_beneath_rules(&allowed.writable, all))?
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
];

/// Denied as well, if it may start no process.
#[cfg(target_arch = "x86_64")]
const STARTING: &[libc::c_long] = &[libc::SYS_fork, libc::SYS_vfork];
#[cfg(not(target_arch = "x86_64"))]
const STARTING: &[libc::c_long] = &[];

/// The flags of `clone` that make namespaces. In one of its own, a process has rights that it has not outside.
const NAMESPACES: libc::c_int = libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET;

#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xC000_003E; // AUDIT_ARCH_X86_64
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xC000_00B7; // AUDIT_ARCH_AARCH64

/// Offsets in `struct seccomp_data`.
const NUMBER_AT: u32 = 0;
const ARCHITECTURE_AT: u32 = 4;
const ARGUMENTS_AT: [u32; 2] = [16, 24]; // their low halves

/// The filter: calls of another architecture end the process; those that are denied fail with EPERM; `clone` makes threads,
/// and processes if they are allowed, but no namespaces; `clone3` fails with ENOSYS, for which libc falls back to `clone`;
/// `tgkill`, `prlimit64` and `process_vm_readv` reach the process that entered the sandbox, which any other is not;
/// `fcntl` gives no descriptor an owner, who would get its signals.
fn filter_system_calls(processes: bool) -> io::Result<()> {
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
    const ROOM: usize = 35 + 2 * (DENIED.len() + STARTING.len());
    let mut filter = [step(RETURN, libc::SECCOMP_RET_ALLOW, 0, 0); ROOM];
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
    let starting = if processes { &[] } else { STARTING };
    for &call in DENIED.iter().chain(starting) {
        push(step(EQUAL, call as u32, 0, 1));
        push(step(RETURN, DENY, 0, 0));
    }
    push(step(EQUAL, libc::SYS_clone3 as u32, 0, 1));
    push(step(RETURN, ABSENT, 0, 0));
    push(step(EQUAL, libc::SYS_clone as u32, 0, 4));
    push(step(LOAD, ARGUMENTS_AT[0], 0, 0));
    let (bits, if_any, if_none) = match processes {
        true => (NAMESPACES, 0, 1),
        false => (libc::CLONE_THREAD, 1, 0),
    };
    push(step(ANY_BIT, bits as u32, if_any, if_none));
    push(step(RETURN, DENY, 0, 0));
    push(step(RETURN, libc::SECCOMP_RET_ALLOW, 0, 0));
    // Calls that are allowed by their first argument.
    for (call, argument) in [
        (libc::SYS_tgkill, own),
        (libc::SYS_prlimit64, 0),          // 0: the own process
        (libc::SYS_process_vm_readv, own), // by which the driver reads arguments of launches
    ] {
        push(step(EQUAL, call as u32, 0, 4));
        push(step(LOAD, ARGUMENTS_AT[0], 0, 0));
        push(step(EQUAL, argument, 1, 0));
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
