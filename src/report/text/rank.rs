//! What `rank` prints: agreement of the orders, the models behind it, engines beside each other,
//! amortisation, and what was left out.

use std::collections::BTreeMap;

use wattrace_analysis::metrics::Amortisation;
use wattrace_analysis::ranking::{
    AmortisationRow, EnginePair, LARGEST_TOKEN_DIFFERENCE, RankGroup, RankedModel, Ranking,
    RunIdentity, Scenario,
};
use wattrace_analysis::stats::RankAgreement;
use wattrace_schema::{Flag, Reason};

use super::TextStyle;
use super::grid::{Entry, Grid, GridBuilder, Place, emphasised};
use super::number::significant;
use super::wrap::{counted, hanging};

/// Significant digits of an energy.
const DIGITS: usize = 4;
/// Significant digits of a correlation or a p-value.
const STATISTIC_DIGITS: usize = 3;

/// A ranking in text: agreement and swaps, models with their ranks, scenarios, pairs of engines,
/// amortisation, and the runs that were left out with the reason.
#[must_use]
pub fn ranking_overview(ranking: &Ranking, style: TextStyle) -> String {
    let services: Vec<&AmortisationRow> = one_row_a_run(&ranking.amortisation);
    let sections = [
        groups(&ranking.groups).render(style) + &swaps(&ranking.groups, style),
        models(&ranking.models).render(style),
        scenarios(&ranking.scenarios).render(style),
        pairs(&ranking.pairs).render(style),
        amortisation(&services).render(style),
        excluded(ranking, style),
        notes(ranking, style),
    ];
    let filled: Vec<&str> =
        sections.iter().map(String::as_str).filter(|section| !section.is_empty()).collect();
    if filled.is_empty() { "no serving runs\n".to_owned() } else { filled.join("\n") }
}

const COUNT: Place = Place::Number { rank: 0 };

fn groups(groups: &[RankGroup]) -> Grid {
    let statistic =
        |group: &RankGroup, value: &dyn Fn(&RankAgreement) -> f64| match &group.agreement {
            Ok(agreement) => Entry::Text(significant(value(agreement), STATISTIC_DIGITS)),
            Err(reason) => Entry::Missing(*reason),
        };
    GridBuilder::new(
        "do steady and lifecycle J/token order the models alike?",
        "rank.csv",
        groups,
        group_name,
    )
    .column("task", "task", Place::Identity, |group| Entry::Text(group.task.clone()))
    .column("size", "size", Place::Identity, |group| {
        Entry::Text(group.size_group.name().to_owned())
    })
    .column("engine", "engine", Place::Identity, |group| Entry::Text(group.engine.clone()))
    .column("models", "models", COUNT, |group| Entry::Text(group.n_models.to_string()))
    .column("Spearman's rho", "Spearman's\nrho", COUNT, |group| {
        statistic(group, &|agreement| agreement.spearman_rho)
    })
    .column("95% interval", "bootstrap\n95%", Place::Number { rank: 2 }, |group| {
        let interval = group.agreement.ok().and_then(|agreement| agreement.interval);
        Entry::text(interval.map(|(low, high)| {
            let digits = |value| significant(value, STATISTIC_DIGITS);
            format!("{} to {}", digits(low), digits(high))
        }))
    })
    .column("p", "two-sided\np", COUNT, |group| statistic(group, &|agreement| agreement.p_value))
    .column("p from", "p from", Place::Identity, |group| {
        Entry::text(group.agreement.ok().map(|agreement| agreement.p_method.code()))
    })
    .column("Kendall's tau-b", "Kendall's\ntau-b", Place::Number { rank: 1 }, |group| {
        statistic(group, &|agreement| agreement.kendall_tau_b)
    })
    .column("swaps", "pairs that\nswap", COUNT, |group| Entry::Text(group.swaps.len().to_string()))
    .build()
}

fn group_name(group: &RankGroup) -> String {
    format!("{} ({}) on {}", group.task, group.size_group.name(), group.engine)
}

