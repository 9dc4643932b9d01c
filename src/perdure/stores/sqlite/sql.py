"""All SQL of runs, messages, tasks and leases, by table; parameters only.

Beside it: finding_sql, pipeline_sql, and deadlines with its own few.

What starts with `?1` is used more than once in a statement.
"""

from __future__ import annotations

# --- runs and states -----------------------------------------------------------------------------

INSERT_RUN = "insert into runs values (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"
LAST_RUN = "select max(coalesce((select max(number) from runs), 0), coalesce((select max(number) from states), 0))"
RUN_NUMBER = "select number from runs where run_id = ?"
RUN_ID_TAKEN = "select 1 from runs where run_id = ?"
INSERT_STATE = "insert into states values (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"
STATE = "select * from states where number = ?"
UPDATE_STATE = """
update states set status = ?2, blocked = ?3, result = ?4, closed_us = ?5, wake_us = ?6, owner = ?7, followed_by = ?8,
    last_turn = ?9, tail = ?10, accepted = ?11, consumed = ?12, open_tasks = ?13, top_seq = ?14, kept = ?15,
    at_hand = ?16, waiting = ?17, attributes = ?18, seal = ?19
where number = ?1"""
# The same where nothing changes that filters look at: every index that an update names is written again.
UPDATE_STATE_PLACE = """
update states set wake_us = ?2, owner = ?3, followed_by = ?4, last_turn = ?5, tail = ?6, accepted = ?7, consumed = ?8,
    open_tasks = ?9, top_seq = ?10, kept = ?11, at_hand = ?12, waiting = ?13, attributes = ?14, seal = ?15
where number = ?1"""
# The same where its owner stays, and with it what filters look at: then no index has to be written, or hardly ever.
UPDATE_STATE_STEP = """
update states set wake_us = ?, followed_by = ?, last_turn = ?, tail = ?, accepted = ?, consumed = ?, open_tasks = ?,
    top_seq = ?, kept = ?, at_hand = ?, waiting = ?, attributes = ?, seal = ?
where number = ?"""
UPDATE_STATE_KNOWN = f"{UPDATE_STATE_STEP} and seal = ?"

RUN = "select runs.*, states.* from runs left join states using (number) where runs.number = ?"
RUN_BY_RUN_ID = """
select runs.*, states.* from runs left join states using (number) where runs.run_id = ? and runs.workflow_id = ?"""
NEWEST_RUN = """
select runs.*, states.* from runs left join states using (number)
where runs.workflow_id = ? order by runs.number desc limit 1"""
NEWEST_OF_CHAIN = "select max(number) from runs indexed by runs_by_chain where chain = ? and chain <> ''"
CHILDREN = """
select number, run_id from runs indexed by runs_by_parent
where parent = ? and parent is not null and chain = '' order by number"""
CHAIN = "select run_id from runs indexed by runs_by_chain where chain = ? and chain <> '' order by number"
PRIORITY_BELOW = """
select priority from states indexed by states_due
where queue = ? and owner is null and wake_us is not null and priority < ?
order by priority desc limit 1"""
DUE_OF = """
select wake_us, number from states indexed by states_due
where queue = ?1 and owner is null and wake_us is not null and priority = ?2 and wake_us <= ?3
    and workflow in (select value from json_each(?4))
order by wake_us limit ?5"""
DUE_UNKNOWN = """
select wake_us, number from states indexed by states_due
where queue = ?1 and owner is null and wake_us is not null and priority = ?2 and wake_us <= ?3
    and workflow not in (select value from json_each(?4)) and blocked is null
order by wake_us limit ?5"""
FIRST_WAKE = """
select wake_us from states indexed by states_due
where queue = ? and owner is null and wake_us is not null and priority = ? order by wake_us limit 1"""
PENDING = """
select runs.*, states.* from states indexed by states_pending left join runs using (number)
where states.owner = ? and states.owner is not null and states.accepted > states.consumed"""
BLOCKED = """
select number from states indexed by states_blocked
where queue = ? and blocked is not null and status = 'running' and owner is null"""
HOLDING_RUNS = "select number from states where owner = ? and owner is not null and at_hand is not null"
OWNED_RUNS = "select number from states where owner = ? and owner is not null"
SET_RUN_ASIDE = "update states set wake_us = null, owner = null where number = ?"

# --- turns ---------------------------------------------------------------------------------------

INSERT_TURN = "insert into turns values (?,?,?,?,?)"
TURNS = "select place, record, chain, notes, seal from turns where place > ? and place < ? order by place limit ?"
TURN_CHAIN = "select chain from turns where place = ?"

