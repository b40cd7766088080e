"""The query that counts schedules by the values of columns, all of them in one pass over the table.

Each pass over 100,000 schedules takes 20 to 40 ms. So rows that agree in every column that is counted are gathered
first. They are few, and each column is counted from them.
"""

from __future__ import annotations

from collections.abc import Sequence

from everwhen.model.queries import Facet

# What stands beside the status of schedules.
_STATES_OF_NOTE = {
    "failing": "failed_slots > 0",
    "running": "running_jobs > 0",
    "held": "held_slot_at IS NOT NULL",
}
_BY_VALUE = """
SELECT * FROM (SELECT '{facet}', coalesce("{facet}", '') AS value, CAST(sum(number) AS bigint) AS number FROM alike
GROUP BY value ORDER BY number DESC, value LIMIT :most) AS by_{facet}"""
_OF_NOTE = "SELECT 'status', '{word}', CAST(coalesce(sum({word}), 0) AS bigint) FROM alike"


def facet_query(where: str, facets: Sequence[Facet]) -> str:
    """Return the query for facet, value and number of schedules that fulfil a condition; null is empty text."""
    columns = ", ".join(f'"{facet}"' for facet in facets)
    notes = _STATES_OF_NOTE if "status" in facets else {}
    sums = "".join(
        f", sum(CASE WHEN {condition} THEN 1 ELSE 0 END) AS {word}" for word, condition in notes.items()
    )
    counts = [_BY_VALUE.format(facet=facet) for facet in facets]
    counts += [_OF_NOTE.format(word=word) for word in notes]
    return f"""
WITH alike AS MATERIALIZED (
    SELECT {columns}, count(*) AS number{sums} FROM schedules WHERE {where} GROUP BY {columns})
{" UNION ALL ".join(counts)}"""
