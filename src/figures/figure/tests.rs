//! Every figure over many shapes of data.

use std::collections::BTreeSet;

use super::{cases, *};
use crate::draw::font;
use crate::draw::page::STAMP;
use crate::draw::scene::WIDTH;

/// A text element of an SVG and the box that its letters fill.
#[derive(Debug, Clone, PartialEq)]
struct TextBox {
    text: String,
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

/// The value of an attribute in the opening tag of an element.
fn attribute<'a>(tag: &'a str, name: &str) -> &'a str {
    let start = tag.find(&format!(" {name}=\"")).unwrap() + name.len() + 3;
    &tag[start..start + tag[start..].find('"').unwrap()]
}

fn text_boxes(svg: &str) -> Vec<TextBox> {
    svg.split("<text")
        .skip(1)
        .map(|element| {
            let (tag, rest) = element.split_once(">\n").unwrap();
            let text = rest.split_once("\n</text>").unwrap().0;
            let text = text.replace("&apos;", "'").replace("&quot;", "\"").replace("&lt;", "<");
            let text = text.replace("&gt;", ">").replace("&amp;", "&");
            let number = |name: &str| attribute(tag, name).parse::<f64>().unwrap();
            let (x, em) = (number("x"), number("font-size"));
            assert_eq!(attribute(tag, "dy"), "0.76em");
            let baseline = number("y") + 0.76 * em;
            let width = font::width(&text, em);
            let left = match attribute(tag, "text-anchor") {
                "start" => x,
                "middle" => x - width / 2.0,
                "end" => x - width,
                other => panic!("{other}"),
            };
            // Capitals and digits reach 0.73 em up, descenders 0.24 em down.
            let (top, bottom) = (baseline - 0.73 * em, baseline + 0.24 * em);
            TextBox { text, left, right: left + width, top, bottom }
        })
        .collect()
}

fn overlap(a: &TextBox, b: &TextBox) -> bool {
    a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom
}

#[test]
fn no_two_texts_overlap_and_none_leaves_the_figure() {
    for (case, figure) in cases::all() {
        let drawing = figure.draw().unwrap();
        let boxes = text_boxes(&drawing.to_svg());
        assert!(boxes.len() > 3, "{case}");
        let height = drawing.height_mm() * 40.0;
        for (index, text) in boxes.iter().enumerate() {
            assert!(text.left >= 0.0 && text.right <= WIDTH, "{case}: {text:?}");
            assert!(text.top >= 0.0 && text.bottom <= height, "{case}: {text:?}");
            for other in &boxes[..index] {
                assert!(!overlap(text, other), "{case}: {text:?} and {other:?}");
            }
        }
    }
}

#[test]
fn overlaps_are_found() {
    let box_at =
        |left: f64| TextBox { text: "a".into(), left, right: left + 10.0, top: 0.0, bottom: 10.0 };
    assert!(overlap(&box_at(0.0), &box_at(9.0)));
    assert!(!overlap(&box_at(0.0), &box_at(10.0)));
}

#[test]
fn synthetic_data_are_stamped_and_others_are_not() {
    let stamped = cases::all().into_iter().filter(|(case, figure)| {
        let texts: Vec<String> = text_boxes(&figure.draw().unwrap().to_svg())
            .into_iter()
            .map(|text| text.text)
            .collect();
        assert!(texts.iter().filter(|text| *text == STAMP).count() <= 1, "{case}");
        texts.iter().any(|text| text == STAMP)
    });
    let stamped: BTreeSet<String> = stamped.map(|(case, _)| case).collect();
    // The cases whose `synthetic` is false.
    let measured = [
        "power-timeline-decode",
        "request-energy-never-steady",
        "steady-lifecycle-one",
        "amortisation-one",
        "predicted-measured-one-cell",
        "ablation-errors-zero",
        "energy-batch-history-one-point",
        "step-time-one-point",
        "slo-sweep-only-unlimited",
    ];
    for (case, _) in cases::all() {
        assert_eq!(stamped.contains(&case), !measured.contains(&case.as_str()), "{case}");
    }
}

#[test]
fn every_axis_names_its_unit_and_every_series_its_name() {
    let expected: [(&str, &[&str]); 9] = [
        (
            "power-timeline-serving",
            &[
                "Power (W)",
                "Time since the first sample (min)",
                "idle",
                "startup",
                "formal",
                "release",
                "steady window",
                "node",
                "serving-qwen-vllm-1",
            ],
        ),
        (
            "request-energy-600",
            &[
                "Energy per token (J/token)",
                "Coefficient of variation",
                "threshold 0.03",
                "steady from here",
            ],
        ),
        (
            "steady-lifecycle-twelve",
            &[
                "Steady",
                "Lifecycle",
                "Qwen2.5-7B-Instruct",
                "Phi-4",
                "11.5",
                "changes order with another model",
            ],
        ),
        (
            "amortisation-one",
            &[
                "Requests served by one start, N",
                "Share of start-up and release (%)",
                "Qwen2.5-7B-Instruct",
            ],
        ),
        (
            "predicted-measured-two",
            &[
                "Measured energy per token (J/token)",
                "Predicted energy per token (J/token)",
                "±5 %",
                "±10 %",
                "hollow: extrapolated",
            ],
        ),
        (
            "ablation-errors-two",
            &[
                "full",
                "merged-bytes",
                "no-time",
                "no-bytes",
                "Held-out error of a cell mean (%)",
                "largest",
                "median (hollow)",
            ],
        ),
        (
            "energy-batch-history-three",
            &[
                "Effective batch (sequences)",
                "Energy per token (J/token)",
                "history 1024 tokens",
                "history 12288 tokens",
                "128",
            ],
        ),
        (
            "step-time-three",
            &[
                "Longest sequence (tokens)",
                "Step time (ms)",
                "batch 64",
                "break between 8192 and 8256 tokens: +31 %",
            ],
        ),
        (
            "slo-sweep-two",
            &[
                "p99 time to first token (ms)",
                "p99 time per output token (ms)",
                "Output rate (tok/s)",
                "objective",
                "highest rate that meets both",
                "max",
            ],
        ),
    ];
    let all = cases::all();
    for (case, labels) in expected {
        let (_, figure) = all.iter().find(|(name, _)| name == case).unwrap();
        let texts: Vec<String> = text_boxes(&figure.draw().unwrap().to_svg())
            .into_iter()
            .map(|text| text.text)
            .collect();
        for label in labels {
            assert!(texts.iter().any(|text| text == label), "{case}: {label} in {texts:?}");
        }
    }
}

