use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::builder::{LargeListBuilder, ListBuilder, UInt64Builder};
use arrow_array::types::Int32Type;
use arrow_array::{
    ArrayRef, BinaryArray, DictionaryArray, Float32Array, Float64Array, Int8Array, Int32Array,
    Int64Array, LargeStringArray, NullArray, StringArray, StringViewArray,
    TimestampMicrosecondArray, TimestampMillisecondArray, TimestampNanosecondArray, UInt8Array,
    UInt32Array, UInt64Array,
};
use proptest::prelude::*;
use wattrace_schema::{GraphMode, RequestStage, RequestStatus, TimestampNs};

use super::*;
use crate::testing::{
    SECOND, T0, TestArchive, manifest, parquet_bytes, power, request, stamp, step,
};
use crate::{AccuracyWriteRow, PowerRow, RequestRow, StepRow};

fn read(location: &RunLocation) -> LoadedRun {
    read_run(location, ReadOptions::default()).unwrap()
}

fn read_error(archive: &TestArchive, location: &RunLocation) -> String {
    archive.shown(&read_run(location, ReadOptions::default()).unwrap_err())
}

mod round_trip {
    use super::*;

    fn power_rows() -> impl Strategy<Value = Vec<PowerRow>> {
        // Few devices and times, so that rows often share one.
        let value = || proptest::option::weighted(0.8, 0.0..1000.0_f64);
        let row = (0..20_i64, 0..3_u8, value(), value());
        let row = row.prop_map(|(t, device, power_w, energy_j)| PowerRow {
            power_w,
            energy_j,
            temperature_c: Some(50.0),
            ..power(t, &format!("gpu{device}"), 0.0)
        });
        proptest::collection::vec(row, 0..60)
    }

    fn request_rows() -> impl Strategy<Value = Vec<RequestRow>> {
        let time = || proptest::option::of(0..5_i64);
        let gaps = proptest::option::of(proptest::collection::vec((0..9_u64, 1..3_u32), 0..4));
        let row = (0..4_u8, time(), time(), gaps, any::<bool>(), 0..4_usize, any::<bool>());
        let row = row.prop_map(|(id, sent, end, gaps, chunks, status, formal)| RequestRow {
            stage: if formal { RequestStage::Formal } else { RequestStage::Warmup },
            t_send_ns: sent.map(|t| T0 + t),
            t_end_ns: end.map(|t| T0 + t),
            status: RequestStatus::ALL[status],
            error: (status == 1).then(|| "refused".to_owned()),
            output_tokens: sent.map(|t| t as u32),
            reasoning_tokens: end.map(|t| t as u32),
            itl_ns: gaps.as_ref().map(|gaps| gaps.iter().map(|(gap, _)| *gap).collect()),
            itl_tokens: gaps
                .filter(|_| chunks)
                .map(|gaps| gaps.iter().map(|(_, tokens)| *tokens).collect()),
            ttft_ns: sent.map(|t| t as u64),
            ..request(0, &format!("r{id}"))
        });
        proptest::collection::vec(row, 0..20)
    }

    fn step_rows() -> impl Strategy<Value = Vec<StepRow>> {
        let row = (0..4_u64, 0..2_u16, 0..4_u64, 1..3_u32, 0..3_usize);
        let row = row.prop_map(|(number, replica, end, iterations, mode)| StepRow {
            replica,
            iterations,
            graph_mode: GraphMode::ALL.get(mode).copied(),
            active_experts: (mode == 0).then_some(1.5),
            step: number,
            ..step(end)
        });
        proptest::collection::vec(row, 0..20)
    }

    /// Some order of the places below `n`, from a number.
    fn shuffled<T: Clone>(rows: &[T], mut seed: u64) -> Vec<T> {
        let mut rows = rows.to_vec();
        for place in (1..rows.len()).rev() {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            rows.swap(place, (seed >> 33) as usize % (place + 1));
        }
        rows
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn any_order_of_rows_gives_the_same_run(
            powers in power_rows(), requests in request_rows(), steps in step_rows(), seed: u64,
        ) {
            let archive = TestArchive::new();
            let [mut first, mut second] = [("first", None), ("second", Some(seed))].map(|(id, seed)| {
                let run = archive.write(manifest(id), |writer| {
                    let order = seed.unwrap_or_default();
                    let powers = seed.map_or(powers.clone(), |_| shuffled(&powers, order));
                    let requests = seed.map_or(requests.clone(), |_| shuffled(&requests, order));
                    let steps = seed.map_or(steps.clone(), |_| shuffled(&steps, order));
                    powers.into_iter().for_each(|row| writer.power(row).unwrap());
                    requests.into_iter().for_each(|row| writer.request(row).unwrap());
                    steps.into_iter().for_each(|row| writer.step(row).unwrap());
                });
                read(&run).run
            });
            for run in [&mut first, &mut second] {
                run.manifest.run_id = String::new();
                run.manifest.files = BTreeMap::new();
            }
            prop_assert_eq!(&first, &second);

            // Every series against the rule, computed the slow way.
            for device in &first.power {
                let rows: Vec<_> = powers.iter().filter(|row| row.device == device.device).collect();
                let mut by_time: BTreeMap<i64, Vec<&PowerRow>> = BTreeMap::new();
                rows.iter().for_each(|row| by_time.entry(row.t_ns).or_default().push(row));
                prop_assert_eq!(device.duplicate_times, rows.len() - by_time.len());
                let largest: Vec<_> = by_time.iter().filter_map(|(t, rows)| {
                    let counters = rows.iter().filter_map(|row| row.energy_j);
                    counters.reduce(f64::max).map(|counter| (*t, counter))
                }).collect();
                let energy: Vec<_> = device.energy_j.t_ns.iter().copied()
                    .zip(device.energy_j.value.iter().copied()).collect();
                prop_assert_eq!(energy, largest);
                let means: Vec<_> = by_time.iter().filter_map(|(t, rows)| {
                    let values: Vec<_> = rows.iter().filter_map(|row| row.power_w).collect();
                    let mean = values.iter().sum::<f64>() / values.len() as f64;
                    (!values.is_empty()).then_some((*t, mean))
                }).collect();
                prop_assert_eq!(means.len(), device.power_w.len());
                for ((t, mean), (found_t, found)) in means.iter()
                    .zip(device.power_w.t_ns.iter().zip(&device.power_w.value))
                {
                    prop_assert_eq!(t, found_t);
                    // Both sum the same few numbers, in another order.
                    prop_assert!((mean - found).abs() <= 1e-12 * mean.abs());
                }
            }
        }
    }

