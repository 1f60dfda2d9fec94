//! The scripted server on a port of its own: as much HTTP/1.1 as the tests need, because a library would not break it.

use std::collections::HashMap;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::server::TlsStream;

use super::script::{Server, Step, fill, progress};

/// A connection, plain or not.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {
    /// Has closing it reset it.
    fn reset(&self) -> std::io::Result<()>;
}

impl Stream for TcpStream {
    fn reset(&self) -> std::io::Result<()> {
        self.set_zero_linger()
    }
}

impl Stream for TlsStream<TcpStream> {
    fn reset(&self) -> std::io::Result<()> {
        self.get_ref().0.set_zero_linger()
    }
}

type Connection = BufReader<Box<dyn Stream>>;

/// A certificate for 127.0.0.1 that nobody has signed, which is written to `pem`.
pub fn certificate(pem: &Path) -> TlsAcceptor {
    let certified = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).expect("a certificate");
    std::fs::write(pem, certified.cert.pem()).expect("the certificate can be written");
    let key = PrivateKeyDer::Pkcs8(certified.signing_key.serialize_der().into());
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().expect("versions");
    let config = config.with_no_client_auth().with_single_cert(vec![certified.cert.der().clone()], key);
    TlsAcceptor::from(Arc::new(config.expect("a usable certificate")))
}

pub async fn serve(server: Arc<Server>, tls: Option<TlsAcceptor>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let port = listener.local_addr().expect("bound").port();
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "{port}").and_then(|()| stdout.flush()).expect("the port can be told");
    drop(stdout);
    let sessions = Arc::new(AtomicU32::new(0));
    loop {
        let (stream, _) = listener.accept().await.expect("connections");
        let (server, sessions, tls) = (Arc::clone(&server), Arc::clone(&sessions), tls.clone());
        tokio::spawn(async move {
            stream.set_nodelay(true)?;
            let stream: Box<dyn Stream> = match tls {
                Some(tls) => Box::new(tls.accept(stream).await?),
                None => Box::new(stream),
            };
            converse(&server, BufReader::new(stream), &sessions).await
        });
    }
}

struct Request {
    verb: String,
    path: String,
    headers: HashMap<String, String>,
    body: Vec<u8>,
}

async fn read(stream: &mut Connection) -> std::io::Result<Option<Request>> {
    let mut line = String::new();
    if stream.read_line(&mut line).await? == 0 {
        return Ok(None);
    }
    let mut words = line.split_whitespace().map(str::to_owned);
    let (verb, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let mut headers = HashMap::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await?;
        match line.trim_end().split_once(':') {
            Some((name, value)) => drop(headers.insert(name.to_ascii_lowercase(), value.trim().to_owned())),
            None => break,
        }
    }
    let length = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    Ok(Some(Request { verb, path, headers, body }))
}

async fn converse(server: &Server, mut stream: Connection, sessions: &AtomicU32) -> std::io::Result<()> {
    while let Some(request) = read(&mut stream).await? {
        let message: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let method = match request.verb.as_str() {
            "POST" => message["method"].as_str().unwrap_or_default().to_owned(),
            other => other.to_owned(),
        };
        let mut headers = json!(request.headers);
        headers[":path"] = json!(request.path);
        let nth = server.receive(&method, &headers, &message);
        let steps = match server.steps(&method, nth, &message) {
            Some(steps) => steps,
            None if method == "GET" => vec![plain(405, "")],
            None if method == "DELETE" => vec![plain(200, "")],
            None => vec![plain(202, "")],
        };
        let session = (method == "initialize" && server.has_sessions())
            .then(|| format!("s{}", sessions.fetch_add(1, Ordering::Relaxed) + 1));
        if !answer(server, &mut stream, steps, &message, session).await? {
            return Ok(());
        }
    }
    Ok(())
}

fn plain(status: u16, body: &str) -> Step {
    Step::Http { status, headers: HashMap::new(), body: body.to_owned() }
}

/// Whether the connection can be used on.
async fn answer(
    server: &Server,
    stream: &mut Connection,
    steps: Vec<Step>,
    request: &Value,
    session: Option<String>,
) -> std::io::Result<bool> {
    let session = session.map_or_else(String::new, |session| format!("Mcp-Session-Id: {session}\r\n"));
    let mut streaming = false;
    for step in steps {
        // Whatever goes before an answer makes it a stream.
        if matches!(step, Step::Send(_) | Step::Sse {}) && !streaming {
            streaming = true;
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n{session}Transfer-Encoding: chunked\r\n\r\n"
            );
            stream.write_all(head.as_bytes()).await?;
            stream.flush().await?;
        }
        if let Some(message) = step.message(request) {
            if streaming {
                chunk(stream, format!("data: {message}\n\n").as_bytes()).await?;
            } else {
                respond(stream, 200, &format!("Content-Type: application/json\r\n{session}"), &message).await?;
            }
            continue;
        }
        match step {
            Step::Http { status, headers, body } => {
                let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
                respond(stream, status, &headers, &fill(&body, request)).await?;
            }
            Step::Sse {} => {}
            Step::Raw(text) => {
                // In two pieces, so that a character may be cut.
                let text = fill(&text, request);
                let (one, two) = text.as_bytes().split_at(text.len() / 2);
                chunk(stream, one).await?;
                tokio::time::sleep(Duration::from_millis(5)).await;
                chunk(stream, two).await?;
            }
            Step::Flood(bytes) => {
                for _ in 0..bytes / 65_536 {
                    chunk(stream, &[b'x'; 65_536]).await?;
                }
            }
            Step::Progress(count, bytes) => {
                for nth in 0..count {
                    chunk(stream, format!("data: {}\n\n", progress(request, nth, bytes)).as_bytes()).await?;
                }
            }
            Step::Sleep(millis) => tokio::time::sleep(Duration::from_millis(millis)).await,
            Step::Await(id) => server.answer_to(&id).await,
            Step::Hold {} => std::future::pending().await,
            Step::Reset {} => {
                stream.get_ref().reset()?;
                return Ok(false);
            }
            other => panic!("not over HTTP: {other:?}"),
        }
    }
    if streaming {
        stream.write_all(b"0\r\n\r\n").await?;
        stream.flush().await?;
    }
    Ok(true)
}

async fn respond(stream: &mut Connection, status: u16, headers: &str, body: &str) -> std::io::Result<()> {
    let head = format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\n{headers}\r\n", body.len());
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    stream.flush().await
}

async fn chunk(stream: &mut Connection, bytes: &[u8]) -> std::io::Result<()> {
    if bytes.is_empty() {
        return Ok(());
    }
    stream.write_all(format!("{:x}\r\n", bytes.len()).as_bytes()).await?;
    stream.write_all(bytes).await?;
    stream.write_all(b"\r\n").await?;
    stream.flush().await
}
