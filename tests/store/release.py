"""Migrations of a made-up program, for the tests of `migrate`."""

from __future__ import annotations

from everwhen.store.schema.migrate import Migration

FIRST = Migration(
    number=1,
    name="letters",
    before="""
    CREATE TABLE letters (id INTEGER PRIMARY KEY, text TEXT NOT NULL);
    -- A comment; with a semicolon, and a trigger whose body has them, too.
    CREATE TABLE log (text TEXT);
    CREATE TRIGGER letter_written AFTER INSERT ON letters BEGIN
        INSERT INTO log (text) VALUES ('written; by ' || NEW.id);
        INSERT INTO log (text) VALUES (';');
    END;
    """,
)
SECOND = Migration(
    number=2,
    name="senders",
    before="ALTER TABLE letters ADD COLUMN sender TEXT; INSERT INTO log (text) VALUES ('second')",
    after="DROP TRIGGER letter_written; DROP TABLE log;",
)
THIRD = Migration(number=3, name="readers", before="CREATE TABLE readers (id INTEGER PRIMARY KEY);")
FOURTH = Migration(number=4, name="stamps", before="CREATE TABLE stamps (id INTEGER PRIMARY KEY);")

RELEASE = (FIRST, SECOND, THIRD)
