//! Writes the sources of all kernels for CUDA to a folder: `compile.py` compiles them.

#![forbid(unsafe_code)]

use std::path::PathBuf;

fn main() -> std::io::Result<()> {
    let folder = PathBuf::from(std::env::args().nth(1).expect("the folder is an argument"));
    std::fs::create_dir_all(&folder)?;
    for (name, text) in dl_gpu::sources_of_cuda() {
        std::fs::write(folder.join(name + ".cu"), text)?;
    }
    Ok(())
}
