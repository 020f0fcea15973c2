# %% [markdown]
# # Questions in SQL
#
# DuckDB reads the Parquet tables where they lie. {{provenance}}
#
# Needs duckdb, pandas and pyarrow (see requirements.txt).

# %%
import duckdb

database = duckdb.connect()
for table in {{tables}}:
    database.execute(f"create view {table} as select * from read_parquet('tables/{table}.parquet')")
database.sql("show tables").df()

# %% [markdown]
# ## What the columns mean
#
# {{dictionary runs metrics}}

# %% [markdown]
# ## Where a number comes from
#
# `metrics` has one row a number: its window, method, boundary and flags.

# %%
database.sql("""
    select run_id, metric, value, unit, method, boundary, flags
    from metrics
    where value is not null and metric in ('formal_energy_j', 'steady_energy_j', 'energy_j')
    order by run_id, metric
""").df()

# %% [markdown]
# ## Flags, and how often

# %%
database.sql("""
    select flag, count(*) as runs
    from (select unnest(flags) as flag from runs)
    group by flag
    order by runs desc, flag
""").df()

# %% [markdown]
# ## Throughput and energy of each model and engine

# %%
database.sql("""
    select model, engine, count(*) as runs,
           median(output_throughput_tok_s) as output_throughput_tok_s,
           median(steady_j_per_token) as steady_j_per_token,
           median(lifecycle_j_per_token) as lifecycle_j_per_token
    from runs
    where kind = 'serving'
    group by model, engine
    order by model, engine
""").df()

# %% [markdown] needs=rank
# ## Do steady and lifecycle energy rank the models alike?

# %% needs=rank
database.sql("select * from rank order by task, size_group, engine").df()
