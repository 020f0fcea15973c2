use std::path::PathBuf;

use super::super::testing::file;
use super::*;

fn parse(text: &str) -> Result<Workload, String> {
    let (_folder, path) = file(text.as_bytes());
    read(&path).map_err(|error| error.to_string().replace(&path.display().to_string(), "input"))
}

fn rows(workload: &Workload) -> Vec<(u64, u32, u32)> {
    workload
        .requests
        .iter()
        .map(|request| (request.offset_ns, request.input_tokens, request.output_tokens))
        .collect()
}

#[test]
fn azure_traces_count_from_their_first_request() {
    let text = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n2023-11-16 18:15:50.9951690,396,109\n";
    let workload = parse(text).unwrap();
    assert_eq!(workload.format, "azure-llm-inference");
    // 50.995169 - 46.680590 s
    assert_eq!(rows(&workload), [(0, 374, 44), (4_314_579_000, 396, 109)]);
    assert_eq!(workload.notes, [""; 0]);
    // The traces of 2024 have a zone.
    let zoned = text.replace(".6805900", ".680590+00:00").replace(".9951690", ".995169+00:00");
    assert_eq!(rows(&parse(&zoned).unwrap()), rows(&workload));
}

#[test]
fn mooncake_traces_are_in_milliseconds() {
    let text = "{\"timestamp\": 27482, \"input_length\": 6955, \"output_length\": 52, \"hash_ids\": [46, 47]}\n{\"timestamp\": 30535, \"input_length\": 6472, \"output_length\": 26, \"hash_ids\": [46]}\n";
    let workload = parse(text).unwrap();
    assert_eq!(workload.format, "mooncake");
    assert_eq!(rows(&workload), [(0, 6955, 52), (3_053_000_000, 6472, 26)]);
}

#[test]
fn disorder_is_sorted_and_empty_requests_are_left_out() {
    let text = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:50,1,1\n2023-11-16 18:15:48,2,2\n2023-11-16 18:15:49,3,0\nsoon,4,4\n";
    let workload = parse(text).unwrap();
    assert_eq!(rows(&workload), [(0, 2, 2), (2_000_000_000, 1, 1)]);
    insta::assert_snapshot!(workload.notes.join("\n"), @"
    input: 2 requests skipped, 4, 5; line 4: has 3 tokens of input and 0 of output; expected at least one of each
    input: requests earlier than the one before, sorted by time: 1
    ");
}

#[test]
fn other_files_are_refused() {
    assert_eq!(
        parse("a,b\n1,2\n").unwrap_err(),
        "\"input\": is no request trace; expected CSV with the columns TIMESTAMP, ContextTokens and \
         GeneratedTokens, or lines of JSON with timestamp, input_length and output_length"
    );
    assert_eq!(
        parse("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:50,many,1\n").unwrap_err(),
        "\"input\": holds no request; input line 2 skipped: ContextTokens is \"many\"; expected a number of tokens"
    );
    assert!(read(&PathBuf::from("/nowhere")).unwrap_err().to_string().contains("/nowhere"));
}

proptest::proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
        let azure = [b"TIMESTAMP,ContextTokens,GeneratedTokens\n".as_slice(), &bytes].concat();
        let mooncake = [b"{\"timestamp\":1,\"input_length\":2,\"output_length\":3}\n".as_slice(), &bytes].concat();
        for bytes in [bytes, azure, mooncake] {
            let (_folder, path) = file(&bytes);
            if let Ok(workload) = read(&path) {
                proptest::prop_assert!(!workload.requests.is_empty());
                proptest::prop_assert_eq!(workload.requests[0].offset_ns, 0);
            }
        }
    }
}
