//! What the proxy adds to the time of an answer: a request and a streamed answer of one token over loopback,
//! straight to a server and through the proxy to it, in turns.

#![allow(clippy::print_stdout, clippy::unwrap_used, missing_docs)]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use wattrace_record::Context;
use wattrace_record::clock::SystemClock;
use wattrace_record::proxy::{Proxy, ProxyRoute};

/// Requests each way, and those before them that are not counted.
const REQUESTS: usize = 5_000;
const WARM_UP: usize = 500;

const REQUEST: &[u8] =
    b"POST /v1/completions HTTP/1.1\r\nHost: bench\r\nContent-Length: 2\r\n\r\n{}";

const ANSWER: &[u8] =
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 47\r\n\r\n\
                        data: {\"choices\":[{\"text\":\"a\"}]}\n\ndata: [DONE]\n";

fn main() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.unwrap();
            std::thread::spawn(move || serve(stream));
        }
    });
    let context = Arc::new(Context::new(Arc::new(SystemClock)));
    let route = ProxyRoute::new("0", &format!("http://{server}")).unwrap();
    let proxy = Proxy::bind(&route, context.clone()).unwrap();
    proxy.open().unwrap();

    let mut ways = [connect(server), connect(proxy.address())];
    let mut times = [Vec::new(), Vec::new()];
    for index in 0..WARM_UP + REQUESTS {
        for (way, times) in ways.iter_mut().zip(&mut times) {
            let time = ask(way);
            if index >= WARM_UP {
                times.push(time);
            }
        }
    }
    let [straight, through] = times.map(|mut times| {
        times.sort_unstable();
        [times[times.len() / 2], times[times.len() * 99 / 100]]
    });
    drop(ways);
    proxy.close();
    let rows = context.sink.take().requests.len();
    assert_eq!(rows, WARM_UP + REQUESTS, "every request is a row");
    let micros = |time: Duration| time.as_secs_f64() * 1e6;
    println!("proxy, {REQUESTS} requests and answers over loopback");
    for (name, [median, p99]) in [("straight", straight), ("through the proxy", through)] {
        println!("{name:<28} median {:.0} us, p99 {:.0} us", micros(median), micros(p99));
    }
    let added = micros(through[0]) - micros(straight[0]);
    println!("{:<28} median {added:.0} us there and back", "added by the proxy");
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

/// Answers every request as soon as it is whole.
fn serve(mut stream: TcpStream) {
    stream.set_nodelay(true).unwrap();
    let mut request = [0; REQUEST.len()];
    while stream.read_exact(&mut request).is_ok() {
        if stream.write_all(ANSWER).is_err() {
            return;
        }
    }
}

fn ask(stream: &mut TcpStream) -> Duration {
    let mut answer = [0; ANSWER.len()];
    let start = Instant::now();
    stream.write_all(REQUEST).unwrap();
    stream.read_exact(&mut answer).unwrap();
    start.elapsed()
}
