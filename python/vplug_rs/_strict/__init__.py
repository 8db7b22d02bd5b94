"""The strict flavour behind `install()`: the genuine classes, order and errors, found by the core.

What comes in is a genuine metadata module (`importlib.metadata` or `importlib_metadata`); what goes out are its own
functions with another code object inside. Anything odd runs the code that was there before. Nothing here knows our
own flavour, `vplug_rs.metadata`.
"""