/// Who swaps with whom, group by group.
fn swaps(groups: &[RankGroup], style: TextStyle) -> String {
    let mut out = String::new();
    for group in groups {
        for swap in group.swaps.iter().take(style.max_rows) {
            let line = format!(
                "{}: {} costs less than {} in steady state and more over the lifecycle",
                group_name(group),
                swap.ahead_in_steady_state,
                swap.ahead_over_lifecycle
            );
            out.push_str(&hanging("swap: ", &line, style.width));
        }
        if let Some(more) = group.swaps.len().checked_sub(style.max_rows).filter(|more| *more > 0) {
            let line = format!("{}: {more} more pairs in rank.csv", group_name(group));
            out.push_str(&hanging("swap: ", &line, style.width));
        }
    }
    out
}

fn models(models: &[RankedModel]) -> Grid {
    GridBuilder::new("models and their ranks", "ranked_models.csv", models, |model| {
        format!("{} on {}", model.model, model.engine)
    })
    .column("task", "task", Place::Identity, |model| Entry::Text(model.task.clone()))
    .column("size", "size", Place::Identity, |model| {
        Entry::Text(model.size_group.name().to_owned())
    })
    .column("engine", "engine", Place::Identity, |model| Entry::Text(model.engine.clone()))
    .column("model", "model", Place::Text, |model| Entry::Text(model.model.clone()))
    .column("runs", "runs", Place::Number { rank: 1 }, |model| {
        Entry::Text(model.n_runs.to_string())
    })
    .column("steady J/token", "steady\nJ/token", COUNT, |model| {
        Entry::Text(significant(model.steady_j_per_token, DIGITS))
    })
    .column("lifecycle J/token", "lifecycle\nJ/token", COUNT, |model| {
        Entry::Text(significant(model.lifecycle_j_per_token, DIGITS))
    })
    .column("steady rank", "steady\nrank", COUNT, |model| {
        Entry::Text(model.steady_rank.to_string())
    })
    .column("lifecycle rank", "lifecycle\nrank", COUNT, |model| {
        Entry::Text(model.lifecycle_rank.to_string())
    })
    .build()
}

fn scenarios(scenarios: &[Scenario]) -> Grid {
    GridBuilder::new("scenarios: medians over models", "scenarios.csv", scenarios, |scenario| {
        format!("{} on {}", scenario.task, scenario.engine)
    })
    .column("task", "task", Place::Text, |scenario| Entry::Text(scenario.task.clone()))
    .column("engine", "engine", Place::Text, |scenario| Entry::Text(scenario.engine.clone()))
    .column("models", "models", COUNT, |scenario| Entry::Text(scenario.n_models.to_string()))
    .column("steady J/token", "steady\nJ/token", COUNT, |scenario| {
        let medians = scenario.medians;
        number(medians.map(|medians| medians.steady_j_per_token))
    })
    .column("lifecycle J/token", "lifecycle\nJ/token", COUNT, |scenario| {
        number(scenario.medians.map(|medians| medians.lifecycle_j_per_token))
    })
    .column("lifecycle/steady", "lifecycle/\nsteady", COUNT, |scenario| {
        number(scenario.medians.and_then(|medians| medians.ratio().ok_or(Reason::NoValues)))
    })
    .build()
}

fn number(value: Result<f64, Reason>) -> Entry {
    match value {
        Ok(value) => Entry::Text(significant(value, DIGITS)),
        Err(reason) => Entry::Missing(reason),
    }
}

