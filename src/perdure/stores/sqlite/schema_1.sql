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
-- What filters look at, in few pages: a million runs are looked through in it within a tenth of a second.
create index states_found on states (number, status, workflow, created_us, closed_us, queue, priority, blocked);

-- What `states.attributes` can be found by: a row for each value, a list's values one by one; bools are 0 and 1.
create table attributes (
    run integer not null,
    name text not null,
    value any not null,
    seal blob not null,
    primary key (run, name, value)
) strict, without rowid;
create index attributes_by_value on attributes (name, value, run);

create table turns (
    run integer not null,
    number integer not null,
    record blob not null,
    chain blob not null,
    notes blob,
    seal blob not null,
    primary key (run, number)
) strict, without rowid;

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
create index tasks_of_run on tasks (run, seq);
create index tasks_due on tasks (queue, priority desc, due_us) where owner is null;
create index tasks_owned on tasks (owner) where owner is not null;

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
