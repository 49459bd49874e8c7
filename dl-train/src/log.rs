//! Logs of a run as text, a row for each epoch or step.

use crate::callback::Callback;
use crate::file::shortened;
use crate::record::Record;
use crate::trainer::Place;
use dl_core::{Error, Result, files};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Write};
use std::ops::ControlFlow;
use std::path::PathBuf;

/// A file with a row for each epoch, or for each step: the step, the epoch, and all numbers of the
/// record.
///
/// A row is written whole, as soon as it is known. A run that goes on from a checkpoint takes away
/// the rows of steps after it, which come again; a run from the beginning takes away all. A file
/// that is no log, or that another log is writing to, stays as it is, and the run ends with an
/// error.
///
/// ```
/// use dl_core::{Differentiable, Weight};
/// use dl_optim::Sgd;
/// use dl_train::{Log, Trainer};
/// # let folder = tempfile::tempdir().unwrap();
/// # let (csv, jsonl) = (folder.path().join("log.csv"), folder.path().join("steps.jsonl"));
/// let w = Weight::new(1.0_f64);
/// let trainer = Trainer::new(&Sgd::new(0.25), 2).callback(Log::csv(&csv)).callback(Log::jsonl(&jsonl).each_step());
/// trainer.run(|_| Ok([Ok(()), Ok(())]), |()| &w * &w)?;
/// assert_eq!(std::fs::read_to_string(csv).unwrap(), "step,epoch,loss\n2,0,0.625\n4,1,0.0390625\n");
/// assert!(std::fs::read_to_string(jsonl).unwrap().starts_with("{\"step\":1,\"epoch\":0,\"loss\":1.0}\n"));
/// # dl_core::Result::Ok(())
/// ```
#[derive(Debug)]
pub struct Log {
    path: PathBuf,
    format: Format,
    each_step: bool,
    /// The first line of a CSV file, once it is written.
    head: Option<String>,
    file: Option<Locked>,
}

/// A file that is unlocked with its handle here, although a program that is being started may have
/// another one for a moment.
#[derive(Debug)]
struct Locked(File);

impl Drop for Locked {
    fn drop(&mut self) {
        let _ = self.0.unlock();
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Csv,
    Jsonl,
}

impl Log {
    /// Comma-separated values below a line with their names. Every record has to have the same
    /// names.
    pub fn csv(path: impl Into<PathBuf>) -> Log {
        Log::new(path.into(), Format::Csv)
    }

    /// A JSON object in each line. Numbers that are not finite are `null`.
    pub fn jsonl(path: impl Into<PathBuf>) -> Log {
        Log::new(path.into(), Format::Jsonl)
    }

    fn new(path: PathBuf, format: Format) -> Log {
        Log { path, format, each_step: false, head: None, file: None }
    }

    /// A row for each step instead.
    #[must_use]
    pub fn each_step(mut self) -> Log {
        self.each_step = true;
        self
    }

    fn fault(&self, error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
        Error::other(error).context(self.path.display())
    }

    /// The lines that stay when a run goes on here.
    fn kept(&mut self, at: &Place) -> Result<String> {
        files::check_replaceable(&self.path).map_err(|error| self.fault(error))?;
        let mut text = match fs::read(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(String::new()),
            text => text.map_err(|error| self.fault(error))?,
        };
        // what a program that was killed has written of a line does not count
        let unfinished = text.split_off(text.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1));
        let start = self.format.start().as_bytes();
        if text.is_empty() && !unfinished.starts_with(start) && !start.starts_with(&unfinished) {
            return Err(self.no_log(&String::from_utf8_lossy(&unfinished)));
        }
        let text = String::from_utf8(text).map_err(|error| self.no_log(&String::from_utf8_lossy(error.as_bytes())))?;
        let mut lines = text.split_inclusive('\n');
        let (mut kept, mut head) = (String::new(), None);
        if self.format == Format::Csv
            && let Some(line) = lines.next()
        {
            if !line.starts_with(self.format.start()) {
                return Err(self.no_log(line));
            }
            head = Some(line.to_owned());
        }
        for line in lines {
            let (step, epoch) = self.format.place(line).ok_or_else(|| self.no_log(line))?;
            // the row of an epoch comes after that of its last step, and has the same step
            let stays = if self.each_step { step <= at.step } else { epoch < at.epoch };
            if stays {
                kept += line;
            }
        }
        self.head = head.filter(|_| !kept.is_empty());
        Ok(self.head.clone().unwrap_or_default() + &kept)
    }

