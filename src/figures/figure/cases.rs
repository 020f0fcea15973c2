//! Figures of many shapes of data: one series and twelve with long names, tiny and huge ranges.

use super::*;

/// Real names of models, some long.
const MODELS: [&str; 12] = [
    "Qwen2.5-7B-Instruct",
    "Llama-3.1-Nemotron-Ultra-253B-v1-FP8",
    "DeepSeek-R1-Distill-Qwen-32B",
    "Mixtral-8x22B-Instruct-v0.1",
    "gpt-oss-120b",
    "Qwen3-235B-A22B-Thinking-2507-FP8",
    "Mistral-Small-3.2-24B-Instruct-2506",
    "Phi-4",
    "GLM-4.5-Air",
    "Llama-4-Scout-17B-16E-Instruct",
    "Llama-3.3-70B-Instruct",
    "Qwen3-Coder-480B-A35B-Instruct",
];

/// A number between 0 and 1 that looks random and is the same every time.
fn scatter(index: usize) -> f64 {
    (index as f64 * 12.9898).sin().mul_add(43758.5453, 0.0).rem_euclid(1.0)
}

fn power(seconds: f64, level_w: f64, bins: usize) -> Vec<PowerBin> {
    let length = seconds / bins as f64;
    (0..bins)
        .map(|index| {
            let share = index as f64 / bins as f64;
            let busy = (0.3..0.85).contains(&share);
            let mean_w =
                level_w * (if busy { 0.9 } else { 0.15 }) + 0.05 * level_w * scatter(index);
            let start_s = index as f64 * length;
            let spread = level_w * 0.06 * (1.0 + scatter(index + 7));
            PowerBin {
                start_s,
                end_s: start_s + length,
                mean_w,
                min_w: mean_w - spread,
                max_w: mean_w + spread,
            }
        })
        .collect()
}

fn stages(seconds: f64) -> Vec<StageSpan> {
    [
        (StageName::Idle, 0.0, 0.1),
        (StageName::Startup, 0.12, 0.3),
        (StageName::Formal, 0.3, 0.85),
        (StageName::Steady, 0.45, 0.85),
        (StageName::Release, 0.85, 0.93),
    ]
    .map(|(stage, from, to)| StageSpan { stage, start_s: from * seconds, end_s: to * seconds })
    .to_vec()
}

fn timelines() -> Vec<(&'static str, Box<dyn Figure>)> {
    let run = |name: &str| PowerTimeline {
        run_id: name.to_owned(),
        synthetic: true,
        boards: power(5400.0, 5200.0, 600),
        node: power(5400.0, 9800.0, 600),
        stages: stages(5400.0),
    };
    let short = PowerTimeline {
        boards: power(30.0, 310.0, 40),
        node: Vec::new(),
        synthetic: false,
        stages: vec![StageSpan { stage: StageName::Decode, start_s: 5.0, end_s: 25.0 }],
        ..run("decode-7b-b16-h4096-1")
    };
    let tight_stages = PowerTimeline {
        stages: vec![
            StageSpan { stage: StageName::Idle, start_s: -100.0, end_s: 10.0 },
            StageSpan { stage: StageName::Startup, start_s: 11.0, end_s: 20.0 },
            StageSpan { stage: StageName::Formal, start_s: 20.0, end_s: 90_000.0 },
            StageSpan { stage: StageName::Steady, start_s: 60.0, end_s: 90_000.0 },
            StageSpan { stage: StageName::Release, start_s: 90_000.0, end_s: 90_010.0 },
        ],
        boards: power(90_100.0, 1.2e6, 600),
        node: Vec::new(),
        ..run(
            "a-run-with-a-very-long-identifier-that-somebody-made-of-every-option-of-the-engine-2026-11-30T12-00-00Z",
        )
    };
    let single = PowerTimeline {
        boards: power(1.0, 500.0, 1),
        node: vec![],
        stages: vec![],
        ..run("one-bin")
    };
    vec![
        ("serving", Box::new(run("serving-qwen-vllm-1")) as Box<dyn Figure>),
        ("decode", Box::new(short)),
        ("tight-stages", Box::new(tight_stages)),
        ("one-bin", Box::new(single)),
    ]
}

