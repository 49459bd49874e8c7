//! `.npy` files: written by NumPy (`npy/write.py`), written by this crate, and malformed.

use dl_nd::{Nd, NpyItem, Rank};
use ndarray::{Ix0, Ix1, Ix2, IxDyn};
use std::path::PathBuf;

fn numpy_file(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests/npy", name].iter().collect()
}

#[test]
fn npy_files_of_numpy_are_read() {
    let floats = Nd::<f64>::read_npy(numpy_file("floats.npy")).unwrap();
    assert_eq!(floats, Nd::from([[1.5, -2.0, 3.0], [4.0, f64::INFINITY, 6.25]]));
    let columns_first = Nd::<i64, IxDyn>::read_npy(numpy_file("fortran.npy")).unwrap();
    assert_eq!(columns_first, Nd::from([[1, 2, 3], [4, 5, 6]]).into_dyn());
    assert_eq!(Nd::<bool, Ix1>::read_npy(numpy_file("mask.npy")).unwrap(), Nd::from([true, false, true]));
    assert_eq!(Nd::<f32, Ix1>::read_npy(numpy_file("big_endian.npy")).unwrap(), Nd::from([1.0, -0.5]));
    assert_eq!(Nd::<f32, Ix0>::read_npy(numpy_file("number.npy")).unwrap(), Nd::from(2.5));
}

fn round_trip<A: NpyItem, D: Rank>(x: Nd<A, D>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.npy");
    x.write_npy(&path).unwrap();
    assert_eq!(Nd::read_npy(&path).unwrap(), x);
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1, "no other files remain");
}

#[test]
fn npy_write_then_read_round_trips() {
    round_trip(Nd::from([[1.0_f32, 2.0], [3.0, 4.0]]));
    round_trip(Nd::from(ndarray::arr2(&[[1.0_f64, 2.0], [3.0, 4.0]]).reversed_axes()));
    round_trip(Nd::from(-1_i32));
    round_trip(Nd::<u8, _>::full([2, 0, 3], 1));
}

/// Writing follows a symbolic link. An existing file keeps its permissions; a new one has the
/// default permissions.
#[test]
#[cfg(unix)]
fn npy_write_preserves_links_and_permissions() {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let mode = |name: &str| fs::metadata(at(name)).unwrap().permissions().mode() & 0o777;
    fs::write(at("plain"), "").unwrap();
    symlink("x.npy", at("link.npy")).unwrap();
    // the first iteration creates the file
    for (number, expected) in [(1.0, mode("plain")), (2.0, 0o640)] {
        let x = Nd::from(number);
        x.write_npy(at("link.npy")).unwrap();
        assert!(at("link.npy").is_symlink());
        assert_eq!(Nd::read_npy(at("x.npy")).unwrap(), x);
        assert_eq!(mode("x.npy"), expected);
        fs::set_permissions(at("x.npy"), Permissions::from_mode(0o640)).unwrap();
    }
    fs::create_dir(at("folder")).unwrap();
    let error = Nd::from(1.0).write_npy(at("folder")).unwrap_err();
    assert!(error.to_string().contains("not a regular file"), "{error}");
    symlink("round", at("round")).unwrap();
    assert!(Nd::from(1.0).write_npy(at("round")).is_err());
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 5, "no other files remain");
}

#[test]
fn npy_read_of_malformed_file_returns_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.npy");
    let good = std::fs::read(numpy_file("floats.npy")).unwrap();
    let error_of = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        let error = Nd::<f64>::read_npy(&path).unwrap_err();
        assert!(error.to_string().contains("x.npy"), "{error}");
        error.to_string()
    };
    for length in 0..good.len() {
        error_of(&good[..length]);
    }
    let with_shape = |shape: &str| {
        let text = String::from_utf8_lossy(&good[..128]).replace("(2, 3), }                ", shape);
        assert!(text.contains(shape));
        let mut bytes = good.clone();
        for (byte, new) in bytes[10..128].iter_mut().zip(text.chars().skip(10)) {
            *byte = new as u8;
        }
        error_of(&bytes)
    };
    assert!(with_shape("(1152921504606846976, 1)}").contains("too few"));
    assert!(with_shape("(9999999999999,999999999)}").contains("x.npy"));
    error_of(b"\x93NUMPY\x02\x00\xff\xff\xff\xff{");
    error_of(b"no such file");
    assert!(error_of(&[&good[..], &[0]].concat()).contains("more bytes follow the 6 elements"));

    let error = Nd::<f32>::read_npy(numpy_file("floats.npy")).unwrap_err().to_string();
    assert!(error.contains("f8"), "{error}");
    let error = Nd::<f64, Ix1>::read_npy(numpy_file("floats.npy")).unwrap_err().to_string();
    assert!(error.contains("[2, 3]") && error.contains("1 axes"), "{error}");
    assert!(Nd::<f64, Ix2>::read_npy("/nowhere/x.npy").unwrap_err().to_string().contains("/nowhere/x.npy"));
    let nowhere = Nd::from([[1.0]]).write_npy("/nowhere/x.npy").unwrap_err();
    assert!(nowhere.to_string().contains("/nowhere/x.npy"));
}
