//! How far a run is, on the terminal.

use crate::callback::Callback;
use crate::record::Record;
use crate::trainer::{Place, Stopped};
use dl_core::{Error, Result};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use std::fmt::Write;
use std::io::{self, Write as _};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

/// A bar on standard error, with the numbers of the last step, steps in a second, and the time that
/// is left; and a line for each epoch. Where standard error is no terminal, there are only the
/// lines.
///
/// ```
/// use dl_core::{Differentiable, Weight};
/// use dl_optim::Sgd;
/// use dl_train::{Progress, Trainer};
/// let w = Weight::new(1.0_f64);
/// let trainer = Trainer::new(&Sgd::new(0.25), 2).callback(Progress::new("square"));
/// // square  epoch  1/2  loss 0.6250  0.0 s
/// // square  epoch  2/2  loss 0.0391  0.0 s
/// trainer.run(|_| Ok([Ok(()), Ok(())]), |()| &w * &w)?;
/// # dl_core::Result::Ok(())
/// ```
#[derive(Debug)]
pub struct Progress {
    name: String,
    bar: ProgressBar,
    epochs: u64,
    begun: Instant,
    /// When the numbers were shown last.
    shown: Option<Instant>,
}

/// Nobody reads faster.
const BETWEEN_NUMBERS: Duration = Duration::from_millis(50);

impl Progress {
    /// With this name before it, or none.
    pub fn new(name: impl Into<String>) -> Progress {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        Progress { name: name.into(), bar, epochs: 0, begun: Instant::now(), shown: None }
    }

    fn epoch_of(&self, epoch: u64) -> String {
        let (space, width) = (if self.name.is_empty() { "" } else { "  " }, self.epochs.to_string().len());
        format!("{}{space}epoch {:>width$}/{}", self.name, epoch.saturating_add(1), self.epochs)
    }
}

/// Whether anybody reads it or not: a terminal that was closed is no reason to end a run.
fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

impl Callback for Progress {
    fn start(&mut self, at: &Place) -> Result<()> {
        self.epochs = at.epochs;
        // nothing is drawn before it has its style
        self.bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        self.bar.set_position(at.step);
        self.bar.reset_eta();
        self.bar.set_draw_target(ProgressDrawTarget::stderr());
        Ok(())
    }

    fn begin(&mut self, at: &Place) -> Result<()> {
        self.begun = Instant::now();
        let known = "{prefix} {bar:24.cyan/blue} {pos}/{len}  {msg}  {speed}  {eta} left";
        let unknown = "{prefix} {spinner:.cyan} {pos} steps  {msg}  {speed}";
        let style = ProgressStyle::with_template(if at.batches.is_some() { known } else { unknown });
        let speed = |state: &ProgressState, to: &mut dyn Write| _ = write!(to, "{:.1} it/s", state.per_sec());
        self.bar.set_style(style.map_err(Error::other)?.with_key("speed", speed));
        if let Some(batches) = at.batches {
            // the epochs to come are taken to be as long
            self.bar.set_length((at.step - at.batch).saturating_add(batches.saturating_mul(at.epochs - at.epoch)));
        }
        self.bar.set_prefix(self.epoch_of(at.epoch));
        Ok(())
    }

    fn step(&mut self, record: &Record) -> Result<()> {
        self.bar.set_position(record.step);
        if self.shown.is_none_or(|shown| shown.elapsed() >= BETWEEN_NUMBERS) && !self.bar.is_hidden() {
            self.bar.set_message(record.to_string());
            self.shown = Some(Instant::now());
        }
        Ok(())
    }

    fn epoch(&mut self, record: &Record) -> Result<ControlFlow<()>> {
        let line = format!("{}  {record}  {:.1} s", self.epoch_of(record.epoch), self.begun.elapsed().as_secs_f64());
        if self.bar.is_hidden() {
            say(&line);
        } else {
            self.bar.println(line);
        }
        Ok(ControlFlow::Continue(()))
    }

    fn end(&mut self, stopped: Stopped) -> Result<()> {
        // a bar that is finished is at its end
        let steps = self.bar.position();
        self.bar.finish_and_clear();
        if stopped != Stopped::Finished {
            let why = if stopped == Stopped::Early { "stopped early" } else { "interrupted" };
            say(&format!("{why} after {steps} steps"));
        }
        Ok(())
    }
}
