//! What is not the library's: an executor that does no work for a pass, and a thread that answers
//! questions, by which whoever awaits an answer is woken.

use dl::{Error, Result};
use futures::channel::oneshot;
use std::future::Future;
use std::pin::pin;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

/// Sends the number to another thread, which sends it back.
pub(crate) async fn ask(number: f64) -> Result<f64> {
    type Question = (f64, oneshot::Sender<f64>);
    static QUESTIONS: OnceLock<Sender<Question>> = OnceLock::new();
    let questions = QUESTIONS.get_or_init(|| {
        let (questions, asked) = channel::<Question>();
        std::thread::spawn(move || {
            for (number, answer) in asked {
                std::thread::yield_now();
                let _ = answer.send(number); // whoever asked may have been cancelled
            }
        });
        questions
    });
    let (answer, answered) = oneshot::channel();
    questions.send((number, answer)).expect("the thread answers as long as the process lives");
    answered.await.map_err(Error::other)
}

/// Polls a future to its end on this thread. Unlike the one of the `futures` crate it may run
/// inside another one.
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
