//! Output of a run: progress on stderr, results on stdout.
//!
//! Standard output depends on the seed only, except for the line that starts with `wall time`.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::args::Args;

/// The results of an epoch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Epoch {
    /// The mean training loss.
    pub(crate) loss: f32,
    /// The fraction of training images classified correctly.
    pub(crate) train_accuracy: f32,
    /// The fraction of held-out images classified correctly.
    pub(crate) test_accuracy: f32,
}

/// The results of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Summary {
    /// The fraction of held-out images classified correctly.
    pub(crate) test_accuracy: f32,
    /// The number of held-out images that each expert evaluated.
    pub(crate) expert_images: [usize; 2],
    /// The number of expert evaluations that the gate saved over the whole run.
    pub(crate) skipped_subnets: usize,
    /// Whether Ctrl-C stopped the training.
    pub(crate) interrupted: bool,
}

impl Summary {
    /// Returns an error if the network did not learn as expected.
    pub(crate) fn check(&self) -> Result<(), String> {
        let images: usize = self.expert_images.iter().sum();
        if self.test_accuracy < 0.95 {
            return Err(format!("the test accuracy is {:.4}; at least 0.95 was expected", self.test_accuracy));
        }
        if self.expert_images.iter().any(|&count| 10 * count < images) {
            return Err(format!(
                "the gate rarely selects one of the experts: {:?} of {images} images",
                self.expert_images
            ));
        }
        Ok(())
    }
}

/// Prints the progress and the results.
#[derive(Debug)]
pub(crate) struct Report {
    bar: ProgressBar,
    started: Instant,
    epochs: Vec<Epoch>,
}

impl Report {
    /// Starts the clock and the progress bar, which indicatif hides unless stderr is a terminal.
    pub(crate) fn new(args: &Args) -> Self {
        let bar = ProgressBar::new(u64::from(args.epochs));
        let style = ProgressStyle::with_template("[{elapsed}] {bar:30} {pos}/{len} epochs  {msg}");
        bar.set_style(style.expect("the template is well-formed"));
        bar.enable_steady_tick(Duration::from_millis(200));
        Self { bar, started: Instant::now(), epochs: Vec::new() }
    }

    /// Reports the end of epoch `number`, counted from 1.
    pub(crate) fn epoch(&mut self, number: u32, epoch: &Epoch) {
        let Epoch { loss, train_accuracy, test_accuracy } = *epoch;
        self.bar.set_message(format!("loss {loss:.4}  accuracy {test_accuracy:.4}"));
        self.bar.inc(1);
        self.bar.suspend(|| {
            println!("epoch {number:>3}  loss {loss:.6}  train accuracy {train_accuracy:.4}  test accuracy {test_accuracy:.4}");
        });
        self.epochs.push(*epoch);
    }

    /// The epochs so far, for the curve.
    pub(crate) fn epochs(&self) -> &[Epoch] {
        &self.epochs
    }

    /// Removes the progress bar and prints the results, first as text, then as `key=value` lines.
    pub(crate) fn finish(self, summary: &Summary) {
        self.bar.finish_and_clear();
        let images: usize = summary.expert_images.iter().sum();
        let share = summary.expert_images.map(|count| count as f32 / images.max(1) as f32);
        println!();
        if summary.interrupted {
            println!("interrupted: stopped after {} whole epochs", self.epochs.len());
        }
        println!("test accuracy {:.2} % of {images} images", 100.0 * summary.test_accuracy);
        println!("expert 0 took {:.1} % of them, expert 1 took {:.1} %", 100.0 * share[0], 100.0 * share[1]);
        println!("{} evaluations of an expert were never built, thanks to the gate", summary.skipped_subnets);
        println!("wall time {:.2} s", self.started.elapsed().as_secs_f64());
        println!("test_accuracy={:.4}", summary.test_accuracy);
        println!("expert_share={:.2},{:.2}", share[0], share[1]);
        println!("skipped_subnets={}", summary.skipped_subnets);
    }
}
