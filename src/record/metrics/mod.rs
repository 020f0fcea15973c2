//! The engine's own metrics, asked for on a side path: they explain a run and set no boundary.

mod endpoint;

use std::sync::Arc;
use std::time::Duration;

use wattrace_trace::EngineRow;
use wattrace_trace::format::EngineValue;

use crate::Context;
use crate::clock::Span;

pub(crate) use endpoint::Endpoint;

/// What counts failures of this part.
const SOURCE: &str = "metrics";

/// Metrics of the process that runs the engine and of its web server.
const OTHER_FAMILIES: [&str; 4] = ["python_", "process_", "http_", "go_"];

/// Whether a metric goes to `engine.parquet`: those of engines do. Buckets of histograms are left out,
/// since their sums and counts give the means and requests are recorded one by one; so are the times at
/// which counters were created.
fn is_kept(name: &str) -> bool {
    !name.ends_with("_bucket")
        && !name.ends_with("_created")
        && !OTHER_FAMILIES.iter().any(|family| name.starts_with(family))
}

/// Asks for metrics until the recording stops. `label` is added to every value where several engines are
/// asked, so that theirs stay apart.
pub(crate) fn run(context: &Arc<Context>, endpoint: Endpoint, interval: Duration, label: bool) {
    let mut poll = Poll::new(context, endpoint, label);
    let clock = context.clock.clock();
    let interval_ns = i64::try_from(interval.as_nanos()).unwrap_or(i64::MAX).max(1);
    let mut due_ns = clock.monotonic_ns();
    loop {
        if poll.once().is_err() {
            break;
        }
        // Where answers take longer than the interval, moments are left out, not caught up with.
        let late_ns = clock.monotonic_ns().saturating_sub(due_ns);
        due_ns = due_ns.saturating_add((late_ns / interval_ns + 1).saturating_mul(interval_ns));
        if clock.wait(&context.stop, due_ns) {
            break;
        }
    }
    poll.finish();
}

/// One engine that is asked.
struct Poll<'a> {
    context: &'a Context,
    endpoint: Endpoint,
    label: Option<String>,
    unread: u64,
    not_finite: u64,
}

impl<'a> Poll<'a> {
    fn new(context: &'a Context, endpoint: Endpoint, label: bool) -> Self {
        Self {
            context,
            label: label.then(|| format!("endpoint=\"{}\"", endpoint.address().authority())),
            endpoint,
            unread: 0,
            not_finite: 0,
        }
    }

    /// Asks once. The values are dated at the middle of the question.
    fn once(&mut self) -> Result<(), crate::Closed> {
        let (span, answer) = Span::of(self.context.clock.clock(), || self.endpoint.ask());
        let t_ns = self.context.clock.run_time_ns(span.middle_ns());
        match answer.and_then(|text| self.rows(t_ns, &text)) {
            Ok(rows) => {
                self.endpoint.answered(self.context, SOURCE);
                self.context.sink.engine(rows)
            }
            Err(cause) => {
                self.endpoint.failed(cause);
                if self.context.sink.is_closed() { Err(crate::Closed) } else { Ok(()) }
            }
        }
    }

