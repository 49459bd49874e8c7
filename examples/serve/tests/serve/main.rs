//! Tests of the service over the network, as a separate process, under load, and in a browser.

#![forbid(unsafe_code)]

mod browser;
mod clients;
#[cfg(feature = "embed")]
mod embed;
mod http;
mod load;
mod process;
mod requests;
mod support;
mod webdriver;
