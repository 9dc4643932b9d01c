-- Version 1. What never changes of a run is apart from what every turn changes, so that a turn costs the same
-- however large the input is. The column `seal` is the checksum over all other columns of its row; that of a turn is
-- over all but the record, which `chain` covers.

create table runs (
    number integer primary key,
    run_id text not null unique,
    chain text not null, -- the run id of the first generation; empty for that one
    workflow_id text not null,
    workflow text not null,
    version text,
    queue text not null,
    priority integer not null,
    seed text not null,
    input blob not null,
    keywords blob not null,
    started blob not null,
    attributes blob not null,
    deadline_us integer,
    parent text, -- its run id
    parent_seq integer,
    parent_close text,
    generation integer not null,
    created_us integer not null,
    seal blob not null
) strict;
create index runs_by_workflow_id on runs (workflow_id);
create index runs_by_time on runs (created_us);
create index runs_by_chain on runs (chain) where chain <> '';
create index runs_by_parent on runs (parent) where parent is not null;

create table states (
    number integer primary key,
    queue text not null,
    workflow text not null,
    priority integer not null,
    status text not null,
    blocked blob,
    result blob,
    closed_us integer,
    wake_us integer,
    owner integer,
    followed_by integer, -- the next run of the same workflow id: if that cannot be found, it is missing
    last_turn integer not null,
    tail blob not null,
    accepted integer not null,
    consumed integer not null,
    open_tasks integer not null,
    top_seq integer not null,
    kept integer not null, -- rows of message_ids, updates and promises that this run has written
    at_hand blob, -- the activity that its owner is making, instead of a row of tasks
    waiting blob,
    attributes blob not null,
    created_us integer not null, -- as in runs
    seal blob not null
) strict;
create index states_due on states (queue, priority desc, wake_us) where owner is null and wake_us is not null;
create index states_owned on states (owner) where owner is not null;
create index states_pending on states (owner) where owner is not null and accepted > consumed;
create index states_blocked on states (queue) where blocked is not null;
create index states_by_status on states (status);
create index states_by_workflow on states (workflow);
create index states_by_closing on states (closed_us) where closed_us is not null;

-- When the runs time out that have a limit and have not ended. Repeated from `runs`, by which it is verified.
create table deadlines (
    deadline_us integer not null,
    run integer not null,
    primary key (deadline_us, run)
) strict, without rowid;

-- What filters look at, a narrow row for each run: a million are looked through within a tenth of a second. All of it
-- is repeated from `runs` and `states`, by which it is verified.
create table found (
    number integer primary key,
    status text not null,
    workflow text not null,
    queue text not null,
    priority integer not null,
    created_us integer not null,
    closed_us integer,
    blocked integer not null,
    generation integer not null,
    workflow_id text not null,
    parent text, -- its run id
    -- The values of attributes, bools as 0 and 1; `attribute_places` says whose. A blob has several, as a text each.
    value_1 any,
    value_2 any,
    value_3 any,
    value_4 any,
    value_5 any,
    value_6 any,
    value_7 any,
    value_8 any,
    value_9 any,
    value_10 any,
    value_11 any,
    value_12 any,
    value_13 any,
    value_14 any,
    value_15 any,
    value_16 any,
    value_17 any,
    value_18 any,
    value_19 any,
    value_20 any,
    value_21 any,
    value_22 any,
    value_23 any,
    value_24 any
) strict;
create index found_by_1 on found (value_1) where value_1 is not null;
create index found_by_2 on found (value_2) where value_2 is not null;
create index found_by_3 on found (value_3) where value_3 is not null;
create index found_by_4 on found (value_4) where value_4 is not null;
create index found_by_5 on found (value_5) where value_5 is not null;
create index found_by_6 on found (value_6) where value_6 is not null;
create index found_by_7 on found (value_7) where value_7 is not null;
create index found_by_8 on found (value_8) where value_8 is not null;
create index found_by_9 on found (value_9) where value_9 is not null;
create index found_by_10 on found (value_10) where value_10 is not null;
create index found_by_11 on found (value_11) where value_11 is not null;
create index found_by_12 on found (value_12) where value_12 is not null;
create index found_by_13 on found (value_13) where value_13 is not null;
create index found_by_14 on found (value_14) where value_14 is not null;
create index found_by_15 on found (value_15) where value_15 is not null;
create index found_by_16 on found (value_16) where value_16 is not null;
create index found_by_17 on found (value_17) where value_17 is not null;
create index found_by_18 on found (value_18) where value_18 is not null;
create index found_by_19 on found (value_19) where value_19 is not null;
create index found_by_20 on found (value_20) where value_20 is not null;
create index found_by_21 on found (value_21) where value_21 is not null;
create index found_by_22 on found (value_22) where value_22 is not null;
create index found_by_23 on found (value_23) where value_23 is not null;
create index found_by_24 on found (value_24) where value_24 is not null;

