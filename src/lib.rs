#![doc = "map"]
pub mod model;
pub mod rpc;
