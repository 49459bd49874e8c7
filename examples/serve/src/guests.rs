//! A listener with limits on the number of connections and on idle and slow connections.

use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::serve::Listener;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep, sleep};

/// Accepts a connection when a permit is available; further connections wait in the backlog of the
/// operating system.
pub(crate) struct Guests {
    listener: TcpListener,
    seats: Arc<Semaphore>,
    silence: Duration,
    patience: Duration,
}

impl Guests {
    pub(crate) fn new(listener: TcpListener, connections: usize, silence: Duration, patience: Duration) -> Self {
        Guests { listener, seats: Arc::new(Semaphore::new(connections)), silence, patience }
    }
}

impl Listener for Guests {
    type Io = Guest;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Guest, SocketAddr) {
        let seat = self.seats.clone().acquire_owned().await.expect("nobody closes it");
        let (stream, address) = Listener::accept(&mut self.listener).await;
        let (silence, whole) = (self.silence, self.silence + self.patience);
        (Guest { stream, silence, whole, begun: None, over: Box::pin(sleep(silence)), _seat: seat }, address)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// A connection that times out when no bytes arrive for `idle_timeout`, or when a request is
/// incomplete `idle_timeout + request_timeout` after its first byte.
pub(crate) struct Guest {
    stream: TcpStream,
    silence: Duration,
    /// The time limit from the first byte of a request to the response.
    whole: Duration,
    /// The time of the first byte received since the last write.
    begun: Option<Instant>,
    over: Pin<Box<Sleep>>,
    _seat: OwnedSemaphorePermit,
}

impl AsyncRead for Guest {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, to: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let guest = &mut *self;
        if let Poll::Ready(read) = pin!(&mut guest.stream).poll_read(cx, to) {
            let now = Instant::now();
            let whole = *guest.begun.get_or_insert(now) + guest.whole;
            guest.over.as_mut().reset(whole.min(now + guest.silence));
            return Poll::Ready(read);
        }
        ready!(guest.over.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncWrite for Guest {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.begun = None;
        pin!(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        pin!(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        pin!(&mut self.stream).poll_shutdown(cx)
    }
}
