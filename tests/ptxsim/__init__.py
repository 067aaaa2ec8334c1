"""ptxsim: the images' own PTX, run on the CPU.

`build` makes the simulator and links the images' unchanged objects against its stand-in CUDA runtime; `session` calls
core's C ABI on such an image (or, to record what hardware does, on a real GPU); `problems` are single calls with their
inputs and references; `suite` is the list of them that the tests run; `python -m tests.ptxsim` runs one by hand.
"""
