//! Ranks as processes, connected by MPI.
//!
//! Everything is called by one thread, the one that made the engine (`MPI_THREAD_FUNNELED`). Sends
//! and receives are nonblocking, so that two ranks may send to each other at the same time, and so
//! that a rank can send a sign of life while a long message is on its way.

use crate::Engine;
use dl_core::{Error, Result, buffers};
use std::collections::VecDeque;
use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Thread, ThreadId};
use std::time::{Duration, Instant};

/// The functions of `mpi.c`.
mod c {
    use super::{c_char, c_int, c_void};

    unsafe extern "C" {
        pub(super) fn dl_mpi_start(
            again: *mut c_int,
            rank: *mut c_int,
            size: *mut c_int,
            host: *mut c_char,
            len: *mut c_int,
        ) -> c_int;
        pub(super) fn dl_mpi_send(bytes: *const c_void, len: c_int, to: c_int, tag: c_int, handle: *mut u64) -> c_int;
        pub(super) fn dl_mpi_probe(
            found: *mut c_int,
            from: *mut c_int,
            tag: *mut c_int,
            len: *mut c_int,
            handle: *mut u64,
        ) -> c_int;
        pub(super) fn dl_mpi_receive(bytes: *mut c_void, len: c_int, handle: *mut u64) -> c_int;
        pub(super) fn dl_mpi_test(handle: *mut u64, done: *mut c_int) -> c_int;
        pub(super) fn dl_mpi_error(code: c_int, text: *mut c_char, len: *mut c_int) -> c_int;
        pub(super) fn dl_mpi_end() -> c_int;
        pub(super) fn dl_mpi_abort(code: c_int);
        pub(super) fn dl_mpi_exit(code: c_int) -> !;
    }
}

/// Counts of MPI are C integers: a longer message is sent in pieces of this many bytes.
const PIECE: usize = 1 << 30;

/// The last piece of a message, another piece, an empty message.
const LAST: c_int = 0;
const MORE: c_int = 1;
const EMPTY: c_int = 2;

/// `receive` sleeps for 1/16 of the time since the last message, between these limits, as MPI
/// cannot wake it. The longest sleep delays the first message after a long computation.
/// (`benches/ranks.rs`.)
const NAPS: [Duration; 2] = [Duration::from_micros(20), Duration::from_micros(500)];

/// How long the last messages may take at the end of a program, and an abort of MPI.
const LEAVE: Duration = Duration::from_secs(3);
const ABORT: Duration = Duration::from_millis(500);

/// The exit status of an aborted process: `EX_SOFTWARE` of `sysexits.h`.
const ABORTED: c_int = 70;

/// A message on its way to another rank. MPI reads the bytes until all requests are done.
struct Sent {
    requests: Vec<u64>,
    bytes: Vec<u8>,
}

/// A piece of a message from another rank. MPI writes the bytes until the request is done.
struct Piece {
    request: u64,
    is_done: bool,
    is_last: bool,
    bytes: Vec<u8>,
}

/// Of one sender.
#[derive(Default)]
struct Incoming {
    pieces: VecDeque<Piece>,
    /// The pieces of the next message that have arrived.
    start: Vec<u8>,
}

/// The rank of this process. It must be used by the thread that made it.
pub(crate) struct Mpi {
    rank: usize,
    host: String,
    thread: ThreadId,
    last: Instant,
    woken: Arc<(AtomicBool, Thread)>,
    sent: Vec<Sent>,
    /// By sender.
    incoming: Vec<Incoming>,
    arrived: VecDeque<(usize, Vec<u8>)>,
    /// The time after which a silent rank counts as lost.
    silence: Duration,
    /// Messages are cut into pieces of so many bytes.
    piece: usize,
    is_broken: bool,
    has_ended: bool,
}

impl Mpi {
    /// Starts MPI. A process can do so once.
    ///
    /// # Errors
    /// Those of MPI; and if it was started before.
    pub(crate) fn start(silence: Duration) -> Result<Mpi> {
        let (mut again, mut rank, mut size, mut len) = (0, 0, 0, 0);
        let mut host = [0; 1024];
        // SAFETY: all pointers are those of live variables, and `host` has the 1024 bytes that the
        // function needs.
        let code = unsafe { c::dl_mpi_start(&mut again, &mut rank, &mut size, host.as_mut_ptr().cast(), &mut len) };
        checked(code)?;
        if again != 0 {
            return Err(Error::invalid("MPI can be started only once in a process"));
        }
        Ok(Mpi {
            rank: rank as usize,
            host: String::from_utf8_lossy(&host[..len as usize]).into_owned(),
            thread: thread::current().id(),
            last: Instant::now(),
            woken: Arc::new((AtomicBool::new(false), thread::current())),
            sent: Vec::new(),
            incoming: (0..size).map(|_| Incoming::default()).collect(),
            arrived: VecDeque::new(),
            silence,
            piece: PIECE,
            is_broken: false,
            has_ended: false,
        })
    }

