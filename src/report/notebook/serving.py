# %% [markdown]
# # Serving runs
#
# Energy and latency of every serving run, from the result tables beside this notebook.
# {{provenance}}
#
# Needs pandas, pyarrow and matplotlib (see requirements.txt).

# %%
import json

import matplotlib.pyplot as plt
import pandas as pd

pd.set_option("display.max_columns", None)
runs = pd.read_parquet("tables/runs.parquet")
metrics = pd.read_parquet("tables/metrics.parquet")
claims = pd.read_parquet("tables/claims.parquet")
serving = runs[runs["kind"] == "serving"]
f"{len(runs)} runs, {len(serving)} of them serving"

# %% [markdown]
# ## What the columns mean
#
# {{dictionary runs metrics claims}}

# %% [markdown]
# ## Energy per token, by stage
#
# Steady leaves out ramp-up and drain; lifecycle adds start-up and release. The further apart they are, the
# more a ranking by one of them can differ from a ranking by the other.

# %%
columns = [
    "run_id", "model", "engine", "startup_energy_j", "formal_energy_j", "release_energy_j",
    "output_tokens", "formal_j_per_token", "steady_j_per_token", "lifecycle_j_per_token",
]
serving[columns]

# %% [markdown]
# A value is a quotient of two columns that stand beside it; here it is redone.

# %%
redone = serving["formal_energy_j"] / serving["output_tokens"]
both = redone.notna() & serving["formal_j_per_token"].notna()
difference = (redone - serving["formal_j_per_token"]).abs() / serving["formal_j_per_token"]
assert (difference[both] < 1e-12).all()
f"{int(both.sum())} values agree"

# %% [markdown]
# ## Why a value is missing
#
# A missing value is null, never zero; `reasons` says why, column by column.

# %%
missing = pd.DataFrame(
    [
        {"run_id": run_id, "column": column, "reason": reason}
        for run_id, reasons in zip(runs["run_id"], runs["reasons"])
        for column, reason in json.loads(reasons or "{}").items()
    ],
    columns=["run_id", "column", "reason"],
)
missing.groupby("reason").agg(values=("column", "size"), runs=("run_id", "nunique"))

# %% [markdown]
# ## Two ways to the same energy
#
# The counter of a board and the integral of its power are independent; their relative difference is the
# error that a single method would hide.

# %%
differences = [name for name in runs.columns if name.endswith("_energy_method_difference")]
runs[["run_id", *differences]].dropna(how="all", subset=differences)

# %% [markdown]
# ## Published values beside recomputed ones

# %%
claims

# %% [markdown]
# ## Steady against lifecycle

# %%
points = serving.dropna(subset=["steady_j_per_token", "lifecycle_j_per_token"])
figure, axes = plt.subplots(figsize=(4, 4))
axes.scatter(points["steady_j_per_token"], points["lifecycle_j_per_token"], color="#0072B2")
if len(points):
    limit = 1.05 * points[["steady_j_per_token", "lifecycle_j_per_token"]].max().max()
    axes.plot([0, limit], [0, limit], color="0.6", linewidth=1)
axes.set_xlabel("steady energy (J/token)")
axes.set_ylabel("lifecycle energy (J/token)")
axes.set_title("{{synthetic_stamp}}")
plt.show()