    #[test]
    fn a_request_and_a_step_come_back_as_written() {
        let archive = TestArchive::new();
        let written = RequestRow {
            stage: RequestStage::Warmup,
            status: RequestStatus::Timeout,
            error: Some("no answer after 60 s".into()),
            reasoning_tokens: Some(2),
            itl_tokens: Some(vec![1, 2]),
            ttft_ns: Some(7),
            e2e_ns: Some(8),
            ..request(0, "r")
        };
        let run = archive.write(manifest("a"), |writer| {
            writer.request(written).unwrap();
            let step = StepRow {
                max_sequence_tokens: Some(9),
                iterations: 3,
                active_experts: Some(2.5),
                graph_mode: Some(GraphMode::Eager),
                ..step(0)
            };
            writer.step(step).unwrap();
            for (item, score) in [("b", None), ("a", Some(0.5))] {
                writer
                    .accuracy(AccuracyWriteRow {
                        suite: "gsm8k".into(),
                        item: item.into(),
                        seed: 1,
                        score,
                    })
                    .unwrap();
            }
        });
        let options = ReadOptions { accuracy: true, ..ReadOptions::default() };
        let LoadedRun { run, findings } = read_run(&run, options).unwrap();
        assert!(findings.is_empty() && run.power.is_empty());
        let requests = run.requests.unwrap();
        assert_eq!(requests.request_id, ["r"]);
        assert_eq!(requests.stage, [RequestStage::Warmup]);
        assert_eq!(requests.status, [RequestStatus::Timeout]);
        assert_eq!(requests.error[0].as_deref(), Some("no answer after 60 s"));
        assert_eq!(requests.t_send_ns, [Some(T0)]);
        assert_eq!(requests.t_first_token_ns, [Some(T0 + 100_000_000)]);
        assert_eq!(requests.t_end_ns, [Some(T0 + 200_000_000)]);
        assert_eq!((requests.ttft_ns[0], requests.e2e_ns[0]), (Some(7), Some(8)));
        assert_eq!((requests.input_tokens[0], requests.output_tokens[0]), (Some(10), Some(3)));
        assert_eq!(requests.reasoning_tokens, [Some(2)]);
        assert_eq!(requests.gaps.of(0), (&[50_000_000, 50_000_000][..], &[1, 2][..]));
        let steps = run.steps.unwrap();
        assert_eq!((steps.step[0], steps.replica[0], steps.iterations[0]), (0, 0, 3));
        assert_eq!((steps.t_start_ns[0], steps.t_end_ns[0]), (Some(T0), T0 + SECOND));
        assert_eq!((steps.active_sequences[0], steps.new_tokens[0]), (4, 4));
        assert_eq!((steps.history_tokens[0], steps.max_sequence_tokens[0]), (Some(400), Some(9)));
        assert_eq!((steps.prefill_tokens[0], steps.active_experts[0]), (0, Some(2.5)));
        assert_eq!(steps.graph_mode, [Some(GraphMode::Eager)]);
        let scores: Vec<_> =
            run.accuracy.iter().map(|row| (row.item.as_str(), row.score)).collect();
        assert_eq!(scores, [("a", Some(0.5)), ("b", None)]);
    }
}

mod beside_the_metrics {
    use wattrace_schema::{AcceleratorSamples, PowerSource, Scope};

    use super::*;
    use crate::EngineRow;

    #[test]
    fn clocks_temperatures_and_throttling_are_read_in_order_of_time_on_the_clock_of_the_run() {
        let archive = TestArchive::new();
        let mut manifest = manifest("a");
        manifest.power_sources[0].clock_offset_ns = Some(SECOND);
        let node = PowerSource {
            id: "bmc".into(),
            scope: Scope::Node,
            ..manifest.power_sources[0].clone()
        };
        manifest.power_sources.push(node);
        let run = archive.write(manifest, |writer| {
            let sample = |t, temperature_c, sm_clock_mhz, throttle_reasons| PowerRow {
                temperature_c,
                sm_clock_mhz,
                throttle_reasons,
                ..power(t, "gpu0", 300.0)
            };
            writer.power(sample(2, Some(71.5), Some(1200), Some(4))).unwrap();
            writer.power(sample(1, Some(70.0), Some(1900), None)).unwrap();
            writer.power(sample(3, None, None, None)).unwrap();
            let board = PowerRow { source: "bmc".into(), ..sample(1, Some(30.0), None, None) };
            writer.power(board).unwrap();
        });
        let options = ReadOptions { health: true, ..ReadOptions::default() };
        let expected = AcceleratorSamples {
            device: "gpu0".into(),
            t_ns: vec![T0 + 2 * SECOND, T0 + 3 * SECOND],
            temperature_c: vec![Some(70.0), Some(71.5)],
            sm_clock_mhz: vec![Some(1900), Some(1200)],
            throttle_reasons: vec![None, Some(4)],
        };
        assert_eq!(read_run(&run, options).unwrap().run.accelerators, [expected]);
        assert!(read(&run).run.accelerators.is_empty());
    }

