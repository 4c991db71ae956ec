// Package jobcmd holds the commands that inspect a job or change it as a whole
// (partitions, state, deadletter, job), and the command that checks a job's
// requirements (doctor).
//
// # Files
//
//   - status.go: defines the command status
//   - top.go: defines the command top
//   - top_text.go: writes a report as lines for top
//   - doctor.go: defines the command doctor; checks processor, directory, memory and server
//   - doctor_consumers.go: checks the limits of consumers
//   - doctor_gpu.go: checks the GPUs
//   - doctor_job.go: checks the input of a job
//   - partitions.go: defines the command partitions
//   - state.go: defines the commands state get, diff, export, import and verify
//   - resize.go: defines the command job resize
//   - replace.go: defines the command job replace
//   - trim.go: defines the command job trim
//   - deadletter.go: defines the commands deadletter list and resend
package jobcmd
