-- Version 2: pipelines. The column `seal` is the checksum over all other columns of its row; that of an event is over
-- what never changes of it, and `mark` is over what does, so that a payload is read once and not at every stage.

create table pipelines (
    name text not null primary key,
    digest text not null,
    topics text not null, -- names that are declared now, as JSON
    handlers text not null, -- names, as JSON
    owner integer,
    paused integer not null,
    open_run text,
    runs integer not null, -- how many there ever were: their numbers are 1, 2, 3 …
    created_us integer not null,
    deployed_us integer not null,
    seal blob not null
) strict, without rowid;

create table handlers (
    pipeline text not null,
    name text not null,
    kind text not null,
    topics text not null, -- as JSON
    words blob not null,
    state blob,
    next_run_us integer,
    wake_us integer,
    queued integer not null,
    dirty integer not null,
    seal blob not null,
    primary key (pipeline, name)
) strict, without rowid;

create table handler_runs (
    pipeline text not null,
    number integer not null,
    id text not null unique,
    handler text not null,
    kind text not null,
    retry_of text,
    attempt integer not null,
    key text not null,
    stage text not null,
    status text not null,
    mutation text not null,
    prepared blob,
    wake_us integer,
    result blob,
    ledger blob, -- as JSON
    error blob, -- as JSON
    retry_us integer,
    created_us integer not null,
    updated_us integer not null,
    seal blob not null,
    primary key (pipeline, number)
) strict, without rowid;

create table topics (
    number integer primary key,
    pipeline text not null,
    name text not null,
    events integer not null, -- how many there ever were: their numbers are 1, 2, 3 …
    pending integer not null,
    seal blob not null,
    unique (pipeline, name)
) strict;

create table events (
    topic integer not null,
    number integer not null,
    message_id text not null,
    payload blob not null,
    causes text not null, -- as JSON
    published_us integer not null,
    published_by text,
    seal blob not null,
    status text not null,
    attempt integer not null,
    reserved_by text,
    mark blob not null,
    primary key (topic, number)
) strict, without rowid;
create unique index events_by_message_id on events (topic, message_id);
create index events_pending on events (topic, number) where status = 'pending';
create index events_reserved on events (reserved_by) where status = 'reserved';