    #[test]
    fn only_the_engine_metrics_that_were_asked_for_are_read() {
        let archive = TestArchive::new();
        let run = archive.write(manifest("a"), |writer| {
            for (t, name, labels, value) in [
                (2, "bytes_total", Some("engine=0"), Some(20.0)),
                (1, "bytes_total", Some("engine=0"), Some(10.0)),
                (1, "bytes_total", None, Some(1.0)),
                (2, "bytes_total", None, None),
                (1, "other", None, Some(5.0)),
            ] {
                let (name, labels) = (name.to_owned(), labels.map(str::to_owned));
                writer.engine(EngineRow { t_ns: T0 + t * SECOND, name, labels, value }).unwrap();
            }
        });
        let options = ReadOptions { engine_metrics: &["bytes_total"], ..ReadOptions::default() };
        let metrics = read_run(&run, options).unwrap().run.engine_metrics;
        let shown: Vec<_> = metrics
            .iter()
            .map(|metric| (metric.labels.as_str(), metric.samples.value.as_slice()))
            .collect();
        assert_eq!(shown, [("", &[1.0][..]), ("engine=0", &[10.0, 20.0])]);
    }
}

mod cleaning {
    use super::*;

    #[test]
    fn rows_of_one_time_become_one_with_mean_power_and_largest_counter() {
        let archive = TestArchive::new();
        let run = archive.write(manifest("a"), |writer| {
            for (t, power_w, energy_j) in [
                (1, Some(310.0), Some(20.0)),
                (0, Some(290.0), Some(10.0)),
                (1, Some(300.0), None),
                (1, None, Some(25.0)),
            ] {
                writer.power(PowerRow { power_w, energy_j, ..power(t, "gpu0", 0.0) }).unwrap();
            }
        });
        let device = &read(&run).run.power[0];
        assert_eq!(device.power_w.t_ns, [T0, T0 + SECOND]);
        assert_eq!(device.power_w.value, [290.0, 305.0]);
        assert_eq!(device.energy_j.value, [10.0, 25.0]);
        assert_eq!((device.duplicate_times, device.invalid_samples), (2, 0));
    }

