"""``kvbuffer-codegen report``: tuning logs and peer measurements as numbers, pictures and one page.

``timings`` reads logs, ``series`` makes figures of them, ``peers`` does so of a run beside other projects' kernels;
``figures`` says what a figure is, ``plots`` draws one (the only module that imports matplotlib), ``page`` writes HTML.
"""
