//! Logs that TensorBoard shows.

use crate::callback::Callback;
use crate::file::atomic;
use crate::file::crc32::Crc32c;
use crate::record::Record;
use crate::trainer::Place;
use dl_core::{Error, Result};
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

/// A folder with event files: the numbers of each step as `step/loss`, and those of each epoch as `epoch/loss` and so on, by the number of steps.
///
/// A run that goes on adds a file, which tells TensorBoard to forget the steps after the checkpoint.
///
/// ```
/// use dl_core::{Differentiable, Sgd, Weight};
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
    /// In this folder, which is made when the run begins.
    pub fn in_folder(folder: impl Into<PathBuf>) -> TensorBoard {
        TensorBoard { folder: folder.into(), file: None }
    }

    fn fault(&self, error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
        Error::other(error).context(self.folder.display())
    }

    /// A new file. TensorBoard reads those of a folder in the order of their names.
    fn create(&self) -> std::io::Result<File> {
        atomic::create_folder(&self.folder)?;
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

    fn write(&mut self, step: u64, what: Message) -> Result<()> {
        let event = Message::new().double(1, now()).whole(2, step).also(what);
        let Some(file) = &mut self.file else {
            return Err(self.fault(Error::invalid("a log is written by a run that has begun")));
        };
        file.write_all(&record(&event.0)).map_err(|error| self.fault(error))
    }

    fn values(&mut self, kind: &str, record: &Record) -> Result<()> {
        let value = |summary: Message, (name, value): (&str, f64)| {
            summary.message(1, Message::new().text(1, &format!("{kind}/{name}")).float(2, value as f32))
        };
        let summary = record.values().fold(Message::new(), value);
        self.write(record.step, Message::new().message(5, summary))
    }
}

impl Callback for TensorBoard {
    fn start(&mut self, at: &Place) -> Result<()> {
        self.file = Some(self.create().map_err(|error| self.fault(error))?);
        self.write(0, Message::new().text(3, "brain.Event:2"))?;
        if at.step > 0 {
            // a session starts: what is there of later steps is void. The event itself has the first of these
            self.write(at.step + 1, Message::new().message(7, Message::new().whole(1, 1)))?;
        }
        Ok(())
    }

    fn step(&mut self, record: &Record) -> Result<()> {
        self.values("step", record)
    }

    fn epoch(&mut self, record: &Record) -> Result<ControlFlow<()>> {
        self.values("epoch", record)?;
        Ok(ControlFlow::Continue(()))
    }
}

/// Seconds since 1970.
fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

/// A record of TensorFlow: the length, its checksum, the bytes, their checksum.
fn record(bytes: &[u8]) -> Vec<u8> {
    let length = (bytes.len() as u64).to_le_bytes();
    [&length[..], &masked_checksum(&length), bytes, &masked_checksum(bytes)].concat()
}

fn masked_checksum(bytes: &[u8]) -> [u8; 4] {
    let mut crc = Crc32c::new();
    crc.update(bytes);
    crc.finish().rotate_right(15).wrapping_add(0xA282_EAD8).to_le_bytes()
}

/// A message of protocol buffers: fields by their numbers.
struct Message(Vec<u8>);

impl Message {
    fn new() -> Message {
        Message(Vec::new())
    }

    fn whole(mut self, field: u8, number: u64) -> Message {
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

    fn text(self, field: u8, text: &str) -> Message {
        self.message(field, Message(text.as_bytes().to_vec()))
    }

    fn message(mut self, field: u8, part: Message) -> Message {
        self.0.push(field << 3 | 2);
        self.varint(part.0.len() as u64).also(part)
    }

    fn also(mut self, fields: Message) -> Message {
        self.0.extend(fields.0);
        self
    }

    /// Seven bits in each byte, the lowest first.
    fn varint(mut self, mut number: u64) -> Message {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
        self
    }
}
