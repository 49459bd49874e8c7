//! `POST /embed` with the tiny encoder of `sentence_embedding`.

use crate::clients::net;
use crate::http::Client;
use crate::requests::local;
use dl::train::Batching;
use sentence_embedding::Encoder;
use serde_json::{Value, json};
use serve::api::{Limits, Models};
use std::path::Path;
use std::time::Duration;

/// The largest difference of an element between a text alone and in a batch: sums over padded
/// sentences add in another order.
const TOLERANCE: f64 = 1e-6;

fn encoder() -> Encoder {
    let tiny = Path::new(env!("CARGO_MANIFEST_DIR")).join("../sentence_embedding/tests/tiny");
    Encoder::open(&tiny).unwrap()
}

fn models() -> Models {
    Models { net: net(), encoder: Some(encoder()) }
}

fn numbers(embedding: &Value) -> Vec<f64> {
    embedding.as_array().expect("an array").iter().map(|number| number.as_f64().expect("a number")).collect()
}

fn assert_close(found: &[f64], expected: &[f32]) {
    assert_eq!(found.len(), expected.len());
    let difference = found.iter().zip(expected).map(|(a, b)| (a - f64::from(*b)).abs()).fold(0.0, f64::max);
    assert!(difference <= TOLERANCE, "{difference:e}");
}

#[tokio::test(flavor = "multi_thread")]
async fn embeddings_of_requests_that_wait_together_are_those_of_single_texts() {
    let texts = include_str!("../../../sentence_embedding/tests/sentences.txt");
    let texts: Vec<&str> = texts.lines().take(48).collect();
    let encoder = encoder();
    let expected: Vec<Vec<f32>> = texts.iter().map(|text| encoder.embed(&[text], 1).unwrap().swap_remove(0)).collect();
    let batching = Batching { size: 16, wait: Duration::from_secs(60), ..Batching::default() };
    let service = local(models(), Limits { batching, ..Limits::default() }).await;

    // 48 clients at once: three batches
    let clients = texts.iter().map(|text| {
        let (address, body) = (service.address, json!({ "text": text }).to_string());
        tokio::spawn(async move { Client::connect(address).await.post("/embed", body).await })
    });
    for (client, expected) in clients.collect::<Vec<_>>().into_iter().zip(&expected) {
        let response = client.await.unwrap();
        assert_eq!(response.status, 200, "{}", response.text());
        assert_close(&numbers(&response.json()["embedding"]), expected);
    }
    let mut client = Client::connect(service.address).await;
    let response = client.post("/embed", json!({ "texts": texts }).to_string()).await.json();
    let embeddings = response["embeddings"].as_array().unwrap();
    assert_eq!(embeddings.len(), texts.len());
    embeddings.iter().zip(&expected).for_each(|(found, expected)| assert_close(&numbers(found), expected));
    let metrics = client.get("/metrics").await;
    assert!(metrics.text().contains(r#"serve_batch_size_count{model="encoder"} 6"#), "{}", metrics.text());
    assert!(metrics.text().contains(r#"serve_queue_length{model="encoder"} 0"#));
}

#[tokio::test]
async fn invalid_embed_request_returns_status_and_message() {
    let service = local(models(), Limits::default()).await;
    let mut client = Client::connect(service.address).await;
    for (body, status, part) in [
        ("{", 400, "the body is not JSON"),
        ("[]", 422, "expected {\"text\""),
        ("{}", 422, "one of both"),
        (r#"{"text": "a", "texts": []}"#, 422, "one of both"),
        (r#"{"text": 7}"#, 422, "invalid type: integer `7`"),
        (r#"{"words": "a"}"#, 422, "unknown field `words`"),
        (r#"{"texts": []}"#, 422, "texts: expected 1 to 128 texts, found 0"),
        (&json!({ "texts": vec!["a"; 129] }).to_string(), 422, "found 129"),
        (&" ".repeat(Limits::default().body + 1), 413, "larger than 262144 bytes"),
    ] {
        let response = Client::connect(service.address).await.post("/embed", body).await;
        assert_eq!(response.status, status, "{body:.40}: {}", response.text());
        let error = response.json()["error"].as_str().unwrap().to_owned();
        assert!(error.contains(part), "{body:.40}: {error}");
    }
    // a text without words, and one that is longer than the encoder reads
    for text in [String::new(), "word ".repeat(40_000)] {
        let response = client.post("/embed", json!({ "text": text }).to_string()).await;
        assert_eq!(response.status, 200, "{}", response.text());
    }
}

#[tokio::test]
async fn embed_without_encoder_is_not_found() {
    let service = local(net(), Limits::default()).await;
    assert_eq!(Client::connect(service.address).await.post("/embed", r#"{"text": "a"}"#).await.status, 404);
}