# --- messages ------------------------------------------------------------------------------------

INSERT_MESSAGE = "insert into messages values (?,?,?,?,?,?,?,?)"
MESSAGES = "select * from messages where run = ? and number > ? and number <= ? order by number"
MESSAGE_ID = "select * from message_ids where chain = ? and message_id = ?"
INSERT_MESSAGE_ID = "insert into message_ids values (?,?,?,?,?,?)"
MOVE_MESSAGE_ID = "update message_ids set holder = ?4, number = ?5, seal = ?6 where chain = ?1 and message_id = ?2"
CORRECT_MESSAGE = "update messages set job = ?3, notes = ?6, seal = ?8 where run = ?1 and number = ?2"
DELETE_MESSAGES = "delete from messages where run = ? and number <= ?"

# --- updates and promises ------------------------------------------------------------------------

UPDATE = "select * from updates where chain = ? and id = ?"
INSERT_UPDATE = "insert into updates values (?,?,?,?,?)"
ANSWER_UPDATE = "update updates set answer = ?4, seal = ?5 where chain = ?1 and id = ?2"
OPEN_UPDATES = "select * from updates indexed by updates_open where chain = ? and answer is null"
PROMISE = "select * from promises where run = ? and name = ?"
PROMISE_BY_KEY = "select * from promises indexed by promises_by_key where key = ? and key is not null"
INSERT_PROMISE = "insert into promises values (?,?,?,?,?)"
SET_PROMISE = "update promises set key = ?3, settlement = ?4, seal = ?5 where run = ?1 and name = ?2"

# --- tasks ---------------------------------------------------------------------------------------

INSERT_TASK = "insert into tasks values (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"
REPLACE_TASK = "replace into tasks values (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"
TASK = "select * from tasks where id = ?"
DELETE_TASK = "delete from tasks where id = ?"
FINISH_TASK = "delete from tasks where id = ? and run = ? returning owner, cancel"
TASKS_OF_RUN = "select * from tasks where run = ? order by seq"
TASK_PRIORITY_BELOW = """
select priority from tasks indexed by tasks_due
where queue = ? and owner is null and priority < ? order by priority desc limit 1"""
TASKS_DUE_OF = """
select due_us, id from tasks indexed by tasks_due
where queue = ?1 and owner is null and priority = ?2 and due_us <= ?3 and name in (select value from json_each(?4))
order by due_us limit ?5"""
FIRST_DUE = """
select due_us from tasks indexed by tasks_due
where queue = ? and owner is null and priority = ? order by due_us limit 1"""
OWNED_TASKS = "select id from tasks indexed by tasks_of_run where owner = ? and owner is not null"
SET_TASK_ASIDE = "update tasks set due_us = 9223372036854775807, owner = null where id = ?"
MISCOUNTED = """
select states.number from states where open_tasks <> (select count(*) from tasks where tasks.run = states.number)"""

# --- leases, questions, counters -----------------------------------------------------------------

INSERT_LEASE = "insert into leases values (?,?,?,?,?,?,?,?)"
UPDATE_LEASE = "update leases set expires_us = ?2, cancelled = ?3, seal = ?4 where number = ?1"
LEASE = "select * from leases where number = ?"
LEASE_NUMBERS = "select number from leases"
LEASES = "select * from leases order by number"
DELETE_LEASE = "delete from leases where number = ?"

INSERT_QUESTION = "insert into questions values (?,?,?,?,?,?,?,?,?)"
QUESTION = "select * from questions where number = ?"
UNANSWERED = """
select * from questions where answer is null and workflow in (select value from json_each(?)) order by number"""
ANSWER = "update questions set answer = ?2, seal = ?3 where number = ?1"
DELETE_QUESTION = "delete from questions where number = ?"

COUNTER = "select * from counters where name = ?"
SET_COUNTER = "update counters set last = ?2, amount = ?3, seal = ?4 where name = ?1"
INSERT_COUNTER = "insert into counters values (?,?,?,?)"
COUNTS = """
select (select count(*) from states), (select count(*) from turns), (select count(*) from messages),
    (select count(*) from tasks) + (select count(at_hand) from states indexed by states_owned where owner is not null),
    (select count(*) from leases), (select count(*) from questions),
    (select count(*) from pipelines), (select count(*) from handler_runs), (select count(*) from events)"""

STRUCTURE = "pragma integrity_check(100)"
