//! Rebuilds the crate when a kernel changes: the kernels and their
//! committed PTX are embedded in it.

fn main() {
    println!("cargo:rerun-if-changed=kernels");
    println!("cargo:rerun-if-changed=ptx");
}
