//! Load on the service with and without batches: latencies and throughput. It fails if an answer is
//! an error or differs in a bit from a prediction of its image alone.
//!
//! ```sh
//! cargo run --release -p serve --example load        # --requests --clients --batch --batch-wait --rounds
//! ```

#[path = "../tests/serve/clients.rs"]
mod clients;
#[allow(dead_code, reason = "the tests use more of it")]
#[path = "../tests/serve/http.rs"]
mod http;

use clap::Parser;
use clients::{net, percentile, questions, run};
use dl::train::Batching;
use serve::api::{Limits, serve};
use std::error::Error;
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

#[derive(Parser)]
struct Args {
    /// The number of requests in a round.
    #[arg(long, default_value_t = 20_000)]
    requests: usize,

    /// The number of clients, each with a connection.
    #[arg(long, default_value_t = 64)]
    clients: usize,

    /// The maximal number of images that are computed together.
    #[arg(long, default_value_t = Batching::default().size)]
    batch: usize,

    /// How long an image waits for others at most, in microseconds.
    #[arg(long, default_value_t = Batching::default().wait.as_micros() as u64)]
    batch_wait: u64,

    /// The number of rounds, with and without batches in turns.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let args = Args::parse();
    let questions = questions(&net());
    let wait = Duration::from_micros(args.batch_wait);
    for round in 0..args.rounds {
        for (size, wait) in [(1, Duration::ZERO), (args.batch, wait)] {
            let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
            let address = listener.local_addr()?.to_string();
            let limits = Limits { batching: Batching { size, wait, ..Batching::default() }, ..Limits::default() };
            let (stop, stopped) = oneshot::channel::<()>();
            let served = tokio::spawn(serve(listener, net(), limits, async { drop(stopped.await) }));
            run(&address, &questions, args.clients, args.requests / 5).await;
            let begun = Instant::now();
            let times = run(&address, &questions, args.clients, args.requests).await;
            let per_second = times.len() as f64 / begun.elapsed().as_secs_f64();
            let [p50, p99] = [0.5, 0.99].map(|share| percentile(&times, share));
            println!("round={round} batch={size} per_second={per_second:.0} p50_ms={p50:.2} p99_ms={p99:.2} errors=0");
            drop(stop);
            served.await??;
        }
    }
    Ok(())
}
