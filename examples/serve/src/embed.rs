//! `POST /embed`: texts to vectors, with the encoder of the example `sentence_embedding`.

use crate::api::Service;
use crate::error::ApiError;
use crate::metrics::Metrics;
use axum::Json;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use dl::train::{Batcher, Batching};
use sentence_embedding::Encoder;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The encoder, and the queue of its texts as ids of tokens.
pub(crate) struct Texts {
    encoder: Arc<Encoder>,
    batcher: Batcher<Vec<usize>, Vec<f32>>,
}

impl Texts {
    pub(crate) fn new(encoder: Encoder, batching: Batching, metrics: Arc<Metrics>) -> dl::Result<Self> {
        let encoder = Arc::new(encoder);
        let shared = encoder.clone();
        let batcher = Batcher::new(batching, move |texts: &[Vec<usize>]| {
            metrics.batch("encoder", texts.len());
            shared.embed_tokens(texts)
        })?;
        Ok(Texts { encoder, batcher })
    }

    pub(crate) fn waiting(&self) -> usize {
        self.batcher.waiting()
    }
}

/// `{"text": …}` or `{"texts": [ … ]}`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EmbedRequest {
    text: Option<String>,
    texts: Option<Vec<String>>,
}

/// Each embedding has the length 1.
#[derive(Serialize)]
#[serde(untagged)]
enum EmbedAnswer {
    One { embedding: Vec<f32> },
    Some { embeddings: Vec<Vec<f32>> },
}

pub(crate) async fn embed(State(service): State<Arc<Service>>, request: Request) -> Result<Response, ApiError> {
    let Some(texts) = &service.texts else { return Err(ApiError::new(StatusCode::NOT_FOUND, "there is no encoder")) };
    let body = service.body(request).await?;
    let parsed = serde_json::from_slice(&body).map_err(|error| match error.classify() {
        serde_json::error::Category::Data => unprocessable(&error.to_string()),
        _ => ApiError::new(StatusCode::BAD_REQUEST, format_args!("the body is not JSON: {error}")),
    })?;
    let (sentences, is_one) = match parsed {
        EmbedRequest { text: Some(text), texts: None } => (vec![text], true),
        EmbedRequest { text: None, texts: Some(texts) } => (texts, false),
        _ => return Err(unprocessable("one of both is required")),
    };
    let most = service.limits.inputs;
    if sentences.is_empty() || sentences.len() > most {
        let found = format_args!("texts: expected 1 to {most} texts, found {}", sentences.len());
        return Err(ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, found));
    }
    // Dividing long texts into tokens takes milliseconds, in which other connections go on.
    let encoder = texts.encoder.clone();
    let tokens = tokio::task::spawn_blocking(move || sentences.iter().map(|text| encoder.tokens(text)).collect());
    let tokens: dl::Result<Vec<Vec<usize>>> =
        tokens.await.map_err(|error| ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, error))?;
    let tokens = tokens.map_err(|error| unprocessable(&error.to_string()))?;
    let mut embeddings = service.outputs(&texts.batcher, tokens).await?;
    Ok(match is_one {
        true => Json(EmbedAnswer::One { embedding: embeddings.swap_remove(0) }),
        false => Json(EmbedAnswer::Some { embeddings }),
    }
    .into_response())
}

fn unprocessable(error: &str) -> ApiError {
    let expected = r#"expected {"text": "…"} or {"texts": [ … ]}"#;
    ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, format_args!("{expected}: {error}"))
}