-- Which column of `found` has the values of an attribute.
create table attribute_places (
    name text not null primary key,
    place integer not null unique,
    seal blob not null
) strict, without rowid;

-- Each of several values of an attribute, and the values of those that have no column.
create table attributes (
    run integer not null,
    name text not null,
    value any not null,
    seal blob not null,
    primary key (run, name, value)
) strict, without rowid;
create index attributes_by_value on attributes (name, value, run);

-- In a table with row ids the last turn of the youngest run is appended without moving those beside it.
create table turns (
    place integer primary key, -- the run's number times 2^32, and the turn's
    record blob not null,
    chain blob not null,
    notes blob,
    seal blob not null,
    run integer as (place >> 32) virtual,
    number integer as (place & 4294967295) virtual
) strict;

create table messages (
    run integer not null,
    number integer not null,
    job blob not null,
    message_id text,
    accepted_us integer not null,
    notes blob,
    answers integer not null, -- whether it answers what the run has asked for
    seal blob not null,
    primary key (run, number)
) strict, without rowid;

-- Ids that were ever accepted by a run or an earlier generation of it; where the message waited last.
create table message_ids (
    chain text not null,
    message_id text not null,
    run integer not null,
    holder integer not null,
    number integer not null,
    seal blob not null,
    primary key (chain, message_id)
) strict, without rowid;

create table updates (
    chain text not null,
    id text not null,
    run integer not null,
    answer blob,
    seal blob not null,
    primary key (chain, id)
) strict, without rowid;
create index updates_open on updates (chain) where answer is null;

create table promises (
    run integer not null,
    name text not null,
    key text,
    settlement blob,
    seal blob not null,
    primary key (run, name)
) strict, without rowid;
create index promises_by_key on promises (key) where key is not null;

create table tasks (
    id text not null primary key,
    run integer not null,
    seq integer not null,
    name text not null,
    queue text not null,
    priority integer not null,
    input blob not null,
    keywords blob not null,
    options blob not null,
    scheduled_us integer not null,
    due_us integer not null,
    attempt integer not null,
    failures integer not null,
    owner integer,
    started_us integer,
    details blob,
    heartbeat_us integer,
    cancel integer not null,
    attempts blob not null,
    seal blob not null
) strict, without rowid;
create index tasks_of_run on tasks (run, seq, owner); -- which is looked through when a lease has ended
create index tasks_due on tasks (queue, priority desc, due_us) where owner is null;

create table leases (
    number integer primary key,
    name text not null,
    queues blob not null,
    started_us integer not null,
    expires_us integer not null,
    lasts_us integer not null,
    cancelled blob not null, -- the ids of its tasks that shall cancel, or that are gone
    seal blob not null
) strict;

create table questions (
    number integer primary key,
    run integer not null,
    run_id text not null,
    workflow text not null,
    name text not null,
    arguments blob not null,
    asked_us integer not null,
    answer blob,
    seal blob not null
) strict;

-- The last number that was given for a lease or a question, and how many there are.
create table counters (
    name text not null primary key,
    last integer not null,
    amount integer not null,
    seal blob not null
) strict, without rowid;
