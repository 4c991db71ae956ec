//go:build linux

// Command chaos breaks the live stage on purpose, and compares its predictions
// with an uninterrupted run, bit for bit.
//
//	go run ./integration/chaos                     the long matrix (make chaos)
//	go run ./integration/chaos --matrix short      the one CI runs
//	go run ./integration/chaos --run NAME --seed N one run again
//
// All parts are real processes: NATS servers (this binary again, with the
// server library and a file store) and workers (eusn-stream run, built with the
// tag chaos). Between each worker and each server there is a TCP proxy, which
// can hold, cut and delay. The producers are in this process; they send
// repeated, late and damaged messages among the good ones.
//
// # What is compared
//
// truth.go is the uninterrupted run: the generic engine, one sequence at a
// time, with its own bookkeeping, which shares no line with package pipeline.
// It reads the order of messages from the stored input, and the samples from
// the plan, never from the bytes that it checks. audit.go reads the output and
// expects exactly the predictions of truth.go, each stream in order: stream,
// seq, row, time, class, score, scores and flags, by ==. At the end of a run,
// every stream gets the samples that close all its open sequences, so every
// final state shows in a prediction. Then everything but the input is deleted,
// and one undisturbed worker processes the input again: the digest of each
// partition, which covers every state and all bookkeeping, must be the same
// (states.go). In runs with promotions the input says which readout makes a
// prediction (silence.go); the undisturbed worker's job has none.
//
// Some runs take data from the servers' stores (harm.go, power.go). They compare
// with what the producers meant. Instead of equal predictions, each run may
// allow that a partition is flagged, or stopped with a reason (verdict.go). No
// run allows predictions that differ, repeat, or are missing without a flag or
// a reason.
//
// A run also fails in these cases: a fault that it planned did not happen; the
// server lost what it had acknowledged; the output's bookkeeping headers do not
// add up; a worker's log has a stopped partition or a panic; something does not
// end in time; a process is left behind. Negative controls switch a safeguard
// of the worker off, and fail unless the comparison finds the fault.
//
// Linux only: the harness needs stopped processes, process groups and
// parent-death signals.
//
// Exit codes: 0 all runs passed, 1 a run failed, 2 usage.
package main
