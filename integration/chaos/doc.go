//go:build linux

// Command chaos breaks the live stage on purpose and compares what it said
// with an uninterrupted run, bit for bit.
//
//	go run ./integration/chaos                     the long matrix (make chaos)
//	go run ./integration/chaos --matrix short      the one CI runs
//	go run ./integration/chaos --run NAME --seed N one run again
//
// Everything is real and a process of its own: NATS servers (this binary
// again, with the server library and a file store), workers (eusn-stream run,
// built with the tag chaos), and between each worker and each server a TCP
// proxy that can hold, cut and delay. Producers publish from here, with
// repeated, late and damaged messages among the good ones.
//
// # What is compared
//
// truth.go is the uninterrupted run: the generic engine, one sequence at a
// time, and a bookkeeping of its own that shares no line with package
// pipeline. It takes the stored input in its order and the samples from the
// plan, never from the bytes it checks. audit.go walks the output and expects
// exactly its predictions, each stream in order: stream, seq, row, time, class,
// score, scores and flags, by ==. At the end of a run every stream gets the
// samples that close all its open sequences, so that every final state is seen
// in a prediction. Then everything but the input is deleted and one worker that
// nobody disturbs takes it again: each partition's digest, which covers every
// state row and all bookkeeping, must come out as it did (states.go).
//
// Runs that take something from the servers' stores (harm.go, power.go) compare
// with what the producers meant, and allow each partition, run by run, to be
// flagged or stopped with a reason instead (verdict.go): never to differ, to
// repeat or to omit in silence.
//
// A run also fails when a fault it planned did not happen, when the server
// lost what it had acknowledged, when the output's bookkeeping headers do not
// add up, when a worker's log speaks of a stopped partition or a panic, when
// something does not end in time, or when a process is left behind. Negative
// controls switch a safety of the worker off, and fail unless the comparison
// finds fault.
//
// Linux only: stopped processes, process groups and parent-death signals are
// what the harness is made of.
//
// Exit codes: 0 all runs as they should be, 1 a run is not, 2 usage.
package main