fn pairs(pairs: &[EnginePair]) -> Grid {
    let title = format!(
        "engines on one model and task; they compare when their output tokens differ by at most {:.0}%",
        LARGEST_TOKEN_DIFFERENCE * 100.0
    );
    GridBuilder::new(&title, "pairs.csv", pairs, |pair| format!("{} for {}", pair.model, pair.task))
        .column("model", "model", Place::Text, |pair| Entry::Text(pair.model.clone()))
        .column("task", "task", Place::Identity, |pair| Entry::Text(pair.task.clone()))
        .column("engine a", "engine a", Place::Identity, |pair| Entry::Text(pair.a.engine.clone()))
        .column("engine b", "engine b", Place::Identity, |pair| Entry::Text(pair.b.engine.clone()))
        .column("tokens a", "tokens\na", Place::Number { rank: 2 }, |pair| {
            tokens(pair.a.output_tokens)
        })
        .column("tokens b", "tokens\nb", Place::Number { rank: 2 }, |pair| {
            tokens(pair.b.output_tokens)
        })
        .column("token difference", "token\ndifference", Place::Number { rank: 1 }, |pair| {
            match pair.token_difference {
                Ok(difference) => {
                    Entry::Text(format!("{}%", significant(difference * 100.0, STATISTIC_DIGITS)))
                }
                Err(reason) => Entry::Missing(reason),
            }
        })
        .column("comparable", "compare", COUNT, |pair| match pair.comparable {
            Ok(comparable) => Entry::Text(if comparable { "yes" } else { "no" }.to_owned()),
            Err(reason) => Entry::Missing(reason),
        })
        .column("steady b/a", "steady\nb/a", COUNT, |pair| number(pair.steady_ratio()))
        .column("lifecycle b/a", "lifecycle\nb/a", COUNT, |pair| number(pair.lifecycle_ratio()))
        .build()
}

fn tokens(tokens: Result<f64, Reason>) -> Entry {
    match tokens {
        Ok(tokens) => Entry::Text(tokens.to_string()),
        Err(reason) => Entry::Missing(reason),
    }
}

/// The first row of every run: the service is the same in all of them.
fn one_row_a_run(rows: &[AmortisationRow]) -> Vec<&AmortisationRow> {
    rows.chunk_by(|a, b| a.run.run_id == b.run.run_id).map(|rows| &rows[0]).collect()
}

fn amortisation(rows: &[&AmortisationRow]) -> Grid {
    let value = |row: &AmortisationRow, of: fn(&Amortisation) -> f64| {
        number(row.service.map(|(_, service)| of(&service)))
    };
    let requests = |row: &AmortisationRow, percent: u32| {
        let requests = row.service.and_then(|(_, service)| {
            service.requests_to_share_below(percent).ok_or(Reason::NoValues)
        });
        match requests {
            Ok(requests) => Entry::Text(requests.to_string()),
            Err(reason) => Entry::Missing(reason),
        }
    };
    GridBuilder::new(
        "requests until start-up and release fall under a share of all energy",
        "amortisation.csv",
        rows,
        |row| row.run.run_id.clone(),
    )
    .column("run", "run", Place::Text, |row| Entry::Text(marked_id(&row.run)))
    .column("start + release", "start +\nrelease J", COUNT, |row| value(row, |s| s.fixed_j))
    .column("steady J/request", "steady\nJ/request", COUNT, |row| {
        value(row, |service| service.steady_j_per_request)
    })
    .column("under 10%", "under\n10%", COUNT, |row| requests(row, 10))
    .column("under 5%", "under\n5%", COUNT, |row| requests(row, 5))
    .column("under 1%", "under\n1%", COUNT, |row| requests(row, 1))
    .build()
}

/// The run's id, marked if it is simulated.
fn marked_id(run: &RunIdentity) -> String {
    let mark = if run.synthetic { "*" } else { "" };
    format!("{}{mark}", run.run_id)
}

/// Runs that take no part, every one by name, together where they lack the same value for one reason.
fn excluded(ranking: &Ranking, style: TextStyle) -> String {
    let mut groups: BTreeMap<(Reason, &str), Vec<&str>> = BTreeMap::new();
    for excluded in &ranking.excluded {
        let key = (excluded.reason, excluded.missing);
        groups.entry(key).or_default().push(&excluded.run.run_id);
    }
    if groups.is_empty() {
        return String::new();
    }
    let mut runs: Vec<&str> = ranking.excluded.iter().map(|e| e.run.run_id.as_str()).collect();
    runs.dedup();
    let title = format!("{} left out of the ranking", counted(runs.len(), "run"));
    let mut out = format!("{}\n", emphasised(&title, style.colour));
    for ((reason, missing), runs) in groups {
        let runs = runs.join(", ");
        let line = format!("{runs}: no {missing}, {reason}: {}", reason.meaning());
        out.push_str(&hanging("  ", &line, style.width));
    }
    out
}