    /// Panics on another thread: MPI has been started for one thread only.
    fn check_thread(&self) {
        assert_eq!(thread::current().id(), self.thread, "MPI must be called by the thread that started it");
    }

    /// Notices which sends have ended, and takes messages that have arrived, unless there is one
    /// that the caller has not taken.
    fn progress(&mut self) -> Result<()> {
        let mut failed = Ok(());
        self.sent.retain_mut(|sent| {
            while let Some(request) = sent.requests.last_mut() {
                match is_done(request) {
                    Ok(true) => drop(sent.requests.pop()),
                    Ok(false) => return true,
                    Err(error) => {
                        failed = Err(error);
                        return true;
                    }
                }
            }
            buffers::give_back(std::mem::take(&mut sent.bytes));
            false
        });
        failed?;
        while self.arrived.is_empty()
            && let Some((from, piece)) = probe()?
        {
            self.incoming[from].pieces.push_back(piece);
            self.take(from)?;
        }
        (0..self.incoming.len()).try_for_each(|from| self.take(from))
    }

    /// Takes the messages of one rank that have arrived, in order. An empty one may overtake
    /// others.
    fn take(&mut self, from: usize) -> Result<()> {
        let Incoming { pieces, start } = &mut self.incoming[from];
        for piece in &mut *pieces {
            piece.is_done = piece.is_done || is_done(&mut piece.request)?;
        }
        pieces.retain(|piece| {
            let is_empty = piece.is_done && piece.bytes.is_empty();
            if is_empty {
                self.arrived.push_back((from, Vec::new()));
            }
            !is_empty
        });
        while let Some(Piece { bytes, is_last, .. }) = pieces.pop_front_if(|piece| piece.is_done) {
            if start.is_empty() {
                *start = bytes;
            } else {
                start.try_reserve(bytes.len()).map_err(|_| too_long(from, start.len() + bytes.len()))?;
                start.extend_from_slice(&bytes);
            }
            if is_last {
                self.arrived.push_back((from, std::mem::take(start)));
            }
        }
        Ok(())
    }

    /// Waits until all messages are sent.
    fn flush(&mut self) -> Result<bool> {
        let begin = Instant::now();
        while !self.sent.is_empty() && begin.elapsed() < LEAVE {
            self.progress()?;
            self.arrived.clear(); // signs of life
            thread::yield_now();
        }
        Ok(self.sent.is_empty())
    }
}