    fn rows(&mut self, t_ns: i64, text: &str) -> Result<Vec<EngineRow>, String> {
        let mut rows = Vec::new();
        let (mut values, mut unread) = (0_u64, 0);
        for line in text.lines().map(str::trim) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let Some(EngineValue { name, labels, value }) = EngineValue::parse(line) else {
                unread += 1;
                continue;
            };
            values += 1;
            if is_kept(name) {
                self.not_finite += u64::from(value.is_none());
                let labels: Vec<&str> = self.label.as_deref().into_iter().chain(labels).collect();
                let labels = (!labels.is_empty()).then(|| labels.join(","));
                rows.push(EngineRow { t_ns, name: name.to_owned(), labels, value });
            }
        }
        if values == 0 {
            return Err("it answered without a metric in Prometheus' text".to_owned());
        }
        self.unread += unread;
        Ok(rows)
    }

    /// Says in the notes of the run what came of it.
    fn finish(self) {
        let summary = self.endpoint.summary(self.context, SOURCE);
        let mut note = format!("engine metrics of {}: {summary}", self.endpoint.address());
        for (count, what) in [
            (self.unread, "lines that are no metric, not read"),
            (self.not_finite, "values that are not finite, null"),
        ] {
            if count > 0 {
                note += &format!("; {what}: {count}");
            }
        }
        self.context.note(crate::redact::in_text(&note));
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::net::TcpListener;

    use super::*;
    use crate::clock::SystemClock;
    use crate::http::HttpOptions;

    fn endpoint(address: &str) -> Endpoint {
        Endpoint::new(&address.parse().unwrap(), &HttpOptions::default()).unwrap()
    }

    /// Answers each connection with the next of these, and gives the address.
    fn server(answers: Vec<String>) -> (String, std::thread::JoinHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}/metrics", listener.local_addr().unwrap());
        let thread = std::thread::spawn(move || {
            for answer in answers {
                let (mut stream, _) = listener.accept().unwrap();
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                let mut line = String::new();
                // All of the question is read, or closing would reset the connection.
                while reader.read_line(&mut line).unwrap() > 2 {
                    line.clear();
                }
                let _ = stream.write_all(answer.as_bytes());
            }
        });
        (address, thread)
    }

    fn answer(status: &str, body: &str) -> String {
        let length = body.len();
        format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}")
    }

    #[test]
    fn a_question_without_an_answer_is_counted_and_never_a_zero() {
        let metrics = "# TYPE vllm:num_requests_running gauge\n\
            vllm:num_requests_running{engine=\"0\"} 3.0\n\
            vllm:num_requests_running{engine=\"1\"} 4.0\n\
            vllm:kv_cache_usage_perc{engine=\"0\"} NaN\n\
            vllm:ttft_seconds_bucket{le=\"0.1\"} 3\nvllm:ttft_seconds_sum 0.5\n\
            vllm:prompt_tokens_created 1.7e9\npython_info 1\nbroken\n";
        let (address, thread) = server(vec![
            answer("503 Service Unavailable", "loading"),
            answer("200 OK", metrics),
            answer("200 OK", "no metrics here"),
            answer("200 OK", "vllm:prompt_tokens_total 7\n"),
            "nonsense\r\n\r\n".to_owned(),
        ]);
        let context = Context::new(Arc::new(SystemClock));
        let mut poll = Poll::new(&context, endpoint(&address), false);
        for _ in 0..5 {
            poll.once().unwrap();
        }
        poll.finish();
        thread.join().unwrap();
        let rows = context.sink.take().engine;
        let shown: Vec<_> = rows
            .iter()
            .map(|row| {
                format!("{}{{{}}} {:?}", row.name, row.labels.as_deref().unwrap_or(""), row.value)
            })
            .collect();
        assert_eq!(
            shown,
            [
                "vllm:num_requests_running{engine=\"0\"} Some(3.0)",
                "vllm:num_requests_running{engine=\"1\"} Some(4.0)",
                "vllm:kv_cache_usage_perc{engine=\"0\"} None",
                "vllm:ttft_seconds_sum{} Some(0.5)",
                "vllm:prompt_tokens_total{} Some(7.0)",
            ]
        );
        let failures = context.failures();
        assert_eq!(failures.len(), 1, "{failures:?}");
        assert_eq!(failures[0].cause, "it answered without a metric in Prometheus' text");
        let note = context.take_notes().remove(0).replace(&address, "URL");
        assert_eq!(
            note,
            "engine metrics of URL: 2 answers; before the first answer, questions without one: the service \
             answered with HTTP 503 (1); after the last answer, questions without one: the answer is no HTTP (1); \
             lines that are no metric, not read: 1; values that are not finite, null: 1"
        );
    }

    #[test]
    fn an_engine_that_never_answers_is_a_failure_each_time() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}/metrics", listener.local_addr().unwrap());
        drop(listener);
        let context = Context::new(Arc::new(SystemClock));
        let mut poll = Poll::new(&context, endpoint(&address), true);
        poll.once().unwrap();
        poll.once().unwrap();
        poll.finish();
        assert!(context.sink.take().is_empty());
        let failures = context.failures();
        assert_eq!((failures[0].cause.as_str(), failures[0].count), ("connection refused", 2));
    }

    #[test]
    fn engines_that_are_asked_together_stay_apart() {
        let context = Context::new(Arc::new(SystemClock));
        let mut poll = Poll::new(&context, endpoint("http://h:1/metrics"), true);
        let rows = poll.rows(0, "a 1\nb{x=\"y\"} 2\n").unwrap();
        let labels: Vec<_> = rows.iter().map(|row| row.labels.as_deref().unwrap()).collect();
        assert_eq!(labels, ["endpoint=\"h:1\"", "endpoint=\"h:1\",x=\"y\""]);
    }
}
