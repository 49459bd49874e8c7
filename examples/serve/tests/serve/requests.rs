//! Every status code and its message.

use crate::clients::{images, net};
use crate::http::{Client, Response};
use dl::prelude::*;
use dl::train::Batching;
use serde_json::{Value, json};
use serve::api::{Limits, Models, serve};
use serve::net::{EXPERTS, Image, Net};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

pub(crate) struct LocalService {
    pub(crate) address: SocketAddr,
    stop: oneshot::Sender<()>,
    served: JoinHandle<std::io::Result<()>>,
}

pub(crate) async fn local(net: impl Into<Models>, limits: Limits) -> LocalService {
    let models = net.into();
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel();
    let stopped = async move { stopped.await.unwrap_or(()) };
    LocalService { address, stop, served: tokio::spawn(serve(listener, models, limits, stopped)) }
}

impl LocalService {
    async fn get(&self, path: &str) -> Response {
        Client::connect(self.address).await.get(path).await
    }

    async fn post(&self, body: impl AsRef<[u8]>) -> (u16, Value) {
        let response = Client::connect(self.address).await.post("/predict", body).await;
        (response.status, response.json())
    }
}

fn offline(net: &Net, image: &Image) -> Value {
    let answer = net.classify(&[*image]).wait().unwrap().swap_remove(0);
    serde_json::from_str(&serde_json::to_string(&answer).unwrap()).unwrap()
}

#[tokio::test]
async fn predict_accepts_flat_and_nested_images_single_and_several() {
    let (net, images) = (net(), images());
    let service = local(net.clone(), Limits::default()).await;
    let expected: Vec<Value> = images[..20].iter().map(|(_, image)| offline(&net, image)).collect();
    assert!(expected.iter().any(|answer| answer["expert"] != expected[0]["expert"]), "all images select one expert");
    assert_eq!(expected[0]["gate"].as_array().unwrap().len(), EXPERTS);

    let flat = &images[0].0;
    let rows: Vec<&[u8]> = flat.chunks(8).collect();
    for image in [json!(flat), json!(rows)] {
        assert_eq!(service.post(json!({ "image": image }).to_string()).await, (200, expected[0].clone()));
    }
    let some: Vec<&Vec<u8>> = images[..20].iter().map(|(greys, _)| greys).collect();
    let body = json!({ "images": some }).to_string();
    assert_eq!(service.post(body).await, (200, json!({ "answers": expected })));
}