    /// Somebody's file is not to be overwritten.
    fn no_log(&self, line: &str) -> Error {
        let line = shortened(line.trim_end());
        self.fault(Error::invalid(format!("this is not a log of a run, and stays as it is: it has the line {line:?}")))
    }

    /// The file, to be written to by nobody else.
    fn locked(&self) -> Result<Locked> {
        let file = OpenOptions::new().append(true).open(&self.path).map_err(|error| self.fault(error))?;
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => {
                Err(self.fault(Error::invalid("another log is being written to this file: each has to have its own")))
            }
            // not every file system has locks
            _ => Ok(Locked(file)),
        }
    }

    fn write(&mut self, record: &Record) -> Result<()> {
        let mut row = match self.format {
            Format::Jsonl => String::new(),
            Format::Csv => {
                let names = record.values().map(|(name, _)| format!(",{}", in_csv(name)));
                let head = format!("step,epoch{}\n", names.collect::<String>());
                match &self.head {
                    Some(known) if *known != head => {
                        let (known, head) = (known.trim_end(), head.trim_end());
                        let why = format!(
                            "a row with the columns {head:?} below the head {known:?}: each row has to have the same"
                        );
                        return Err(self.fault(Error::invalid(why)));
                    }
                    Some(_) => String::new(),
                    None => self.head.insert(head).clone(),
                }
            }
        };
        row += &self.format.row(record);
        let Some(file) = &mut self.file else {
            return Err(self.fault(Error::invalid("a log is written by a run that has begun")));
        };
        file.0.write_all(row.as_bytes()).map_err(|error| self.fault(error))
    }
}

impl Format {
    fn row(self, record: &Record) -> String {
        let Record { step, epoch, .. } = record;
        match self {
            Format::Csv => {
                let values: String = record.values().map(|(_, value)| format!(",{value}")).collect();
                format!("{step},{epoch}{values}\n")
            }
            Format::Jsonl => {
                let value = |(name, value): (&str, f64)| {
                    format!(",{}:{}", serde_json::Value::from(name), serde_json::Value::from(value))
                };
                format!("{{\"step\":{step},\"epoch\":{epoch}{}}}\n", record.values().map(value).collect::<String>())
            }
        }
    }

    /// How a log begins.
    fn start(self) -> &'static str {
        match self {
            Format::Csv => "step,epoch",
            Format::Jsonl => "{\"step\":",
        }
    }

    /// The step and the epoch of a line, if it is a row.
    fn place(self, line: &str) -> Option<(u64, u64)> {
        match self {
            Format::Csv => {
                let mut cells = line.trim_end().split(',').map(|cell| cell.parse().ok());
                Some((cells.next()??, cells.next()??))
            }
            Format::Jsonl => {
                let row: serde_json::Value = serde_json::from_str(line).ok()?;
                Some((row.get("step")?.as_u64()?, row.get("epoch")?.as_u64()?))
            }
        }
    }
}

/// A name, in quotes where it needs some.
fn in_csv(name: &str) -> String {
    if name.contains([',', '"']) { format!("\"{}\"", name.replace('"', "\"\"")) } else { name.to_owned() }
}

impl Callback for Log {
    fn start(&mut self, at: &Place) -> Result<()> {
        (self.head, self.file) = (None, None);
        let kept = self.kept(at)?;
        if self.path.exists() {
            self.locked()?;
        }
        files::write_in_folder(&self.path, |file| file.write_all(kept.as_bytes()))?;
        self.file = Some(self.locked()?);
        Ok(())
    }

    fn step(&mut self, record: &Record) -> Result<()> {
        if self.each_step { self.write(record) } else { Ok(()) }
    }

    fn epoch(&mut self, record: &Record) -> Result<ControlFlow<()>> {
        if !self.each_step {
            self.write(record)?;
        }
        Ok(ControlFlow::Continue(()))
    }
}
