//! Load test with many clients: no errors, bit-identical predictions, no memory growth, with batches
//! and without.
//!
//! ```sh
//! DL_SERVE_REQUESTS=10000 cargo test --release -p serve load -- --nocapture
//! ```

use crate::clients::{net, percentile, questions, run};
use crate::http::Client;
use crate::support::Service;
use std::time::Instant;

const CLIENTS: usize = 64;
/// The maximal growth of the service's memory after the warm-up in bytes: less than a kilobyte per
/// request for 10,000 requests.
const GROWTH: usize = 8 << 20;

#[tokio::test(flavor = "multi_thread")]
async fn answers_under_load_are_bit_identical_to_predict() {
    let requests = std::env::var("DL_SERVE_REQUESTS").map_or(500, |number| number.parse().expect("a number"));
    let questions = questions(&net());
    for batch in ["32", "1"] {
        let service = Service::start_with(&["--batch", batch]);
        let warm_up = (requests / 5).max(500);
        run(&service.address, &questions, CLIENTS, warm_up).await;
        let before = resident(service.child.id());
        let begun = Instant::now();
        let times = run(&service.address, &questions, CLIENTS, requests).await;
        let (wall, after) = (begun.elapsed().as_secs_f64(), resident(service.child.id()));

        println!("batch={batch} requests={requests} per_second={:.0}", requests as f64 / wall);
        let [p50, p99, max] = [0.5, 0.99, 1.0].map(|share| percentile(&times, share));
        println!("p50_ms={p50:.2} p99_ms={p99:.2} max_ms={max:.2}");
        assert_eq!(times.len(), requests);
        if let (Some(before), Some(after)) = (before, after) {
            println!("rss_before_mib={:.2} rss_after_mib={:.2}", before as f64 / 1048576.0, after as f64 / 1048576.0);
            assert!(after <= before + GROWTH, "the memory has grown from {before} to {after} bytes");
        }

        let metrics = Client::connect(&service.address).await.get("/metrics").await;
        let value = |name: &str| -> f64 {
            let line = metrics.text().lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            line.unwrap_or_else(|| panic!("{name} is missing")).parse().expect("a number")
        };
        let answered = (warm_up + requests) as f64;
        assert_eq!(value(r#"serve_requests_total{path="/predict",status="200"}"#), answered);
        assert_eq!(value(r#"serve_request_seconds_count{path="/predict"}"#), answered);
        assert_eq!(value(r#"serve_batch_size_sum{model="digits"}"#), answered);
        let batches = value(r#"serve_batch_size_count{model="digits"}"#);
        println!("images_per_batch={:.1}", answered / batches);
        assert!(if batch == "1" { batches == answered } else { batches < answered }, "{batches} batches");
    }
}

/// The resident memory of a process in bytes, on systems with `/proc`.
fn resident(process: u32) -> Option<usize> {
    let pages = std::fs::read_to_string(format!("/proc/{process}/statm")).ok()?;
    Some(pages.split_whitespace().nth(1)?.parse::<usize>().ok()? * 4096)
}
