//! A client for HTTP/1.1 on one connection, as much of it as the tests need.

use serde_json::Value;
use std::fmt::Display;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

/// A connection to a server. Both sides keep it open between requests.
pub(crate) struct Client {
    address: String,
    stream: BufReader<TcpStream>,
}

pub(crate) struct Response {
    pub(crate) status: u16,
    /// Names in lower case, and values.
    headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Client {
    pub(crate) async fn connect(address: impl Display) -> Self {
        let address = address.to_string();
        let stream = BufReader::new(TcpStream::connect(&address).await.unwrap());
        Client { address, stream }
    }

    pub(crate) async fn get(&mut self, path: &str) -> Response {
        self.send("GET", path, b"").await
    }

    pub(crate) async fn post(&mut self, path: &str, body: impl AsRef<[u8]>) -> Response {
        self.send("POST", path, body.as_ref()).await
    }

    pub(crate) async fn delete(&mut self, path: &str) -> Response {
        self.send("DELETE", path, b"").await
    }

    async fn send(&mut self, method: &str, path: &str, body: &[u8]) -> Response {
        let (address, length) = (&self.address, body.len());
        let head = format!("{method} {path} HTTP/1.1\r\nhost: {address}\r\ncontent-length: {length}\r\n\r\n");
        // One write: a second small one would wait until the server has acknowledged the first. A server
        // may refuse a large body before it has read all of it.
        let _ = self.stream.get_mut().write_all(&[head.as_bytes(), body].concat()).await;
        self.receive().await
    }

    async fn receive(&mut self) -> Response {
        let status_line = self.line().await;
        let status = status_line.split(' ').nth(1).and_then(|status| status.parse().ok());
        let mut headers = Vec::new();
        loop {
            let line = self.line().await;
            let Some((name, value)) = line.split_once(':') else { break };
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let mut response = Response {
            status: status.unwrap_or_else(|| panic!("no status: {status_line:?}")),
            headers,
            body: Vec::new(),
        };
        let length = response.header("content-length").parse().expect("a body of a known length");
        response.body.resize(length, 0);
        self.stream.read_exact(&mut response.body).await.unwrap();
        response
    }

    /// The next line of the head, without its end.
    async fn line(&mut self) -> String {
        let mut line = String::new();
        self.stream.read_line(&mut line).await.unwrap();
        line.trim_end().to_owned()
    }
}

impl Response {
    /// The value of a header, `""` where there is none.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}
