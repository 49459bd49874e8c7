//! For the feature `mpi`: compiles `src/mpi.c` with the MPI of this machine. Without MPI the feature
//! builds, too, and a program that is started by `mpirun` ends with an error.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-check-cfg=cfg(has_mpi)");
    #[cfg(feature = "mpi")]
    mpi();
}

#[cfg(feature = "mpi")]
fn mpi() {
    for variable in ["MPICC", "MPI_PKG_CONFIG", "CRAY_MPICH_DIR"] {
        println!("cargo:rerun-if-env-changed={variable}");
    }
    println!("cargo:rerun-if-changed=src/mpi.c");
    let Ok(library) = build_probe_mpi::probe() else {
        println!("cargo:warning=MPI was not found (`mpicc`): the ranks of this build are threads only");
        return;
    };
    let mut build = cc::Build::new();
    match &library.mpicc {
        Some(mpicc) => build.compiler(mpicc),
        None => build.includes(&library.include_paths),
    };
    build.file("src/mpi.c").compile("dl_mpi");
    for path in &library.lib_paths {
        println!("cargo:rustc-link-search=native={}", path.display());
    }
    for name in &library.libs {
        println!("cargo:rustc-link-lib={name}");
    }
    println!("cargo:rustc-cfg=has_mpi");
}
