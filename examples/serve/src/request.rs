//! Parses the body of a request: one or several images as JSON.

use crate::error::ApiError;
use crate::net::{Image, PIXELS};
use crate::training::MAX_GREY;
use axum::http::StatusCode;
use serde_json::Value;

/// Rows and columns of an image.
const SIDE: usize = 8;

/// The images of a request.
#[derive(Clone, Debug, PartialEq)]
pub enum PredictRequest {
    /// `{"image": …}`.
    One(Box<Image>),
    /// `{"images": [ … ]}`.
    Some(Vec<Image>),
}

impl PredictRequest {
    /// Parses a body. An image is an array of 64 numbers from 0 (paper) to 16 (ink), or of 8 rows
    /// of 8.
    ///
    /// # Errors
    /// 400 if the body is not JSON; 422 if the JSON is not a valid request, with the position of
    /// the error.
    pub fn parse(body: &[u8], most: usize) -> Result<Self, ApiError> {
        let json: Value = serde_json::from_slice(body)
            .map_err(|error| ApiError::new(StatusCode::BAD_REQUEST, format_args!("the body is not JSON: {error}")))?;
        let fields = json.as_object().map(|fields| fields.iter().collect::<Vec<_>>()).unwrap_or_default();
        match fields[..] {
            [(name, image)] if name == "image" => Ok(PredictRequest::One(Box::new(parse_image(image, "image")?))),
            [(name, Value::Array(images))] if name == "images" => {
                if images.is_empty() || images.len() > most {
                    return Err(unprocessable(format!("images: expected 1 to {most} images, found {}", images.len())));
                }
                let images = images.iter().enumerate().map(|(i, image)| parse_image(image, &format!("images[{i}]")));
                Ok(PredictRequest::Some(images.collect::<Result<_, _>>()?))
            }
            _ => Err(unprocessable(format!(
                r#"expected {{"image": …}} or {{"images": [ … ]}}, found {}"#,
                describe(&json)
            ))),
        }
    }
}

fn parse_image(json: &Value, place: &str) -> Result<Image, ApiError> {
    let numbers = json.as_array().map(Vec::as_slice).unwrap_or_default();
    let mut image = [0.0; PIXELS];
    match numbers.len() {
        PIXELS => {
            for (i, (pixel, number)) in image.iter_mut().zip(numbers).enumerate() {
                *pixel = parse_pixel(number, || format!("{place}[{i}]"))?;
            }
        }
        SIDE => {
            for (row, (pixels, numbers)) in image.chunks_mut(SIDE).zip(numbers).enumerate() {
                let numbers = numbers.as_array().filter(|numbers| numbers.len() == SIDE).ok_or_else(|| {
                    unprocessable(format!(
                        "{place}[{row}]: expected a row of {SIDE} numbers, found {}",
                        describe(numbers)
                    ))
                })?;
                for (column, (pixel, number)) in pixels.iter_mut().zip(numbers).enumerate() {
                    *pixel = parse_pixel(number, || format!("{place}[{row}][{column}]"))?;
                }
            }
        }
        _ => {
            let found = describe(json);
            return Err(unprocessable(format!(
                "{place}: expected {PIXELS} numbers, or {SIDE} rows of {SIDE}, found {found}"
            )));
        }
    }
    Ok(image)
}

/// Parses a grey value and scales it to `0.0..=1.0`. JSON has neither NaN nor infinities.
fn parse_pixel(json: &Value, place: impl Fn() -> String) -> Result<f32, ApiError> {
    match json.as_f64() {
        Some(number) if (0.0..=f64::from(MAX_GREY)).contains(&number) => Ok(number as f32 / MAX_GREY),
        _ => {
            Err(unprocessable(format!("{}: expected a number from 0 to {MAX_GREY}, found {}", place(), describe(json))))
        }
    }
}

fn unprocessable(error: String) -> ApiError {
    ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, error)
}

/// A short description of a JSON value.
fn describe(json: &Value) -> String {
    match json {
        Value::Array(all) => format!("an array of {}", all.len()),
        Value::Object(fields) => {
            let names = fields.keys().take(3).map(|name| format!("{:?}", name.chars().take(20).collect::<String>()));
            let more = if fields.len() > 3 { ", …" } else { "" };
            format!("an object with [{}{more}]", names.collect::<Vec<_>>().join(", "))
        }
        Value::String(text) => format!("the string {:?}", text.chars().take(20).collect::<String>()),
        other => other.to_string(),
    }
}
