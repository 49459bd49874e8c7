//! A trained network, and the service as a process.

use serve::net::{Image, Net};
use serve::training::{DATA, MAX_GREY, read};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

/// The images of the data set, as grey values from 0 to 16 for requests and scaled for the network.
pub(crate) fn images() -> Vec<(Vec<u8>, Image)> {
    let (images, _) = read(Path::new(DATA)).unwrap();
    images.into_iter().map(|image| (image.iter().map(|pixel| (pixel * MAX_GREY) as u8).collect(), image)).collect()
}

/// The weights saved by `cargo run --release -p serve -- --save …`.
pub(crate) fn weights() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/serve/digits.safetensors"))
}

/// A network with these weights.
pub(crate) fn net() -> Net {
    let net = Net::new(7).unwrap();
    dl::train::load_weights(&net, weights()).unwrap();
    net
}

/// The running program. It is killed on drop.
pub(crate) struct Service {
    pub(crate) child: Child,
    /// `127.0.0.1:port`.
    pub(crate) address: String,
    lines: BufReader<std::process::ChildStdout>,
}

impl Service {
    pub(crate) fn start() -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_serve"))
            .args(["--port", "0", "--weights"])
            .arg(weights())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on http://").expect("it says where").to_owned();
        Service { child, address, lines }
    }

    /// Waits for the end: the last line, and the status.
    pub(crate) fn end(mut self) -> (String, ExitStatus) {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        (line, self.child.wait().unwrap())
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
