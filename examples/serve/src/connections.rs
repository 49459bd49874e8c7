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
pub(crate) struct LimitedListener {
    listener: TcpListener,
    permits: Arc<Semaphore>,
    idle_timeout: Duration,
    request_timeout: Duration,
}

impl LimitedListener {
    pub(crate) fn new(
        listener: TcpListener,
        connections: usize,
        idle_timeout: Duration,
        request_timeout: Duration,
    ) -> Self {
        LimitedListener { listener, permits: Arc::new(Semaphore::new(connections)), idle_timeout, request_timeout }
    }
}

impl Listener for LimitedListener {
    type Io = LimitedConnection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (LimitedConnection, SocketAddr) {
        let permit = self.permits.clone().acquire_owned().await.expect("the semaphore is never closed");
        let (stream, address) = Listener::accept(&mut self.listener).await;
        let _ = stream.set_nodelay(true); // without it, an answer is late but complete
        let (idle_timeout, whole) = (self.idle_timeout, self.idle_timeout + self.request_timeout);
        (
            LimitedConnection {
                stream,
                idle_timeout,
                whole,
                begun: None,
                deadline: Box::pin(sleep(idle_timeout)),
                _permit: permit,
            },
            address,
        )
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// A connection that times out when no bytes arrive for `idle_timeout`, or when a request is
/// incomplete `idle_timeout + request_timeout` after its first byte.
pub(crate) struct LimitedConnection {
    stream: TcpStream,
    idle_timeout: Duration,
    /// The time limit from the first byte of a request to the response.
    whole: Duration,
    /// The time of the first byte received since the last write.
    begun: Option<Instant>,
    deadline: Pin<Box<Sleep>>,
    _permit: OwnedSemaphorePermit,
}

impl AsyncRead for LimitedConnection {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, to: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let connection = &mut *self;
        if let Poll::Ready(read) = pin!(&mut connection.stream).poll_read(cx, to) {
            let now = Instant::now();
            let whole = *connection.begun.get_or_insert(now) + connection.whole;
            connection.deadline.as_mut().reset(whole.min(now + connection.idle_timeout));
            return Poll::Ready(read);
        }
        ready!(connection.deadline.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncWrite for LimitedConnection {
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
