{
    // SAFETY: as the system's headers declare them.
    unsafe extern "C" {
        fn getppid() -> i32;
        fn kill(pid: i32, signal: i32) -> i32;
        fn setpriority(which: u32, who: u32, priority: i32) -> i32;
        fn sched_setaffinity(pid: i32, size: usize, mask: *const u64) -> i32;
        fn prlimit(pid: i32, resource: u32, new: *const u64, old: *mut u64) -> i32;
        fn fcntl(file: i32, command: i32, argument: i32) -> i32;
        fn process_vm_readv(pid: i32, to: *const [usize; 2], n: u64, from: *const [usize; 2], m: u64, flags: u64) -> isize;
    }
    let (mask, mut old, mut byte) = ([u64::MAX; 16], [0; 2], 0u8);
    // SAFETY: numbers, and pointers to arrays of those sizes.
    let (calls, own) = unsafe {
        let parent = getppid();
        let (to, from) = ([&raw mut byte as usize, 1], [mask.as_ptr() as usize, 1]);
        let read = |process| process_vm_readv(process, &to, 1, &from, 1, 0) as i32;
        let calls = [
            kill(parent, 0),
            setpriority(0, parent as u32, 0),
            sched_setaffinity(parent, 128, mask.as_ptr()),
            prlimit(parent, 4, std::ptr::null(), old.as_mut_ptr()),
            fcntl(0, 8, parent),
            read(parent),
        ];
        let own = [prlimit(0, 4, std::ptr::null(), old.as_mut_ptr()), read(std::process::id() as i32)];
        (calls, own)
    };
    panic!("others {calls:?}, own {own:?}");
}
