//go:build linux

// Command chaos breaks the live stage on purpose, and compares its predictions with an
// uninterrupted run, bit for bit.
//
//	go run ./integration/chaos                     the long matrix (make chaos)
//	go run ./integration/chaos --matrix short      the matrix of CI
//	go run ./integration/chaos --run NAME --seed N repeat a run
//
// All parts are real processes: NATS servers (this binary with the server library and a
// file store) and workers (eusn-stream run, built with the tag chaos). Between each
// worker and each server a TCP proxy can hold, cut and delay data. The producers are in
// this process; the producers send repeated, late and damaged messages among the good
// messages.
//
// # What is compared
//
// truth.go is the uninterrupted run: the generic engine, one sequence at a time, with
// separate bookkeeping, without code of package pipeline. The truth reads the order of
// messages from the stored input, and the samples from the plan, never from the checked
// bytes. audit.go reads the output and expects exactly the predictions of truth.go, each
// stream in order: stream, seq, row, time, class, score, scores and flags, by ==. At the
// end of a run, every stream gets samples to close all open sequences, so every final
// state shows in a prediction. Then all NATS streams except the input are deleted, and
// one undisturbed worker reprocesses the input: the digest of each partition, which
// covers every state and all bookkeeping, must be equal (states.go). In runs with
// promotions the input decides the readout of a prediction (silence.go); the undisturbed
// worker's job has no promotions.
//
// Some runs remove data from the servers' stores (harm.go, power.go). Their truth is the
// plan of the producers. Instead of equal predictions, such a run may allow a flagged
// partition, or a stopped partition with a reason (verdict.go). No run allows different,
// repeated or missing predictions without a flag or a reason.
//
// A run also fails in these cases: a planned fault did not happen; the server lost
// acknowledged data; the output's bookkeeping headers do not add up; a worker's log has a
// stopped partition or a panic; a step exceeds its time limit; a process is left running.
// Negative controls disable a safeguard of the worker, and fail unless the comparison
// finds the fault.
//
// # Simulation
//
// The files simulate_*_test.go run the same plans of producers and faults, with the same truth and
// audit, inside one process: workers, server, network, disk and clock are in a bubble
// of testing/synctest, and a seed repeats a history exactly. Some histories have guests: processes
// next to the stage, each with files that the next process continues. A gateway must store each
// acknowledged sample once, two keepers of alarms must write each event of the output once, a
// recording must equal the input, and a learner must count each label once; its readouts are
// promoted, and the predictions must be right under each. A backfill must have each line once.
// The disk of the server or of a guest can be full for some time: the server is then restarted
// by its operator, and guests continue without help. The wall clock of the server, a worker, a
// guest or all can jump by seconds to a day. A snapshot can be replaced by another valid state
// before a claim and during a resize, and input be removed that the next owner replays. Some
// faults wait for a state: simulate_moment_test.go and simulate_narrow_test.go.
// Command tools/simulate builds and runs the simulation. System calls that are interrupted,
// threads and several machines remain to the processes.
//
// Linux only: the harness needs stopped processes, process groups and parent-death
// signals.
//
// Exit codes: 0 all runs passed, 1 a run failed, 2 usage.
package main
