//! The HTTP service: predictions in batches, health checks, metrics, and the page.

use crate::connections::LimitedListener;
#[cfg(feature = "embed")]
use crate::embed::{Texts, embed};
use crate::error::ApiError;
use crate::metrics::Metrics;
use crate::net::{Answer, Image, Net};
use crate::request::PredictRequest;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, FromRequest, Request, State};
use axum::http::{StatusCode, Uri, header};
use axum::middleware::{self, Next};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{get, post};
use axum::serve::Listener;
use axum::{Json, Router};
use dl::Do;
use dl::train::{Batcher, Batching};
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use serde::Serialize;
use serde_json::json;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio::time::{sleep, timeout};

/// Limits on requests and connections.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// The maximal size of a body in bytes; a larger one is answered with 413.
    pub body: usize,
    /// The maximal number of images or texts in a request; more are answered with 422.
    pub inputs: usize,
    /// The batches of each model. Inputs for which a queue has no space are answered with 503.
    pub batching: Batching,
    /// The time limit for the body of a request, after which the answer is 408; for its
    /// predictions, after which it is 503; and for open requests at shutdown.
    pub request_timeout: Duration,
    /// The maximal number of simultaneous connections; further ones wait to be accepted.
    pub connections: usize,
    /// The time after which a connection without incoming bytes is closed. A connection on which a
    /// request is incomplete after `request_timeout` more is closed, too.
    pub idle_timeout: Duration,
    /// How long `/readyz` is answered with 503 at shutdown, so that a load balancer stops sending
    /// requests, before no further connection is accepted.
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            body: 256 * 1024,
            inputs: 128,
            batching: Batching::default(),
            request_timeout: Duration::from_secs(10),
            connections: 1024,
            idle_timeout: Duration::from_secs(30),
            drain: Duration::ZERO,
        }
    }
}

/// The models that are served.
pub struct Models {
    /// The network for `/predict`.
    pub net: Net,
    /// The encoder for `/embed`.
    #[cfg(feature = "embed")]
    pub encoder: Option<sentence_embedding::Encoder>,
}

impl From<Net> for Models {
    fn from(net: Net) -> Self {
        Models {
            net,
            #[cfg(feature = "embed")]
            encoder: None,
        }
    }
}

/// The shared state of all requests.
pub(crate) struct Service {
    pub(crate) limits: Limits,
    images: Batcher<Image, Answer>,
    #[cfg(feature = "embed")]
    pub(crate) texts: Option<Texts>,
    metrics: Arc<Metrics>,
    is_stopping: AtomicBool,
}