impl Engine for Mpi {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.incoming.len()
    }

    fn host(&self) -> String {
        self.host.clone()
    }

    fn send(&mut self, to: usize, bytes: Vec<u8>) -> Result<()> {
        self.check_thread();
        let mut sent = Sent { requests: Vec::new(), bytes };
        let pieces = sent.bytes.chunks(self.piece);
        let last = pieces.len().saturating_sub(1);
        let pieces = pieces.enumerate().map(|(n, piece)| (piece, if n == last { LAST } else { MORE }));
        let empty = sent.bytes.is_empty().then_some((&[][..], EMPTY));
        for (piece, tag) in pieces.chain(empty) {
            let mut request = 0;
            // SAFETY: the bytes live, and are not written, until the request is done: `sent` keeps
            // the vector, or `drop` leaks it. A piece is no longer than a C integer can count.
            let code =
                unsafe { c::dl_mpi_send(piece.as_ptr().cast(), piece.len() as c_int, to as c_int, tag, &mut request) };
            if let Err(error) = checked(code) {
                self.is_broken = true;
                self.sent.push(sent);
                return Err(error);
            }
            sent.requests.push(request);
        }
        self.last = Instant::now();
        self.sent.push(sent);
        Ok(())
    }

    fn receive(&mut self, wait: Duration) -> Result<Option<(usize, Vec<u8>)>> {
        self.check_thread();
        let begin = (!wait.is_zero()).then(Instant::now);
        loop {
            self.progress().inspect_err(|_| self.is_broken = true)?;
            if let Some(message) = self.arrived.pop_front() {
                // A sign of life is not the beginning of anything.
                if !message.1.is_empty() {
                    self.last = Instant::now();
                }
                return Ok(Some(message));
            }
            // Acquire: synchronizes with the store of the waker, so that the caller sees why.
            if self.woken.0.load(Ordering::Relaxed) && self.woken.0.swap(false, Ordering::Acquire) {
                self.last = Instant::now();
                return Ok(None);
            }
            let Some(begin) = begin else { return Ok(None) };
            let now = Instant::now();
            let Some(left) = wait.checked_sub(now - begin).filter(|left| !left.is_zero()) else { return Ok(None) };
            let idle = now - self.last;
            // A long message moves only while both of its ranks call MPI.
            let is_moving = !self.sent.is_empty() || self.incoming.iter().any(|from| !from.pieces.is_empty());
            if is_moving {
                thread::yield_now();
            } else {
                thread::park_timeout((idle / 16).clamp(NAPS[0], NAPS[1]).min(left));
            }
        }
    }

    fn waker(&self) -> Option<Box<dyn Fn() + Send + Sync>> {
        let woken = self.woken.clone();
        Some(Box::new(move || {
            // Release: the thread that is woken sees the earlier writes of the caller.
            woken.0.store(true, Ordering::Release);
            woken.1.unpark();
        }))
    }

    fn silence(&self) -> Option<Duration> {
        Some(self.silence)
    }

    /// A process that ends without `MPI_Finalize`, because its program has failed, ends the job.
    fn end(&mut self, failed: bool) {
        self.check_thread();
        let is_whole = !self.is_broken && self.flush().unwrap_or(false);
        if !failed && is_whole && self.incoming.iter().all(|from| from.pieces.is_empty()) {
            // SAFETY: this thread started MPI, no request is left, and nothing calls MPI
            // afterwards. An error at the very end has no consequence.
            let _ = unsafe { c::dl_mpi_end() };
            self.has_ended = true;
        }
    }

    fn abort(&mut self, reason: &str) {
        eprintln!("{reason}");
        self.is_broken = true;
        // The launcher may be out of reach, too.
        thread::spawn(|| {
            thread::sleep(ABORT);
            // SAFETY: the function has no conditions. Nothing of this process runs afterwards.
            unsafe { c::dl_mpi_exit(ABORTED) }
        });
        if thread::current().id() == self.thread {
            // SAFETY: MPI was started by this thread and has not been ended.
            unsafe { c::dl_mpi_abort(ABORTED) }
        }
    }
}

impl Drop for Mpi {
    fn drop(&mut self) {
        if !self.has_ended {
            // MPI may still read or write these bytes.
            std::mem::forget((std::mem::take(&mut self.sent), std::mem::take(&mut self.incoming)));
        }
    }
}

/// The next piece of a message of any rank, as it begins to arrive.
fn probe() -> Result<Option<(usize, Piece)>> {
    let (mut found, mut from, mut tag, mut len, mut request) = (0, 0, 0, 0, 0);
    // SAFETY: all pointers are those of live variables.
    checked(unsafe { c::dl_mpi_probe(&mut found, &mut from, &mut tag, &mut len, &mut request) })?;
    if found == 0 {
        return Ok(None);
    }
    let (from, len) = (from as usize, len as usize);
    let bytes = buffers::try_take_filled(len, |_| {}).ok_or_else(|| too_long(from, len))?;
    let mut piece = Piece { request, is_done: false, is_last: tag != MORE, bytes };
    // SAFETY: the vector has `len` bytes. They live, and nothing else reads or writes them, until the
    // request is done: the piece is kept, or `drop` leaks it.
    checked(unsafe { c::dl_mpi_receive(piece.bytes.as_mut_ptr().cast(), len as c_int, &mut piece.request) })?;
    Ok(Some((from, piece)))
}

/// Whether a request is done. Not to be asked again afterwards.
fn is_done(request: &mut u64) -> Result<bool> {
    let mut done = 0;
    // SAFETY: the pointers are those of live variables, and the request is one of MPI that was not
    // done before.
    checked(unsafe { c::dl_mpi_test(request, &mut done) })?;
    Ok(done != 0)
}

fn too_long(from: usize, len: usize) -> Error {
    Error::invalid(format!("there is no memory for a message of {len} bytes of rank {from}"))
}

/// The error of a code that is not that of success.
fn checked(code: c_int) -> Result<()> {
    if code == 0 {
        return Ok(());
    }
    let (mut text, mut len) = ([0; 1024], 0);
    // SAFETY: the pointers are those of live variables, and `text` has the 1024 bytes that the
    // function needs.
    let known = unsafe { c::dl_mpi_error(code, text.as_mut_ptr().cast(), &mut len) } == 0;
    let text = String::from_utf8_lossy(&text[..if known { len as usize } else { 0 }]);
    Err(Error::other(format!("MPI: {text} (code {code})")))
}

#[cfg(test)]
mod tests;
