//! A scripted MCP server for tests: it does on the wire what real servers will not do to order.
//!
//! `fake-mcp stdio SCRIPT TRANSCRIPT` speaks on stdin and stdout, `fake-mcp http SCRIPT TRANSCRIPT` on a free port, which
//! it prints; `https` does so over TLS and
//! writes its certificate to `ca.pem` beside the script. The script says what to do about each request, see [`script`]; the transcript gets a JSON line for
//! everything received. `fake-mcp sleep` is a grandchild for tests of process groups: it ignores its stdin.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

mod http;
mod script;
mod stdio;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["sleep", ..] => {
            tokio::time::sleep(std::time::Duration::from_secs(600)).await;
            ExitCode::SUCCESS
        }
        [transport, script, transcript, ..] => {
            let server = Arc::new(script::Server::load(&PathBuf::from(script), &PathBuf::from(transcript)));
            match *transport {
                "stdio" => stdio::serve(server).await,
                "http" => http::serve(server, None).await,
                "https" => {
                    let pem = PathBuf::from(script).with_file_name("ca.pem");
                    http::serve(server, Some(http::certificate(&pem))).await;
                }
                other => panic!("no such transport: {other}"),
            }
            ExitCode::SUCCESS
        }
        other => panic!("usage: fake-mcp stdio|http|https SCRIPT TRANSCRIPT, not {other:?}"),
    }
}