fn request_energies() -> Vec<(&'static str, Box<dyn Figure>)> {
    let run = |count: usize, settle: f64| {
        let j_per_token: Vec<f64> = (0..count)
            .map(|index| {
                0.3 * (1.0 + 8.0 * (-(index as f64) / settle).exp() + 0.05 * (scatter(index) - 0.5))
            })
            .collect();
        let cv = |index: usize| {
            (index + 100 <= count).then(|| 0.014 + 0.9 * (-(index as f64) / settle).exp())
        };
        RequestEnergy {
            run_id: "serving-qwen-vllm-1".into(),
            synthetic: true,
            window_cv: (0..count).map(cv).collect(),
            j_per_token,
            window_requests: 100,
            threshold: 0.03,
            steady_first_request: Some(3 * settle as u64),
        }
    };
    let never = RequestEnergy {
        steady_first_request: None,
        synthetic: false,
        window_cv: (0..300)
            .map(|index| (index <= 200).then_some(0.2 + 0.1 * scatter(index)))
            .collect(),
        ..run(300, 1e6)
    };
    let one = RequestEnergy {
        j_per_token: vec![0.5],
        window_cv: vec![None],
        steady_first_request: None,
        ..run(300, 10.0)
    };
    vec![
        ("600", Box::new(run(600, 25.0)) as Box<dyn Figure>),
        ("20000", Box::new(run(20_000, 400.0))),
        ("never-steady", Box::new(never)),
        ("one-request", Box::new(one)),
    ]
}

fn lifecycles() -> Vec<(&'static str, Box<dyn Figure>)> {
    let model = |index: usize| ModelEnergy {
        model: MODELS[index].into(),
        steady_j_per_token: 0.1 * 1.5_f64.powi(index as i32),
        lifecycle_j_per_token: 0.1
            * 1.5_f64.powi(if index % 4 == 1 { index as i32 + 2 } else { index as i32 })
            * 1.37,
    };
    let twelve = SteadyLifecycle {
        group: "chat, medium models, vllm: Spearman's ρ = 0.951, n = 12".into(),
        synthetic: true,
        models: (0..12).map(model).collect(),
    };
    let one = SteadyLifecycle { models: vec![model(1)], group: "chat".into(), synthetic: false };
    let huge = SteadyLifecycle {
        models: vec![
            ModelEnergy {
                model: "tiny".into(),
                steady_j_per_token: 1e-7,
                lifecycle_j_per_token: 3.2e5,
            },
            ModelEnergy {
                model: "tie-a".into(),
                steady_j_per_token: 1.0,
                lifecycle_j_per_token: 1.0,
            },
            ModelEnergy {
                model: "tie-b".into(),
                steady_j_per_token: 1.0,
                lifecycle_j_per_token: 2.0,
            },
        ],
        ..twelve.clone()
    };
    vec![
        ("twelve", Box::new(twelve) as Box<dyn Figure>),
        ("one", Box::new(one)),
        ("ties-and-huge", Box::new(huge)),
    ]
}

fn amortisations() -> Vec<(&'static str, Box<dyn Figure>)> {
    let curve = |index: usize, fixed_j: f64, request_j: f64| {
        let tokens = 250.0;
        let at = |requests: f64| AmortisationPoint {
            requests,
            j_per_token: (fixed_j / requests + request_j) / tokens,
            fixed_share: fixed_j / (fixed_j + requests * request_j),
        };
        AmortisationCurve {
            name: MODELS[index].into(),
            points: (0..=24).map(|step| at(10_f64.powf(f64::from(step) / 4.0))).collect(),
            marks: [0.1, 0.05, 0.01]
                .map(|share| ShareMark {
                    share,
                    requests: fixed_j * (1.0 - share) / share / request_j,
                })
                .to_vec(),
        }
    };
    let figure = |curves| Amortisation { subject: "chat".into(), synthetic: true, curves };
    vec![
        (
            "one",
            Box::new(Amortisation { synthetic: false, ..figure(vec![curve(0, 2.4e5, 60.0)]) })
                as Box<dyn Figure>,
        ),
        (
            "twelve",
            Box::new(figure(
                (0..12)
                    .map(|index| {
                        curve(index, 1e5 * (1.0 + index as f64), 40.0 * 1.6_f64.powi(index as i32))
                    })
                    .collect(),
            )),
        ),
        ("huge", Box::new(figure(vec![curve(0, 1e12, 1e-3), curve(1, 1e-3, 1e6)]))),
        (
            "one-point",
            Box::new(figure(vec![AmortisationCurve {
                points: vec![AmortisationPoint {
                    requests: 10.0,
                    j_per_token: 1.0,
                    fixed_share: 0.5,
                }],
                name: "run".into(),
                marks: vec![],
            }])),
        ),
    ]
}

