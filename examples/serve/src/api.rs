//! The HTTP service: `POST /predict`, `GET /health`, and the page.

use crate::connections::LimitedListener;
use crate::error::ApiError;
use crate::net::{Answer, Net};
use crate::request::PredictRequest;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, FromRequest, Request, State};
use axum::http::{StatusCode, Uri};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{get, post};
use axum::serve::Listener;
use axum::{Json, Router};
use dl::Do;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use serde::Serialize;
use serde_json::json;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::time::timeout;

/// Limits on requests and connections.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// The maximal size of a body in bytes; a larger one is answered with 413.
    pub body: usize,
    /// The maximal number of images in a request; more are answered with 422.
    pub images: usize,
    /// The time limit for the body of a request, after which the answer is 408; for its
    /// predictions, after which it is 503; and for open requests at shutdown.
    pub request_timeout: Duration,
    /// The maximal number of simultaneous connections; further ones wait to be accepted.
    pub connections: usize,
    /// The time after which a connection without incoming bytes is closed. A connection on which a
    /// request is incomplete after `request_timeout` more is closed, too.
    pub idle_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        let (request_timeout, idle_timeout) = (Duration::from_secs(10), Duration::from_secs(30));
        Limits { body: 256 * 1024, images: 128, request_timeout, connections: 1024, idle_timeout }
    }
}

/// Serves until `stop` completes. Then no connection is accepted, and open requests are answered.
///
/// # Errors
/// Those of the listener, and [`TimedOut`](io::ErrorKind::TimedOut) if open requests did not
/// complete in `request_timeout`.
pub async fn serve(
    listener: TcpListener,
    net: Net,
    limits: Limits,
    stop: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let mut connections =
        LimitedListener::new(listener, limits.connections, limits.idle_timeout, limits.request_timeout);
    let service = TowerToHyperService::new(router(net, limits));
    // `axum::serve` drops the request of a client that closes its own side after it.
    let mut http = http1::Builder::new();
    http.half_close(true);
    let (open, mut stop) = (GracefulShutdown::new(), pin!(stop));
    loop {
        tokio::select! {
            (connection, _) = connections.accept() => {
                let connection = http.serve_connection(TokioIo::new(connection), service.clone());
                tokio::spawn(open.watch(connection)); // an error concerns its client only
            }
            () = &mut stop => break,
        }
    }
    drop(connections);
    timeout(limits.request_timeout, open.shutdown()).await.map_err(|_| {
        let cut_off = format!("some requests did not complete within {:?} and were cut off", limits.request_timeout);
        io::Error::new(io::ErrorKind::TimedOut, cut_off)
    })
}

/// The routes of the service.
pub fn router(net: Net, limits: Limits) -> Router {
    let predict = move |State(net): State<Arc<Net>>, request| predict(net, limits, request);
    Router::new()
        .route("/", get(async || Html(include_str!("page.html"))))
        .route("/health", get(async || Json(json!({ "status": "ok" }))))
        .route("/predict", post(predict))
        .fallback(async |uri: Uri| {
            let known = "valid requests are GET /, GET /health and POST /predict";
            ApiError::new(StatusCode::NOT_FOUND, format_args!("there is no {}: {known}", uri.path()))
        })
        .method_not_allowed_fallback(async || {
            ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "POST to /predict, GET the rest")
        })
        .layer(DefaultBodyLimit::max(limits.body))
        .with_state(Arc::new(net))
}

async fn predict(net: Arc<Net>, limits: Limits, request: Request) -> Result<Response, ApiError> {
    let Limits { request_timeout, .. } = limits;
    let late = |status, what| move |_| ApiError::new(status, format_args!("{what} within {request_timeout:?}"));
    let body = timeout(request_timeout, Bytes::from_request(request, &())).await;
    let body = body.map_err(late(StatusCode::REQUEST_TIMEOUT, "the request was not received"))?;
    let body = body.map_err(|rejection| ApiError::of_body(&rejection, limits.body))?;
    let request = PredictRequest::parse(&body, limits.images)?;
    let answered = timeout(request_timeout, answer(&net, request)).await;
    answered.map_err(late(StatusCode::SERVICE_UNAVAILABLE, "the predictions were not completed"))?
}

/// Each image has a pass of its own; the passes of a request run in parallel, and so do requests.
async fn answer(net: &Net, request: PredictRequest) -> Result<Response, ApiError> {
    match request {
        PredictRequest::One(image) => {
            let answer = Answer::of(Do::predict(net.classify(&image)).await?)?;
            Ok(Json(answer).into_response())
        }
        PredictRequest::Some(images) => {
            let answers = Do::join(images.iter().map(|image| Do::predict(net.classify(image)))).await?;
            let answers = answers.into_iter().map(Answer::of).collect::<dl::Result<Vec<_>>>()?;
            Ok(Json(Answers { answers }).into_response())
        }
    }
}

/// The answers to several images.
#[derive(Serialize)]
struct Answers {
    answers: Vec<Answer>,
}
