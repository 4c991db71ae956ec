// Package admin inspects a job from outside, for operators and programs: the owners of
// its partitions and their waiting messages (Job.Status), the content of a snapshot
// (ReadState), the dead letters and the effect of resending one (Job.DeadLetters,
// Job.Replay), and how fast the job fills its server's disk (Job.Stored).
//
// It needs no running stage and disturbs none, and changes nothing except in
// Job.Replay. Functions that need the stage's code are in package pipeline: reading a
// snapshot (operate.Snapshot), beginning a job with one (operate.Import), and
// rebuilding a state on an engine (pipeline.Job.Verify).
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