    #[test]
    fn invalid_values_are_left_out_counted_and_the_first_is_named() {
        let archive = TestArchive::new();
        let run = archive.write(manifest("a"), |writer| {
            let values = [300.0, f64::NAN, -12.5, f64::INFINITY, -1.0, 301.0];
            for (second, power_w) in values.into_iter().enumerate() {
                let energy_j = Some(if second == 5 { -3.0 } else { second as f64 });
                writer
                    .power(PowerRow { energy_j, ..power(second as i64, "gpu0", power_w) })
                    .unwrap();
            }
        });
        let LoadedRun { run, findings } = read(&run);
        assert_eq!(run.power[0].power_w.value, [300.0, 301.0]);
        assert_eq!(run.power[0].energy_j.value, [0.0, 1.0, 2.0, 3.0, 4.0]);
        assert_eq!(run.power[0].invalid_samples, 5);
        let shown: Vec<_> = findings
            .iter()
            .map(|f| format!("{} {} {:?} {:?}: {}", f.check, f.file, f.column, f.row, f.message))
            .collect();
        insta::assert_snapshot!(shown.join("\n"), @r#"
        power-negative power.parquet Some("power_w") Some(2): 2 values are negative, the first -12.5 of device "gpu0"; expected a finite number of 0 or more, or null; left out
        power-not-finite power.parquet Some("power_w") Some(1): 2 values are not finite, the first NaN of device "gpu0"; expected a finite number of 0 or more, or null; left out
        power-negative power.parquet Some("energy_j") Some(5): 1 value is negative, the first -3 of device "gpu0"; expected a finite number of 0 or more, or null; left out
        "#);
    }

    #[test]
    fn the_offset_of_a_source_moves_it_to_the_clock_of_the_run() {
        let archive = TestArchive::new();
        let mut manifest = manifest("a");
        manifest.power_sources[0].clock_offset_ns = Some(-250_000_000);
        let run = archive.write(manifest, |writer| {
            writer.power(power(1, "gpu0", 300.0)).unwrap();
        });
        assert_eq!(read(&run).run.power[0].power_w.t_ns, [T0 + 750_000_000]);
    }

    #[test]
    fn an_offset_that_leaves_the_range_of_times_is_an_error() {
        let archive = TestArchive::new();
        let mut manifest = manifest("a");
        manifest.power_sources[0].clock_offset_ns = Some(i64::MAX);
        let run = archive.write(manifest, |writer| {
            writer.power(power(0, "gpu0", 300.0)).unwrap();
        });
        insta::assert_snapshot!(read_error(&archive, &run), @r#""ARCHIVE/a/run.json" is not a valid run.json: key "power_sources[0].clock_offset_ns" is 9223372036854775807, which moves the time 1769860800000000000 ns of device "gpu0" out of the years 1678 to 2261"#);
    }

    #[test]
    fn devices_come_in_the_order_of_source_then_name() {
        let archive = TestArchive::new();
        let mut manifest = manifest("a");
        let mut first = manifest.power_sources[0].clone();
        first.id = "zeta".into();
        manifest.power_sources.insert(0, first);
        let run = archive.write(manifest, |writer| {
            for (source, device) in [("nvml", "b"), ("zeta", "c"), ("nvml", "a")] {
                writer.power(PowerRow { source: source.into(), ..power(0, device, 1.0) }).unwrap();
            }
        });
        let order: Vec<_> =
            read(&run).run.power.iter().map(|d| (d.source, d.device.clone())).collect();
        assert_eq!(order, [(0, "c".to_owned()), (1, "a".to_owned()), (1, "b".to_owned())]);
    }

    #[test]
    fn requests_without_a_sending_time_come_first() {
        let archive = TestArchive::new();
        let run = archive.write(manifest("a"), |writer| {
            writer.request(request(1, "late")).unwrap();
            writer.request(request(0, "early")).unwrap();
            writer.request(RequestRow { t_send_ns: None, ..request(5, "never") }).unwrap();
        });
        assert_eq!(read(&run).run.requests.unwrap().request_id, ["never", "early", "late"]);
    }

    #[test]
    fn chunks_of_one_token_each_are_the_same_as_none() {
        let archive = TestArchive::new();
        let run = archive.write(manifest("a"), |writer| {
            writer.request(RequestRow { itl_tokens: Some(vec![1, 1]), ..request(0, "a") }).unwrap();
            writer.request(request(1, "b")).unwrap();
        });
        let gaps = read(&run).run.requests.unwrap().gaps;
        assert_eq!((gaps.gap_ns.len(), gaps.tokens.len()), (4, 0));
    }
}

/// `power.parquet` as other tools write it.
mod foreign {
    use super::*;

    fn times(unit: &str) -> ArrayRef {
        let seconds = [T0 / SECOND, T0 / SECOND + 1];
        match unit {
            "ms" => Arc::new(
                TimestampMillisecondArray::from(seconds.map(|s| s * 1_000).to_vec())
                    .with_timezone("UTC"),
            ),
            "us" => Arc::new(
                TimestampMicrosecondArray::from(seconds.map(|s| s * 1_000_000).to_vec())
                    .with_timezone("+00:00"),
            ),
            _ => Arc::new(
                TimestampNanosecondArray::from(seconds.map(|s| s * SECOND).to_vec())
                    .with_timezone("UTC"),
            ),
        }
    }

    fn text(kind: &str, value: &str) -> ArrayRef {
        let values = vec![value; 2];
        match kind {
            "large" => Arc::new(LargeStringArray::from(values)),
            "view" => Arc::new(StringViewArray::from(values)),
            "dictionary" => Arc::new(values.into_iter().collect::<DictionaryArray<Int32Type>>()),
            _ => Arc::new(StringArray::from(values)),
        }
    }

    #[test]
    fn time_units_and_string_types_make_no_difference() {
        let archive = TestArchive::new();
        let mut runs = Vec::new();
        for unit in ["ns", "us", "ms"] {
            for kind in ["plain", "large", "view", "dictionary"] {
                let run = archive.write_table(
                    manifest(&format!("{unit}-{kind}")),
                    &POWER,
                    // Columns in another order, and one that nobody knows.
                    &[
                        ("colour", text("plain", "blue")),
                        ("power_w", Arc::new(Float64Array::from(vec![300.0, 301.0]))),
                        ("device", text(kind, "gpu0")),
                        ("source", text(kind, "nvml")),
                        ("t", times(unit)),
                    ],
                );
                runs.push(read(&run).run.power);
            }
        }
        assert_eq!(runs[0][0].power_w.t_ns, [T0, T0 + SECOND]);
        assert_eq!(runs[0][0].power_w.value, [300.0, 301.0]);
        assert_eq!(runs[0][0].device, "gpu0");
        assert!(runs.iter().all(|run| *run == runs[0]));
    }

    #[test]
    fn numbers_of_other_widths_are_read_if_they_fit() {
        let archive = TestArchive::new();
        let integers: [ArrayRef; 4] = [
            Arc::new(Int64Array::from(vec![Some(300), None])),
            Arc::new(Int32Array::from(vec![Some(300), None])),
            Arc::new(Float32Array::from(vec![Some(300.0), None])),
            Arc::new(Float64Array::from(vec![Some(300.0), None])),
        ];
        for (place, power_w) in integers.into_iter().enumerate() {
            let run = archive.write_table(
                manifest(&place.to_string()),
                &POWER,
                &[
                    ("t", times("ns")),
                    ("source", text("plain", "nvml")),
                    ("device", text("plain", "gpu0")),
                    ("power_w", power_w),
                    ("energy_j", Arc::new(NullArray::new(2))),
                ],
            );
            let device = &read(&run).run.power[0];
            assert_eq!((&device.power_w.value[..], device.energy_j.len()), (&[300.0][..], 0));
        }
    }

    fn request_table(changes: &[(&'static str, ArrayRef)]) -> Vec<(&'static str, ArrayRef)> {
        let mut columns: Vec<(&'static str, ArrayRef)> = vec![
            ("request_id", Arc::new(StringArray::from(vec!["a", "b"]))),
            ("stage", text("plain", "formal")),
            ("t_send", times("ns")),
            ("t_first_token", times("ns")),
            ("t_end", times("ns")),
            ("status", text("plain", "ok")),
            ("input_tokens", Arc::new(UInt32Array::from(vec![1, 2]))),
            ("output_tokens", Arc::new(UInt32Array::from(vec![3, 4]))),
        ];
        for (name, array) in changes {
            match columns.iter_mut().find(|(column, _)| column == name) {
                Some(column) => column.1 = array.clone(),
                None => columns.push((name, array.clone())),
            }
        }
        columns
    }

    #[test]
    fn lists_of_other_types_are_read() {
        let mut large = LargeListBuilder::new(arrow_array::builder::Int32Builder::new());
        let mut plain = ListBuilder::new(UInt64Builder::new());
        for list in [Some(vec![1, 2]), None] {
            large.append_option(list.clone().map(|l| l.into_iter().map(Some)));
            plain.append_option(list.map(|l| l.into_iter().map(|gap| Some(gap as u64))));
        }
        let archive = TestArchive::new();
        let lists: [ArrayRef; 2] = [Arc::new(large.finish()), Arc::new(plain.finish())];
        for (place, list) in lists.into_iter().enumerate() {
            let columns = request_table(&[("itl_ns", list)]);
            let run = archive.write_table(manifest(&place.to_string()), &REQUESTS, &columns);
            let gaps = read(&run).run.requests.unwrap().gaps;
            assert_eq!((gaps.of(0).0, gaps.of(1).0), (&[1, 2][..], &[][..]));
        }
    }

    #[test]
    fn whole_numbers_may_be_stored_as_floats_as_pandas_does_beside_nulls() {
        let archive = TestArchive::new();
        let tokens: ArrayRef = Arc::new(Float64Array::from(vec![Some(7.0), None]));
        let small: ArrayRef = Arc::new(UInt8Array::from(vec![1, 2]));
        let columns = request_table(&[("output_tokens", tokens), ("input_tokens", small)]);
        let run = archive.write_table(manifest("a"), &REQUESTS, &columns);
        let requests = read(&run).run.requests.unwrap();
        assert_eq!(requests.output_tokens, [Some(7), None]);
        assert_eq!(requests.input_tokens, [Some(1), Some(2)]);
    }

    #[test]
    fn columns_that_cannot_be_read_as_declared_are_named() {
        let naive: ArrayRef = Arc::new(TimestampMicrosecondArray::from(vec![1, 2]));
        let berlin: ArrayRef =
            Arc::new(TimestampMicrosecondArray::from(vec![1, 2]).with_timezone("Europe/Berlin"));
        let duration: ArrayRef = Arc::new(arrow_array::DurationMicrosecondArray::from(vec![1, 2]));
        let strings = text("plain", "x");
        let list = {
            let mut list = ListBuilder::new(arrow_array::builder::StringBuilder::new());
            list.append_value([Some("x")]);
            list.append_value([Some("y")]);
            Arc::new(list.finish())
        };
        let null_item = {
            let mut list = ListBuilder::new(UInt64Builder::new());
            list.append_value([Some(1)]);
            list.append_value([Some(2), None]);
            Arc::new(list.finish())
        };
        let cases: Vec<(&'static str, ArrayRef)> = vec![
            ("t_send", naive),
            ("t_send", berlin),
            ("t_send", Arc::new(Int64Array::from(vec![1, 2]))),
            (
                "t_send",
                Arc::new(TimestampMillisecondArray::from(vec![0, i64::MAX]).with_timezone("UTC")),
            ),
            ("ttft_ns", duration),
            ("request_id", Arc::new(Int64Array::from(vec![1, 2]))),
            ("request_id", Arc::new(BinaryArray::from(vec![&b"a"[..], &b"b"[..]]))),
            ("request_id", Arc::new(StringArray::from(vec![Some("a"), None]))),
            ("request_id", Arc::new(NullArray::new(2))),
            ("output_tokens", strings),
            ("output_tokens", Arc::new(Int8Array::from(vec![1, -1]))),
            ("output_tokens", Arc::new(Float64Array::from(vec![1.0, 2.5]))),
            ("output_tokens", Arc::new(Float64Array::from(vec![1.0, f64::NAN]))),
            ("output_tokens", Arc::new(UInt64Array::from(vec![1, 1 << 32]))),
            ("itl_ns", list),
            ("itl_ns", null_item),
            ("itl_ns", Arc::new(UInt64Array::from(vec![1, 2]))),
            ("stage", text("plain", "measured")),
            ("status", text("dictionary", "OK")),
        ];
        let archive = TestArchive::new();
        let mut messages = Vec::new();
        for (place, (column, array)) in cases.into_iter().enumerate() {
            let columns = request_table(&[(column, array)]);
            let run = archive.write_table(manifest(&format!("{place:02}")), &REQUESTS, &columns);
            messages.push(read_error(&archive, &run).replace("/requests.parquet", ""));
        }
        insta::assert_snapshot!(messages.join("\n"), @r#"
        "ARCHIVE/00" column "t_send" is timestamp[us] without a time zone; expected timestamp[ns, UTC]
        "ARCHIVE/01" column "t_send" is timestamp[us, Europe/Berlin]; expected timestamp[ns, UTC]
        "ARCHIVE/02" column "t_send" is int64; expected timestamp[ns, UTC]
        "ARCHIVE/03" column "t_send" row 1: 9223372036854775807 ms since 1970; expected a time between the years 1678 and 2261
        "ARCHIVE/04" column "ttft_ns" is duration[us]; expected uint64
        "ARCHIVE/05" column "request_id" is int64; expected string
        "ARCHIVE/06" column "request_id" is binary; expected string
        "ARCHIVE/07" column "request_id" row 1: null; expected a value
        "ARCHIVE/08" column "request_id" row 0: null; expected a value
        "ARCHIVE/09" column "output_tokens" is string; expected uint32
        "ARCHIVE/10" column "output_tokens" row 1: -1; expected a whole number from 0 to 4294967295
        "ARCHIVE/11" column "output_tokens" row 1: 2.5; expected a whole number from 0 to 4294967295
        "ARCHIVE/12" column "output_tokens" row 1: NaN; expected a whole number from 0 to 4294967295
        "ARCHIVE/13" column "output_tokens" row 1: 4294967296; expected a whole number from 0 to 4294967295
        "ARCHIVE/14" column "itl_ns" is list<string>; expected list<uint64>
        "ARCHIVE/15" column "itl_ns" row 1: a null inside the list; expected a whole number from 0 to 18446744073709551615
        "ARCHIVE/16" column "itl_ns" is uint64; expected list<uint64>
        "ARCHIVE/17" column "stage" row 0: "measured"; expected one of warmup, formal
        "ARCHIVE/18" column "status" row 0: "OK"; expected one of ok, error, timeout, cancelled
        "#);
    }

    #[test]
    fn a_missing_or_repeated_column_is_named() {
        let archive = TestArchive::new();
        let mut columns = request_table(&[]);
        columns.retain(|(name, _)| *name != "status");
        let run = archive.write_table(manifest("a"), &REQUESTS, &columns);
        insta::assert_snapshot!(read_error(&archive, &run), @r#""ARCHIVE/a/requests.parquet" has no column "status"; expected string"#);
        let mut columns = request_table(&[]);
        columns.push(("t_end", times("ns")));
        let run = archive.write_table(manifest("b"), &REQUESTS, &columns);
        insta::assert_snapshot!(read_error(&archive, &run), @r#""ARCHIVE/b/requests.parquet" column "t_end" is there more than once; expected timestamp[ns, UTC]"#);
    }

    #[test]
    fn chunk_counts_must_match_the_gaps() {
        let list = |values: [Option<Vec<u64>>; 2]| {
            let mut list = ListBuilder::new(UInt64Builder::new());
            for row in values {
                list.append_option(row.map(|row| row.into_iter().map(Some)));
            }
            Arc::new(list.finish()) as ArrayRef
        };
        let archive = TestArchive::new();
        let columns = request_table(&[
            ("itl_ns", list([Some(vec![5, 6]), Some(vec![7])])),
            ("itl_tokens", list([None, Some(vec![2, 3])])),
        ]);
        let run = archive.write_table(manifest("a"), &REQUESTS, &columns);
        insta::assert_snapshot!(read_error(&archive, &run), @r#""ARCHIVE/a/requests.parquet" column "itl_tokens" row 1: a list of 2; expected one count for each of the 1 gaps in "itl_ns", or null"#);
        // A null list means one token each, beside rows that say more.
        let columns = request_table(&[
            ("itl_ns", list([Some(vec![5, 6]), Some(vec![7])])),
            ("itl_tokens", list([None, Some(vec![3])])),
        ]);
        let run = archive.write_table(manifest("b"), &REQUESTS, &columns);
        let gaps = read(&run).run.requests.unwrap().gaps;
        assert_eq!((gaps.of(0).1, gaps.of(1).1), (&[1, 1][..], &[3][..]));
    }

    #[test]
    fn an_unknown_source_is_named_beside_the_known_ones() {
        let archive = TestArchive::new();
        let columns = [
            ("t", times("ns")),
            ("source", text("plain", "ipmi")),
            ("device", text("plain", "node")),
            ("power_w", Arc::new(Float64Array::from(vec![1.0, 2.0])) as ArrayRef),
        ];
        let run = archive.write_table(manifest("a"), &POWER, &columns);
        insta::assert_snapshot!(read_error(&archive, &run), @r#""ARCHIVE/a/power.parquet" column "source" row 0: "ipmi"; expected an id of power_sources in run.json: "nvml""#);
        let mut none = manifest("b");
        none.power_sources.clear();
        let run = archive.write_table(none, &POWER, &columns);
        insta::assert_snapshot!(read_error(&archive, &run), @r#""ARCHIVE/b/power.parquet" column "source" row 0: "ipmi"; expected an id of power_sources in run.json, which lists none"#);
    }
}

mod damaged {
    use std::fs;

    use super::*;

    fn archive_with_run() -> (TestArchive, RunLocation) {
        let archive = TestArchive::new();
        let run = archive.write(manifest("a"), |writer| {
            for second in 0..500 {
                writer.power(power(second, "gpu0", 300.0 + second as f64)).unwrap();
                writer.request(request(second, &format!("r{second}"))).unwrap();
            }
        });
        (archive, run)
    }

    #[test]
    fn a_file_that_differs_from_run_json_is_refused() {
        let (archive, run) = archive_with_run();
        let path = run.folder.join("power.parquet");
        let mut bytes = fs::read(&path).unwrap();
        bytes[100] ^= 1;
        fs::write(&path, bytes).unwrap();
        let message = read_error(&archive, &run);
        let digest = without_digests(&message);
        insta::assert_snapshot!(digest, @r#""ARCHIVE/a/power.parquet" SHA-256 is DIGEST, but run.json says DIGEST"#);
        fs::remove_file(&path).unwrap();
        insta::assert_snapshot!(read_error(&archive, &run), @r#""ARCHIVE/a/power.parquet" is missing, but run.json lists it with 500 rows"#);
    }

    /// The message with each run of 64 hexadecimal digits shortened.
    fn without_digests(message: &str) -> String {
        let short = |word: &str| match word.trim_end_matches(',') {
            digest if digest.len() == 64 => word.replace(digest, "DIGEST"),
            _ => word.to_owned(),
        };
        message.split(' ').map(short).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_row_count_that_differs_is_refused_and_a_file_without_an_entry_is_a_finding() {
        let columns: [(&str, ArrayRef); 4] = [
            ("t", Arc::new(TimestampNanosecondArray::from(vec![T0]).with_timezone("UTC"))),
            ("source", Arc::new(StringArray::from(vec!["nvml"]))),
            ("device", Arc::new(StringArray::from(vec!["gpu0"]))),
            ("power_w", Arc::new(Float64Array::from(vec![300.0]))),
        ];
        let archive = TestArchive::new();
        let bytes = parquet_bytes(&columns);
        let run = archive.write_files(manifest("a"), &[(&POWER, bytes.clone(), 2)]);
        insta::assert_snapshot!(read_error(&archive, &run), @r#""ARCHIVE/a/power.parquet" row count is 1, but run.json says 2"#);
        let run = archive.write_files(manifest("b"), &[]);
        fs::write(run.folder.join("power.parquet"), bytes).unwrap();
        let loaded = read(&run);
        assert_eq!(loaded.run.power.len(), 1);
        insta::assert_snapshot!(loaded.findings[0].message, @r#"run.json does not list this file, so its content could not be verified; expected its SHA-256 and row count under "files""#);
        assert_eq!(loaded.findings[0].check, "file-not-hashed");
    }

    #[test]
    fn truncated_and_foreign_bytes_are_errors_whatever_their_length() {
        let (archive, run) = archive_with_run();
        let whole = fs::read(run.folder.join("requests.parquet")).unwrap();
        let mut messages = Vec::new();
        for (id, bytes) in [
            ("empty", Vec::new()),
            ("text", b"request_id,stage\n".to_vec()),
            ("half", whole[..whole.len() / 2].to_vec()),
            ("no-end", whole[..whole.len() - 1].to_vec()),
        ] {
            let run = archive.write_files(manifest(id), &[(&REQUESTS, bytes, 500)]);
            messages.push(read_error(&archive, &run));
        }
        insta::assert_snapshot!(messages.join("\n"), @r#"
        "ARCHIVE/empty/requests.parquet" is not a readable Parquet file: it is empty
        "ARCHIVE/text/requests.parquet" is not a readable Parquet file: it does not begin with PAR1, as Parquet files do
        "ARCHIVE/half/requests.parquet" is not a readable Parquet file: it does not end with PAR1, so it was cut off or is still being written
        "ARCHIVE/no-end/requests.parquet" is not a readable Parquet file: it does not end with PAR1, so it was cut off or is still being written
        "#);
    }

    #[test]
    fn a_footer_that_claims_absurdly_many_rows_is_an_error_and_allocates_nothing_for_them() {
        use parquet::file::metadata::{
            FileMetaData, ParquetMetaDataBuilder, ParquetMetaDataReader, ParquetMetaDataWriter,
        };
        const ROWS: i64 = 1 << 60;
        let (archive, run) = archive_with_run();
        let whole = fs::read(run.folder.join("power.parquet")).unwrap();
        let honest = ParquetMetaDataReader::new()
            .parse_and_finish(&bytes::Bytes::from(whole.clone()))
            .unwrap();
        let claim = || {
            let file = honest.file_metadata();
            let file = FileMetaData::new(
                file.version(),
                ROWS,
                file.created_by().map(str::to_owned),
                file.key_value_metadata().cloned(),
                file.schema_descr_ptr(),
                None,
            );
            let mut footer = ParquetMetaDataBuilder::new(file);
            for group in honest.row_groups() {
                footer = footer.add_row_group(
                    group.clone().into_builder().set_num_rows(ROWS).build().unwrap(),
                );
            }
            let mut bytes = whole.clone();
            let mut end = Vec::new();
            ParquetMetaDataWriter::new(&mut end, &footer.build()).finish().unwrap();
            bytes.extend(end);
            bytes
        };
        let mut messages = Vec::new();
        for (id, listed) in [("listed", ROWS as u64), ("unlisted", 500)] {
            let files = [(&POWER, claim(), listed)];
            let run = archive.write_files(manifest(id), &files);
            messages.push(read_error(&archive, &run));
        }
        insta::assert_snapshot!(messages.join("\n"), @r#"
        "ARCHIVE/listed/power.parquet" is not a readable Parquet file: its footer says 1152921504606846976 rows, but 500 could be decoded
        "ARCHIVE/unlisted/power.parquet" row count is 1152921504606846976, but run.json says 500
        "#);
    }

    #[test]
    fn any_changed_byte_gives_rows_or_an_error_and_never_a_panic() {
        let (_archive, run) = archive_with_run();
        let manifest = manifest("a");
        let decode = |table: &'static Table, bytes: Vec<u8>| {
            let file = file::FileBytes::new(run.folder.join(table.file), table, bytes).parse()?;
            match table.name {
                "power" => power::read_power(&file, &run, &manifest, false)
                    .map(|rows| rows.into_devices().len()),
                _ => requests::read_requests(&file)
                    .map(|requests| requests::sort_requests(requests).len()),
            }
        };
        for table in [&POWER, &REQUESTS] {
            let whole = fs::read(run.folder.join(table.file)).unwrap();
            let mut refused = 0;
            // Lengths and offsets are in the footer; of the pages every third byte is enough.
            let footer = whole.len() - 2000;
            for place in (0..footer).step_by(3).chain(footer..whole.len()) {
                for change in [0x01, 0x80, 0xff] {
                    let mut bytes = whole.clone();
                    bytes[place] ^= change;
                    refused += u32::from(decode(table, bytes).is_err());
                }
            }
            assert!(
                refused > 100,
                "{refused} of {} changes to {} refused",
                whole.len(),
                table.file
            );
        }
    }
}

mod manifests {
    use super::*;

    #[test]
    fn each_broken_run_json_has_its_own_message() {
        let whole = serde_json::to_value(manifest("a")).unwrap();
        let edited = |pointer: &str, value: serde_json::Value| {
            let mut json = whole.clone();
            *json.pointer_mut(pointer).unwrap() = value;
            serde_json::to_vec_pretty(&json).unwrap()
        };
        let added = |key: &str, value: serde_json::Value| {
            let mut json = whole.clone();
            json[key] = value;
            serde_json::to_vec_pretty(&json).unwrap()
        };
        let removed = |key: &str| {
            let mut json = whole.clone();
            json.as_object_mut().unwrap().remove(key);
            serde_json::to_vec_pretty(&json).unwrap()
        };
        let source = whole["power_sources"][0].clone();
        let claim = serde_json::json!([{"metric": "", "value": 1.0, "unit": "W", "source": "x"}]);
        let files = serde_json::json!({"power.parquet": {"sha256": "abc", "rows": 1}});
        let cases = [
            b"".to_vec(),
            b"\xff{}".to_vec(),
            b"[]".to_vec(),
            b" {\"schema_version\": 1, \"model\": []}".to_vec(),
            b"{\"schema_version\": 1,\n \"run_id\" \"a\"}".to_vec(),
            [serde_json::to_vec_pretty(&whole).unwrap(), b"x".to_vec()].concat(),
            removed("run_id"),
            removed("schema_version"),
            edited("/schema_version", 2.into()),
            edited("/schema_version", "1".into()),
            edited("/run_id", " ".into()),
            edited("/run_id", "a\nb".into()),
            edited("/kind", "training".into()),
            edited("/model/name", "".into()),
            edited("/hardware/count", 0.into()),
            edited("/hardware/count", (-1).into()),
            edited("/power_sources/0/scope", "gpu".into()),
            edited("/power_sources/0/nominal_interval_ms", 0.0.into()),
            edited("/power_sources/0/id", "".into()),
            edited("/power_sources", serde_json::json!([source, source])),
            edited("/claims", claim),
            edited("/files", files),
            added("stages", serde_json::json!({"launch": "2026-01-31 12:00"})),
            added("energy_method", serde_json::json!({"formal": "both"})),
        ];
        let archive = TestArchive::new();
        let run = archive.write(manifest("a"), |_| ());
        let path = run.folder.join(RUN_JSON);
        let mut messages = Vec::new();
        for bytes in cases {
            std::fs::write(&path, bytes).unwrap();
            let message = archive.shown(&read_manifest(&run).unwrap_err());
            messages.push(message.replace("\"ARCHIVE/a/run.json\" is not a valid run.json: ", ""));
        }
        insta::assert_snapshot!(messages.join("\n"), @r#"
        it does not begin with "{"; expected a JSON object
        byte 0 is not UTF-8; expected JSON text in UTF-8
        it does not begin with "{"; expected a JSON object
        key "model": invalid length 0, expected struct Model with 18 elements at line 1 column 34
        expected `:` at line 2 column 11
        trailing characters at line 52 column 2
        missing field `run_id` at line 51 column 1
        missing field `schema_version` at line 51 column 1
        key "schema_version" is 2; expected 1
        key "schema_version" is "1"; expected 1
        key "run_id" is empty; expected a name
        key "run_id" is "a\nb"; expected a name without control characters
        key "kind": unknown variant `training`, expected one of `serving`, `decode`, `summary` at line 15 column 20
        key "model.name" is empty; expected a name
        key "hardware.count" is 0; expected at least 1
        key "hardware.count": invalid value: integer `-1`, expected u32 at line 12 column 15
        key "power_sources[0].scope": unknown variant `gpu`, expected one of `gpu-board`, `gpu-module`, `node`, `cpu`, `dram`, `pdu` at line 37 column 20
        key "power_sources[0].nominal_interval_ms" is 0; expected a number above 0
        key "power_sources[0].id" is empty; expected a name
        key "power_sources[1].id" is "nvml", as in an earlier source; expected ids that differ
        key "claims[0].metric" is empty; expected a name
        key "files.power.parquet.sha256" is "abc"; expected 64 hexadecimal digits
        key "stages.launch": "2026-01-31 12:00" is not a time; expected RFC 3339 such as "2026-01-31T12:00:00.123456789Z" between the years 1678 and 2261 at line 49 column 3
        key "energy_method.formal": unknown variant `both`, expected `trapezoid` or `counter` at line 5 column 20
        "#);
    }

    #[test]
    fn a_sound_one_reads_back_with_its_stamps() {
        let archive = TestArchive::new();
        let mut written = manifest("a");
        written.stages.formal_start = stamp(0);
        written.stages.formal_end = Some(TimestampNs::from_nanos(T0 + 1));
        let run = archive.write(written.clone(), |_| ());
        assert_eq!(read_manifest(&run).unwrap(), written);
    }
}
