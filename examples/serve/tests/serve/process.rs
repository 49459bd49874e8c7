//! The process: start, errors, signals.

use crate::clients::weights;
use crate::support::Service;
use serde_json::json;
use serve::training::{DATA, train};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

#[test]
#[cfg(unix)]
fn first_stop_signal_lets_open_request_complete() {
    for signal in ["-TERM", "-INT"] {
        let service = Service::start();
        let body = json!({ "image": vec![1; 64] }).to_string();
        let mut connection = TcpStream::connect(&service.address).unwrap();
        write!(connection, "POST /predict HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n", body.len()).unwrap();
        let mut other = TcpStream::connect(&service.address).unwrap();
        write!(other, "GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
        other.read_to_string(&mut String::new()).unwrap();

        assert!(Command::new("kill").args([signal, &service.child.id().to_string()]).status().unwrap().success());
        while TcpStream::connect(&service.address).is_ok() {
            std::thread::sleep(Duration::from_millis(1));
        }
        write!(connection, "{body}").unwrap();
        let mut answer = String::new();
        connection.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
        let (line, status) = service.end();
        assert_eq!((line.as_str(), status.code()), ("stopped\n", Some(0)));
    }
}

#[test]
#[cfg(unix)]
fn second_stop_signal_stops_immediately() {
    let service = Service::start();
    let mut connection = TcpStream::connect(&service.address).unwrap();
    write!(connection, "POST /predict HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n").unwrap();
    let mut other = TcpStream::connect(&service.address).unwrap();
    write!(other, "GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
    other.read_to_string(&mut String::new()).unwrap();
    let call = || Command::new("kill").args(["-INT", &service.child.id().to_string()]).status().unwrap();
    assert!(call().success());
    while TcpStream::connect(&service.address).is_ok() {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(call().success());
    let (line, status) = service.end();
    assert_eq!((line.as_str(), status.code()), ("", Some(1)));
}

#[test]
fn training_for_two_epochs_reaches_accuracy_of_70_percent() {
    let (_, accuracy) = train(Path::new(DATA), 1, 2).unwrap();
    assert!(accuracy > 0.7, "{accuracy}");
}

#[test]
fn startup_error_is_printed_in_one_line() {
    let run = |args: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_serve")).args(args).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8(output.stderr).unwrap()
    };
    let missing = run(&["--weights", "no/such.safetensors"]);
    assert!(missing.starts_with("error: no/such.safetensors: ") && missing.lines().count() == 1, "{missing}");
    let data = run(&["--data", "no/such.csv"]);
    assert!(data.starts_with("error: no/such.csv: ") && data.lines().count() == 1, "{data}");

    let service = Service::start();
    let port = service.address.rsplit(':').next().unwrap();
    let taken = run(&["--port", port, "--weights", weights().to_str().unwrap()]);
    assert!(taken.starts_with("error: ") && taken.lines().count() == 1, "{taken}");
}
