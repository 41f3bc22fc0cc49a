"""One page for a browser that shows what is known of a program: the compiled program and its modelled run, nothing else.

`facts` of programs are gathered as plain values, `page` packs them into HTML that loads nothing.
"""