/// Serves until `stop` completes. Then `/readyz` fails for `drain`, no further connection is
/// accepted, and open requests are answered.
///
/// # Errors
/// Those of the listener, and [`TimedOut`](io::ErrorKind::TimedOut) if open requests did not
/// complete in `request_timeout`.
pub async fn serve(
    listener: TcpListener,
    models: impl Into<Models>,
    limits: Limits,
    stop: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let service = Arc::new(Service::new(models.into(), limits).map_err(io::Error::other)?);
    let mut connections =
        LimitedListener::new(listener, limits.connections, limits.idle_timeout, limits.request_timeout);
    let routes = TowerToHyperService::new(router(service.clone()));
    // `axum::serve` drops the request of a client that closes its own side after it.
    let mut http = http1::Builder::new();
    http.half_close(true);
    let open = GracefulShutdown::new();
    let mut stop = pin!(async {
        stop.await;
        service.is_stopping.store(true, Ordering::Relaxed);
        sleep(limits.drain).await;
    });
    loop {
        tokio::select! {
            (connection, _) = connections.accept() => {
                let connection = http.serve_connection(TokioIo::new(connection), routes.clone());
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

/// The paths of the service; metrics count requests of other paths together.
const PATHS: [&str; 6] = ["/", "/healthz", "/readyz", "/metrics", "/predict", "/embed"];

fn router(service: Arc<Service>) -> Router {
    let router = Router::new()
        .route("/", get(async || Html(include_str!("page.html"))))
        .route("/healthz", get(async || Json(json!({ "status": "ok" }))))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .route("/predict", post(predict));
    #[cfg(feature = "embed")]
    let router = if service.texts.is_some() { router.route("/embed", post(embed)) } else { router };
    router
        .fallback(async |uri: Uri| {
            let known =
                "valid requests are GET /, /healthz, /readyz, /metrics, POST /predict, and POST /embed with an encoder";
            ApiError::new(StatusCode::NOT_FOUND, format_args!("there is no {}: {known}", uri.path()))
        })
        .method_not_allowed_fallback(async || {
            ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "POST to /predict and /embed, GET the rest")
        })
        .layer(DefaultBodyLimit::max(service.limits.body))
        .layer(middleware::from_fn_with_state(service.clone(), count))
        .with_state(service)
}

/// Counts an answer and measures its latency.
async fn count(State(service): State<Arc<Service>>, request: Request, next: Next) -> Response {
    let path = PATHS.iter().find(|path| **path == request.uri().path()).copied().unwrap_or("other");
    let begun = Instant::now();
    let response = next.run(request).await;
    service.metrics.answered(path, response.status().as_u16(), begun.elapsed());
    response
}

async fn ready(State(service): State<Arc<Service>>) -> Result<Response, ApiError> {
    let unavailable = |error| Err(ApiError::new(StatusCode::SERVICE_UNAVAILABLE, error));
    if service.is_stopping.load(Ordering::Relaxed) {
        return unavailable("the service is stopping");
    }
    if service.queues().iter().any(|(_, waiting)| *waiting >= service.limits.batching.queue) {
        return unavailable("a queue is full");
    }
    Ok(Json(json!({ "status": "ready" })).into_response())
}

async fn metrics(State(service): State<Arc<Service>>) -> Response {
    let kind = [(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")];
    (kind, service.metrics.text(&service.queues())).into_response()
}

async fn predict(State(service): State<Arc<Service>>, request: Request) -> Result<Response, ApiError> {
    let body = service.body(request).await?;
    match PredictRequest::parse(&body, service.limits.inputs)? {
        PredictRequest::One(image) => {
            let mut answers = service.outputs(&service.images, [*image]).await?;
            Ok(Json(answers.swap_remove(0)).into_response())
        }
        PredictRequest::Some(images) => {
            let answers = service.outputs(&service.images, images).await?;
            Ok(Json(Answers { answers }).into_response())
        }
    }
}

/// The answers to several images.
#[derive(Serialize)]
struct Answers {
    answers: Vec<Answer>,
}

impl Service {
    fn new(models: Models, limits: Limits) -> dl::Result<Self> {
        let (metrics, net) = (Arc::new(Metrics::default()), models.net);
        let counted = metrics.clone();
        let images = Batcher::new(limits.batching, move |images: &[Image]| {
            counted.batch("digits", images.len());
            net.classify(images)
        })?;
        #[cfg(feature = "embed")]
        let texts = models.encoder.map(|encoder| Texts::new(encoder, limits.batching, metrics.clone())).transpose()?;
        Ok(Service {
            limits,
            images,
            #[cfg(feature = "embed")]
            texts,
            metrics,
            is_stopping: AtomicBool::new(false),
        })
    }

    /// The number of inputs that wait for each model.
    fn queues(&self) -> Vec<(&'static str, usize)> {
        let queues = vec![("digits", self.images.waiting())];
        #[cfg(feature = "embed")]
        let queues = queues.into_iter().chain(self.texts.iter().map(|texts| ("encoder", texts.waiting()))).collect();
        queues
    }

    /// The body of a request.
    pub(crate) async fn body(&self, request: Request) -> Result<Bytes, ApiError> {
        let Limits { request_timeout, body: limit, .. } = self.limits;
        let body = timeout(request_timeout, Bytes::from_request(request, &())).await;
        let body = body.map_err(|_| {
            let late = format_args!("the request was not received within {request_timeout:?}");
            ApiError::new(StatusCode::REQUEST_TIMEOUT, late)
        })?;
        body.map_err(|rejection| ApiError::of_body(&rejection, limit))
    }

    /// The outputs for some inputs, which are computed in batches with those of other requests.
    pub(crate) async fn outputs<I, O>(
        &self,
        batcher: &Batcher<I, O>,
        inputs: impl IntoIterator<Item = I>,
    ) -> Result<Vec<O>, ApiError>
    where
        I: Send + Sync + 'static,
        O: Send + 'static,
    {
        let unavailable = |error| ApiError::new(StatusCode::SERVICE_UNAVAILABLE, error);
        let outputs = batcher.submit_all(inputs).map_err(|full| unavailable(full.to_string()))?;
        let limit = self.limits.request_timeout;
        let outputs = timeout(limit, Do::join(outputs).run()).await;
        Ok(outputs.map_err(|_| unavailable(format!("the predictions were not completed within {limit:?}")))??)
    }
}
