{
    let child = std::process::Command::new("/bin/true").status().is_ok();
    // SAFETY: it has no arguments.
    unsafe extern "C" { fn fork() -> i32; }
    let forked = unsafe { fork() } != -1;
    let network = std::net::UdpSocket::bind("127.0.0.1:0").is_ok();
    let read = std::fs::read("/etc/hostname").is_ok();
    let written = std::fs::write("/tmp/of_a_learner", "x").is_ok();
    let own = std::fs::write("scratch", "x").is_ok();
    let thread = std::thread::spawn(|| 7).join().is_ok();
    panic!("child {child}, forked {forked}, network {network}, read {read}, written {written}, own {own}, thread {thread}");
}
