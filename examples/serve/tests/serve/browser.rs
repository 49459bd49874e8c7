//! The page in a browser: digits drawn with the mouse are classified as by an offline prediction.
//!
//! Requires `chromium` and `chromedriver` (Debian: `apt-get install chromium chromium-driver`); the
//! test is skipped with a message if they are missing.

use crate::clients::net;
use crate::support::Service;
use crate::webdriver::{Browser, Driver};
use futures::FutureExt;
use serve::net::Image;
use std::f64::consts::TAU;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::path::{Path, PathBuf};

#[tokio::test]
async fn drawn_digits_are_classified_as_offline() {
    let Some(driver) = Driver::start() else {
        println!("skipped: there is no chromium, or no chromedriver");
        return;
    };
    let mut browser = Browser::start(&driver).await;
    let outcome = AssertUnwindSafe(draw_and_read(&mut browser)).catch_unwind().await;
    browser.quit().await;
    if let Err(panic) = outcome {
        resume_unwind(panic);
    }
}

/// The points of strokes, relative to the size of the canvas.
type Strokes = Vec<Vec<(f64, f64)>>;

fn arc(middle: (f64, f64), radius: (f64, f64), turns: std::ops::Range<f64>) -> Vec<(f64, f64)> {
    let angle = |step: i32| TAU * (turns.start + (turns.end - turns.start) * f64::from(step) / 20.0);
    (0..=20).map(|step| (middle.0 + radius.0 * angle(step).cos(), middle.1 + radius.1 * angle(step).sin())).collect()
}

fn digits() -> [(usize, Strokes); 4] {
    [
        (1, vec![vec![(0.5, 0.15), (0.5, 0.5), (0.5, 0.85)]]),
        (0, vec![arc((0.5, 0.5), (0.2, 0.32), -0.25..0.75)]),
        (4, vec![vec![(0.4, 0.15), (0.28, 0.55), (0.75, 0.55)], vec![(0.6, 0.3), (0.58, 0.88)]]),
        (3, vec![[arc((0.47, 0.33), (0.2, 0.16), -0.42..0.22), arc((0.47, 0.66), (0.22, 0.18), -0.24..0.42)].concat()]),
    ]
}

async fn draw_and_read(browser: &mut Browser) {
    let (service, net) = (Service::start(), net());
    browser.open(&format!("http://{}/", service.address)).await;
    for (digit, strokes) in digits() {
        browser.click("#clear").await;
        browser.wait_for("html[data-state=empty]").await;
        assert_eq!(browser.text("#sentence").await, "Nothing drawn yet.");

        draw(browser, &strokes).await;
        browser.wait_for(&format!("html[data-state=answered][data-digit='{digit}']")).await;
        let image = seen(browser).await;
        let expected = net.classify(&[image]).wait().unwrap().swap_remove(0);
        assert_eq!(expected.digit, digit);
        assert_eq!(browser.text("#digit").await, digit.to_string());
        let expert = browser.text(".expert.chosen strong").await;
        assert_eq!(expert, format!("Expert {}", expected.expert));
        assert_eq!(browser.text(".expert.chosen small").await, "computed");
        assert_eq!(browser.count(".expert:not(.chosen)").await, net.experts.len() - 1);
        let probability = browser.text("#digits .best ~ .number").await;
        println!("drew {digit}, read {digit}: {expert} says so");
        assert!(!probability.is_empty());
        assert_eq!(browser.text("#trouble").await, "");
        browser.screenshot(&screenshot(&format!("serve-{digit}.png"))).await;
    }
    browser.resize(500, 1000).await;
    browser.screenshot(&screenshot("serve-narrow.png")).await;

    // The service is stopped: the page must report the error.
    drop(service);
    draw(browser, &digits()[0].1).await;
    browser.wait_for("html[data-state=trouble]").await;
    assert!(browser.text("#trouble").await.starts_with("No answer: "));
}

fn screenshot(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// Draws strokes with the mouse.
async fn draw(browser: &mut Browser, strokes: &Strokes) {
    let paper = browser.rectangle("#paper").await;
    let place = |&(x, y): &(f64, f64)| ((paper[0] + x * paper[2]) as i64, (paper[1] + y * paper[3]) as i64);
    for stroke in strokes {
        browser.drag(&stroke.iter().map(place).collect::<Vec<_>>()).await;
    }
}

/// The image that the page sent, read from its preview.
async fn seen(browser: &mut Browser) -> Image {
    let script = "return Array.from(document.getElementById('seen').getContext('2d').getImageData(0, 0, 8, 8).data)";
    let colours: Vec<f32> = serde_json::from_value(browser.execute(script).await).unwrap();
    std::array::from_fn(|pixel| (colours[4 * pixel + 3] * 16.0 / 255.0).round() / 16.0)
}