fn predictions() -> Vec<(&'static str, Box<dyn Figure>)> {
    let setting = |index: usize, error: f64| SettingPredictions {
        setting: format!("{}@H200-SXM-141GB x 8 / tp8", MODELS[index]),
        cells: (0..8)
            .map(|cell| {
                let measured_j_per_token = 0.05 * 1.5_f64.powi(cell) * (1.0 + index as f64 / 4.0);
                let off = error * (scatter(8 * index + cell as usize) - 0.5);
                CellPrediction {
                    measured_j_per_token,
                    predicted_j_per_token: measured_j_per_token * (1.0 + off),
                    extrapolated: cell == 7,
                }
            })
            .collect(),
    };
    let figure = |settings| PredictedMeasured { form: "full".into(), synthetic: true, settings };
    let one_cell = SettingPredictions {
        setting: "one".into(),
        cells: vec![CellPrediction {
            measured_j_per_token: 0.5,
            predicted_j_per_token: 0.51,
            extrapolated: false,
        }],
    };
    let wild = SettingPredictions {
        setting: "wild".into(),
        cells: vec![
            CellPrediction {
                measured_j_per_token: 0.5,
                predicted_j_per_token: -1.0,
                extrapolated: true,
            },
            CellPrediction {
                measured_j_per_token: 1.5,
                predicted_j_per_token: 9.0,
                extrapolated: true,
            },
        ],
    };
    vec![
        ("two", Box::new(figure(vec![setting(0, 0.08), setting(2, 0.3)])) as Box<dyn Figure>),
        ("twelve", Box::new(figure((0..12).map(|index| setting(index, 0.02)).collect()))),
        ("one-cell", Box::new(PredictedMeasured { synthetic: false, ..figure(vec![one_cell]) })),
        ("wild", Box::new(figure(vec![wild]))),
    ]
}

fn ablations() -> Vec<(&'static str, Box<dyn Figure>)> {
    let forms = ["full", "merged-bytes", "no-time", "no-bytes", "no-weights", "no-kv"];
    let figure = |settings: usize, scale: f64| AblationErrors {
        synthetic: true,
        settings: MODELS[..settings].iter().map(|name| (*name).to_owned()).collect(),
        forms: forms
            .iter()
            .enumerate()
            .map(|(index, form)| FormErrors {
                form: (*form).to_owned(),
                errors: (0..settings)
                    .map(|setting| {
                        let max_abs_error =
                            0.01 * scale.powi(index as i32) * (1.0 + scatter(setting));
                        SettingErrors {
                            setting,
                            max_abs_error,
                            median_abs_error: 0.4 * max_abs_error,
                        }
                    })
                    .collect(),
            })
            .collect(),
    };
    let zero = AblationErrors {
        forms: vec![FormErrors {
            form: "full".into(),
            errors: vec![SettingErrors { setting: 0, max_abs_error: 0.0, median_abs_error: 0.0 }],
        }],
        synthetic: false,
        ..figure(1, 1.0)
    };
    vec![
        ("two", Box::new(figure(2, 2.1)) as Box<dyn Figure>),
        ("one", Box::new(figure(1, 1.3))),
        ("twelve", Box::new(figure(12, 9.0))),
        ("zero", Box::new(zero)),
    ]
}

fn histories() -> Vec<(&'static str, Box<dyn Figure>)> {
    let line = |history_tokens: f64, scale: f64| HistoryLine {
        history_tokens,
        points: (2..8)
            .map(|power| {
                let b_eff = f64::from(power).exp2();
                BatchPoint {
                    b_eff,
                    j_per_token: scale * (1.9 / b_eff + 0.05 + 4e-6 * history_tokens),
                }
            })
            .collect(),
    };
    let figure = |lines| EnergyBatchHistory {
        setting: "Qwen2.5-7B@H200-SXM-141GB x 1 / tp1".into(),
        synthetic: true,
        lines,
    };
    let one = HistoryLine {
        history_tokens: 512.0,
        points: vec![BatchPoint { b_eff: 12.0, j_per_token: 0.4 }],
    };
    vec![
        (
            "three",
            Box::new(figure(vec![line(1024.0, 1.0), line(4096.0, 1.0), line(12288.0, 1.0)]))
                as Box<dyn Figure>,
        ),
        (
            "twelve",
            Box::new(figure(
                (0..12)
                    .map(|index| line(f64::from(256 << index), 1.0 + f64::from(index)))
                    .collect(),
            )),
        ),
        ("one-point", Box::new(EnergyBatchHistory { synthetic: false, ..figure(vec![one]) })),
        ("tiny", Box::new(figure(vec![line(1024.0, 1e-6)]))),
    ]
}

