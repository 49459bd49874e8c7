//! A progress bar on the terminal.

use crate::callback::Callback;
use crate::record::Record;
use crate::trainer::{Place, Stopped};
use dl_core::{Error, Result};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use std::fmt::Write;
use std::io::{self, Write as _};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

/// A progress bar on standard error, with the numbers of the last step, the steps per second and
/// the remaining time, and a line per epoch. If standard error is not a terminal, only the lines
/// are printed.
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
    epoch_start: Instant,
    /// The time of the last update of the numbers.
    last_refresh: Option<Instant>,
}

/// The minimum interval between updates of the numbers.
const REFRESH_INTERVAL: Duration = Duration::from_millis(50);

impl Progress {
    /// A progress bar with this name in front; empty for none.
    pub fn new(name: impl Into<String>) -> Progress {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        Progress { name: name.into(), bar, epochs: 0, epoch_start: Instant::now(), last_refresh: None }
    }

    fn epoch_label(&self, epoch: u64) -> String {
        let (space, width) = (if self.name.is_empty() { "" } else { "  " }, self.epochs.to_string().len());
        format!("{}{space}epoch {:>width$}/{}", self.name, epoch.saturating_add(1), self.epochs)
    }
}

/// Prints a line and ignores errors: a closed terminal must not end the run.
fn print_line(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

impl Callback for Progress {
    fn only_on_first_rank(&self) -> bool {
        true
    }

    fn start(&mut self, at: &Place) -> Result<()> {
        self.epochs = at.epochs;
        // draw nothing before the style is set
        self.bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        self.bar.set_position(at.step);
        self.bar.reset_eta();
        self.bar.set_draw_target(ProgressDrawTarget::stderr());
        Ok(())
    }

    fn begin(&mut self, at: &Place) -> Result<()> {
        self.epoch_start = Instant::now();
        let known = "{prefix} {bar:24.cyan/blue} {pos}/{len}  {msg}  {speed}  {eta} left";
        let unknown = "{prefix} {spinner:.cyan} {pos} steps  {msg}  {speed}";
        let style = ProgressStyle::with_template(if at.batches.is_some() { known } else { unknown });
        let speed = |state: &ProgressState, to: &mut dyn Write| _ = write!(to, "{:.1} it/s", state.per_sec());
        self.bar.set_style(style.map_err(Error::other)?.with_key("speed", speed));
        if let Some(batches) = at.batches {
            // assume that all remaining epochs have the same length
            self.bar.set_length((at.step - at.batch).saturating_add(batches.saturating_mul(at.epochs - at.epoch)));
        }
        self.bar.set_prefix(self.epoch_label(at.epoch));
        Ok(())
    }

    fn step(&mut self, record: &Record) -> Result<()> {
        self.bar.set_position(record.step);
        if self.last_refresh.is_none_or(|last| last.elapsed() >= REFRESH_INTERVAL) && !self.bar.is_hidden() {
            self.bar.set_message(record.to_string());
            self.last_refresh = Some(Instant::now());
        }
        Ok(())
    }

    fn epoch(&mut self, record: &Record) -> Result<ControlFlow<()>> {
        let line =
            format!("{}  {record}  {:.1} s", self.epoch_label(record.epoch), self.epoch_start.elapsed().as_secs_f64());
        if self.bar.is_hidden() {
            print_line(&line);
        } else {
            self.bar.println(line);
        }
        Ok(ControlFlow::Continue(()))
    }

    fn end(&mut self, stopped: Stopped) -> Result<()> {
        // read the position first: finishing moves the bar to its end
        let steps = self.bar.position();
        self.bar.finish_and_clear();
        if stopped != Stopped::Finished {
            let reason = if stopped == Stopped::Early { "stopped early" } else { "interrupted" };
            print_line(&format!("{reason} after {steps} steps"));
        }
        Ok(())
    }
}