#[tokio::test]
async fn page_has_no_external_resources() {
    let service = local(net(), Limits::default()).await;
    let page = service.get("/").await;
    assert_eq!(page.status, 200);
    assert!(page.header("content-type").starts_with("text/html"));
    let text = page.text();
    assert!(text.contains("<canvas"));
    for resource in ["http://", "https://", "src=", "@import", "url("] {
        assert!(!text.contains(resource), "{resource}");
    }
    let health = service.get("/healthz").await;
    assert_eq!((health.status, health.text()), (200, r#"{"status":"ok"}"#));
}

#[tokio::test]
async fn invalid_request_returns_status_and_message() {
    let service = local(net(), Limits::default()).await;
    let pixels = |first: &str| format!(r#"{{"image": [{first}{}]}}"#, ", 0".repeat(63));
    let expected = "expected a number from 0 to 16, found";
    let cases: &[(&str, u16, String)] = &[
        ("", 400, "the body is not JSON: EOF while parsing a value at line 1 column 0".to_owned()),
        ("{", 400, "the body is not JSON: EOF while parsing an object at line 1 column 1".to_owned()),
        (&pixels("NaN"), 400, "the body is not JSON: expected value at line 1 column 12".to_owned()),
        (&pixels("1e999"), 400, "the body is not JSON: number out of range at line 1 column 16".to_owned()),
        (&"[".repeat(1000), 400, "the body is not JSON: recursion limit exceeded at line 1 column 128".to_owned()),
        ("[]", 422, r#"expected {"image": …} or {"images": [ … ]}, found an array of 0"#.to_owned()),
        ("{}", 422, r#"expected {"image": …} or {"images": [ … ]}, found an object with []"#.to_owned()),
        (
            r#"{"picture": 1}"#,
            422,
            r#"expected {"image": …} or {"images": [ … ]}, found an object with ["picture"]"#.to_owned(),
        ),
        (r#"{"image": 7}"#, 422, "image: expected 64 numbers, or 8 rows of 8, found 7".to_owned()),
        (r#"{"image": [1, 2]}"#, 422, "image: expected 64 numbers, or 8 rows of 8, found an array of 2".to_owned()),
        (
            r#"{"image": [[0], 1, 2, 3, 4, 5, 6, 7]}"#,
            422,
            "image[0]: expected a row of 8 numbers, found an array of 1".to_owned(),
        ),
        (&pixels("17"), 422, format!("image[0]: {expected} 17")),
        (&pixels("-0.5"), 422, format!("image[0]: {expected} -0.5")),
        (&pixels("null"), 422, format!("image[0]: {expected} null")),
        (&pixels(r#""NaN""#), 422, format!(r#"image[0]: {expected} the string "NaN""#)),
        (r#"{"images": []}"#, 422, "images: expected 1 to 128 images, found 0".to_owned()),
        (r#"{"images": [[]]}"#, 422, "images[0]: expected 64 numbers, or 8 rows of 8, found an array of 0".to_owned()),
        (
            &json!({ "images": vec![vec![0; 64]; 129] }).to_string(),
            422,
            "images: expected 1 to 128 images, found 129".to_owned(),
        ),
    ];
    for &(body, status, ref error) in cases {
        assert_eq!(service.post(body.to_owned()).await, (status, json!({ "error": error })), "{body:.60}");
    }
    let (status, answer) = service.post(b"{\"image\xff".to_vec()).await;
    assert_eq!(status, 400, "{answer}");

    let (status, answer) = service.post(vec![b' '; Limits::default().body + 1]).await;
    assert_eq!((status, answer), (413, json!({ "error": "the body is larger than 262144 bytes" })));

    let nowhere = service.get("/digits").await;
    assert_eq!(nowhere.status, 404);
    let error = json!({ "error": "there is no /digits: valid requests are GET /, /healthz, /readyz, /metrics, POST /predict, and POST /embed with an encoder" });
    assert_eq!(nowhere.json(), error);
    assert_eq!(service.get("/predict").await.status, 405);

    // The service must still answer after all errors.
    assert_eq!(service.post(pixels("16")).await.0, 200);
}

#[tokio::test]
async fn failed_prediction_returns_500() {
    let net = net();
    let bias = net.gate.bias.as_ref().unwrap();
    let finite = bias.value();
    bias.set(Nd::from([f32::NAN; EXPERTS]));
    let service = local(net.clone(), Limits::default()).await;
    let (status, answer) = service.post(json!({ "image": vec![1; 64] }).to_string()).await;
    assert_eq!(status, 500);
    let error = answer["error"].as_str().unwrap();
    assert!(error.starts_with("the prediction failed: ") && error.contains("is not finite"), "{error}");
    // The service lives: its next prediction reads the mended weights.
    bias.set(finite);
    assert_eq!(service.post(json!({ "image": vec![1; 64] }).to_string()).await.0, 200);
}

/// Sends the head and a part of the body of a request.
async fn begun(address: &str) -> TcpStream {
    let mut connection = TcpStream::connect(address).await.unwrap();
    let body = json!({ "image": vec![1; 64] }).to_string();
    let head = format!("POST /predict HTTP/1.1\r\nhost: {address}\r\ncontent-length: {}\r\n\r\n", body.len());
    connection.write_all(format!("{head}{}", &body[..20]).as_bytes()).await.unwrap();
    connection
}

/// Sends the rest of the body and returns the response.
async fn completed(mut connection: TcpStream) -> String {
    let body = json!({ "image": vec![1; 64] }).to_string();
    connection.write_all(&body.as_bytes()[20..]).await.unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn open_request_is_answered_before_shutdown() {
    let service = local(net(), Limits::default()).await;
    let address = service.address.to_string();
    let connection = begun(&address).await;
    assert_eq!(service.get("/healthz").await.status, 200); // the bytes above have arrived
    service.stop.send(()).unwrap();
    while TcpStream::connect(&address).await.is_ok() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert!(!service.served.is_finished());
    let answer = completed(connection).await;
    assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.contains("probabilities"), "{answer}");
    service.served.await.unwrap().unwrap();
}

#[tokio::test]
async fn half_closed_connection_is_answered() {
    let service = local(net(), Limits::default()).await;
    let address = service.address.to_string();
    let body = json!({ "image": vec![1; 64] }).to_string();
    for request in [
        format!("POST /predict HTTP/1.1\r\nhost: {address}\r\ncontent-length: {}\r\n\r\n{body}", body.len()),
        format!("GET /healthz HTTP/1.1\r\nhost: {address}\r\n\r\n"),
    ] {
        let mut connection = TcpStream::connect(&address).await.unwrap();
        connection.write_all(request.as_bytes()).await.unwrap();
        connection.shutdown().await.unwrap();
        let mut answer = String::new();
        connection.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 OK"), "{request}: {answer:?}");
    }
}

#[tokio::test]
async fn half_closed_incomplete_request_is_closed_at_once() {
    let limits = Limits { connections: 1, ..Limits::default() };
    let service = local(net(), limits).await;
    let mut connection = begun(&service.address.to_string()).await;
    connection.shutdown().await.unwrap();
    let begun = std::time::Instant::now();
    assert_eq!(service.get("/healthz").await.status, 200); // the only permit is free again
    assert!(begun.elapsed() < limits.request_timeout / 2);
}

#[tokio::test]
async fn incomplete_request_times_out() {
    let limits = Limits { request_timeout: Duration::from_millis(200), ..Limits::default() };
    let service = local(net(), limits).await;
    let mut connection = begun(&service.address.to_string()).await;
    let mut answer = [0; 24];
    connection.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 408 Request Tim");

    let _mute = begun(&service.address.to_string()).await;
    let mut half = TcpStream::connect(service.address).await.unwrap();
    half.write_all(b"GET /hea").await.unwrap();
    assert_eq!(service.get("/healthz").await.status, 200); // the bytes above have arrived
    service.stop.send(()).unwrap();
    let cut_off = service.served.await.unwrap().unwrap_err();
    assert_eq!(cut_off.to_string(), "some requests did not complete within 200ms and were cut off");
}

#[tokio::test]
async fn idle_connection_is_closed_and_frees_its_permit() {
    let limits = Limits { connections: 2, idle_timeout: Duration::from_millis(200), ..Limits::default() };
    let service = local(net(), limits).await;
    let mut silent = TcpStream::connect(service.address).await.unwrap();
    let mut half = TcpStream::connect(service.address).await.unwrap();
    half.write_all(b"GET /hea").await.unwrap();
    // Both permits are taken until the connections time out.
    let begun = std::time::Instant::now();
    assert_eq!(service.get("/healthz").await.status, 200);
    assert!(begun.elapsed() >= Duration::from_millis(100));
    for connection in [&mut silent, &mut half] {
        assert!(!matches!(connection.read(&mut [0; 16]).await, Ok(1..)), "the connection was not closed");
    }
}

/// A byte now and then resets the idle timeout, but not the timeout of the whole request.
#[tokio::test]
async fn slow_request_times_out() {
    let short = Duration::from_millis(200);
    let limits = Limits { connections: 1, idle_timeout: short, request_timeout: short, ..Limits::default() };
    let service = local(net(), limits).await;
    let mut slow = TcpStream::connect(service.address).await.unwrap();
    slow.write_all(b"GET /healthz HTTP/1.1\r\nx: ").await.unwrap();
    let trickle = tokio::spawn(async move {
        while slow.write_all(b"a").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    assert_eq!(service.get("/healthz").await.status, 200);
    trickle.await.unwrap();
}

#[tokio::test]
async fn closed_connections_do_not_affect_other_requests() {
    // the queue has space for the images of all of them
    let batching = Batching { queue: 4096, ..Batching::default() };
    let service = local(net(), Limits { batching, ..Limits::default() }).await;
    let body = json!({ "images": vec![vec![1; 64]; 128] }).to_string();
    let head = format!("POST /predict HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n", body.len());
    for _ in 0..20 {
        let mut connection = TcpStream::connect(service.address).await.unwrap();
        connection.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
    }
    assert_eq!(service.post(json!({ "image": vec![1; 64] }).to_string()).await.0, 200);
    service.stop.send(()).unwrap();
    service.served.await.unwrap().unwrap();
}

/// The value of a metric.
fn metric(metrics: &str, name: &str) -> f64 {
    let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("{name} is missing in {metrics}")).parse().expect("a number")
}

#[tokio::test]
async fn answer_has_the_same_bits_in_every_batch() {
    let (net, images) = (net(), images());
    let images: Vec<Image> = images.into_iter().map(|(_, image)| image).collect();
    let alone: Vec<_> = images.iter().map(|image| net.classify(&[*image]).wait().unwrap().swap_remove(0)).collect();
    let bits = |numbers: &[f32]| numbers.iter().map(|number| number.to_bits()).collect::<Vec<_>>();
    for size in [2, 3, 7, 32, 97, images.len()] {
        for (images, alone) in images.chunks(size).zip(alone.chunks(size)) {
            let answers = net.classify(images).wait().unwrap();
            assert_eq!(answers, alone, "batches of {size}");
            for (answer, alone) in answers.iter().zip(alone) {
                assert_eq!(bits(&answer.probabilities), bits(&alone.probabilities), "batches of {size}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn full_queue_is_answered_with_503_and_other_requests_go_on() {
    // A batch of two begins after a minute, or when the second image comes.
    let batching = Batching { size: 2, wait: Duration::from_secs(60), queue: 2 };
    let service = local(net(), Limits { batching, ..Limits::default() }).await;
    let image = vec![1; 64];
    let waiting = {
        let (address, body) = (service.address, json!({ "image": image }).to_string());
        tokio::spawn(async move { Client::connect(address).await.post("/predict", body).await.status })
    };
    while metric(service.get("/metrics").await.text(), r#"serve_queue_length{model="digits"}"#) < 1.0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let two = json!({ "images": [image, image] }).to_string();
    let full = Client::connect(service.address).await.post("/predict", two).await;
    assert_eq!((full.status, full.header("retry-after")), (503, "1"));
    assert_eq!(full.json(), json!({ "error": "the queue is full: it holds 2 inputs" }));
    assert_eq!(service.get("/readyz").await.status, 200); // there is space for one
    assert_eq!(service.post(json!({ "image": image }).to_string()).await.0, 200);
    assert_eq!(waiting.await.unwrap(), 200);
    let metrics = service.get("/metrics").await;
    assert_eq!(metric(metrics.text(), r#"serve_requests_total{path="/predict",status="503"}"#), 1.0);
    assert_eq!(metric(metrics.text(), r#"serve_batch_size_bucket{model="digits",le="1"}"#), 0.0);
    assert_eq!(metric(metrics.text(), r#"serve_batch_size_bucket{model="digits",le="2"}"#), 1.0);
}

#[tokio::test]
async fn late_prediction_is_answered_with_503_and_leaves_the_queue() {
    let batching = Batching { size: 2, wait: Duration::from_millis(500), queue: 2 };
    let limits = Limits { batching, request_timeout: Duration::from_millis(50), ..Limits::default() };
    let service = local(net(), limits).await;
    let (status, answer) = service.post(json!({ "image": vec![1; 64] }).to_string()).await;
    let error = "the predictions were not completed within 50ms";
    assert_eq!((status, answer), (503, json!({ "error": error })));
    while metric(service.get("/metrics").await.text(), r#"serve_queue_length{model="digits"}"#) > 0.0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let metrics = service.get("/metrics").await;
    assert!(!metrics.text().contains("serve_batch_size_count"), "the image was computed");
}

#[tokio::test]
async fn metrics_have_the_format_of_prometheus() {
    let service = local(net(), Limits::default()).await;
    service.post("{").await;
    service.post(json!({ "image": vec![1; 64] }).to_string()).await;
    service.get("/nowhere").await;
    let metrics = service.get("/metrics").await;
    assert_eq!(metrics.header("content-type"), "text/plain; version=0.0.4; charset=utf-8");
    let mut kinds = std::collections::HashMap::new();
    for line in metrics.text().lines() {
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["#", "HELP", ..] => {}
            ["#", "TYPE", name, kind] => assert!(kinds.insert(name, kind).is_none(), "{name} twice"),
            [series, value] => {
                let name = series.split('{').next().unwrap();
                let family = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
                let kind = family.and_then(|family| kinds.get(family)).or(kinds.get(name));
                assert!(kind.is_some() && value.parse::<f64>().is_ok(), "{line}");
            }
            _ => panic!("{line}"),
        }
    }
    assert_eq!(kinds.len(), 4);
    for (path, status) in [("/predict", 200), ("/predict", 400), ("other", 404)] {
        let name = format!(r#"serve_requests_total{{path="{path}",status="{status}"}}"#);
        assert_eq!(metric(metrics.text(), &name), 1.0, "{name}");
    }
    let latencies =
        |le: &str| metric(metrics.text(), &format!(r#"serve_request_seconds_bucket{{path="/predict",le="{le}"}}"#));
    assert!(latencies("0.0005") <= latencies("10") && latencies("+Inf") == 2.0);
}

#[tokio::test]
async fn readiness_ends_before_connections_are_refused() {
    let limits = Limits { drain: Duration::from_millis(300), ..Limits::default() };
    let service = local(net(), limits).await;
    assert_eq!(service.get("/readyz").await.text(), r#"{"status":"ready"}"#);
    service.stop.send(()).unwrap();
    let mut ready = Client::connect(service.address).await.get("/readyz").await;
    while ready.status == 200 {
        ready = Client::connect(service.address).await.get("/readyz").await;
    }
    assert_eq!((ready.status, ready.json()), (503, json!({ "error": "the service is stopping" })));
    assert_eq!(ready.header("retry-after"), "1");
    let mut client = Client::connect(service.address).await;
    assert_eq!(client.get("/healthz").await.status, 200);
    assert_eq!(client.post("/predict", json!({ "image": vec![1; 64] }).to_string()).await.status, 200);
    service.served.await.unwrap().unwrap();
    assert!(TcpStream::connect(service.address).await.is_err());
}

/// The image is in the queue when the service stops.
#[tokio::test(flavor = "multi_thread")]
async fn accepted_request_is_answered_after_shutdown_begins() {
    let batching = Batching { size: 2, wait: Duration::from_millis(300), queue: 2 };
    let service = local(net(), Limits { batching, ..Limits::default() }).await;
    let (address, body) = (service.address, json!({ "image": vec![1; 64] }).to_string());
    let waiting = tokio::spawn(async move { Client::connect(address).await.post("/predict", body).await.status });
    while metric(service.get("/metrics").await.text(), r#"serve_queue_length{model="digits"}"#) < 1.0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    service.stop.send(()).unwrap();
    assert_eq!(waiting.await.unwrap(), 200);
    service.served.await.unwrap().unwrap();
}
