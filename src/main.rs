//! The program `mcp-task`; all of it is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    mcp_task::cli::main()
}
