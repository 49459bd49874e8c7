//! Clients that send requests at the same time and compare the answers with offline ones.

use crate::http::Client;
use serde::Deserialize;
use serde_json::value::RawValue;
use serve::net::{Answer, Image, Net};
use serve::training::{DATA, MAX_GREY, read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use std::time::Instant;

/// The images of the data set, as grey values from 0 to 16 for requests and scaled for the network.
pub(crate) fn images() -> Vec<(Vec<u8>, Image)> {
    let (images, _) = read(Path::new(DATA)).unwrap();
    images.into_iter().map(|image| (image.iter().map(|pixel| (pixel * MAX_GREY) as u8).collect(), image)).collect()
}

/// The weights saved by `cargo run --release -p serve -- --save …`.
pub(crate) fn weights() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/serve/digits.safetensors"))
}

/// A network with these weights.
pub(crate) fn net() -> Net {
    let net = Net::new(7).unwrap();
    dl::train::load_weights(&net, weights()).unwrap();
    net
}

/// A request for each image of the data set, with the answer of a prediction of that image alone.
pub(crate) fn questions(net: &Net) -> Arc<Vec<(String, Answer)>> {
    let question = |(greys, image): (Vec<u8>, Image)| {
        let answer = net.classify(&[image]).wait().unwrap().swap_remove(0);
        (serde_json::json!({ "image": greys }).to_string(), answer)
    };
    Arc::new(images().into_iter().map(question).collect())
}

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

/// Sends `requests` requests from `clients` clients with a connection each. Returns the latencies,
/// the shortest first.
///
/// # Panics
/// If an answer is an error, or differs in a bit from the expected one.
pub(crate) async fn run(
    address: &str,
    questions: &Arc<Vec<(String, Answer)>>,
    clients: usize,
    requests: usize,
) -> Vec<Duration> {
    let next = Arc::new(AtomicUsize::new(0));
    let clients: Vec<_> = (0..clients)
        .map(|_| {
            let (questions, next, address) = (questions.clone(), next.clone(), address.to_owned());
            tokio::spawn(async move {
                let (mut client, mut times) = (Client::connect(address).await, Vec::new());
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= requests {
                        return times;
                    }
                    let (question, expected) = &questions[number % questions.len()];
                    let begun = Instant::now();
                    let response = client.post("/predict", question).await;
                    times.push(begun.elapsed());
                    assert_eq!(response.status, 200, "{}", response.text());
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
    times.sort_unstable();
    times
}

/// The latency below which this share of the latencies is, in milliseconds.
pub(crate) fn percentile(times: &[Duration], share: f64) -> f64 {
    1e3 * times[(share * (times.len() - 1) as f64).round() as usize].as_secs_f64()
}
