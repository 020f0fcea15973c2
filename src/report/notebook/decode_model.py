# %% [markdown]
# # The decode energy model
#
# e = c + α·q_w + β·q_KV + P_τ·τ, fitted for every setting on its `fit` runs and judged on cells that took no
# part. {{provenance}}
#
# α, β and P_τ are local responses of one setting, not constants of nature, and P_τ is not idle power.
#
# Needs polars (see requirements.txt).

# %%
import polars as pl

runs = pl.read_parquet("tables/runs.parquet")
decode = runs.filter(pl.col("kind") == "decode")
decode.select("setting", "cell", "split", "b_eff", "mean_history_tokens", "j_per_token").head(20)

# %% [markdown]
# ## What the columns mean
#
# {{dictionary fits heldout fit_summary}}

# %% [markdown] needs=fits
# ## Coefficients
#
# Standard errors are classical; those ending in `_cluster_se` allow for runs of one cell being alike.

# %% needs=fits
fits = pl.read_parquet("tables/fits.parquet")
fits.filter(pl.col("form") == "full").select(
    "setting", "n_runs", "n_cells", "c", "alpha", "beta", "p_tau_w", "r2", "condition_number", "reason"
)

# %% [markdown] needs=fit_summary
# ## What each part of the model is worth
#
# The largest error over held-out cells, for the full model and for each that lacks a part.

# %% needs=fit_summary
summary = pl.read_parquet("tables/fit_summary.parquet")
summary.pivot(on="form", index="setting", values="max_abs_error")

# %% [markdown] needs=heldout
# The largest cell error, redone from the cells.

# %% needs=heldout
heldout = pl.read_parquet("tables/heldout.parquet")
redone = heldout.group_by("setting", "form").agg(redone=pl.col("abs_error").max())
compared = summary.join(redone, on=["setting", "form"], how="inner").drop_nulls("max_abs_error")
assert ((compared["redone"] - compared["max_abs_error"]).abs() < 1e-12).all()
compared.select("setting", "form", "max_abs_error", "redone")
