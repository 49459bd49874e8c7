//! The page in a browser: digits drawn with the mouse are classified as by an offline prediction.
//!
//! Requires `chromium` and `chromedriver` (Debian: `apt-get install chromium chromium-driver`); the
//! test is skipped with a message if they are missing.

use crate::support::{Service, net};
use dl::prelude::*;
use futures::FutureExt;
use serve::net::{Answer, Image};
use std::f64::consts::TAU;
use std::io::{BufRead, BufReader};
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use thirtyfour::prelude::*;

/// Command-line arguments for a browser without a screen.
const ARGUMENTS: [&str; 5] =
    ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1100,860"];

struct Driver {
    child: Child,
    url: String,
}

impl Driver {
    /// Starts chromedriver, or returns `None` if there is no browser.
    fn start() -> Option<Self> {
        let known = |program: &str| Command::new(program).arg("--version").stdin(Stdio::null()).output().is_ok();
        if !known("chromium") || !known("chromedriver") {
            return None;
        }
        let mut child = Command::new("chromedriver").arg("--port=0").stdout(Stdio::piped()).spawn().ok()?;
        let lines = BufReader::new(child.stdout.take()?).lines();
        let port = lines.map_while(Result::ok).find_map(|line| {
            let port = line.split("started successfully on port ").nth(1)?;
            Some(port.trim_end_matches('.').to_owned())
        });
        Some(Driver { child, url: format!("http://127.0.0.1:{}", port.expect("chromedriver names its port")) })
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test]
async fn drawn_digits_are_classified_as_offline() {
    let Some(driver) = Driver::start() else {
        println!("skipped: there is no chromium, or no chromedriver");
        return;
    };
    let mut chrome = DesiredCapabilities::chrome();
    for argument in ARGUMENTS {
        chrome.add_arg(argument).unwrap();
    }
    let browser = WebDriver::new(&driver.url, chrome).await.unwrap();
    let outcome = AssertUnwindSafe(draw_and_read(&browser)).catch_unwind().await;
    browser.quit().await.unwrap();
    match outcome {
        Ok(result) => result.unwrap(),
        Err(panic) => resume_unwind(panic),
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

async fn draw_and_read(browser: &WebDriver) -> WebDriverResult<()> {
    let (service, net) = (Service::start(), net());
    browser.goto(format!("http://{}/", service.address)).await?;
    for (digit, strokes) in digits() {
        browser.find(By::Id("clear")).await?.click().await?;
        state(browser, "html[data-state=empty]").await?;
        assert_eq!(text(browser, "#sentence").await?, "Nothing drawn yet.");

        draw(browser, &strokes).await?;
        state(browser, &format!("html[data-state=answered][data-digit='{digit}']")).await?;
        let image = seen(browser).await?;
        let expected = Answer::of(Do::predict(net.classify(&image)).wait().unwrap()).unwrap();
        assert_eq!(expected.digit, digit);
        assert_eq!(text(browser, "#digit").await?, digit.to_string());
        let expert = text(browser, ".expert.chosen strong").await?;
        assert_eq!(expert, format!("Expert {}", expected.expert));
        assert_eq!(text(browser, ".expert.chosen small").await?, "computed");
        assert_eq!(browser.find_all(By::Css(".expert:not(.chosen)")).await?.len(), net.experts.len() - 1);
        let probability = text(browser, "#digits .best ~ .number").await?;
        println!("drew {digit}, read {digit}: {expert} says so");
        assert!(!probability.is_empty());
        assert_eq!(text(browser, "#trouble").await?, "");
        browser.screenshot(&screenshot(&format!("serve-{digit}.png"))).await?;
    }
    browser.set_window_rect(0, 0, 500, 1000).await?;
    browser.screenshot(&screenshot("serve-narrow.png")).await?;

    // The service is stopped: the page must report the error.
    drop(service);
    draw(browser, &digits()[0].1).await?;
    state(browser, "html[data-state=trouble]").await?;
    assert!(text(browser, "#trouble").await?.starts_with("No answer: "));
    Ok(())
}

fn screenshot(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// Draws strokes with the mouse.
async fn draw(browser: &WebDriver, strokes: &Strokes) -> WebDriverResult<()> {
    let paper = browser.find(By::Id("paper")).await?.rect().await?;
    let place = |(x, y): (f64, f64)| ((paper.x + x * paper.width) as i64, (paper.y + y * paper.height) as i64);
    for stroke in strokes {
        let mut mouse = browser.action_chain_with_delay(None, Some(Duration::from_millis(5)));
        for (i, &point) in stroke.iter().enumerate() {
            let (x, y) = place(point);
            mouse = mouse.move_to(x, y);
            if i == 0 {
                mouse = mouse.click_and_hold();
            }
        }
        mouse.release().perform().await?;
    }
    Ok(())
}

/// Waits until the page is in this state.
async fn state(browser: &WebDriver, selector: &str) -> WebDriverResult<()> {
    browser.query(By::Css(selector)).wait(Duration::from_secs(10), Duration::from_millis(20)).first().await?;
    Ok(())
}

async fn text(browser: &WebDriver, selector: &str) -> WebDriverResult<String> {
    browser.find(By::Css(selector)).await?.text().await
}

/// The image that the page sent, read from its preview.
async fn seen(browser: &WebDriver) -> WebDriverResult<Image> {
    let script = "return Array.from(document.getElementById('seen').getContext('2d').getImageData(0, 0, 8, 8).data)";
    let colours: Vec<f32> = browser.execute(script, []).await?.convert()?;
    Ok(std::array::from_fn(|pixel| (colours[4 * pixel + 3] * 16.0 / 255.0).round() / 16.0))
}
