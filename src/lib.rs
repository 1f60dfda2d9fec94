#![doc = "map"]
pub mod model;
pub mod rpc;
pub mod transport;
