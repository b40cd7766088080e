"""B12: what a second scheduler on the same database adds.

A tick locks the limits that its schedules share until it has committed; if all schedules share them, two schedulers
take turns. So the goal is a gain for schedules that share none, and no loss for the others.
"""

from benchmarks.model import EVERWHEN, Benchmark, Contestant, Goal

ONE_NODE = "everwhen, one node"


def second_node(task: str, kind: str, at_least: float) -> Benchmark:
    return Benchmark(
        number="B12",
        what=f"two scheduler processes, 20,000 (quick: 6,000) slots due at once, {kind}, PostgreSQL, per slot",
        contestants=(
            Contestant(EVERWHEN, "benchmarks.workers.second_node", (task, "2")),
            Contestant(ONE_NODE, "benchmarks.workers.second_node", (task, "1")),
        ),
        goals=(Goal(against=ONE_NODE, at_least=at_least),),
        most_rounds=5,
        database="PostgreSQL",
    )


BENCHMARKS = (
    second_node("alone", "no limits", 1.5),
    second_node("limits", "all in ten shared limits", 0.9),
)
