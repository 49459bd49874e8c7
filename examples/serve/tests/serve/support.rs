//! A net that has learned, and the service as a process.

use serve::net::{Image, Net};
use serve::training::{DARKEST, DATA, read};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

/// The images of the data set, in grey values of 0 to 16, as requests have them, and as the network
/// does.
pub(crate) fn images() -> Vec<(Vec<u8>, Image)> {
    let (images, _) = read(Path::new(DATA)).unwrap();
    images.into_iter().map(|image| (image.iter().map(|pixel| (pixel * DARKEST) as u8).collect(), image)).collect()
}

/// What `cargo run --release -p serve -- --save …` has learned.
pub(crate) fn weights() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/serve/digits.safetensors"))
}

/// The net of these weights.
pub(crate) fn net() -> Net {
    let net = Net::new(7).unwrap();
    dl::train::load_weights(&net, weights()).unwrap();
    net
}

/// The program, listening. It is killed when this is dropped.
pub(crate) struct Service {
    pub(crate) child: Child,
    /// `127.0.0.1:port`
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
