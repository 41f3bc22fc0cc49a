"""Programs for several chips: what each chip runs, what the chips exchange between, and how long their links take for it."""
