"""`hlo2tx8 test-ops`: every op, in each element type, against what the framework gives; a table of what agrees.

command.py    the flags, the run, what is printed
cases.py      cases in children that may crash or hang, and tables of their outcomes
hlo_ops.py, torch_ops.py, onnx_ops.py    the suites: which cases there are, and the answer to one
child.py      the child
"""
