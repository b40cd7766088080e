"""What the shapes of bodies have in common, in and out, as OpenAPI shows them.

Answers are plain dictionaries, made once and written as JSON; the models document them, and the tests hold the two
together. Bodies of schedules are judged by `config.submission`, as a file is; the others by the models.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from everwhen.model.kinds import MOST_UNKNOWN

# Text that every database can hold.
Line = Annotated[str, StringConstraints(max_length=10_000, pattern=r"^[^\x00]*$")]


Identifier = Annotated[str, StringConstraints(min_length=1, max_length=201, pattern=r"^[^\x00]*$")]


When = Annotated[str, Field(json_schema_extra={"format": "date-time"})]


class Shape(BaseModel):
    """Nothing beyond what is documented, and nothing taken for what it is not: true is no number, "1" is none."""

    model_config = ConfigDict(extra="forbid", strict=True)

    @model_validator(mode="before")
    @classmethod
    def _few(cls, fields: Any) -> Any:
        """Each unknown key would be a problem of its own, made on the thread that answers everybody."""
        if isinstance(fields, dict) and len(fields) > len(cls.model_fields) + MOST_UNKNOWN:
            raise ValueError(f"has {len(fields):,} keys; known are {', '.join(cls.model_fields)}")
        return fields


class Fault(Shape):
    """One part of a request that cannot be taken."""

    path: str = Field(description="Where it stands in the body or among the parameters.")
    message: str


class Problem(BaseModel):
    """RFC 9457. `type` is stable; `detail` is a sentence for people."""

    model_config = ConfigDict(extra="allow")

    type: str = Field(examples=["urn:everwhen:problem:not-found"])
    title: str
    status: int
    detail: str
    errors: list[Fault] | None = None
