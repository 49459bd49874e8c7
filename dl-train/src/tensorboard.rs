//! Event files for TensorBoard.

use crate::callback::Callback;
use crate::file::crc32::Crc32c;
use crate::record::Record;
use crate::trainer::Place;
use dl_core::{Error, Result, files};
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

/// A folder of TensorBoard event files. The numbers of steps are logged as `step/loss` etc., those
/// of epochs as `epoch/loss` etc., by the number of steps.
///
/// Each run adds a file. A resumed run makes TensorBoard discard the steps after the checkpoint, a
/// new run all steps.
///
/// ```
/// use dl_core::{Differentiable, Weight};
/// use dl_optim::Sgd;
/// use dl_train::{TensorBoard, Trainer};
/// # let folder = tempfile::tempdir().unwrap();
/// # let folder = folder.path().join("run");
/// let w = Weight::new(1.0_f64);
/// let trainer = Trainer::new(&Sgd::new(0.25), 2).callback(TensorBoard::in_folder(&folder));
/// trainer.run(|_| Ok([Ok(()), Ok(())]), |()| &w * &w)?;
/// assert_eq!(std::fs::read_dir(folder).unwrap().count(), 1); // `tensorboard --logdir run` shows it
/// # dl_core::Result::Ok(())
/// ```
#[derive(Debug)]
pub struct TensorBoard {
    folder: PathBuf,
    file: Option<File>,
}

impl TensorBoard {
    /// Logs to this folder, which is created when the run starts.
    pub fn in_folder(folder: impl Into<PathBuf>) -> TensorBoard {
        TensorBoard { folder: folder.into(), file: None }
    }

    fn with_folder(&self, error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
        Error::other(error).context(self.folder.display())
    }

    /// Creates a new file. TensorBoard reads the files of a folder in the order of their names.
    fn create(&self) -> std::io::Result<File> {
        files::create_folder(&self.folder)?;
        let seconds = now() as u64;
        let mut number = 0;
        loop {
            let path = self.folder.join(format!("events.out.tfevents.{seconds:010}.dl.{number:04}"));
            match File::create_new(path) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists && number < 9999 => number += 1,
                file => return file,
            }
        }
    }

    fn write(&mut self, step: u64, message: Message) -> Result<()> {
        let Some(file) = &mut self.file else {
            return Err(self.with_folder(Error::invalid("the log is not open: `start` must be called first")));
        };
        file.write_all(&event(now(), step, message)).map_err(|error| self.with_folder(error))
    }
}

impl Callback for TensorBoard {
    fn only_on_first_rank(&self) -> bool {
        true
    }

    fn start(&mut self, at: &Place) -> Result<()> {
        self.file = Some(self.create().map_err(|error| self.with_folder(error))?);
        self.write(0, file_version())?;
        // Discard logged events of this step and later ones. After a run that was killed before its
        // first checkpoint, these are all events.
        self.write(at.step + 1, session_start())
    }

    fn step(&mut self, record: &Record) -> Result<()> {
        self.write(record.step, summary("step", record))
    }

    fn epoch(&mut self, record: &Record) -> Result<ControlFlow<()>> {
        self.write(record.step, summary("epoch", record))?;
        Ok(ControlFlow::Continue(()))
    }
}

/// Seconds since the Unix epoch.
fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

/// The first event of a file.
fn file_version() -> Message {
    Message::new().string(3, "brain.Event:2")
}

/// An event that marks the start of a session.
fn session_start() -> Message {
    Message::new().message(7, Message::new().uint(1, 1))
}

/// A summary of all numbers of a record.
fn summary(kind: &str, record: &Record) -> Message {
    let value = |summary: Message, (name, value): (&str, f64)| {
        summary.message(1, Message::new().string(1, &format!("{kind}/{name}")).float(2, value as f32))
    };
    Message::new().message(5, record.values().fold(Message::new(), value))
}

/// An event at `time`, in seconds since the Unix epoch, and at `step`.
fn event(time: f64, step: u64, message: Message) -> Vec<u8> {
    frame(&Message::new().double(1, time).uint(2, step).append(message).0)
}

/// Frames a TensorFlow record: length, checksum of the length, bytes, checksum of the bytes.
fn frame(bytes: &[u8]) -> Vec<u8> {
    let length = (bytes.len() as u64).to_le_bytes();
    [&length[..], &masked_checksum(&length), bytes, &masked_checksum(bytes)].concat()
}

fn masked_checksum(bytes: &[u8]) -> [u8; 4] {
    let mut crc = Crc32c::new();
    crc.update(bytes);
    crc.finish().rotate_right(15).wrapping_add(0xA282_EAD8).to_le_bytes()
}

/// An encoded protocol buffer message.
struct Message(Vec<u8>);

impl Message {
    fn new() -> Message {
        Message(Vec::new())
    }

    fn uint(mut self, field: u8, number: u64) -> Message {
        self.0.push(field << 3);
        self.varint(number)
    }

    fn double(mut self, field: u8, number: f64) -> Message {
        self.0.push(field << 3 | 1);
        self.0.extend(number.to_le_bytes());
        self
    }

    fn float(mut self, field: u8, number: f32) -> Message {
        self.0.push(field << 3 | 5);
        self.0.extend(number.to_le_bytes());
        self
    }

    fn string(self, field: u8, text: &str) -> Message {
        self.message(field, Message(text.as_bytes().to_vec()))
    }

    fn message(mut self, field: u8, part: Message) -> Message {
        self.0.push(field << 3 | 2);
        self.varint(part.0.len() as u64).append(part)
    }

    fn append(mut self, fields: Message) -> Message {
        self.0.extend(fields.0);
        self
    }

    /// Seven bits per byte, least significant first.
    fn varint(mut self, mut number: u64) -> Message {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `reference/event_file.py` reads these bytes with Python's `tensorboard`;
    /// `fixtures/tensorboard.txt` is its output.
    #[test]
    fn event_file_matches_bytes_verified_with_tensorboard() -> Result<()> {
        let step = |step: u64| Record::new(0, step).with("loss", 1.0 / step as f64);
        let epoch = Record::new(0, 300).with("loss", 0.5)?.with("test accuracy, é", f64::INFINITY)?;
        let bytes = [
            event(0.5, 0, file_version()),
            event(1.5, 1, summary("step", &step(1)?)),
            event(2.5, 300, summary("step", &step(300)?)),
            event(2.5, 300, summary("epoch", &epoch)),
            event(3.5, 301, summary("step", &step(301)?)),
            event(4.5, 301, session_start()),
            event(5.5, 301, summary("step", &Record::new(0, 301).with("loss", -2.0)?)),
        ];
        let expected = include_bytes!("../tests/fixtures/events.out.tfevents.0000000000.dl.0000");
        assert!(bytes.concat() == expected);
        Ok(())
    }
}
