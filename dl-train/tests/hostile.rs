//! Malicious and damaged files: each error names the file and the tensor.

use dl_core::{Differentiable, Module, Result, Weight};
use dl_nd::Nd;
use dl_optim::Adam;
use dl_train::{Checkpoint, Load, load_weights, save_weights};
use std::fs;
use std::io::{Seek, SeekFrom, Write};

/// A file with this header, followed by these bytes.
fn file(header: &str, bytes: &[u8]) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), bytes].concat()
}

fn refused(bytes: Vec<u8>) -> String {
    let net = [Weight::new(1.0_f64)];
    let error = Load::strict().weights_from_bytes(&net, "the file", bytes).unwrap_err().to_string();
    assert!(error.starts_with("the file: ") && !error.contains('\n') && error.len() < 4096, "{error}");
    assert_eq!(net[0].value(), 1.0);
    error
}

#[test]
fn malformed_file_error_names_defect() {
    let one = |dtype: &str, shape: &str, end: &str| {
        format!(r#"{{"0":{{"dtype":"{dtype}","shape":{shape},"data_offsets":[0,{end}]}}}}"#)
    };
    let ours = |json: &str| {
        let json = serde_json::to_string(json).unwrap();
        format!(r#"{{"__metadata__":{{"dl":{json}}},"0":{{"dtype":"F64","shape":[],"data_offsets":[0,8]}}}}"#)
    };
    let huge = 1_u64 << 60;
    let twice =
        r#"{"0":{"dtype":"F64","shape":[],"data_offsets":[0,8]},"0":{"dtype":"F64","shape":[],"data_offsets":[0,8]}}"#;
    let many = format!("{{\"0\":{{\"dtype\":\"F64\",\"shape\":[{}1],\"data_offsets\":[0,8]}}}}", "1,".repeat(50_000));
    let nested = format!("{}1{}", "{\"0\":".repeat(100_000), "}".repeat(100_000));
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let long_name = format!(r#"{{"{}":{{"dtype":"F64","shape":[],"data_offsets":[0,8]}}}}"#, "x".repeat(100_000));
    let zeros = [0; 8];
    let cases = [
        ("more than 8 bytes, this file has 0", vec![]),
        ("more than 8 bytes, this file has 7", vec![0; 7]),
        ("truncated, damaged, or of another format", b"An archive of another program".to_vec()),
        ("truncated, damaged, or of another format", [&640_u64.to_le_bytes()[..], b"{\"0\":"].concat()),
        ("18446744073709551615 does not fit a file of 8 bytes", vec![255; 8]),
        ("truncated", file(&one("F64", "[]", "8"), &[])[..30].to_vec()),
        ("EOF while parsing", file("", &[])),
        ("expected value", file("zzzz", &[])),
        ("header: invalid utf-8 sequence", [&5_u64.to_le_bytes()[..], b"{\"\xff\"}"].concat()),
        ("\"0\": header: missing field `dtype`", file(&nested, &[])),
        ("\"0\": header: invalid type: sequence", file(&one("F64", &deep, "8"), &zeros)),
        ("duplicate name \"0\"", file(twice, &zeros)),
        (
            "expected 8 bytes of tensors after the header, found 7: the file is truncated",
            file(&one("F64", "[]", "8"), &[0; 7]),
        ),
        ("found 9: the file has extra bytes", file(&one("F64", "[]", "8"), &[0; 9])),
        ("\"0\": header: unknown variant `F128`", file(&one("F128", "[]", "16"), &[0; 16])),
        ("\"0\": header: F64 [2] needs 16 bytes, but its offsets span 8", file(&one("F64", "[2]", "8"), &zeros)),
        (
            "needs more than usize::MAX bytes, but its offsets span 8",
            file(&one("F64", &format!("[{huge}]"), "8"), &zeros),
        ),
        ("needs more than usize::MAX bytes", file(&one("F64", &format!("[{huge},{huge}]"), "8"), &zeros)),
        (
            "needs more than usize::MAX bytes",
            file(&one("F64", &format!("[{huge}]"), &(huge * 8 % u64::MAX).to_string()), &zeros),
        ),
        ("expected 1152921504606846976 bytes", file(&one("U8", &format!("[{huge}]"), &huge.to_string()), &zeros)),
        ("\"0\": header: invalid value: integer `-1`", file(&one("F64", "[-1]", "8"), &zeros)),
        ("invalid offset for tensor `0`", file(r#"{"0":{"dtype":"F64","shape":[],"data_offsets":[8,16]}}"#, &[0; 16])),
        ("is f64 [] in the module and F64 [1, 1, 1, 1, 1, 1, 1, 1]… (50001 axes) in the file", file(&many, &zeros)),
        ("… (100000 bytes)", file(&long_name, &zeros)),
        ("\"0\" is f64 [] in the module and I64 [] in the file", file(&one("I64", "[]", "8"), &zeros)),
        ("\"0\" is f64 [] in the module and C64 [] in the file", file(&one("C64", "[]", "8"), &zeros)),
        ("\"0\": element 0 is NaN", file(&one("F64", "[]", "8"), &f64::NAN.to_le_bytes())),
        ("\"0\": element 0 is inf", file(&one("F16", "[]", "2"), &0x7C00_u16.to_le_bytes())),
        ("missing in the file: \"0\"", file("{}", &[])),
        ("metadata under \"dl\": EOF", file(&ours(""), &zeros)),
        ("has version 2 of the format", file(&ours(r#"{"format":2,"kind":"weights","more":1}"#), &zeros)),
        ("unknown field `more`", file(&ours(r#"{"format":1,"kind":"weights","more":1}"#), &zeros)),
        ("duplicate name \"a\"", file(&ours(r#"{"format":1,"kind":"weights","texts":{"a":"","a":""}}"#), &zeros)),
        ("the stored checksum is 00000001", file(&ours(r#"{"format":1,"kind":"weights","crc32":1}"#), &zeros)),
        ("this is a checkpoint", file(&ours(r#"{"format":1,"kind":"checkpoint"}"#), &zeros)),
    ];
    for (message, bytes) in cases {
        let error = refused(bytes);
        assert!(error.contains(message), "{message}: {error}");
    }
    // booleans of a mask
    let mask = [dl_core::Buffer::new(Nd::from([true]))];
    let error = Load::strict().weights_from_bytes(&mask, "the file", file(&one("BOOL", "[1]", "1"), &[2])).unwrap_err();
    assert!(error.to_string().contains("the file: \"0\": the byte [2] is no truth value"), "{error}");
}

/// A checkpoint with inconsistent entries.
#[test]
fn inconsistent_checkpoint_error_names_tensor() -> Result<()> {
    let head = serde_json::to_string(r#"{"format":1,"kind":"checkpoint","optimizers":{"adam":"Adam"}}"#).unwrap();
    let entry = |name: &str, dtype: &str, place: usize| {
        format!(r#","{name}":{{"dtype":"{dtype}","shape":[],"data_offsets":[{},{}]}}"#, 8 * place, 8 * place + 8)
    };
    let steps = entry("optimizer/adam/numbers/steps", "F64", 0);
    let own_steps = entry("optimizer/adam/numbers/steps.0", "F64", 1);
    let cases = [
        (String::new(), "the state has no number \"steps\""),
        (entry("optimizer/adam/numbers/steps", "U64", 0), "numbers/steps\": expected f64 [], found U64 []"),
        (format!("{steps}{}", entry("optimizer/adam/numbers/more", "F64", 1)), "a number \"more\""),
        (format!("{steps}{own_steps}"), "no slot exp_avg, exp_avg_sq of the weight \"0\""),
        (format!("{steps}{}", entry("optimizer/adam/slots/exp_avg", "F64", 1)), "the name has no path of a weight"),
        (format!("{steps}{}", entry("optimizer/adam/slots/exp_avg/9", "F64", 1)), "the module has no such weight"),
        (format!("{steps}{}", entry("optimizer/adam/slots/exp_avg/0", "I64", 1)), "expected f64 [], found I64 []"),
        (format!("{steps}{own_steps}{}", entry("optimizer/adam/slots/exp_avg/0", "F64", 2)), "no slot exp_avg_sq"),
    ];
    let (net, adam) = ([Weight::new(1.0_f64)], Adam::new(0.1));
    for (entries, message) in cases {
        let bytes = vec![0; 8 * entries.matches("dtype").count()];
        let bytes = file(&format!("{{\"__metadata__\":{{\"dl\":{head}}}{entries}}}"), &bytes);
        let saved = Checkpoint::from_bytes("the file", bytes)?;
        let error = saved.restore().optimizer("adam", &adam, &net).apply().unwrap_err().to_string();
        assert!(error.contains(message) && error.contains("the file: "), "{message}: {error}");
    }
    // a number that is not finite
    let bytes = [0.0_f64, 1.0, f64::INFINITY, 1.0].map(f64::to_le_bytes).concat();
    let slots = ["exp_avg/0", "exp_avg_sq/0"].map(|slot| format!("optimizer/adam/slots/{slot}"));
    let entries = format!("{steps}{own_steps}{}{}", entry(&slots[0], "F64", 2), entry(&slots[1], "F64", 3));
    let bytes = file(&format!("{{\"__metadata__\":{{\"dl\":{head}}}{entries}}}"), &bytes);
    let saved = Checkpoint::from_bytes("the file", bytes)?;
    let error = saved.restore().optimizer("adam", &adam, &net).apply().unwrap_err();
    assert!(error.is_not_finite() && error.to_string().contains("slots/exp_avg/0\": element 0 is inf"), "{error}");
    Ok(())
}

/// Truncation at any length and any flipped bit must be detected.
#[test]
fn truncated_or_bit_flipped_checkpoint_is_error() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.safetensors");
    let (net, adam) = ([Weight::new(1.0_f64)], Adam::new(0.1));
    net[0].train(&adam).wait()?;
    let value = net[0].value();
    Checkpoint::new()
        .module("model", &net)
        .optimizer("adam", &adam, &net)
        .count("epoch", 3)
        .text("a", "b")
        .save(&path)?;
    let bytes = fs::read(&path).unwrap();
    for length in 0..bytes.len() {
        assert!(Checkpoint::from_bytes("the file", bytes[..length].to_vec()).is_err(), "{length}");
    }
    let mut passed = 0;
    for bit in 0..bytes.len() * 8 {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let Ok(saved) = Checkpoint::from_bytes("the file", damaged) else { continue };
        passed += 1;
        net[0].set(0.0);
        saved.restore().module("model", &net).optimizer("adam", &adam, &net).apply()?;
        assert!(net[0].value() == value && saved.count("epoch")? == 3 && saved.text("a")? == "b", "bit {bit}");
    }
    assert_eq!(passed, 0, "undetected bit flips");
    Ok(())
}

/// Memory is allocated only for the tensors requested: this sparse file has 64 GiB of zeros.
#[test]
#[cfg(unix)]
fn file_larger_than_memory_loads_requested_tensor() -> Result<()> {
    const BYTES: u64 = 1 << 36;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("huge.safetensors");
    let header = format!(
        r#"{{"huge":{{"dtype":"U8","shape":[{}],"data_offsets":[0,{}]}},"0":{{"dtype":"F64","shape":[],"data_offsets":[{},{BYTES}]}}}}"#,
        BYTES - 8,
        BYTES - 8,
        BYTES - 8
    );
    let mut sparse = fs::File::create(&path).unwrap();
    sparse.write_all(&file(&header, &[])).unwrap();
    sparse.set_len(8 + header.len() as u64 + BYTES).unwrap();
    sparse.seek(SeekFrom::End(-8)).unwrap();
    sparse.write_all(&2.5_f64.to_le_bytes()).unwrap();

    let net = [Weight::new(1.0_f64)];
    let error = load_weights(&net, &path).unwrap_err();
    assert!(error.to_string().contains("unexpected in the file: \"huge\""), "{error}");
    Load::partial().weights(&net, &path)?;
    assert_eq!(net[0].value(), 2.5);
    let error = Load::strict().ignore("0").rename("huge", "1").weights(&(0, Weight::new(0.0_f64)), &path).unwrap_err();
    assert!(error.is_shape(), "{error}");
    Ok(())
}

#[test]
fn unreadable_path_and_reserved_name_are_errors() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let net = [Weight::new(1.0_f64)];
    for path in [folder.path().to_owned(), folder.path().join("nothing")] {
        let error = load_weights(&net, &path).unwrap_err().to_string();
        assert!(error.starts_with(&path.display().to_string()), "{error}");
    }
    #[cfg(unix)]
    assert!(load_weights(&net, "/dev/zero").is_err());
    // a name that the format reserves
    struct Reserved(Weight<f64>);
    impl Module for Reserved {
        fn visit(&self, visitor: &mut dl_core::Visitor) {
            visitor.field("__metadata__", &self.0);
        }
    }
    let error = save_weights(&Reserved(Weight::new(1.0)), folder.path().join("a")).unwrap_err();
    assert!(error.to_string().contains("reserves the name \"__metadata__\""), "{error}");
    Ok(())
}

#[test]
fn file_of_another_format_is_named() {
    let fixture = |name: &str| fs::read(format!("{}/tests/fixtures/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap();
    let zip = fixture("torch.pt");
    for (what, bytes) in [
        ("this is a pickle file of PyTorch's `torch.save`", zip.clone()),
        ("this is a pickle file of PyTorch's `torch.save`", fixture("torch_legacy.pt")),
        ("this is a zip archive", [&zip[..30], &[b'x'; 300]].concat()),
        ("this is compressed with gzip", [&[0x1F, 0x8B, 8][..], &[1; 20]].concat()),
        ("this is a NumPy array", b"\x93NUMPY\x01\x00v\x00{'descr': '<f8'".to_vec()),
        ("this is an HDF5 file", b"\x89HDF\r\n\x1a\n and more".to_vec()),
        ("this is a pointer of Git LFS", b"version https://git-lfs.github.com/spec/v1\noid sha256:1".to_vec()),
    ] {
        let text = refused(bytes);
        assert!(text.starts_with(&format!("the file: {what}, not a safetensors file: ")), "{text}");
    }
}

/// Opening a named pipe waits until another program writes to it.
#[cfg(unix)]
#[test]
fn named_pipe_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("net.safetensors");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let error = test_support::watched(move || load_weights(&[Weight::new(1.0_f64)], &pipe).unwrap_err().to_string());
    assert!(error.contains("net.safetensors: this is a named pipe, not a regular file"), "{error}");
}
