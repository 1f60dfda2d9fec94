//! A server on the Rust SDK 1.8: run with `stdio`, or `http PORT`.

use std::sync::Arc;
use std::time::Duration;

use rmcp::ErrorData as McpError;
use rmcp::handler::server::router::tool::ToolRouter;
use rmcp::handler::server::wrapper::Parameters;
use rmcp::model::{CallToolResult, Content, ServerCapabilities, ServerInfo, TasksCapability};
use rmcp::task_manager::OperationProcessor;
use rmcp::transport::streamable_http_server::StreamableHttpService;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::{ServerHandler, ServiceExt, schemars, task_handler, tool, tool_handler, tool_router};
use tokio::sync::Mutex;

#[derive(Clone)]
struct Bakery {
    #[expect(dead_code, reason = "read by what the macros generate for some features alone")]
    tool_router: ToolRouter<Self>,
    processor: Arc<Mutex<OperationProcessor>>,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Bake {
    /// How many
    loaves: u32,
}

#[tool_router]
impl Bakery {
    #[tool(description = "Bakes loaves.", execution(task_support = "required"))]
    async fn bake(&self, Parameters(Bake { loaves }): Parameters<Bake>) -> Result<CallToolResult, McpError> {
        tokio::time::sleep(Duration::from_millis(300) * loaves).await;
        Ok(CallToolResult::success(vec![Content::text(format!("{loaves} loaves"))]))
    }

    #[tool(description = "Burns the bread.", execution(task_support = "required"))]
    async fn burn(&self) -> Result<CallToolResult, McpError> {
        tokio::time::sleep(Duration::from_millis(500)).await;
        Err(McpError::internal_error("the bread is burnt", None))
    }
}

#[tool_handler]
#[task_handler]
impl ServerHandler for Bakery {
    fn get_info(&self) -> ServerInfo {
        let mut capabilities = ServerCapabilities::builder().enable_tools().build();
        capabilities.tasks = Some(TasksCapability::default());
        ServerInfo::new(capabilities)
    }
}

fn bakery() -> Bakery {
    Bakery { tool_router: Bakery::tool_router(), processor: Arc::new(Mutex::new(OperationProcessor::new())) }
}

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments[0] == "stdio" {
        let running = bakery().serve(rmcp::transport::stdio()).await.expect("a client");
        running.waiting().await.expect("an end");
        return;
    }
    // One bakery for all sessions, so that a task outlives the session that made it.
    let shared = bakery();
    let manager = Arc::new(LocalSessionManager::default());
    let service = StreamableHttpService::new(move || Ok(shared.clone()), manager, Default::default());
    let router = axum::Router::new().nest_service("/mcp", service);
    let listener = tokio::net::TcpListener::bind(format!("127.0.0.1:{}", arguments[1])).await.expect("a port");
    axum::serve(listener, router).await.expect("serves");
}
