// Package live holds the commands of the live stage: run, replay, tail, and those that
// look at a job (partitions, state, deadletter) or at what a job needs (doctor).
package live
