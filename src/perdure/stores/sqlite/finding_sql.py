"""All SQL by which runs are found: `conditions` puts statements together from these texts, and never from a value.

`found` has a narrow row for each run with all that filters look at: a million are looked through in it, whatever is
asked, within a tenth of a second. Indexes give the numbers of what is rare. Only the runs that are wanted are read.
"""

from __future__ import annotations

PLACES = 24  # columns for the values of attributes: the first names that a store sees have one each
VALUE = "value_{place}"

# --- what is looked through ----------------------------------------------------------------------

EVERY_NUMBER = "select number from runs"
FOUND_NUMBERS = "select number from found not indexed where {condition}"
COUNT_EVERY = "select count(*) from states"
COUNT_FOUND = "select count(*) from found not indexed where {condition}"
COUNT_NUMBERS = "select count(*) from ({numbers})"
COUNT_UP_TO = "select count(*) from (select 1 from ({numbers}) limit ?)"
LIST_RUNS = """
select runs.*, states.* from (
    {numbers} order by number desc limit ?
) as chosen left join runs using (number) left join states on states.number = chosen.number
order by chosen.number desc"""
BEFORE = "found.number < ?"
NUMBER_BEFORE = "number < ?"
AMONG = "found.number in ({numbers})"
EITHER = " union all "
FIELD_COLUMNS = {
    "status": "status",
    "type": "workflow",
    "queue": "queue",
    "priority": "priority",
    "started": "created_us",
    "closed": "closed_us",
    "blocked": "blocked",
    "id": "workflow_id",
    "run_id": "run_id",
    "generation": "generation",
    "parent": "parent",
}
# Where it is not a column of `found`, or not all of its values are in there.
WITH_RUN_ID = "exists (select 1 from runs where runs.number = found.number and {comparison})"
WITH_ATTRIBUTE = "exists (select 1 from attributes where run = found.number and name = ? and {comparison})"
SEVERAL = "{column} > x''"
AMONG_SEVERAL = "instr({column}, ?) > 0"
PIECE_OF_SEVERAL = "instr(substr({column}, {at}), ?) > 0"
OF_KIND = "({column} >= ? and {column} < ?)"
BY_KEY = "(substr({column}, {at}, {size}) {operator} ? or (substr({column}, {at}, {size}) = ? and {in_rows}))"

# --- the numbers of those that fit, by an index --------------------------------------------------

NUMBERS_BY = {
    "status": "select number from states indexed by states_by_status where {comparison}",
    "type": "select number from states indexed by states_by_workflow where {comparison}",
    "started": "select number from runs indexed by runs_by_time where {comparison}",
    "closed": "select number from states indexed by states_by_closing where {comparison}",
    "id": "select number from runs indexed by runs_by_workflow_id where {comparison}",
    "run_id": "select number from runs where {comparison}",
    "parent": "select number from runs indexed by runs_by_parent where {comparison}",
}
NUMBERS_BLOCKED = "select number from states indexed by states_blocked where blocked is not null"
NUMBERS_BY_VALUE = """
select number from found indexed by found_by_{place} where value_{place} is not null and {comparison}"""
NUMBERS_BY_ATTRIBUTE = """
select run as number from attributes indexed by attributes_by_value where name = ? and {comparison}"""
NOBODY = "select number from runs where false"

# --- what is kept --------------------------------------------------------------------------------

INSERT_FOUND = f"replace into found values ({','.join('?' * (11 + PLACES))})"
UPDATE_FOUND = "update found set status = ?2, closed_us = ?3, blocked = ?4 where number = ?1"
SET_VALUE = {place: f"update found set value_{place} = ?2 where number = ?1" for place in range(1, PLACES + 1)}
PLACE = "select place from attribute_places where name = ?"
LAST_PLACE = "select max(place) from attribute_places"
INSERT_PLACE = "insert into attribute_places values (?,?,?)"
NAME_THERE = "select 1 from attributes indexed by attributes_by_value where name = ? limit 1"
INSERT_ATTRIBUTE = "insert into attributes values (?,?,?,?)"
DELETE_ATTRIBUTE = "delete from attributes where run = ? and name = ? and value = ?"
