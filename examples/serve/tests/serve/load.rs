//! Load test with many clients: no errors, bit-identical predictions, no memory growth.
//!
//! ```sh
//! DL_SERVE_REQUESTS=10000 cargo test --release -p serve load -- --nocapture
//! ```

use crate::http::Client;
use crate::support::{Service, images, net};
use dl::prelude::*;
use serde::Deserialize;
use serde_json::{json, value::RawValue};
use serve::net::Answer;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const CLIENTS: usize = 64;
/// The maximal growth of the service's memory after the warm-up in bytes: less than a kilobyte per
/// request for 10,000 requests.
const GROWTH: usize = 8 << 20;

/// An answer with its numbers as unparsed text.
#[derive(Deserialize)]
struct Text<'a> {
    digit: usize,
    #[serde(borrow)]
    probabilities: Vec<&'a RawValue>,
    expert: usize,
    #[serde(borrow)]
    gate: Vec<&'a RawValue>,
}

fn bits(numbers: &[f32]) -> Vec<u32> {
    numbers.iter().map(|number| number.to_bits()).collect()
}

fn bits_of(numbers: &[&RawValue]) -> Vec<u32> {
    numbers.iter().map(|number| number.get().parse::<f32>().unwrap().to_bits()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_under_load_are_bit_identical_to_predict() {
    let requests = std::env::var("DL_SERVE_REQUESTS").map_or(500, |number| number.parse().expect("a number"));
    let net = net();
    let known: Arc<Vec<(String, Answer)>> = Arc::new(
        images()
            .into_iter()
            .map(|(greys, image)| {
                let answer = Answer::of(Do::predict(net.classify(&image)).wait().unwrap()).unwrap();
                (json!({ "image": greys }).to_string(), answer)
            })
            .collect(),
    );
    let service = Service::start();
    let warm_up = (requests / 5).max(500);
    run(&service, &known, warm_up).await;
    let before = resident(service.child.id());
    let begun = Instant::now();
    let mut times = run(&service, &known, requests).await;
    let (wall, after) = (begun.elapsed().as_secs_f64(), resident(service.child.id()));

    times.sort_unstable();
    let percentile = |share: f64| 1e3 * times[(share * (times.len() - 1) as f64).round() as usize].as_secs_f64();
    let per_second = times.len() as f64 / wall;
    println!("requests={} clients={CLIENTS} per_second={per_second:.0}", times.len());
    println!("p50_ms={:.2} p99_ms={:.2} max_ms={:.2}", percentile(0.5), percentile(0.99), percentile(1.0));
    assert_eq!(times.len(), requests);
    if let (Some(before), Some(after)) = (before, after) {
        println!("rss_before_mib={:.2} rss_after_mib={:.2}", before as f64 / 1048576.0, after as f64 / 1048576.0);
        assert!(after <= before + GROWTH, "the memory has grown from {before} to {after} bytes");
    }
}

/// Sends `requests` requests from clients with a connection each. Returns the latency of each
/// request.
async fn run(service: &Service, known: &Arc<Vec<(String, Answer)>>, requests: usize) -> Vec<Duration> {
    let next = Arc::new(AtomicUsize::new(0));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let (known, next, address) = (known.clone(), next.clone(), service.address.clone());
            tokio::spawn(async move {
                let (mut client, mut times) = (Client::connect(address).await, Vec::new());
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= requests {
                        return times;
                    }
                    let (question, expected) = &known[number % known.len()];
                    let begun = Instant::now();
                    let response = client.post("/predict", question).await;
                    times.push(begun.elapsed());
                    assert_eq!(response.status, 200);
                    let text: Text<'_> = serde_json::from_slice(&response.body).unwrap();
                    assert_eq!((text.digit, text.expert), (expected.digit, expected.expert));
                    assert_eq!(bits_of(&text.probabilities), bits(&expected.probabilities));
                    assert_eq!(bits_of(&text.gate), bits(&expected.gate));
                }
            })
        })
        .collect();
    let mut times = Vec::new();
    for client in clients {
        times.extend(client.await.unwrap());
    }
    times
}

/// The resident memory of a process in bytes, on systems with `/proc`.
fn resident(process: u32) -> Option<usize> {
    let pages = std::fs::read_to_string(format!("/proc/{process}/statm")).ok()?;
    Some(pages.split_whitespace().nth(1)?.parse::<usize>().ok()? * 4096)
}
