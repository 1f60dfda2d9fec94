#![doc = "map"]
pub mod arguments;
pub mod cli;
pub mod commands;
pub mod demo;
pub mod lifecycle;
pub mod model;
pub mod present;
pub mod rpc;
pub mod session;
pub mod transport;

#[cfg(test)]
mod testing;
