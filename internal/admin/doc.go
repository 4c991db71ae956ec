// Package admin looks at a job from outside, for people and programs that
// operate one: who owns its partitions and what waits for them (Job.Status), what
// a snapshot of their states holds (ReadState), which dead letters there are and
// what becomes of one that is sent again (Job.DeadLetters, Job.Replay), and how
// fast the job fills its server's disk (Job.Stored).
//
// It needs no stage to run and disturbs none, and changes nothing but in
// Job.Replay. What needs the stage's own code is in package pipeline: to read a
// snapshot (operate.Snapshot), to begin a job with one (operate.Import), and to
// rebuild a state on an engine (pipeline.Job.Verify).
//
// # Files
//
//   - job.go: opens a job and reads the status of its partitions
//   - consumers.go: counts the consumers of a job
//   - deadletters.go: lists and resends dead letters
//   - growth.go: computes how fast a job fills its disk
//   - states.go: decodes a snapshot for display
//   - trim.go: removes input that no job needs
package admin
