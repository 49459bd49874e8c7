//! The service: `POST /predict`, `GET /health`, and the page.

use crate::net::{Answer, Net};
use crate::question::Question;
use crate::refusal::Refusal;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{StatusCode, Uri};
use axum::middleware::{Next, from_fn};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use dl::Do;
use futures::FutureExt;
use serde::Serialize;
use serde_json::json;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::time::{sleep, timeout};

/// What a request may cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Bytes of a body; above, 413.
    pub body: usize,
    /// Images of a request; above, 422.
    pub images: usize,
    /// From the head of a request to its answer; after that, 408. So long, too, does the end wait for requests that are not over.
    pub patience: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { body: 256 * 1024, images: 128, patience: Duration::from_secs(10) }
    }
}

/// Serves until `stop`. Then no connection is accepted any more, and the requests that have begun are answered.
///
/// # Errors
/// Those of the listener.
pub async fn serve(
    listener: TcpListener,
    net: Net,
    limits: Limits,
    stop: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let stop = stop.shared();
    let overdue = stop.clone().then(|()| sleep(limits.patience));
    tokio::select! {
        served = axum::serve(listener, router(net, limits)).with_graceful_shutdown(stop).into_future() => served,
        () = overdue => Ok(()),
    }
}

/// All that is served.
pub fn router(net: Net, limits: Limits) -> Router {
    let predict = move |State(net): State<Arc<Net>>, body| predict(net, limits, body);
    Router::new()
        .route("/", get(async || Html(include_str!("page.html"))))
        .route("/health", get(async || Json(json!({ "status": "ok" }))))
        .route("/predict", post(predict))
        .fallback(async |uri: Uri| {
            let known = "there are GET /, GET /health and POST /predict";
            Refusal::new(StatusCode::NOT_FOUND, format_args!("there is no {}: {known}", uri.path()))
        })
        .method_not_allowed_fallback(async || {
            Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "POST to /predict, GET the rest")
        })
        .layer(DefaultBodyLimit::max(limits.body))
        .layer(from_fn(move |request, next| in_time(limits.patience, request, next)))
        .with_state(Arc::new(net))
}

/// Each image is a pass of its own; those of a request run in parallel, and so do requests.
async fn predict(net: Arc<Net>, limits: Limits, body: Result<Bytes, BytesRejection>) -> Result<Response, Refusal> {
    match Question::parse(&body?, limits.images)? {
        Question::One(image) => {
            let answer = Answer::of(Do::predict(net.look_at(&image)).await?)?;
            Ok(Json(answer).into_response())
        }
        Question::Some(images) => {
            let answers = Do::join(images.iter().map(|image| Do::predict(net.look_at(image)))).await?;
            let answers = answers.into_iter().map(Answer::of).collect::<dl::Result<Vec<_>>>()?;
            Ok(Json(Answers { answers }).into_response())
        }
    }
}

/// To several images.
#[derive(Serialize)]
struct Answers {
    answers: Vec<Answer>,
}

async fn in_time(patience: Duration, request: Request, next: Next) -> Response {
    let late = |_| Refusal::new(StatusCode::REQUEST_TIMEOUT, format_args!("it was not over after {patience:?}"));
    timeout(patience, next.run(request)).await.map_err(late).into_response()
}
