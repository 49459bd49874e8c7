//! The service as its users meet it: over the network, as a process of its own, under load, and in
//! a browser.

#![forbid(unsafe_code)]

mod browser;
mod http;
mod load;
mod process;
mod requests;
mod support;
mod webdriver;
