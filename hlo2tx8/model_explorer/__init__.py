"""Programs in Model Explorer: `model-explorer model.hlo --extensions=hlo2tx8.model_explorer`, which loads `main`.

Needs the extra `hlo2tx8[explorer]`; see docs/model_explorer.md.
"""
