//! Signs of life between ranks that are processes: one that is silent for too long counts as lost.

use dl_core::Error;
use std::fmt;
use std::time::{Duration, Instant};

/// How many signs of life are sent in the time after which a rank counts as lost.
const BEATS: u32 = 6;

/// When this rank has last sent a sign of life, and when it has heard of each other.
pub(crate) struct Heartbeat {
    silence: Duration,
    beaten: Instant,
    /// When `silent` was last called.
    asked: Instant,
    /// `None` for this rank, and for ranks with a program that has ended.
    heard: Vec<Option<Instant>>,
}

impl Heartbeat {
    /// A rank that is silent for as long as `silence` counts as lost.
    pub(crate) fn new(rank: usize, size: usize, silence: Duration, now: Instant) -> Self {
        let heard = (0..size).map(|other| (other != rank).then_some(now)).collect();
        Heartbeat { silence, beaten: now, asked: now, heard }
    }

    /// How long the thread may wait for a message.
    pub(crate) fn interval(&self) -> Duration {
        self.silence / BEATS
    }

    /// Whether a sign of life must be sent now. The caller sends it.
    pub(crate) fn is_due(&mut self, now: Instant) -> bool {
        let is_due = now.saturating_duration_since(self.beaten) >= self.interval();
        if is_due {
            self.beaten = now;
        }
        is_due
    }

    pub(crate) fn heard(&mut self, from: usize, now: Instant) {
        self.heard[from].iter_mut().for_each(|heard| *heard = now);
    }

    /// Expects no further message of a rank after the end of its program.
    pub(crate) fn ended(&mut self, rank: usize) {
        self.heard[rank] = None;
    }

    /// The rank that is silent for the longest time, if that is too long, and the time. A time in
    /// which this thread could not ask, because its process was stopped, does not count: messages
    /// of that time are still to be received.
    pub(crate) fn silent(&mut self, now: Instant) -> Option<(usize, Duration)> {
        let pause = now.saturating_duration_since(self.asked);
        self.asked = now;
        if pause > 2 * self.interval() {
            self.heard.iter_mut().flatten().for_each(|heard| *heard += pause);
        }
        let silences = self.heard.iter().enumerate();
        let silences = silences.filter_map(|(rank, heard)| Some((rank, now.saturating_duration_since((*heard)?))));
        silences.max_by_key(|(_, silence)| *silence).filter(|(_, silence)| *silence >= self.silence)
    }
}

/// A rank that is silent, as `rank 3 (node17, pid 812) is silent for 2.5 s; last step 1841`.
#[derive(Debug)]
pub(crate) struct Lost {
    pub(crate) rank: usize,
    /// Its host and process, if they are known.
    pub(crate) process: Option<String>,
    pub(crate) silence: Duration,
    /// The number of the last step of this rank, which is that of the other or the one before.
    pub(crate) step: Option<u64>,
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {}", self.rank)?;
        self.process.iter().try_for_each(|process| write!(f, " ({process})"))?;
        write!(f, " is silent for {:.1} s; ", self.silence.as_secs_f64())?;
        match self.step {
            Some(step) => write!(f, "last step {step}"),
            None => f.write_str("no step was taken"),
        }
    }
}

impl std::error::Error for Lost {}

/// Whether the error is that another rank was lost: nothing has come from it for a time, since its
/// process or its host has stopped, or the network to it is down. An error that the engine itself
/// reports is not of this kind. All that waited for other ranks then fails with this error, and soon
/// afterwards the job is ended. The last checkpoint is the state to go on from.
///
/// ```
/// use dl_core::Weight;
/// let ended = dl_dist::Cluster::run(|cluster| cluster.compare(&Weight::new(1.0_f64)));
/// assert!(!ended.is_err_and(|error| dl_dist::is_lost(&error)));
/// ```
pub fn is_lost(error: &Error) -> bool {
    error.downcast_ref::<Lost>().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    #[test]
    fn rank_that_is_silent_for_too_long_is_reported() {
        let start = Instant::now();
        let mut heartbeat = Heartbeat::new(1, 4, seconds(3.0), start);
        heartbeat.ended(3);
        let mut silent = None;
        for tick in 1..=40 {
            let now = start + seconds(0.1) * tick;
            heartbeat.heard(0, now);
            heartbeat.heard(3, now);
            if tick <= 5 {
                heartbeat.heard(2, now);
            }
            silent = silent.or(heartbeat.silent(now).map(|found| (tick, found)));
        }
        assert_eq!(silent, Some((35, (2, seconds(3.0)))));
    }

    #[test]
    fn beat_is_due_six_times_in_limit() {
        let start = Instant::now();
        let mut heartbeat = Heartbeat::new(0, 2, seconds(3.0), start);
        let due = (1..=300).filter(|&tick| heartbeat.is_due(start + seconds(0.01) * tick)).count();
        assert_eq!(due, 6);
    }

    #[test]
    fn pause_of_own_process_is_no_silence_of_others() {
        let start = Instant::now();
        let mut heartbeat = Heartbeat::new(0, 2, seconds(3.0), start);
        assert_eq!(heartbeat.silent(start + seconds(0.5)), None);
        assert_eq!(heartbeat.silent(start + seconds(60.0)), None);
        let later = (1..=40).find(|&tick| heartbeat.silent(start + seconds(60.0) + seconds(0.1) * tick).is_some());
        assert_eq!(later, Some(25));
    }

    #[test]
    fn lost_rank_is_named_with_host_and_step() {
        let lost = |step| Lost { rank: 3, process: Some("node17, pid 812".into()), silence: seconds(3.04), step };
        let error = Error::other(lost(Some(1841))).context("part 2");
        assert!(is_lost(&error) && !is_lost(&Error::invalid("no")));
        assert_eq!(lost(Some(1841)).to_string(), "rank 3 (node17, pid 812) is silent for 3.0 s; last step 1841");
        assert!(lost(None).to_string().ends_with("; no step was taken"));
    }
}
