//! The service as a process.

use crate::clients::weights;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitStatus, Stdio};

/// The running program. It is killed on drop.
pub(crate) struct Service {
    pub(crate) child: Child,
    /// `127.0.0.1:port`.
    pub(crate) address: String,
    lines: BufReader<std::process::ChildStdout>,
}

impl Service {
    pub(crate) fn start() -> Self {
        Service::start_with(&[])
    }

    pub(crate) fn start_with(args: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_serve"))
            .args(["--port", "0", "--weights"])
            .arg(weights())
            .args(args)
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
