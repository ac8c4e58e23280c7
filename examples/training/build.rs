//! Tells cargo that the kernels and their committed PTX, which `gpu::bundle!` embeds, are inputs of
//! this crate.

fn main() {
    println!("cargo:rerun-if-changed=kernels");
    println!("cargo:rerun-if-changed=ptx");
}
