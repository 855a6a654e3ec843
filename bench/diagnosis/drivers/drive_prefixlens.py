"""prefixlens: its simulated block cache over both prompts, a token a byte; it tells the first block that misses."""

from __future__ import annotations

from diagnosis.drivers.talking import Case, Found, pieces, place, serve
from prefixlens import RadixCacheSimulator, Request, explain_request  # type: ignore[import-not-found]


def diagnose(case: Case) -> Found:
    texts = [pieces(body, case.dialect) for body in case.both]
    prompts = ["\n".join(text for _, text in found).encode() for found in texts]
    simulator = RadixCacheSimulator(capacity_blocks=10_000_000, block_size=1)
    for name, prompt in zip("ab", prompts, strict=True):
        simulator.process(Request(name, tuple(prompt), {"session": "s"}))
    told = explain_request(simulator, "b", simulator.report())
    first = told.first_divergent_block if told else None
    if first is None or first >= len(prompts[0]):
        return {}
    codes = ["divergence"]
    return {"noticed": True, "codes": codes, "path": place(texts[1], first, lambda text: len(text.encode()))}


serve(diagnose)