fn step_times() -> Vec<(&'static str, Box<dyn Figure>)> {
    let line = |active_sequences: u64, jump: f64| StepTimeLine {
        active_sequences,
        points: (1..=120)
            .map(|index| {
                let max_sequence_tokens = f64::from(index) * 128.0;
                let slow = if max_sequence_tokens > 8192.0 { 1.0 + jump } else { 1.0 };
                let step_time_s =
                    slow * (0.006 + 1e-8 * active_sequences as f64 * max_sequence_tokens);
                StepTimePoint { max_sequence_tokens, step_time_s }
            })
            .collect(),
    };
    let figure = |lines, detected| StepTime {
        setting: "Qwen2.5-7B@H200-SXM-141GB x 1 / tp1".into(),
        synthetic: true,
        lines,
        step_break: Some(StepBreak {
            after_tokens: 8192.0,
            before_tokens: 8256.0,
            relative_jump: 0.31,
            detected,
        }),
    };
    let one = StepTimeLine {
        active_sequences: 1,
        points: vec![StepTimePoint { max_sequence_tokens: 100.0, step_time_s: 0.01 }],
    };
    vec![
        (
            "three",
            Box::new(figure(vec![line(4, 0.31), line(16, 0.31), line(64, 0.31)], true))
                as Box<dyn Figure>,
        ),
        ("twelve", Box::new(figure((0..12).map(|index| line(1 << index, 0.0)).collect(), false))),
        (
            "one-point",
            Box::new(StepTime { step_break: None, synthetic: false, ..figure(vec![one], false) }),
        ),
    ]
}

fn sweeps() -> Vec<(&'static str, Box<dyn Figure>)> {
    let line = |index: usize, capacity: f64| SweepLine {
        configuration: format!("{} fp8 tp{}", MODELS[index], 1 << (index % 4)),
        points: (1..=8)
            .map(|step| {
                let rate = f64::from(step);
                let load = rate / capacity;
                let slow = 1.0 + 40.0 * (load - 0.8).max(0.0).powi(2);
                SweepPoint {
                    request_rate: (step < 8).then_some(rate),
                    ttft_p99_ms: (load < 1.8).then_some(120.0 * slow),
                    tpot_p99_ms: (load < 1.8).then_some(18.0 * (1.0 + load) * slow.sqrt()),
                    output_tok_s: Some(250.0 * rate.min(capacity)),
                }
            })
            .collect(),
        chosen: (capacity > 2.0).then_some(capacity as usize - 2),
    };
    let figure = |lines| SloSweep {
        subject: "spec 3f9a1c: chat".into(),
        synthetic: true,
        ttft_limit_ms: Some(500.0),
        tpot_limit_ms: Some(50.0),
        lines,
    };
    let none = SweepLine {
        configuration: "closed loop".into(),
        points: vec![SweepPoint {
            request_rate: None,
            ttft_p99_ms: None,
            tpot_p99_ms: None,
            output_tok_s: None,
        }],
        chosen: None,
    };
    vec![
        ("two", Box::new(figure(vec![line(0, 4.0), line(2, 6.0)])) as Box<dyn Figure>),
        (
            "twelve",
            Box::new(figure((0..12).map(|index| line(index, 2.0 + index as f64 / 2.0)).collect())),
        ),
        (
            "only-unlimited",
            Box::new(SloSweep {
                synthetic: false,
                ttft_limit_ms: None,
                tpot_limit_ms: None,
                ..figure(vec![none])
            }),
        ),
    ]
}

/// Every figure: a name of the case, the numbers.
pub(super) fn all() -> Vec<(String, Box<dyn Figure>)> {
    [
        timelines(),
        request_energies(),
        lifecycles(),
        amortisations(),
        predictions(),
        ablations(),
        histories(),
        step_times(),
        sweeps(),
    ]
    .into_iter()
    .flatten()
    .map(|(case, figure)| (format!("{}-{case}", figure.kind().name), figure))
    .collect()
}
