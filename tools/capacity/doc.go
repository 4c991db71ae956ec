// Command capacity compares what "eusn-stream plan" predicts with what runs: for each
// number of machines it asks plan, then starts the program in a process of its own,
// publishes as so many machines would, and measures CPU time, memory, disk, latency and
// the time of a restart. With -kill it kills the stage under load and prints the backlog
// along time (docs/capacity.md). Linux only.
package main
