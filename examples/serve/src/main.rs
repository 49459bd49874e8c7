//! A gated network served over HTTP.
//!
//! ```sh
//! cargo run --release -p serve                                    # learns the digits in some seconds, then http://127.0.0.1:8000
//! cargo run --release -p serve -- --save net.safetensors
//! cargo run --release -p serve -- --weights net.safetensors --port 0
//! cargo run --release -p serve --features embed -- --encoder all-MiniLM-L6-v2
//! ```
//!
//! It prints `test_accuracy=…`, unless weights are loaded, and `listening on http://…`. Ctrl-C or
//! SIGTERM stops it after open requests are answered; a second signal stops it immediately.

use clap::Parser;
use dl::train::{Batching, load_weights, save_weights};
use serve::api::{Limits, Models, serve};
use serve::net::Net;
use serve::training::{DATA, train};
use std::error::Error;
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::watch;

/// The minimal accuracy on held-out images; below it the service does not start.
const MIN_ACCURACY: f64 = 0.9;

#[derive(Parser)]
struct Args {
    /// The address to listen on.
    #[arg(long, default_value = "127.0.0.1")]
    address: IpAddr,

    /// The port to listen on; 0 selects a free one, which is printed.
    #[arg(long, default_value_t = 8000)]
    port: u16,

    /// Saved weights; without them the network is trained first.
    #[arg(long, conflicts_with_all = ["data", "seed", "epochs"])]
    weights: Option<PathBuf>,

    /// The file to save the trained weights to.
    #[arg(long)]
    save: Option<PathBuf>,

    /// The data file: 64 grey values and a label per line.
    #[arg(long, default_value = DATA)]
    data: PathBuf,

    /// Seed of the split, the order and the initial weights.
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// The number of epochs.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..))]
    epochs: u64,

    /// The folder of an encoder of sentences, for `POST /embed`.
    #[cfg(feature = "embed")]
    #[arg(long)]
    encoder: Option<PathBuf>,

    /// The maximal number of inputs that are computed together.
    #[arg(long, default_value_t = Batching::default().size)]
    batch: usize,

    /// How long an input waits for others at most, in microseconds.
    #[arg(long, default_value_t = Batching::default().wait.as_micros() as u64)]
    batch_wait: u64,

    /// The maximal number of inputs that wait; further ones are answered with 503.
    #[arg(long, default_value_t = Batching::default().queue)]
    queue: usize,

    /// How long `/readyz` fails before connections are refused, in seconds.
    #[arg(long, default_value_t = 0)]
    drain: u64,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<(), Box<dyn Error + Send + Sync>> {
    let net = match &args.weights {
        Some(weights) => {
            let net = Net::new(0)?;
            load_weights(&net, weights)?;
            net
        }
        None => {
            let (net, accuracy) = train(&args.data, args.seed, args.epochs)?;
            println!("test_accuracy={accuracy:.4}");
            if accuracy < MIN_ACCURACY {
                return Err(format!(
                    "the accuracy of the network is {accuracy:.4}; it must be at least {MIN_ACCURACY}"
                )
                .into());
            }
            net
        }
    };
    if let Some(file) = &args.save {
        save_weights(&net, file)?;
    }
    #[cfg(feature = "embed")]
    let encoder = args.encoder.as_deref().map(sentence_embedding::Encoder::open).transpose()?;
    let models = Models {
        net,
        #[cfg(feature = "embed")]
        encoder,
    };
    let batching = Batching { size: args.batch, wait: Duration::from_micros(args.batch_wait), queue: args.queue };
    let limits = Limits { batching, drain: Duration::from_secs(args.drain), ..Limits::default() };
    tokio::runtime::Runtime::new()?.block_on(async {
        let listener = TcpListener::bind((args.address, args.port)).await?;
        let mut calls = stop_signals()?;
        let mut first = calls.clone();
        let stop = async move { drop(first.wait_for(|&calls| calls > 0).await) };
        println!("listening on http://{}", listener.local_addr()?);
        tokio::select! {
            served = serve(listener, models, limits, stop) => served?,
            _ = calls.wait_for(|&calls| calls > 1) => return Err("stopped immediately: requests may have been cut off".into()),
        }
        println!("stopped");
        Ok(())
    })
}

/// The number of stop signals so far. Installs the signal handlers.
fn stop_signals() -> std::io::Result<watch::Receiver<u32>> {
    let (sender, calls) = watch::channel(0);
    let mut signals = Signals::new()?;
    tokio::spawn(async move {
        loop {
            signals.next().await;
            sender.send_modify(|calls| *calls += 1);
        }
    });
    Ok(calls)
}

/// Ctrl-C, and SIGTERM.
#[cfg(unix)]
struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    fn new() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Signals { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// Ctrl-C.
#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Signals)
    }

    async fn next(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending().await // no signal handler could be installed
        }
    }
}
