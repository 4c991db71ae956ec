// Command capacity compares the predictions of "eusn-stream plan" with a run: for each
// number of machines it calls plan, then starts the program in a separate process,
// publishes as the machines would, and measures CPU time, memory, disk, latency and the
// time of a restart. With -kill it kills the stage under load and prints the backlog over
// time (docs/capacity.md). Linux only.
package main
