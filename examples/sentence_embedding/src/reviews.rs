//! Sentences of reviews, which people have rated.

use dl::prelude::*;
use std::fs;
use std::path::Path;

/// A sentence and its label: 1 if it is positive, 0 if it is negative.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Review {
    /// The sentence.
    pub text: String,
    /// Its label.
    pub label: usize,
}

/// A sentence with a rating of a smaller magnitude is neither positive nor negative.
const CLEAR: f64 = 1.0;

/// Reads lines of a name, a rating from -4 to 4 and a sentence, separated by tabs. Sentences with a
/// rating between -1 and 1 are left out.
///
/// # Errors
/// When the file cannot be read, or a line has another form.
pub fn read_reviews(path: &Path) -> dl::Result<Vec<Review>> {
    let invalid = |what: String| Error::invalid(format!("{}: {what}", path.display()));
    let text = fs::read_to_string(path).map_err(|error| invalid(error.to_string()))?;
    let mut reviews = Vec::new();
    for (line, number) in text.lines().zip(1..) {
        let fields = line.split_once('\t').and_then(|(_, rest)| rest.split_once('\t'));
        let rated = fields.and_then(|(rating, text)| Some((rating.trim().parse::<f64>().ok()?, text)));
        let Some((rating, text)) = rated else {
            return Err(invalid(format!("line {number}: a name, a rating and a sentence must be separated by tabs")));
        };
        if rating.abs() >= CLEAR {
            reviews.push(Review { text: text.to_owned(), label: usize::from(rating > 0.0) });
        }
    }
    Ok(reviews)
}
