//! Error responses: a status and a message as JSON.

use axum::Json;
use axum::extract::rejection::BytesRejection;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;
use std::fmt::Display;

/// An error response, `{"error": message}` with a status. 503 has the header `Retry-After`.
#[derive(Clone, Debug, PartialEq)]
pub struct ApiError {
    /// 4xx for an invalid request, 5xx for an error of the service.
    pub status: StatusCode,
    /// The message.
    pub error: String,
}

impl ApiError {
    /// An error response with this status and message.
    pub fn new(status: StatusCode, error: impl Display) -> Self {
        ApiError { status, error: error.to_string() }
    }

    /// The body could not be read, or is larger than `limit` bytes.
    pub(crate) fn of_body(rejection: &BytesRejection, limit: usize) -> Self {
        match rejection.status() {
            StatusCode::PAYLOAD_TOO_LARGE => {
                ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, format_args!("the body is larger than {limit} bytes"))
            }
            status => ApiError::new(status, rejection.body_text()),
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let body = Json(json!({ "error": self.error }));
        match self.status {
            StatusCode::SERVICE_UNAVAILABLE => (self.status, [(header::RETRY_AFTER, "1")], body).into_response(),
            status => (status, body).into_response(),
        }
    }
}

/// The prediction failed.
impl From<dl::Error> for ApiError {
    fn from(error: dl::Error) -> Self {
        ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, format_args!("the prediction failed: {error}"))
    }
}