#[test]
fn equal_data_give_equal_bytes_one_column_wide() {
    let name = "energy-batch-history-three";
    let draw =
        || cases::all().into_iter().find(|(case, _)| case == name).unwrap().1.draw().unwrap();
    let drawing = draw();
    assert_eq!(drawing.to_svg(), draw().to_svg());
    let png = drawing.to_png();
    assert_eq!(png, draw().to_png());
    let number = |at: usize| u32::from_be_bytes(png[at..at + 4].try_into().unwrap());
    // 85 mm at 20 pixels a millimetre.
    assert_eq!(number(16), 1700);
    assert_eq!(number(20), (drawing.height_mm() * 20.0).ceil() as u32);
    assert!(drawing.to_svg().starts_with("<svg width=\"85mm\" height=\""));
    assert_eq!(drawing.width_mm(), 85.0);
}

#[test]
fn a_figure_without_data_says_what_it_needs() {
    let empty = PowerTimeline {
        run_id: "r".into(),
        synthetic: false,
        boards: vec![],
        node: vec![],
        stages: vec![],
    };
    assert_eq!(
        empty.draw().unwrap_err().to_string(),
        "figure \"power-timeline\" needs power samples of the accelerators or the node; there is none"
    );
    let empties: [Box<dyn Figure>; 8] = [
        Box::new(RequestEnergy {
            run_id: "r".into(),
            synthetic: false,
            j_per_token: vec![],
            window_cv: vec![],
            window_requests: 100,
            threshold: 0.03,
            steady_first_request: None,
        }),
        Box::new(SteadyLifecycle { group: "g".into(), synthetic: false, models: vec![] }),
        Box::new(Amortisation { subject: "s".into(), synthetic: false, curves: vec![] }),
        Box::new(PredictedMeasured { form: "full".into(), synthetic: false, settings: vec![] }),
        Box::new(AblationErrors { synthetic: false, settings: vec![], forms: vec![] }),
        Box::new(EnergyBatchHistory { setting: "s".into(), synthetic: false, lines: vec![] }),
        Box::new(StepTime {
            setting: "s".into(),
            synthetic: false,
            lines: vec![],
            step_break: None,
        }),
        Box::new(SloSweep {
            subject: "s".into(),
            synthetic: false,
            ttft_limit_ms: None,
            tpot_limit_ms: None,
            lines: vec![],
        }),
    ];
    for empty in empties {
        let name = empty.kind().name;
        let error = empty.draw().unwrap_err();
        assert!(
            matches!(&error, FigureError::Missing { figure, .. } if *figure == name),
            "{error}"
        );
    }
}

#[test]
fn a_number_without_a_place_is_refused_by_name() {
    let figure = EnergyBatchHistory {
        setting: "s".into(),
        synthetic: false,
        lines: vec![HistoryLine {
            history_tokens: 4096.0,
            points: vec![BatchPoint { b_eff: 0.0, j_per_token: 0.5 }],
        }],
    };
    assert_eq!(
        figure.draw().unwrap_err().to_string(),
        "figure \"energy-batch-history\": b_eff at history 4096 is 0; expected a finite number above zero"
    );
}

#[test]
fn letters_that_xml_reserves_and_control_characters_are_safe() {
    let figure = SteadyLifecycle {
        group: "a<b & \"c\"\u{1}".into(),
        synthetic: false,
        models: vec![ModelEnergy {
            model: "m".into(),
            steady_j_per_token: 1.0,
            lifecycle_j_per_token: 2.0,
        }],
    };
    let svg = figure.draw().unwrap().to_svg();
    assert!(svg.contains("a&lt;b &amp; &quot;c&quot;\u{fffd}"), "{svg}");
}

#[test]
fn every_kind_is_listed_once_and_has_cases() {
    let names: BTreeSet<&str> = FIGURES.iter().map(|kind| kind.name).collect();
    assert_eq!(names.len(), FIGURES.len());
    let drawn: BTreeSet<&str> = cases::all().iter().map(|(_, figure)| figure.kind().name).collect();
    assert_eq!(drawn, names);
}
