"""All SQL of pipelines but for the schema, by table; parameters only."""

from __future__ import annotations

REPLACE_PIPELINE = "replace into pipelines values (?,?,?,?,?,?,?,?,?,?,?)"
PIPELINE = "select * from pipelines where name = ?"
PIPELINES = "select * from pipelines order by name"
ORPHANS = "select distinct pipeline from handlers where pipeline not in (select name from pipelines)"

INSERT_HANDLER = "insert into handlers values (?,?,?,?,?,?,?,?,?,?,?)"
UPDATE_HANDLER = """
update handlers set state = ?3, next_run_us = ?4, wake_us = ?5, queued = ?6, dirty = ?7, seal = ?8
where pipeline = ?1 and name = ?2"""
HANDLERS = "select * from handlers where pipeline = ?"
DELETE_HANDLERS = "delete from handlers where pipeline = ?"

INSERT_RUN = "insert into handler_runs values (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"
UPDATE_RUN = """
update handler_runs set stage = ?3, status = ?4, mutation = ?5, prepared = ?6, wake_us = ?7, result = ?8, ledger = ?9,
    error = ?10, retry_us = ?11, updated_us = ?12, seal = ?13
where pipeline = ?1 and number = ?2"""
RUN = "select * from handler_runs where id = ?"
RUNS = "select * from handler_runs where pipeline = ? and number > ? order by number limit ?"

INSERT_TOPIC = "insert into topics values (?,?,?,?,?,?)"
UPDATE_TOPIC = "update topics set events = ?2, pending = ?3, seal = ?4 where number = ?1"
LAST_TOPIC = "select max(number) from topics"
TOPIC = "select * from topics where pipeline = ? and name = ?"
TOPICS = "select * from topics where pipeline = ? order by name"
TOPIC_BY_NUMBER = "select * from topics where number = ?"

INSERT_EVENT = "insert into events values (?,?,?,?,?,?,?,?,?,?,?,?)"
EVENT = "select * from events where topic = ? and message_id = ?"
MARKS_NAMED = """
select topic, number, status, attempt, reserved_by, mark, message_id
from json_each(?2) as wanted cross join events indexed by events_by_message_id
where topic = ?1 and message_id = wanted.value"""
KNOWN = """
select message_id from json_each(?2) as wanted cross join events indexed by events_by_message_id
where topic = ?1 and message_id = wanted.value"""
EVENTS = "select * from events where topic = ? and number > ? order by number limit ?"
PENDING = (
    "select * from events indexed by events_pending where topic = ? and status = 'pending' order by number limit ?"
)
NEWEST = """
select * from events indexed by events_pending
where topic = ? and status = 'pending' order by number desc limit 1"""
RESERVED = """
select topic, number, status, attempt, reserved_by, mark from events indexed by events_reserved
where reserved_by = ? and status = 'reserved' order by topic, number"""
SET_FACTS = "update events set payload = ?3, causes = ?4, seal = ?5 where topic = ?1 and number = ?2"
SET_MARK = """
update events set status = ?3, attempt = ?4, reserved_by = ?5, mark = ?6 where topic = ?1 and number = ?2"""
STATUSES = "select status, count(*) from events where topic = ? and status <> 'pending' group by status"
