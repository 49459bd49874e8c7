//! A foreign executor, which does no work for a pass, and a thread that answers requests and wakes
//! their futures.

use dl::{Error, Result};
use futures::channel::oneshot;
use std::future::Future;
use std::pin::pin;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

/// Sends a number to another thread, which sends it back.
pub(crate) async fn ask(number: f64) -> Result<f64> {
    type Question = (f64, oneshot::Sender<f64>);
    static QUESTIONS: OnceLock<Sender<Question>> = OnceLock::new();
    let questions = QUESTIONS.get_or_init(|| {
        let (questions, asked) = channel::<Question>();
        std::thread::spawn(move || {
            for (number, answer) in asked {
                std::thread::yield_now();
                let _ = answer.send(number); // the receiver is gone if the request was cancelled
            }
        });
        questions
    });
    let (answer, answered) = oneshot::channel();
    questions.send((number, answer)).expect("the thread answers as long as the process lives");
    answered.await.map_err(Error::other)
}

/// Polls a future to completion on this thread. Unlike the function of the `futures` crate, it can
/// be nested.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}
