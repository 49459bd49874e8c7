//! Logs of a run as text, with a row per epoch or step.

use crate::callback::Callback;
use crate::file::shortened;
use crate::record::Record;
use crate::trainer::Place;
use dl_core::{Error, Result, files};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Write};
use std::ops::ControlFlow;
use std::path::PathBuf;

/// A log file with a row per epoch or per step: the step, the epoch, and all numbers of the record.
///
/// Each row is written as a whole as soon as its record exists. A run that resumes from a
/// checkpoint removes the rows of later steps, which will be written again; a new run removes all
/// rows. If the file is not a log, or another log has it open, the file is left unchanged and the
/// run ends with an error.
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
    /// The header line of a CSV file, once it is written.
    header: Option<String>,
    file: Option<LockedFile>,
}

/// A locked file. It is unlocked explicitly on drop, because a child process that is being spawned
/// may briefly hold another handle.
#[derive(Debug)]
struct LockedFile(File);

impl Drop for LockedFile {
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
    /// A CSV file with a header line. All records must have the same names.
    pub fn csv(path: impl Into<PathBuf>) -> Log {
        Log::new(path.into(), Format::Csv)
    }

    /// A file with one JSON object per line (JSON Lines). Numbers that are not finite become
    /// `null`.
    pub fn jsonl(path: impl Into<PathBuf>) -> Log {
        Log::new(path.into(), Format::Jsonl)
    }

    fn new(path: PathBuf, format: Format) -> Log {
        Log { path, format, each_step: false, header: None, file: None }
    }

    /// Writes a row per step instead of per epoch.
    #[must_use]
    pub fn each_step(mut self) -> Log {
        self.each_step = true;
        self
    }

    fn with_path(&self, error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
        Error::other(error).context(self.path.display())
    }

    /// The lines to retain when a run starts at `at`.
    fn retained(&mut self, at: &Place) -> Result<String> {
        files::check_replaceable(&self.path).map_err(|error| self.with_path(error))?;
        let mut text = match fs::read(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(String::new()),
            text => text.map_err(|error| self.with_path(error))?,
        };
        // discard the unfinished last line of a killed program
        let unfinished = text.split_off(text.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1));
        let prefix = self.format.prefix().as_bytes();
        if text.is_empty() && !unfinished.starts_with(prefix) && !prefix.starts_with(&unfinished) {
            return Err(self.not_a_log(&String::from_utf8_lossy(&unfinished)));
        }
        let text =
            String::from_utf8(text).map_err(|error| self.not_a_log(&String::from_utf8_lossy(error.as_bytes())))?;
        let mut lines = text.split_inclusive('\n');
        let (mut retained, mut header) = (String::new(), None);
        if self.format == Format::Csv
            && let Some(line) = lines.next()
        {
            if !line.starts_with(self.format.prefix()) {
                return Err(self.not_a_log(line));
            }
            header = Some(line.to_owned());
        }
        for line in lines {
            let (step, epoch) = self.format.parse_position(line).ok_or_else(|| self.not_a_log(line))?;
            // the row of an epoch has the step of its last step
            let retain = if self.each_step { step <= at.step } else { epoch < at.epoch };
            if retain {
                retained += line;
            }
        }
        self.header = header.filter(|_| !retained.is_empty());
        Ok(self.header.clone().unwrap_or_default() + &retained)
    }

    /// The error for a file that is not a log, which must not be overwritten.
    fn not_a_log(&self, line: &str) -> Error {
        let line = shortened(line.trim_end());
        self.with_path(Error::invalid(format!(
            "the file is not a log of a run, so it is left unchanged: it has the line {line:?}"
        )))
    }

    /// Opens the file for appending and locks it.
    fn open_locked(&self) -> Result<LockedFile> {
        let file = OpenOptions::new().append(true).open(&self.path).map_err(|error| self.with_path(error))?;
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => Err(self
                .with_path(Error::invalid("another log is being written to this file: each log needs its own file"))),
            // not every file system supports locks
            _ => Ok(LockedFile(file)),
        }
    }

    fn write(&mut self, record: &Record) -> Result<()> {
        let mut row = match self.format {
            Format::Jsonl => String::new(),
            Format::Csv => {
                let names = record.values().map(|(name, _)| format!(",{}", csv_field(name)));
                let header = format!("step,epoch{}\n", names.collect::<String>());
                match &self.header {
                    Some(known) if *known != header => {
                        let (known, header) = (known.trim_end(), header.trim_end());
                        let message = format!(
                            "a row with the columns {header:?} under the header {known:?}: all rows must have the same columns"
                        );
                        return Err(self.with_path(Error::invalid(message)));
                    }
                    Some(_) => String::new(),
                    None => self.header.insert(header).clone(),
                }
            }
        };
        row += &self.format.row(record);
        let Some(file) = &mut self.file else {
            return Err(self.with_path(Error::invalid("the log is not open: `start` must be called first")));
        };
        file.0.write_all(row.as_bytes()).map_err(|error| self.with_path(error))
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

    /// The first bytes of a log.
    fn prefix(self) -> &'static str {
        match self {
            Format::Csv => "step,epoch",
            Format::Jsonl => "{\"step\":",
        }
    }

    /// Parses the step and the epoch of a row; `None` if the line is not a row.
    fn parse_position(self, line: &str) -> Option<(u64, u64)> {
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

/// A column name, quoted if necessary.
fn csv_field(name: &str) -> String {
    if name.contains([',', '"']) { format!("\"{}\"", name.replace('"', "\"\"")) } else { name.to_owned() }
}

impl Callback for Log {
    fn only_on_first_rank(&self) -> bool {
        true
    }

    fn start(&mut self, at: &Place) -> Result<()> {
        (self.header, self.file) = (None, None);
        let retained = self.retained(at)?;
        if self.path.exists() {
            self.open_locked()?;
        }
        files::write_in_folder(&self.path, |file| file.write_all(retained.as_bytes()))?;
        self.file = Some(self.open_locked()?);
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