/// What a reader must know of the whole: simulated data, and hardware that is mixed into a comparison.
fn notes(ranking: &Ranking, style: TextStyle) -> String {
    let mut out = String::new();
    let simulated = |group: &RankGroup| group.flags.contains(Flag::Synthetic);
    let runs = ranking.amortisation.iter().any(|row| row.run.synthetic);
    if runs || ranking.groups.iter().any(simulated) {
        out.push_str("* simulated data\n");
    }
    for group in ranking.groups.iter().filter(|group| group.hardware.len() > 1) {
        let line = format!(
            "{}: runs on {} are ranked together",
            group_name(group),
            group.hardware.join(" and ")
        );
        out.push_str(&hanging("note: ", &line, style.width));
    }
    for pair in ranking.pairs.iter().filter(|pair| pair.hardware.len() > 1) {
        let line = format!(
            "{}, {}: {} and {} ran on {}",
            pair.model,
            pair.task,
            pair.a.engine,
            pair.b.engine,
            pair.hardware.join(" and ")
        );
        out.push_str(&hanging("note: ", &line, style.width));
    }
    out
}

#[cfg(test)]
mod tests {
    use wattrace_analysis::ranking::{RankOptions, ServingRun, ServingValues, rank};
    use wattrace_schema::{FlagSet, SizeGroup};

    use super::*;

    fn run(model: &str, engine: &str, steady: f64, lifecycle: f64, tokens: f64) -> ServingRun {
        ServingRun {
            identity: RunIdentity {
                run_id: format!("{model}-{engine}"),
                model: model.into(),
                task: Some("chat".into()),
                size_group: Some(SizeGroup::Small),
                engine: Some(engine.into()),
                hardware: "H200 x 1".into(),
                synthetic: model == "three",
            },
            values: ServingValues {
                steady_j_per_token: Ok(steady),
                lifecycle_j_per_token: Ok(lifecycle),
                output_tokens: Ok(tokens),
                fixed_energy_j: Ok(1500.0),
                steady_j_per_request: Ok(50.0 * steady),
                mean_request_output_tokens: Ok(50.0),
                flags: FlagSet::EMPTY,
            },
        }
    }

    #[test]
    fn a_ranking_says_who_swaps_and_who_is_left_out() {
        let mut unsteady = run("four", "a", 4.0, 4.0, 1000.0);
        unsteady.values.steady_j_per_token = Err(Reason::SteadyNotReached);
        unsteady.values.steady_j_per_request = Err(Reason::SteadyNotReached);
        let mut elsewhere = run("one", "b", 1.5, 9.0, 700.0);
        elsewhere.identity.hardware = "H100 x 2".into();
        let runs = [
            run("one", "a", 1.0, 10.0, 1000.0),
            run("two", "a", 2.0, 30.0, 1000.0),
            run("three", "a", 3.0, 20.0, 1000.0),
            unsteady,
            elsewhere,
        ];
        let ranking = rank(&runs, &RankOptions { resamples: 0, seed: 1 });
        let text = ranking_overview(&ranking, TextStyle::default());
        // Lines break at the width; words are what counts.
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for expected in [
            "swap: chat (small) on a: two costs less than three in steady state and more over the lifecycle",
            "1 run left out of the ranking four-a: no steady_j_per_token, steady-not-reached: No window",
            "note: one, chat: a and b ran on H100 x 2 and H200 x 1",
            "three-a* 1500",
            "* simulated data",
        ] {
            assert!(words.contains(expected), "{expected}\n{text}");
        }
        // 1000 and 700 tokens differ by 30%, so the engines have no ratio.
        assert!(words.contains("30.0% no") && words.contains("tokens-too-different"), "{text}");
    }

    #[test]
    fn without_serving_runs_there_is_nothing_to_rank() {
        let ranking = Ranking::default();
        assert_eq!(ranking_overview(&ranking, TextStyle::default()), "no serving runs\n");
    }
}
