//! Why there is no answer: a status, and a sentence as JSON.

use axum::Json;
use axum::extract::rejection::BytesRejection;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::json;
use std::fmt::Display;

/// `{"error": "what was wrong"}`, and its status.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    /// 4xx: the request was wrong; 5xx: we were.
    pub status: StatusCode,
    /// What was wrong, and where.
    pub error: String,
}

impl Refusal {
    /// With this status, for this reason.
    pub fn new(status: StatusCode, error: impl Display) -> Self {
        Refusal { status, error: error.to_string() }
    }

    /// The body did not come, or has more bytes than this.
    pub(crate) fn of_body(rejection: &BytesRejection, limit: usize) -> Self {
        match rejection.status() {
            StatusCode::PAYLOAD_TOO_LARGE => {
                Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, format_args!("the body is larger than {limit} bytes"))
            }
            status => Refusal::new(status, rejection.body_text()),
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        (self.status, Json(json!({ "error": self.error }))).into_response()
    }
}

/// The prediction has failed.
impl From<dl::Error> for Refusal {
    fn from(error: dl::Error) -> Self {
        Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, format_args!("the prediction has failed: {error}"))
    }
}
