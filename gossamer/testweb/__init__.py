"""This package serves synthetic and replayed webs over real HTTP, for the demo, tests and benchmarks.

`web.SyntheticWeb(WebSpec)` is a web as a pure function of random seed, host, path and time, and knows the truth about
itself; `replay.Replay` serves real HTML directories; `graph.GraphWeb` serves a link graph; `server.Server` speaks
HTTP/1.1 for any of them; `log.read_log` reads its log; `running.RunningWeb` runs all this beside a test.
"""
