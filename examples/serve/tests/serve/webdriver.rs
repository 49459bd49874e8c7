//! A client for the WebDriver protocol (<https://www.w3.org/TR/webdriver2/>), as much of it as the
//! tests need. Each command is an HTTP request with JSON in its body.

use crate::http::Client;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Options without which Chromium needs a screen, or a user who is not root.
const ARGUMENTS: [&str; 5] =
    ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1100,860"];

/// `chromedriver` as a child process, which is killed on drop.
pub(crate) struct Driver {
    child: Child,
    address: String,
}

impl Driver {
    /// `None` where Chromium or its driver is not installed.
    pub(crate) fn start() -> Option<Self> {
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
        Some(Driver { child, address: format!("127.0.0.1:{}", port.expect("chromedriver names its port")) })
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A session: one window. Elements are given by CSS selectors.
pub(crate) struct Browser {
    client: Client,
    /// The path of the session.
    session: String,
}

impl Browser {
    pub(crate) async fn start(driver: &Driver) -> Self {
        let mut browser = Browser { client: Client::connect(&driver.address).await, session: String::new() };
        let options = json!({ "browserName": "chrome", "goog:chromeOptions": { "args": ARGUMENTS } });
        let session = browser.post("/session", json!({ "capabilities": { "alwaysMatch": options } })).await;
        browser.session = format!("/session/{}", session["sessionId"].as_str().expect("a session"));
        browser
    }

    pub(crate) async fn quit(mut self) {
        let response = self.client.delete(&self.session).await;
        assert_eq!(response.status, 200, "{}", response.text());
    }

    pub(crate) async fn open(&mut self, url: &str) {
        self.post("/url", json!({ "url": url })).await;
    }

    pub(crate) async fn click(&mut self, selector: &str) {
        let element = self.element(selector).await;
        self.post(&format!("{element}/click"), json!({})).await;
    }

    /// Waits until an element exists.
    pub(crate) async fn wait_for(&mut self, selector: &str) {
        let begun = Instant::now();
        while self.count(selector).await == 0 {
            assert!(begun.elapsed() < Duration::from_secs(10), "no element {selector} appears");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    pub(crate) async fn count(&mut self, selector: &str) -> usize {
        let found = self.post("/elements", json!({ "using": "css selector", "value": selector })).await;
        found.as_array().expect("a list of elements").len()
    }

    pub(crate) async fn text(&mut self, selector: &str) -> String {
        let element = self.element(selector).await;
        self.get(&format!("{element}/text")).await.as_str().expect("a text").to_owned()
    }

    /// The left edge, the top edge, the width and the height of an element, in pixels of the page.
    pub(crate) async fn rectangle(&mut self, selector: &str) -> [f64; 4] {
        let element = self.element(selector).await;
        let rectangle = self.get(&format!("{element}/rect")).await;
        ["x", "y", "width", "height"].map(|side| rectangle[side].as_f64().expect("a number"))
    }

    /// Moves the mouse along these points of the window with its button pressed.
    pub(crate) async fn drag(&mut self, points: &[(i64, i64)]) {
        let (press, release) =
            (json!({ "type": "pointerDown", "button": 0 }), json!({ "type": "pointerUp", "button": 0 }));
        let mut actions: Vec<Value> = points
            .iter()
            .map(|(x, y)| json!({ "type": "pointerMove", "duration": 5, "origin": "viewport", "x": x, "y": y }))
            .collect();
        actions.insert(1, press);
        actions.push(release);
        let mouse =
            json!({ "type": "pointer", "id": "mouse", "parameters": { "pointerType": "mouse" }, "actions": actions });
        self.post("/actions", json!({ "actions": [mouse] })).await;
    }

    /// The result of a JavaScript function with this body.
    pub(crate) async fn execute(&mut self, script: &str) -> Value {
        self.post("/execute/sync", json!({ "script": script, "args": [] })).await
    }

    pub(crate) async fn resize(&mut self, width: u32, height: u32) {
        self.post("/window/rect", json!({ "x": 0, "y": 0, "width": width, "height": height })).await;
    }

    /// Writes the window as a PNG file.
    pub(crate) async fn screenshot(&mut self, path: &Path) {
        let picture = self.get("/screenshot").await;
        std::fs::write(path, from_base64(picture.as_str().expect("a picture"))).unwrap();
    }

    /// The path of the first element.
    async fn element(&mut self, selector: &str) -> String {
        let found = self.post("/element", json!({ "using": "css selector", "value": selector })).await;
        let id = found.as_object().and_then(|found| found.values().next()).and_then(Value::as_str);
        format!("/element/{}", id.expect("an element"))
    }

    async fn get(&mut self, command: &str) -> Value {
        let response = self.client.get(&format!("{}{command}", self.session)).await;
        assert_eq!(response.status, 200, "{command}: {}", response.text());
        response.json()["value"].take()
    }

    async fn post(&mut self, command: &str, body: Value) -> Value {
        let response = self.client.post(&format!("{}{command}", self.session), body.to_string()).await;
        assert_eq!(response.status, 200, "{command}: {}", response.text());
        response.json()["value"].take()
    }
}

fn from_base64(text: &str) -> Vec<u8> {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digits: Vec<u32> = text
        .bytes()
        .filter_map(|byte| DIGITS.iter().position(|&digit| digit == byte).map(|digit| digit as u32))
        .collect();
    let mut bytes = Vec::with_capacity(digits.len() * 3 / 4);
    for group in digits.chunks(4) {
        let bits = group.iter().enumerate().fold(0, |bits, (i, digit)| bits | digit << (18 - 6 * i));
        bytes.extend_from_slice(&bits.to_be_bytes()[1..group.len()]);
    }
    bytes
}
