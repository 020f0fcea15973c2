//! What a decode iteration reads, from the geometry in `run.json`.

use crate::{Model, Reason};

impl Model {
    /// M_w: bytes of all weights that one decode iteration reads, whatever the batch. That is
    /// `decode_weight_bytes` where it is given, else `weight_bytes_per_param` times all parameters but
    /// the embedding look-up; a tied embedding stays in, since the output head reads it.
    ///
    /// # Errors
    /// [`Reason::MixtureOfExperts`] for a mixture of experts, whose batch does not share all weights;
    /// [`Reason::NoGeometry`] when a number that this needs is missing or impossible.
    ///
    /// ```
    /// use wattrace_schema::Model;
    /// let qwen = Model {
    ///     total_params: Some(7_615_616_512),
    ///     vocab_size: Some(152_064),
    ///     hidden_size: Some(3_584),
    ///     tied_embeddings: Some(false),
    ///     weight_bytes_per_param: Some(2.0),
    ///     ..Model::default()
    /// };
    /// // 7,615,616,512 - 152,064 * 3,584 = 7,070,619,136 parameters of two bytes.
    /// assert_eq!(qwen.weight_bytes_per_iteration(), Ok(14_141_238_272.0));
    /// ```
    pub fn weight_bytes_per_iteration(&self) -> Result<f64, Reason> {
        if self.moe.is_some() {
            return Err(Reason::MixtureOfExperts);
        }
        match self.decode_weight_bytes {
            Some(bytes) => positive(bytes as f64),
            None => self.weight_bytes_from_parameters(),
        }
    }

    /// M_w from the number of parameters alone, as [`Model::weight_bytes_per_iteration`] has it without
    /// `decode_weight_bytes`.
    ///
    /// # Errors
    /// As [`Model::weight_bytes_per_iteration`].
    pub fn weight_bytes_from_parameters(&self) -> Result<f64, Reason> {
        if self.moe.is_some() {
            return Err(Reason::MixtureOfExperts);
        }
        let total = self.total_params.ok_or(Reason::NoGeometry)?;
        let looked_up = if self.tied_embeddings.ok_or(Reason::NoGeometry)? {
            0
        } else {
            let vocabulary = self.vocab_size.ok_or(Reason::NoGeometry)?;
            u64::from(vocabulary) * u64::from(self.hidden_size.ok_or(Reason::NoGeometry)?)
        };
        let read = total.checked_sub(looked_up).ok_or(Reason::NoGeometry)?;
        positive(self.weight_bytes_per_param.ok_or(Reason::NoGeometry)? * read as f64)
    }

    /// K_KV: bytes of keys and values that one token of history holds in all layers,
    /// 2 · layers · kv_heads · head_dim · kv_bytes_per_value. Layers with a sliding window count as
    /// if they read all history; [`Model::sliding_window`] tells whether there are any.
    ///
    /// # Errors
    /// [`Reason::NoGeometry`] when a number that this needs is missing or impossible.
    ///
    /// ```
    /// use wattrace_schema::{Model, Reason};
    /// let mut model = Model {
    ///     layers: Some(28),
    ///     kv_heads: Some(4),
    ///     head_dim: Some(128),
    ///     kv_bytes_per_value: Some(2.0),
    ///     ..Model::default()
    /// };
    /// // 2 * 28 * 4 * 128 * 2
    /// assert_eq!(model.kv_bytes_per_token(), Ok(57_344.0));
    /// model.kv_heads = None;
    /// assert_eq!(model.kv_bytes_per_token(), Err(Reason::NoGeometry));
    /// ```
    pub fn kv_bytes_per_token(&self) -> Result<f64, Reason> {
        let factors = [self.layers, self.kv_heads, self.head_dim];
        let mut bytes = 2.0 * self.kv_bytes_per_value.ok_or(Reason::NoGeometry)?;
        for factor in factors {
            bytes *= f64::from(factor.ok_or(Reason::NoGeometry)?);
        }
        positive(bytes)
    }
}

/// A byte count must be a positive number; anything else is a geometry that cannot be.
fn positive(bytes: f64) -> Result<f64, Reason> {
    if bytes.is_finite() && bytes > 0.0 { Ok(bytes) } else { Err(Reason::NoGeometry) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MoeGeometry;

    fn tied() -> Model {
        Model {
            total_params: Some(1_000),
            vocab_size: Some(30),
            hidden_size: Some(10),
            tied_embeddings: Some(true),
            weight_bytes_per_param: Some(2.0),
            layers: Some(2),
            kv_heads: Some(3),
            head_dim: Some(5),
            kv_bytes_per_value: Some(1.0),
            ..Model::default()
        }
    }

    #[test]
    fn a_tied_head_reads_the_embedding() {
        let mut model = tied();
        assert_eq!(model.weight_bytes_per_iteration(), Ok(2_000.0));
        model.tied_embeddings = Some(false);
        // 1,000 - 30 * 10 parameters of two bytes
        assert_eq!(model.weight_bytes_per_iteration(), Ok(1_400.0));
    }

    #[test]
    fn known_weight_bytes_replace_the_derived_ones() {
        let model = Model { decode_weight_bytes: Some(1_234), ..tied() };
        assert_eq!(model.weight_bytes_per_iteration(), Ok(1_234.0));
        assert_eq!(model.weight_bytes_from_parameters(), Ok(2_000.0));
    }

    #[test]
    fn a_mixture_of_experts_has_no_weight_bytes_but_has_keys_and_values() {
        let model =
            Model { decode_weight_bytes: Some(1_234), moe: Some(MoeGeometry::default()), ..tied() };
        assert_eq!(model.weight_bytes_per_iteration(), Err(Reason::MixtureOfExperts));
        assert_eq!(model.weight_bytes_from_parameters(), Err(Reason::MixtureOfExperts));
        assert_eq!(model.kv_bytes_per_token(), Ok(60.0));
    }

    #[test]
    fn missing_and_impossible_numbers_are_a_reason() {
        let broken: [fn(&mut Model); 9] = [
            |m| m.total_params = None,
            |m| m.tied_embeddings = None,
            |m| (m.tied_embeddings, m.vocab_size) = (Some(false), None),
            |m| (m.tied_embeddings, m.hidden_size) = (Some(false), None),
            |m| (m.tied_embeddings, m.vocab_size) = (Some(false), Some(u32::MAX)),
            |m| m.weight_bytes_per_param = None,
            |m| m.weight_bytes_per_param = Some(f64::NAN),
            |m| m.weight_bytes_per_param = Some(-2.0),
            |m| m.decode_weight_bytes = Some(0),
        ];
        for (case, damage) in broken.into_iter().enumerate() {
            let mut model = tied();
            damage(&mut model);
            assert_eq!(model.weight_bytes_per_iteration(), Err(Reason::NoGeometry), "case {case}");
        }
        let broken: [fn(&mut Model); 5] = [
            |m| m.layers = None,
            |m| m.kv_heads = Some(0),
            |m| m.head_dim = None,
            |m| m.kv_bytes_per_value = None,
            |m| m.kv_bytes_per_value = Some(f64::INFINITY),
        ];
        for (case, damage) in broken.into_iter().enumerate() {
            let mut model = tied();
            damage(&mut model);
            assert_eq!(model.kv_bytes_per_token(), Err(Reason::NoGeometry), "case {case}");
        }
    }
}
