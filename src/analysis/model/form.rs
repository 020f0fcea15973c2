//! The forms of the model, as lists of terms. An ablation is one entry of [`FORMS`].

use super::observation::Coordinates;

/// One explanatory quantity of a form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Regressor {
    /// q_w: weight bytes per token, GB.
    WeightBytes,
    /// q_KV: key and value bytes per token, GB.
    KvBytes,
    /// q_w + q_KV: all bytes per token, GB.
    AllBytes,
    /// τ: time per token, s.
    TimePerToken,
    /// 1/B_eff: iterations per token.
    InverseBatch,
}

/// Name of the constant in every form.
pub const CONSTANT: &str = "c";

/// Unit of the constant.
pub const CONSTANT_UNIT: &str = "J/token";

impl Regressor {
    /// Name of its coefficient, and of the coefficient's column in `fits`.
    #[must_use]
    pub const fn coefficient(self) -> &'static str {
        match self {
            Self::WeightBytes => "alpha",
            Self::KvBytes => "beta",
            Self::AllBytes => "gamma",
            Self::TimePerToken => "p_tau_w",
            Self::InverseBatch => "inverse_batch_j",
        }
    }

    /// Unit of its coefficient.
    #[must_use]
    pub const fn coefficient_unit(self) -> &'static str {
        match self {
            Self::WeightBytes | Self::KvBytes | Self::AllBytes => "J/GB",
            Self::TimePerToken => "W",
            Self::InverseBatch => "J/iteration",
        }
    }

    /// Name of the coordinate that it is made of.
    #[must_use]
    pub const fn coordinate(self) -> &'static str {
        match self {
            Self::WeightBytes => "q_w_gb",
            Self::KvBytes => "q_kv_gb",
            Self::AllBytes => "q_w_gb + q_kv_gb",
            Self::TimePerToken => "tau_s",
            Self::InverseBatch => "b_eff",
        }
    }

    /// Whether it needs the history of the run.
    #[must_use]
    pub const fn needs_history(self) -> bool {
        matches!(self, Self::KvBytes | Self::AllBytes)
    }

    /// Its value at `at`; `None` where it needs a history that is not known.
    #[must_use]
    pub fn value(self, at: &Coordinates) -> Option<f64> {
        match self {
            Self::WeightBytes => Some(at.q_w_gb),
            Self::KvBytes => at.q_kv_gb,
            Self::AllBytes => at.q_kv_gb.map(|q_kv_gb| at.q_w_gb + q_kv_gb),
            Self::TimePerToken => Some(at.tau_s),
            Self::InverseBatch => Some(1.0 / at.b_eff),
        }
    }
}

/// A form of the model: energy per token = c + the sum of its terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Form {
    /// Name in result tables.
    pub name: &'static str,
    /// Its terms, without the constant.
    pub terms: &'static [Regressor],
    /// What it answers.
    pub question: &'static str,
    /// Whether it is the full form under a restriction, so that an F test compares the two.
    pub nested: bool,
}

use Regressor::{AllBytes, InverseBatch, KvBytes, TimePerToken, WeightBytes};

/// The full form: e = c + α·q_w + β·q_KV + P_τ·τ.
pub const FULL: Form = Form {
    name: "full",
    terms: &[WeightBytes, KvBytes, TimePerToken],
    question: "What do weight bytes, key-value bytes and time each cost?",
    nested: false,
};

/// Every form, in the order of result tables.
pub const FORMS: &[Form] = &[
    FULL,
    Form {
        name: "merged-bytes",
        terms: &[AllBytes, TimePerToken],
        question: "Does a byte cost the same whether it is a weight or a key or value?",
        nested: true,
    },
    Form {
        name: "no-time",
        terms: &[WeightBytes, KvBytes],
        question: "Do bytes alone explain energy, whatever the time?",
        nested: true,
    },
    Form {
        name: "no-bytes",
        terms: &[TimePerToken],
        question: "Does time alone explain energy, whatever the bytes?",
        nested: true,
    },
    Form {
        name: "no-weights",
        terms: &[KvBytes, TimePerToken],
        question: "Can weight bytes be left out?",
        nested: true,
    },
    Form {
        name: "no-kv",
        terms: &[WeightBytes, TimePerToken],
        question: "Can key and value bytes be left out?",
        nested: true,
    },
    Form {
        name: "inverse-batch",
        terms: &[InverseBatch],
        question: "How far does batch size alone carry, e = a + b/B?",
        nested: false,
    },
];

impl Form {
    /// The form of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        FORMS.iter().find(|form| form.name == name)
    }

    /// Whether it needs the history of every run.
    #[must_use]
    pub fn needs_history(&self) -> bool {
        self.terms.iter().any(|term| term.needs_history())
    }

    /// The values of its terms at `at`; `None` where one needs a history that is not known.
    #[must_use]
    pub fn values(&self, at: &Coordinates) -> Option<Vec<f64>> {
        self.terms.iter().map(|term| term.value(at)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_every_ablation_asks_a_question() {
        let names: std::collections::BTreeSet<_> = FORMS.iter().map(|form| form.name).collect();
        assert_eq!(names.len(), FORMS.len());
        assert!(FORMS.iter().all(|form| form.question.ends_with('?')));
    }

    #[test]
    fn nested_forms_lie_in_the_span_of_the_full_form() {
        // A restriction of the full form is linear in its terms: q_w + q_KV is, 1/B is not declared so.
        let spanned = |term: &Regressor| FULL.terms.contains(term) || *term == AllBytes;
        for form in FORMS.iter().filter(|form| form.nested) {
            assert!(form.terms.iter().all(spanned), "{}", form.name);
            assert!(form.terms.len() < FULL.terms.len(), "{}", form.name);
        }
    }
}
